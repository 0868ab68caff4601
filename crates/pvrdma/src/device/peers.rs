//! The peers of the guest's queue pairs, when the device or one of them moves to another host.

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

    /// The routes to peers, one for each pair of addresses. A frozen device knows them, too.
    pub fn peers(&self) -> Vec<Route> {
        let adapter = self.adapter();
        adapter.map_or_else(Vec::new, |it| it.core.hca.peers().collect())
    }

    /// Whether queue pairs are connected to a peer.
    pub fn has_peer(&self, peer: Gid) -> bool {
        self.adapter().is_some_and(|it| it.core.hca.has_peer(peer))
    }

    /// Pauses queue pairs connected to a peer that stands still: they wait, and use up no retries.
    pub fn pause_peer(&mut self, peer: Gid) {
        if let Stage::Active(adapter, _) = &mut self.stage {
            adapter.core.hca.pause_peer(peer);
        }
    }

    /// Resumes them when the peer goes on.
    pub fn resume_peer(&mut self, peer: Gid) {
        if let Stage::Active(adapter, _) = &mut self.stage {
            adapter.core.hca.resume_peer(peer);
        }
    }

    /// Epoch of what peers are told about this device. It goes with the device to other hosts.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Advances the epoch, because the device is about to stand still or to go on: what peers are told then is newer
    /// than all before. `at_least` is where a device begins that has lost its epoch, so it comes from a clock that
    /// survives machines: nanoseconds since 1970 outrun any counter of such events. Recorded first, so that a device
    /// made from the records is believed.
    pub fn advance_epoch(&mut self, at_least: u64) {
        self.epoch = (self.epoch + 1).max(at_least);
        self.record();
    }
}
