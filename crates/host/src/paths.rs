//! Where the peers of a member are: the fabric's answers, which hold as long as its epoch.

use vrdma_switch::{Fabric, PortId, Way};
use vrdma_verbs::unit::Route;
use vrdma_verbs::{Pace, Paths};

use crate::uplink::TRAIN_BYTES;

/// Of one member.
pub(crate) struct Reachable<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) from: PortId,
    /// An uplink takes no more for now.
    pub(crate) full: bool,
}

impl Paths for Reachable<'_> {
    fn epoch(&self) -> u64 {
        self.fabric.epoch()
    }

    fn pace(&mut self, route: &Route) -> Pace {
        match self.fabric.route(self.from, route.sgid, route.dgid) {
            Ok(Way::Wire) => Pace::Wire,
            _ => Pace::Local,
        }
    }

    fn is_full(&self) -> bool {
        self.full
    }

    fn train_bytes(&self) -> u32 {
        TRAIN_BYTES
    }
}
