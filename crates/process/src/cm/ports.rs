//! Who has which port of an adapter.

use std::collections::BTreeMap;

/// Ports that are given to those who do not care: above the well-known ones, as Linux does.
const FREE: std::ops::Range<u32> = 32768..61000;

/// Owners of a port.
#[derive(Clone, Copy)]
struct Taken {
    owners: u32,
    /// All of them allow others.
    shared: bool,
}

/// Ports of one adapter, by port space and number.
pub(super) struct Ports {
    taken: BTreeMap<(u32, u16), Taken>,
    next: u32,
}

impl Ports {
    pub(super) fn starting_at(seed: u64) -> Self {
        Self {
            taken: BTreeMap::new(),
            next: FREE.start + (seed % u64::from(FREE.end - FREE.start)) as u32,
        }
    }

    /// Whether the port could be taken.
    pub(super) fn allows(&self, space: u32, port: u16, shared: bool) -> bool {
        match self.taken.get(&(space, port)) {
            None => true,
            Some(taken) => taken.shared && shared,
        }
    }

    /// Takes a port that [`Ports::allows`].
    pub(super) fn take(&mut self, space: u32, port: u16, shared: bool) {
        let entry = self.taken.entry((space, port)).or_insert(Taken {
            owners: 0,
            shared: true,
        });
        entry.owners += 1;
        entry.shared &= shared;
    }

    pub(super) fn give_back(&mut self, space: u32, port: u16) {
        let Some(taken) = self.taken.get_mut(&(space, port)) else {
            return;
        };
        taken.owners -= 1;
        if taken.owners == 0 {
            self.taken.remove(&(space, port));
        }
    }

    /// A port that nobody has; the next question starts behind it.
    pub(super) fn free(&mut self, space: u32) -> Option<u16> {
        for _ in FREE {
            let port = self.next as u16;
            self.next += 1;
            if self.next >= FREE.end {
                self.next = FREE.start;
            }
            if self.allows(space, port, false) {
                return Some(port);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_owner_unless_all_share() {
        let mut ports = Ports::starting_at(7);
        assert!(ports.allows(6, 80, false));
        ports.take(6, 80, false);
        assert!(!ports.allows(6, 80, true));
        assert!(ports.allows(17, 80, false), "another space");
        ports.give_back(6, 80);
        ports.take(6, 80, true);
        assert!(ports.allows(6, 80, true));
        assert!(!ports.allows(6, 80, false));
    }

    #[test]
    fn free_ports_run_out() {
        let mut ports = Ports::starting_at(u64::MAX);
        for _ in FREE {
            let port = ports.free(6).unwrap();
            ports.take(6, port, false);
        }
        assert_eq!(ports.free(6), None);
        ports.give_back(6, 40000);
        assert_eq!(ports.free(6), Some(40000));
    }
}
