//! Maps of the ports that are taken, as bits, and the search for a free one.

use std::collections::BTreeMap;

/// Ports for programs that ask for any port: above the well-known ones, as in Linux.
pub(super) const FREE: std::ops::Range<u16> = 32768..61000;

/// Ports in one word of a map.
const WORD: u16 = 64;

/// A port number in a port space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Port {
    pub(super) space: u32,
    pub(super) number: u16,
}

impl Port {
    /// The index of the port's word in a map.
    fn word(self) -> (u32, u16) {
        (self.space, self.number / WORD)
    }
}

/// Words of 64 ports, by port space and number over 64; words without a bit are left out.
#[derive(Default)]
pub(super) struct PortMap {
    words: BTreeMap<(u32, u16), u64>,
}

impl PortMap {
    pub(super) fn set(&mut self, port: Port) {
        *self.words.entry(port.word()).or_default() |= bit(port.number);
    }

    pub(super) fn clear(&mut self, port: Port) {
        if let Some(word) = self.words.get_mut(&port.word()) {
            *word &= !bit(port.number);
            if *word == 0 {
                self.words.remove(&port.word());
            }
        }
    }

    /// The bits of 64 ports: which are taken.
    fn word(&self, space: u32, index: u16) -> u64 {
        self.words.get(&(space, index)).copied().unwrap_or(0)
    }
}

/// Finds the first port, from `begin` on and around, that is free in all maps.
pub(super) fn free_in_all(maps: &[&PortMap], space: u32, begin: u16) -> Option<u16> {
    first_free(begin, |index| {
        let mut taken = 0;
        for map in maps {
            taken |= map.word(space, index);
            if taken == u64::MAX {
                break;
            }
        }
        taken
    })
}

/// Makes one pass over the words of [`FREE`]; the first word is looked at twice, since the search may begin in its
/// middle.
fn first_free(begin: u16, mut taken: impl FnMut(u16) -> u64) -> Option<u16> {
    let (first, end) = (FREE.start / WORD, FREE.end.div_ceil(WORD));
    let start = begin / WORD;
    let before = bit(begin) - 1;
    let begun = (start, taken(start) | before);
    let others = (start + 1..end).chain(first..=start);
    let words = std::iter::once(begun).chain(others.map(|index| (index, taken(index))));
    let mut free = words.filter_map(|(index, taken)| {
        let open = (!taken).trailing_zeros() as u16;
        (open < WORD).then_some(index * WORD + open)
    });
    free.find(|port| FREE.contains(port))
}

fn bit(port: u16) -> u64 {
    1 << (port % WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(number: u16) -> Port {
        Port { space: 6, number }
    }

    /// Few ports are free in all maps, many in one.
    #[test]
    fn a_port_is_free_in_all_maps() {
        let [mut a, mut b] = [PortMap::default(), PortMap::default()];
        let [first, .., last] = FREE.collect::<Vec<_>>()[..] else {
            panic!("there are ports");
        };
        for number in FREE.filter(|number| *number != last) {
            a.set(port(number));
        }
        b.set(port(last));
        assert_eq!(free_in_all(&[&a], 6, first), Some(last));
        assert_eq!(free_in_all(&[&b], 6, last), Some(first));
        for begin in [first, first + 100, last] {
            assert_eq!(free_in_all(&[&a, &b], 6, begin), None);
        }
        a.clear(port(40000));
        for begin in [first, 39999, 40000, 40001, last] {
            assert_eq!(free_in_all(&[&a, &b], 6, begin), Some(40000));
        }
    }

    /// Whichever ports are taken: each word is looked at once, and the word where the search begins twice.
    #[test]
    fn a_search_is_one_pass() {
        for begin in [FREE.start, FREE.start + 5000, FREE.end - 1] {
            let mut looks = 0;
            let found = first_free(begin, |_| {
                looks += 1;
                u64::MAX
            });
            assert_eq!(found, None);
            assert_eq!(looks, FREE.end.div_ceil(WORD) - FREE.start / WORD + 1);
        }
    }
}
