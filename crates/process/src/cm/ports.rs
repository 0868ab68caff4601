//! Who has which port of an adapter.

use std::collections::BTreeMap;

use vrdma_wire::Gid;

/// Owners that one port of one adapter may have, each of which is looked at when another one comes.
const OWNERS_MAX: usize = 1024;

/// Ports that are given to those who do not care: above the well-known ones, as Linux does.
const FREE: std::ops::Range<u16> = 32768..61000;

/// Ports of one word of a map of ports.
const WORD: u16 = 64;

/// With what an identifier has a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// One address, or all.
    pub(super) address: Option<Gid>,
    /// Of the address, as in `sockaddr`.
    pub(super) family: u16,
    /// All addresses are those of the family.
    pub(super) family_only: bool,
    /// Others that allow it, too, may have the same.
    pub(super) shared: bool,
}

impl Claim {
    /// Whether both cannot have a port at once (`cma_check_port` of Linux).
    fn conflicts(&self, other: &Self) -> bool {
        let apart = self.family_only && other.family_only && self.family != other.family;
        let same = match (self.address, other.address) {
            (Some(own), Some(others)) => own == others,
            _ => true,
        };
        same && !apart && !(self.shared && other.shared)
    }
}

/// Ports of one adapter, by port space and number.
pub(super) struct Ports {
    taken: BTreeMap<(u32, u16), Vec<Claim>>,
    /// The same as a map of bits: 64 ports each, by their number over 64; words without a bit are not
    /// there.
    words: BTreeMap<(u32, u16), u64>,
    /// Where the next search for a free port begins.
    next: u16,
}

impl Ports {
    pub(super) fn starting_at(seed: u64) -> Self {
        Self {
            taken: BTreeMap::new(),
            words: BTreeMap::new(),
            next: FREE.start + (seed % u64::from(FREE.end - FREE.start)) as u16,
        }
    }

    /// Whether the port could be taken.
    pub(super) fn allows(&self, space: u32, port: u16, claim: &Claim) -> bool {
        self.taken.get(&(space, port)).is_none_or(|owners| {
            owners.len() < OWNERS_MAX && !owners.iter().any(|owner| owner.conflicts(claim))
        })
    }

    /// Takes a port that [`Ports::allows`].
    pub(super) fn take(&mut self, space: u32, port: u16, claim: Claim) {
        self.taken.entry((space, port)).or_default().push(claim);
        *self.words.entry((space, port / WORD)).or_default() |= bit(port);
    }

    pub(super) fn give_back(&mut self, space: u32, port: u16, claim: &Claim) {
        let Some(owners) = self.taken.get_mut(&(space, port)) else {
            return;
        };
        if let Some(at) = owners.iter().position(|owner| owner == claim) {
            owners.swap_remove(at);
        }
        if !owners.is_empty() {
            return;
        }
        self.taken.remove(&(space, port));
        if let Some(word) = self.words.get_mut(&(space, port / WORD)) {
            *word &= !bit(port);
            if *word == 0 {
                self.words.remove(&(space, port / WORD));
            }
        }
    }

    /// Where a search for a free port begins.
    pub(super) fn next(&self) -> u16 {
        self.next
    }

    /// The next search begins behind a port of those that are given.
    pub(super) fn go_on_behind(&mut self, port: u16) {
        self.next = match port + 1 {
            next if FREE.contains(&next) => next,
            _ => FREE.start,
        };
    }

    /// Which of 64 ports are taken.
    fn word(&self, space: u32, index: u16) -> u64 {
        self.words.get(&(space, index)).copied().unwrap_or(0)
    }
}

/// The first port from `begin` on, and around, that nobody has at any of the adapters.
pub(super) fn free_at_all(all: &[&Ports], space: u32, begin: u16) -> Option<u16> {
    first_free(begin, |index| {
        let mut taken = 0;
        for ports in all {
            taken |= ports.word(space, index);
            if taken == u64::MAX {
                break;
            }
        }
        taken
    })
}

/// One pass over the words of [`FREE`]; the first one is looked at twice, since the search may begin in
/// its middle.
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
    use std::collections::BTreeSet;

    use vrdma_provider::cm::family;

    use super::*;

    const ALONE: Claim = Claim {
        address: None,
        family: family::INET,
        family_only: false,
        shared: false,
    };
    const SHARED: Claim = Claim {
        shared: true,
        ..ALONE
    };

    #[test]
    fn a_port_has_one_owner_unless_all_share() {
        let mut ports = Ports::starting_at(7);
        assert!(ports.allows(6, 80, &ALONE));
        ports.take(6, 80, ALONE);
        assert!(!ports.allows(6, 80, &SHARED));
        assert!(ports.allows(17, 80, &ALONE), "another space");
        ports.give_back(6, 80, &ALONE);
        ports.take(6, 80, SHARED);
        assert!(ports.allows(6, 80, &SHARED));
        assert!(!ports.allows(6, 80, &ALONE));
        for _ in 1..OWNERS_MAX {
            ports.take(6, 80, SHARED);
        }
        assert!(!ports.allows(6, 80, &SHARED), "that is the bound");
    }

    #[test]
    fn families_and_addresses_are_told_apart() {
        let v6 = |claim| Claim {
            family: family::INET6,
            ..claim
        };
        let only = Claim {
            family_only: true,
            ..ALONE
        };
        let one = |last| Claim {
            address: Some(Gid([last; 16])),
            ..ALONE
        };
        let cases = [
            ("both say so", only, v6(only), true),
            ("one of them says so", only, v6(ALONE), false),
            ("the same family", only, only, false),
            ("two addresses", one(1), v6(one(2)), true),
            ("the same address", one(1), one(1), false),
            ("one address and all", one(1), ALONE, false),
            (
                "one address and all of another family",
                one(1),
                v6(only),
                false,
            ),
        ];
        for (name, first, second, goes) in cases {
            let mut ports = Ports::starting_at(7);
            ports.take(6, 80, first);
            assert_eq!(ports.allows(6, 80, &second), goes, "{name}");
            ports.give_back(6, 80, &first);
            assert!(ports.allows(6, 80, &second), "{name}: given back");
        }
    }

    #[test]
    fn free_ports_run_out() {
        let mut ports = Ports::starting_at(u64::MAX);
        let mut given = BTreeSet::new();
        for _ in FREE {
            let port = free_at_all(&[&ports], 6, ports.next()).unwrap();
            ports.take(6, port, ALONE);
            ports.go_on_behind(port);
            assert!(FREE.contains(&port) && given.insert(port));
        }
        assert_eq!(free_at_all(&[&ports], 6, ports.next()), None);
        assert!(free_at_all(&[&ports], 17, 40000).is_some(), "another space");
        ports.give_back(6, 40000, &ALONE);
        assert_eq!(free_at_all(&[&ports], 6, ports.next()), Some(40000));
    }

    /// Free everywhere are few ports, free at one adapter many.
    #[test]
    fn a_port_is_free_at_all_adapters() {
        let [mut a, mut b] = [7, 9].map(Ports::starting_at);
        let [first, .., last] = FREE.collect::<Vec<_>>()[..] else {
            panic!("there are ports");
        };
        for port in FREE.filter(|port| *port != last) {
            a.take(6, port, SHARED);
        }
        b.take(6, last, ALONE);
        assert_eq!(free_at_all(&[&a], 6, first), Some(last));
        assert_eq!(free_at_all(&[&b], 6, last), Some(first));
        for begin in [first, first + 100, last] {
            assert_eq!(free_at_all(&[&a, &b], 6, begin), None);
        }
        a.give_back(6, 40000, &SHARED);
        for begin in [first, 39999, 40000, 40001, last] {
            assert_eq!(free_at_all(&[&a, &b], 6, begin), Some(40000));
        }
    }

    /// Whatever is taken: each word is looked at once, and the one where the search begins twice.
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
