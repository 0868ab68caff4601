//! Where the peers of a member are, and whether the way there is full.

use vrdma_switch::{Fabric, PortId, UplinkId, Way};
use vrdma_verbs::unit::Route;
use vrdma_verbs::{Path, Paths, Time};

use crate::port::Port;
use crate::uplink::{TRAIN_BYTES, Uplinks};

/// Number of an adapter that is none: the fabric tells why when a unit is to go there.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Number of a wire that is all that the group has: nobody has heard the destination yet.
const EVERY_UPLINK: u32 = u32::MAX;

/// Of one member, in one turn.
pub(crate) struct Reachable<'a, P> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) uplinks: &'a mut Uplinks<P>,
    pub(crate) from: PortId,
    pub(crate) now: Time,
}

impl<P: Port> Paths for Reachable<'_, P> {
    /// Each of the two only grows, and so their sum tells every change.
    fn epoch(&self) -> u64 {
        self.fabric.epoch() + self.uplinks.epoch()
    }

    fn path(&mut self, route: &Route) -> Path {
        match self.fabric.way(self.from, route.sgid, route.dgid) {
            Ok(Way::Port(port)) => Path::Local(port.0),
            Ok(Way::Wire) => {
                let group = self.fabric.group(self.from);
                let uplink =
                    group.and_then(|group| self.uplinks.leads_to(group, route.dgid, self.now));
                Path::Wire(uplink.map_or(EVERY_UPLINK, |uplink| uplink.0))
            }
            Err(_) => Path::Local(NOWHERE),
        }
    }

    fn is_any_full(&self) -> bool {
        self.uplinks.is_any_full(self.now)
    }

    fn is_full(&mut self, path: Path) -> bool {
        let Path::Wire(wire) = path else {
            return false;
        };
        let uplink = (wire != EVERY_UPLINK).then_some(UplinkId(wire));
        let group = self.fabric.group(self.from);
        group.is_some_and(|group| {
            let leaves = (self.from, group);
            self.uplinks.holds_up(leaves, uplink, self.now)
        })
    }

    fn train_bytes(&self) -> u32 {
        TRAIN_BYTES
    }
}
