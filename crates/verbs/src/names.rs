//! Numbers by which others name objects: queue pairs, and the keys of memory. Nobody can guess them, or derive one from
//! another: they come from a stream cipher with the adapter's seed.
//!
//! ```text
//!   name    31........8 7......0
//!           number      variant          both drawn; a queue pair has the number only
//!
//!   number ──secret factor──► home: [ entry | entry | - | entry | ... ]   WINDOW entries, one of them has the slot
//! ```
//!
//! The table uses open addressing. An entry is never further from its home than the window, since a number that finds
//! no place there is not used. So no lookup is longer, whichever objects a user makes and keeps.

use alloc::vec::Vec;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Most entries that a lookup sees. At half load, about one draw in some hundred finds no place for its number.
const WINDOW: usize = 16;

/// Fewest homes of a table that has any.
const HOMES_MIN: usize = 16;

/// Most draws for one name. At most one draw in two falls where no place is left, however a user has arranged the
/// entries, and in the largest table one in four is a number in use: so many draws are never needed.
const DRAWS_MAX: usize = 256;

/// Factors tried when the table grows, with twice the homes after each four. Drawn names need one factor; the names of
/// a saved state may be made up.
const FACTORS_MAX: usize = 12;

/// Numbers with a meaning of their own: QP0, QP1, and the number of multicast groups. Keys leave them out, too.
const RESERVED: [u32; 3] = [0, 1, 0xff_ffff];

/// Whether no object may have this number.
pub(crate) fn is_reserved(number: u32) -> bool {
    RESERVED.contains(&number)
}

/// A name of an object, as in the diagram of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name(pub(crate) u32);

impl Name {
    /// Name of a slot that has had none.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn new(number: u32, variant: u8) -> Self {
        Self(number << 8 | u32::from(variant))
    }

    pub(crate) fn number(self) -> u32 {
        self.0 >> 8
    }

    pub(crate) fn variant(self) -> u8 {
        self.0 as u8
    }
}

/// The source of names. Different tables of an adapter draw from different streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    pub(crate) seed: u64,
    pub(crate) stream: u64,
    /// Words used of the stream. An adapter restored from a saved state draws behind them.
    pub(crate) drawn: u64,
}

impl Source {
    fn draw(&mut self) -> u32 {
        let mut stream = ChaCha8Rng::seed_from_u64(self.seed);
        stream.set_stream(self.stream);
        stream.set_word_pos(self.drawn.into());
        self.drawn = self.drawn.wrapping_add(1);
        stream.next_u32()
    }

    /// Draws an odd factor, so that no two numbers have the same product.
    fn draw_factor(&mut self) -> u64 {
        u64::from(self.draw()) << 32 | u64::from(self.draw()) | 1
    }
}

#[derive(Clone, Copy)]
struct Entry {
    number: u32,
    slot: u32,
}

impl Entry {
    const EMPTY: Self = Self {
        number: u32::MAX,
        slot: 0,
    };

    fn is_empty(self) -> bool {
        self.number == u32::MAX
    }
}

/// The slots of a table, found by number.
pub(crate) struct Names {
    /// One entry for each home, and the rest of the last home's window.
    entries: Vec<Entry>,
    /// Whether numbers are slots, and there are no entries.
    pub(crate) are_plain: bool,
    factor: u64,
    /// Shift of the product that leaves the bits of a home.
    shift: u32,
    used: usize,
    factors: Source,
    pub(crate) source: Source,
}

impl Names {
    pub(crate) fn new(source: Source) -> Self {
        let factors = Source {
            stream: !source.stream,
            ..source
        };
        Self {
            entries: Vec::new(),
            are_plain: false,
            factor: 1,
            shift: u64::BITS - 1,
            used: 0,
            factors,
            source,
        }
    }

    /// Makes the names of objects that are known by their slots alone.
    pub(crate) fn plain() -> Self {
        let none = Source {
            seed: 0,
            stream: 0,
            drawn: 0,
        };
        Self {
            are_plain: true,
            ..Self::new(none)
        }
    }

    fn homes(&self) -> usize {
        self.entries.len().saturating_sub(WINDOW - 1)
    }

    #[inline]
    fn home(&self, number: u32) -> usize {
        (u64::from(number).wrapping_mul(self.factor) >> self.shift) as usize
    }

    /// Returns the slot that a number names. It is called for every message: mostly the entry is at its home.
    #[inline]
    pub(crate) fn find(&self, number: u32) -> Option<u32> {
        let home = self.home(number);
        match self.entries.get(home) {
            Some(first) if first.number == number => Some(first.slot),
            _ => self.find_behind(home, number),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_behind(&self, home: usize, number: u32) -> Option<u32> {
        if self.are_plain {
            return Some(number);
        }
        let window = self.entries.get(home + 1..home + WINDOW)?;
        let entry = window.iter().find(|entry| entry.number == number)?;
        Some(entry.slot)
    }

    /// Draws a name that no slot has. `None` does not happen.
    pub(crate) fn give(&mut self, slot: u32) -> Option<Name> {
        if 2 * (self.used + 1) > self.homes() {
            let entries = self.entries.iter().copied();
            let entries: Vec<Entry> = entries.filter(|entry| !entry.is_empty()).collect();
            self.build(&entries, self.homes() * 2)?;
        }
        for _ in 0..DRAWS_MAX {
            let name = Name(self.source.draw());
            let number = name.number();
            if is_reserved(number) || self.find(number).is_some() {
                continue;
            }
            let home = self.home(number);
            if place(&mut self.entries, home, Entry { number, slot }) {
                self.used += 1;
                return Some(name);
            }
        }
        None
    }

    /// Removes a number, which names nothing any more.
    pub(crate) fn forget(&mut self, number: u32) {
        let home = self.home(number);
        let window = self.entries.get_mut(home..home + WINDOW);
        let entry = window.and_then(|all| all.iter_mut().find(|entry| entry.number == number));
        if let Some(entry) = entry {
            *entry = Entry::EMPTY;
            self.used -= 1;
        }
    }

    /// Replaces all names when restoring: `names` are those of the slots, from the first one on. False if two have the
    /// same number, or they are chosen so that they find no place.
    pub(crate) fn set(&mut self, names: &[Name]) -> bool {
        let slots = (0..).zip(names).filter(|(_, name)| **name != Name::NONE);
        let entries = slots.map(|(slot, name)| Entry {
            number: name.number(),
            slot,
        });
        let mut entries: Vec<Entry> = entries.collect();
        entries.sort_unstable_by_key(|entry| entry.number);
        let are_unique = entries.is_sorted_by(|a, b| a.number < b.number);
        let homes = (2 * entries.len()).next_power_of_two();
        are_unique && self.build(&entries, homes).is_some()
    }

    /// Puts entries in their places.
    fn build(&mut self, all: &[Entry], homes: usize) -> Option<()> {
        let homes = homes.max(HOMES_MIN);
        for attempt in 0..FACTORS_MAX {
            let homes = homes << (attempt / 4);
            self.factor = self.factors.draw_factor();
            self.shift = u64::BITS - homes.ilog2();
            let mut entries = alloc::vec![Entry::EMPTY; homes + WINDOW - 1];
            let mut each = all.iter();
            if each.all(|entry| place(&mut entries, self.home(entry.number), *entry)) {
                (self.entries, self.used) = (entries, all.len());
                return Some(());
            }
        }
        None
    }
}

/// Puts an entry into the window of its home. False if the window is full.
fn place(entries: &mut [Entry], home: usize, entry: Entry) -> bool {
    let window = &mut entries[home..home + WINDOW];
    let vacant = window.iter_mut().find(|entry| entry.is_empty());
    vacant.map(|place| *place = entry).is_some()
}

#[cfg(test)]
mod tests;
