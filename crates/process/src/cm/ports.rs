//! The ports of one adapter, or of all, that are taken, and the claims to them.

use std::collections::BTreeMap;

use rustix::io::Errno;
use vrdma_wire::Gid;

use super::port_map::{FREE, Port, PortMap};

/// Most claims to one port of one adapter: each is looked at when another one comes.
const OWNERS_MAX: usize = 1024;

/// The terms on which an identifier has a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Claim {
    /// One address, or `None` for all.
    pub(super) address: Option<Gid>,
    /// Family of the address, as in `sockaddr`.
    pub(super) family: u16,
    /// Whether all addresses means only those of the family.
    pub(super) family_only: bool,
    /// Whether the port is shared with others that allow sharing, too.
    pub(super) shared: bool,
}

impl Claim {
    /// Returns why two claims to a port exclude each other, with the errnos of Linux (`cma_check_port`): one of them is
    /// to all addresses, or both are to the same.
    fn conflict(&self, other: &Self) -> Option<Errno> {
        let apart = self.family_only && other.family_only && self.family != other.family;
        if apart || (self.shared && other.shared) {
            return None;
        }
        match (self.address, other.address) {
            (Some(own), Some(others)) => (own == others).then_some(Errno::ADDRINUSE),
            _ => Some(Errno::ADDRNOTAVAIL),
        }
    }

    fn of_all_addresses(&self) -> Self {
        Self {
            address: None,
            ..*self
        }
    }
}

/// Ports of one adapter, or of all at once.
#[derive(Default)]
pub(super) struct Ports {
    taken: BTreeMap<Port, Vec<Claim>>,
    map: PortMap,
    /// Where the next search for a free port begins.
    next: u16,
}

impl Ports {
    pub(super) fn starting_at(seed: u64) -> Self {
        let next = FREE.start + (seed % u64::from(FREE.end - FREE.start)) as u16;
        Self {
            next,
            ..Self::default()
        }
    }

    /// Checks that the port could be taken.
    ///
    /// # Errors
    /// `ADDRNOTAVAIL`: the port is taken, and one of the two claims is to all addresses. `ADDRINUSE`: the port is taken
    /// with this address, or by too many.
    pub(super) fn allow(&self, port: Port, claim: &Claim) -> Result<(), Errno> {
        let Some(owners) = self.taken.get(&port) else {
            return Ok(());
        };
        if owners.len() >= OWNERS_MAX {
            return Err(Errno::ADDRINUSE);
        }
        let conflict = owners.iter().find_map(|owner| owner.conflict(claim));
        conflict.map_or(Ok(()), Err)
    }

    /// Takes a port that [`Ports::allow`] allows.
    pub(super) fn take(&mut self, port: Port, claim: Claim) {
        self.taken.entry(port).or_default().push(claim);
        self.map.set(port);
    }

    /// Gives back a port; `false` if there is no such claim.
    pub(super) fn give_back(&mut self, port: Port, claim: &Claim) -> bool {
        let Some(owners) = self.taken.get_mut(&port) else {
            return false;
        };
        let Some(at) = owners.iter().position(|owner| owner == claim) else {
            return false;
        };
        owners.swap_remove(at);
        if owners.is_empty() {
            self.taken.remove(&port);
            self.map.clear(port);
        }
        true
    }

    /// All ports that are taken, with their claims.
    pub(super) fn claims(&self) -> impl Iterator<Item = (Port, &Claim)> {
        let taken = self.taken.iter();
        taken.flat_map(|(port, owners)| owners.iter().map(|claim| (*port, claim)))
    }

    pub(super) fn map(&self) -> &PortMap {
        &self.map
    }

    /// The port at which a search for a free one begins.
    pub(super) fn next(&self) -> u16 {
        self.next
    }

    /// Lets the next search begin after a port, within [`FREE`].
    pub(super) fn go_on_behind(&mut self, port: u16) {
        self.next = match port + 1 {
            next if FREE.contains(&next) => next,
            _ => FREE.start,
        };
    }
}

/// The ports taken at single adapters, summed up over all. A claim to all addresses of all adapters is checked against
/// these sums, without a look at adapters.
#[derive(Default)]
pub(super) struct Sums {
    /// Claims are without addresses, so a port has at most eight different ones: two families and two options.
    taken: BTreeMap<Port, BTreeMap<Claim, u64>>,
    map: PortMap,
}

impl Sums {
    /// Checks that a claim to all addresses conflicts with no other.
    ///
    /// # Errors
    /// `ADDRNOTAVAIL`: the port is taken.
    pub(super) fn allow(&self, port: Port, claim: &Claim) -> Result<(), Errno> {
        let mut others = self.taken.get(&port).into_iter().flat_map(BTreeMap::keys);
        let conflict = others.find_map(|other| other.conflict(claim));
        conflict.map_or(Ok(()), Err)
    }

    pub(super) fn add(&mut self, port: Port, claim: &Claim) {
        let claims = self.taken.entry(port).or_default();
        *claims.entry(claim.of_all_addresses()).or_default() += 1;
        self.map.set(port);
    }

    /// Subtracts a claim that was added.
    pub(super) fn subtract(&mut self, port: Port, claim: &Claim) {
        let Some(claims) = self.taken.get_mut(&port) else {
            return;
        };
        let claim = claim.of_all_addresses();
        if let Some(count) = claims.get_mut(&claim) {
            *count -= 1;
            if *count == 0 {
                claims.remove(&claim);
            }
        }
        if claims.is_empty() {
            self.taken.remove(&port);
            self.map.clear(port);
        }
    }

    pub(super) fn map(&self) -> &PortMap {
        &self.map
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use vrdma_provider::cm::family;

    use super::super::port_map::free_in_all;
    use super::*;

    const HTTP: Port = Port {
        space: 6,
        number: 80,
    };

    fn of(number: u16) -> Port {
        Port { space: 6, number }
    }

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

    const TAKEN: Result<(), Errno> = Err(Errno::ADDRINUSE);
    const TAKEN_AT_ALL: Result<(), Errno> = Err(Errno::ADDRNOTAVAIL);

    #[test]
    fn a_port_has_one_owner_unless_all_share() {
        let mut ports = Ports::starting_at(7);
        assert_eq!(ports.allow(HTTP, &ALONE), Ok(()));
        ports.take(HTTP, ALONE);
        assert_eq!(ports.allow(HTTP, &SHARED), TAKEN_AT_ALL);
        let other_space = Port { space: 17, ..HTTP };
        assert_eq!(ports.allow(other_space, &ALONE), Ok(()));
        ports.give_back(HTTP, &ALONE);
        ports.take(HTTP, SHARED);
        assert_eq!(ports.allow(HTTP, &SHARED), Ok(()));
        assert_eq!(ports.allow(HTTP, &ALONE), TAKEN_AT_ALL);
        for _ in 1..OWNERS_MAX {
            ports.take(HTTP, SHARED);
        }
        assert_eq!(ports.allow(HTTP, &SHARED), TAKEN, "that is the bound");
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
            ("both say so", only, v6(only), Ok(())),
            ("one of them says so", only, v6(ALONE), TAKEN_AT_ALL),
            ("the same family", only, only, TAKEN_AT_ALL),
            ("two addresses", one(1), v6(one(2)), Ok(())),
            ("the same address", one(1), one(1), TAKEN),
            ("one address and all", one(1), ALONE, TAKEN_AT_ALL),
            (
                "one address and all of another family",
                one(1),
                v6(only),
                TAKEN_AT_ALL,
            ),
        ];
        for (name, first, second, answer) in cases {
            let mut ports = Ports::starting_at(7);
            ports.take(HTTP, first);
            assert_eq!(ports.allow(HTTP, &second), answer, "{name}");
            ports.give_back(HTTP, &first);
            assert_eq!(ports.allow(HTTP, &second), Ok(()), "{name}: given back");
        }
    }

    #[test]
    fn free_ports_run_out() {
        let mut ports = Ports::starting_at(u64::MAX);
        let mut given = BTreeSet::new();
        for _ in FREE {
            let port = free_in_all(&[ports.map()], 6, ports.next()).unwrap();
            ports.take(of(port), ALONE);
            ports.go_on_behind(port);
            assert!(FREE.contains(&port) && given.insert(port));
        }
        assert_eq!(free_in_all(&[ports.map()], 6, ports.next()), None);
        assert!(
            free_in_all(&[ports.map()], 17, 40000).is_some(),
            "another space"
        );
        ports.give_back(of(40000), &ALONE);
        assert_eq!(free_in_all(&[ports.map()], 6, ports.next()), Some(40000));
    }

    #[test]
    fn sums_are_asked_for_all_addresses() {
        let one = |last| Claim {
            address: Some(Gid([last; 16])),
            ..SHARED
        };
        let mut sums = Sums::default();
        (1..=3).for_each(|last| sums.add(HTTP, &one(last)));
        assert_eq!(sums.allow(HTTP, &SHARED), Ok(()));
        assert_eq!(sums.allow(HTTP, &ALONE), TAKEN_AT_ALL);
        assert_eq!(sums.taken[&HTTP].len(), 1, "addresses are not told apart");
        (1..=2).for_each(|last| sums.subtract(HTTP, &one(last)));
        assert_eq!(sums.allow(HTTP, &ALONE), TAKEN_AT_ALL);
        sums.subtract(HTTP, &one(3));
        assert_eq!(sums.allow(HTTP, &ALONE), Ok(()));
        assert!(sums.taken.is_empty());
        assert_eq!(free_in_all(&[sums.map()], 6, FREE.start), Some(FREE.start));
    }
}
