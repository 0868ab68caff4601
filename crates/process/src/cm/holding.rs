//! Ports at some of the adapters, or at all of them.
//!
//! ```text
//!   at adapters that are named ──► ports of each of them ──► their sums
//!   at all adapters            ──► one entry
//! ```
//! A client that may use all adapters and binds all of them has one entry, however many adapters there are and will be.
//! Each of the two tables is checked for conflicts with the other.

use std::collections::BTreeSet;

use rustix::io::Errno;
use vrdma_switch::PortId;

use super::adapters::Adapters;
use super::port_map::{Port, free_in_all};
use super::ports::{Claim, Ports, Sums};

/// The adapters at which an identifier has its port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// Exactly these adapters.
    At(BTreeSet<PortId>),
    /// All adapters, also those that come later.
    Everywhere,
}

impl Held {
    pub(super) fn is_at(&self, port: PortId) -> bool {
        match self {
            Self::At(ports) => ports.contains(&port),
            Self::Everywhere => true,
        }
    }

    /// The adapters that are named one by one.
    pub(super) fn named(&self) -> impl Iterator<Item = &PortId> {
        let ports = match self {
            Self::At(ports) => Some(ports),
            Self::Everywhere => None,
        };
        ports.into_iter().flatten()
    }
}

/// Ports that concern all adapters.
#[derive(Default)]
pub(super) struct Everywhere {
    /// Ports taken at all adapters at once.
    own: Ports,
    /// Ports taken at single adapters, summed up.
    others: Sums,
}

impl Everywhere {
    pub(super) fn starting_at(seed: u64) -> Self {
        Self {
            own: Ports::starting_at(seed),
            others: Sums::default(),
        }
    }

    /// Forgets the ports that were taken at an adapter that is gone.
    pub(super) fn forget(&mut self, ports: &Ports) {
        for (port, claim) in ports.claims() {
            self.others.subtract(port, claim);
        }
    }
}

impl Adapters {
    /// Takes a port at all adapters of `at`, or at none of them; the number 0 stands for any free port.
    ///
    /// # Errors
    /// `ADDRINUSE`, `ADDRNOTAVAIL`: there is a conflict, as for [`Ports::allow`]. `NODEV`: there is no such adapter.
    pub(super) fn take_port(
        &mut self,
        at: &Held,
        wanted: Port,
        claim: &Claim,
    ) -> Result<u16, Errno> {
        let number = match wanted.number {
            0 => self.free_port(at, wanted.space)?,
            number => number,
        };
        let port = Port { number, ..wanted };
        self.allow_port(at, port, claim)?;
        if *at == Held::Everywhere {
            self.everywhere.own.take(port, *claim);
        }
        for adapter in at.named() {
            if let Some(ports) = self.ports_mut(*adapter) {
                ports.take(port, *claim);
                self.everywhere.others.add(port, claim);
            }
        }
        Ok(number)
    }

    pub(super) fn give_back_port(&mut self, at: &Held, port: Port, claim: &Claim) {
        if *at == Held::Everywhere {
            self.everywhere.own.give_back(port, claim);
        }
        for adapter in at.named() {
            let ports = self.ports_mut(*adapter);
            if ports.is_some_and(|ports| ports.give_back(port, claim)) {
                self.everywhere.others.subtract(port, claim);
            }
        }
    }

    fn allow_port(&self, at: &Held, port: Port, claim: &Claim) -> Result<(), Errno> {
        let Everywhere { own, others } = &self.everywhere;
        own.allow(port, claim)?;
        if *at == Held::Everywhere {
            others.allow(port, claim)?;
        }
        for adapter in at.named() {
            let adapter = self.get(*adapter).ok_or(Errno::NODEV)?;
            adapter.ports.allow(port, claim)?;
        }
        Ok(())
    }

    /// Finds a port that is free at all adapters of `at`.
    fn free_port(&mut self, at: &Held, space: u32) -> Result<u16, Errno> {
        let Everywhere { own, others } = &self.everywhere;
        let mut maps = vec![own.map()];
        if *at == Held::Everywhere {
            maps.push(others.map());
        }
        let named = at.named().filter_map(|adapter| self.get(*adapter));
        maps.extend(named.map(|adapter| adapter.ports.map()));
        let begin = self.cursor(at).ok_or(Errno::NODEV)?.next();
        let number = free_in_all(&maps, space, begin).ok_or(Errno::ADDRINUSE)?;
        let first = at.named().next().copied();
        let cursor = match first {
            Some(first) => self.ports_mut(first),
            None => Some(&mut self.everywhere.own),
        };
        cursor.ok_or(Errno::NODEV)?.go_on_behind(number);
        Ok(number)
    }

    /// The ports whose cursor tells where a search begins. `None` if there is no adapter.
    fn cursor(&self, at: &Held) -> Option<&Ports> {
        match at {
            Held::Everywhere => (!self.is_empty()).then_some(&self.everywhere.own),
            Held::At(adapters) => Some(&self.get(*adapters.first()?)?.ports),
        }
    }
}
