//! Records of adapters that have gone to another host, to answer peers that still look for them here.

use std::collections::BTreeMap;
use std::time::Duration;

use vrdma_switch::{GroupId, PortId};
use vrdma_verbs::Time;
use vrdma_wire::{Gid, Mac};

/// How long a record is kept. By then every switch on the way has learned where the adapter is.
const KEPT: Duration = Duration::from_secs(600);

/// Most addresses. Beyond them the oldest record goes: its peers find the adapter by asking whose address it is.
const TOMBSTONES_MAX: usize = 4096;

/// An adapter that has gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone {
    pub(crate) port: PortId,
    pub(crate) mac: Mac,
    /// Epoch of the last notice that it sent here.
    pub(crate) epoch: u64,
}

/// All records of a daemon: the shard with the uplinks answers for each of them.
#[derive(Default, Debug)]
pub(crate) struct Tombstones {
    /// Each with the time when it is dropped.
    by_gid: BTreeMap<(GroupId, Gid), (Gone, Time)>,
}

impl Tombstones {
    /// Records that an adapter of a group had an address here.
    pub(crate) fn put(&mut self, group: GroupId, gid: Gid, gone: Gone, now: Time) {
        let oldest = self.by_gid.iter().min_by_key(|(_, (_, until))| *until);
        if let Some(oldest) = oldest.map(|(key, _)| *key)
            && self.by_gid.len() >= TOMBSTONES_MAX
        {
            self.by_gid.remove(&oldest);
        }
        self.by_gid.insert((group, gid), (gone, now + KEPT));
    }

    /// Removes the records of an adapter that is here again, or is no more.
    pub(crate) fn remove(&mut self, port: PortId) {
        self.by_gid.retain(|_, (gone, _)| gone.port != port);
    }

    /// Returns the epoch of an adapter that is gone, for a peer that sends to its address and its MAC.
    pub(crate) fn find(&self, group: GroupId, gid: Gid, mac: Mac, now: Time) -> Option<u64> {
        let (gone, until) = self.by_gid.get(&(group, gid))?;
        (gone.mac == mac && now < *until).then_some(gone.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLUE: GroupId = GroupId(1);
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn gone(epoch: u64) -> Gone {
        Gone {
            port: PortId(3),
            mac: MAC,
            epoch,
        }
    }

    fn gid(number: u32) -> Gid {
        Gid::from_ipv4(number.into())
    }

    #[test]
    fn it_stands_for_an_adapter_that_is_gone() {
        let mut stones = Tombstones::default();
        let (now, port) = (Time(5), PortId(3));
        stones.put(BLUE, gid(1), gone(7), now);
        assert_eq!(stones.find(BLUE, gid(1), MAC, now), Some(7));
        assert_eq!(stones.find(GroupId(2), gid(1), MAC, now), None);
        assert_eq!(stones.find(BLUE, gid(2), MAC, now), None);
        assert_eq!(stones.find(BLUE, gid(1), Mac([2; 6]), now), None);
        assert_eq!(stones.find(BLUE, gid(1), MAC, now + KEPT), None);
        stones.remove(PortId(4));
        assert_eq!(stones.find(BLUE, gid(1), MAC, now), Some(7));
        stones.remove(port);
        assert_eq!(stones.find(BLUE, gid(1), MAC, now), None);
    }

    #[test]
    fn the_oldest_goes() {
        let mut stones = Tombstones::default();
        for number in 0..=TOMBSTONES_MAX as u32 {
            let now = Time(u64::from(number));
            stones.put(BLUE, gid(number), gone(1), now);
        }
        assert_eq!(stones.by_gid.len(), TOMBSTONES_MAX);
        assert_eq!(stones.find(BLUE, gid(0), MAC, Time(0)), None);
        assert!(stones.find(BLUE, gid(1), MAC, Time(1)).is_some());
    }
}
