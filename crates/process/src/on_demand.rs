//! A process adapter whose engine and tables are made at its first use. A host may have thousands of unused adapters,
//! which cost no more than their description.
//!
//! ```text
//!   described ── a client opens it, or a message comes for it ──► made
//! ```

use std::sync::{Arc, LazyLock};

use vrdma_adapter::GidChange;
use vrdma_keep::Records;
use vrdma_memory::Space;
use vrdma_wire::{Gid, Mtu};

use crate::{Process, ProcessSpec};

/// A process adapter that is made at its first use.
pub struct OnDemand {
    state: State,
    /// Number of its addresses that the fabric was told of.
    told: u8,
}

enum State {
    Described {
        spec: Box<ProcessSpec>,
        seed: u64,
        mtu: Option<Mtu>,
        records: Option<Records>,
    },
    Made(Box<Process>),
}

/// The memory of adapters that are only described.
static NO_MEMORY: LazyLock<Arc<Space>> = LazyLock::new(Arc::default);

impl OnDemand {
    /// Makes an adapter without clients. `seed` makes numbers of an earlier life stale; `records` is the area for its
    /// records, if it has any.
    ///
    /// # Errors
    /// `InvalidAttribute`: one of its addresses is zero or a multicast address.
    pub fn new(
        spec: ProcessSpec,
        seed: u64,
        records: Option<Records>,
    ) -> Result<Self, vrdma_verbs::Error> {
        let usable = |gid: Gid| !gid.is_zero() && !gid.is_multicast();
        if !spec.addresses().into_iter().all(usable) {
            return Err(vrdma_verbs::Error::InvalidAttribute);
        }
        let state = State::Described {
            spec: Box::new(spec),
            seed,
            mtu: None,
            records,
        };
        Ok(Self { state, told: 0 })
    }

    /// Takes an adapter that goes on for a process that has ended.
    pub fn revived(process: Process) -> Self {
        Self {
            state: State::Made(Box::new(process)),
            told: 0,
        }
    }

    /// The description that the adapter was made with.
    pub fn spec(&self) -> &ProcessSpec {
        match &self.state {
            State::Described { spec, .. } => spec,
            State::Made(process) => process.spec(),
        }
    }

    /// The adapter, if it was ever used.
    pub fn get(&self) -> Option<&Process> {
        match &self.state {
            State::Described { .. } => None,
            State::Made(process) => Some(process),
        }
    }

    /// The adapter, if it was ever used, for changes.
    pub fn get_mut(&mut self) -> Option<&mut Process> {
        match &mut self.state {
            State::Described { .. } => None,
            State::Made(process) => Some(process),
        }
    }

    /// Returns the adapter, made now if this is the first use.
    pub fn make(&mut self) -> &mut Process {
        if let State::Described {
            spec,
            seed,
            mtu,
            records,
        } = &mut self.state
        {
            let mut process = Process::new(ProcessSpec::clone(spec), *seed);
            if let Some(mtu) = mtu {
                process.set_mtu(*mtu);
            }
            if let Some(records) = records.take() {
                process.record_in(records);
            }
            self.state = State::Made(Box::new(process));
        }
        match &mut self.state {
            State::Made(process) => process,
            State::Described { .. } => unreachable!("it was made just now"),
        }
    }

    /// The space for views of the adapter's memory.
    pub fn memory(&self) -> Arc<Space> {
        match &self.state {
            State::Described { .. } => Arc::clone(&NO_MEMORY),
            State::Made(process) => process.memory(),
        }
    }

    /// Takes the next change of its addresses: each is bound once, and stays.
    pub fn take_gid_change(&mut self) -> Option<GidChange> {
        let mut addresses = self.spec().addresses().into_iter();
        let next = addresses.nth(self.told.into())?;
        self.told += 1;
        Some(GidChange::Bound(next))
    }

    /// Sets the payload of one packet that the port offers from now on.
    pub fn set_mtu(&mut self, offered: Mtu) {
        match &mut self.state {
            State::Described { mtu, .. } => *mtu = Some(offered),
            State::Made(process) => process.set_mtu(offered),
        }
    }
}

#[cfg(test)]
mod tests {
    use vrdma_switch::{GroupId, PortId};
    use vrdma_wire::Mac;

    use super::*;

    fn described(ip: &str) -> ProcessSpec {
        ProcessSpec {
            name: "c1".into(),
            portgroup: "blue".into(),
            port: PortId(1),
            group: GroupId(1),
            mac: Mac([2, 0, 0, 0, 0, 1]),
            ip: Some(ip.parse().unwrap()),
        }
    }

    #[test]
    fn it_is_made_once_and_its_addresses_are_told_once() {
        let mut adapter = OnDemand::new(described("10.0.0.1"), 7, None).unwrap();
        adapter.set_mtu(Mtu::B2048);
        assert!(matches!(
            adapter.take_gid_change(),
            Some(GidChange::Bound(_))
        ));
        assert!(adapter.get().is_none() && adapter.get_mut().is_none());
        assert_eq!(adapter.make().hca().limits().port_mtu, Mtu::B2048);
        let ip = Gid::from_ipv4([10, 0, 0, 1].into());
        assert_eq!(adapter.take_gid_change(), Some(GidChange::Bound(ip)));
        assert_eq!(adapter.take_gid_change(), None);
        let first: *const Process = adapter.make();
        assert!(std::ptr::eq(first, adapter.get().unwrap()));
        assert_eq!(adapter.get().unwrap().hca().gid(1), Some(ip));
    }

    #[test]
    fn an_address_that_is_nobodys_is_refused() {
        for ip in ["::", "ff02::1"] {
            let refused = OnDemand::new(described(ip), 7, None).err();
            assert_eq!(refused, Some(vrdma_verbs::Error::InvalidAttribute), "{ip}");
        }
    }
}
