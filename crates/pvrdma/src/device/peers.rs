//! The other ends of the guest's connections, when the device or one of them goes to another host.

use vrdma_verbs::unit::Route;
use vrdma_wire::Gid;

use super::{Device, Stage};
use crate::adapter::Adapter;

impl Device {
    fn adapter(&self) -> Option<&Adapter> {
        match &self.stage {
            Stage::Active(adapter, _) => Some(adapter),
            _ => None,
        }
    }

    /// The ways to those who are connected to it, one for each pair of addresses. A frozen device knows them, too.
    pub fn peers(&self) -> Vec<Route> {
        let adapter = self.adapter();
        adapter.map_or_else(Vec::new, |it| it.core.hca.peers().collect())
    }

    /// Whether queue pairs are connected to a peer.
    pub fn has_peer(&self, peer: Gid) -> bool {
        self.adapter().is_some_and(|it| it.core.hca.has_peer(peer))
    }

    /// A peer stands still: queue pairs that are connected to it wait, and use up no retries.
    pub fn pause_peer(&mut self, peer: Gid) {
        if let Stage::Active(adapter, _) = &mut self.stage {
            adapter.core.hca.pause_peer(peer);
        }
    }

    /// It goes on, and so do they.
    pub fn resume_peer(&mut self, peer: Gid) {
        if let Stage::Active(adapter, _) = &mut self.stage {
            adapter.core.hca.resume_peer(peer);
        }
    }

    /// How new what peers are told of it is. It goes with the device to other hosts.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// It is about to stand still, or to go on: what peers are told of that is newer than all before. `at_least` is what
    /// one begins with that has lost its epoch, and so a clock that goes on over the end of machines: nanoseconds since
    /// 1970 outrun any counter of such events. Recorded first, so that who goes on with the records is believed.
    pub fn advance_epoch(&mut self, at_least: u64) {
        self.epoch = (self.epoch + 1).max(at_least);
        self.record();
    }
}
