//! Where the peers of a member are, and whether the way there is full.

use vrdma_switch::{Limit, PortId, UplinkId, Way};
use vrdma_verbs::unit::Route;
use vrdma_verbs::{Flow, Path, Paths, Time};

use crate::accounts::{Account, Accounts};
use crate::member::Member;
use crate::port::Port;
use crate::shared::Shared;
use crate::transfer::Lanes;
use crate::uplink::{TRAIN_BYTES, Uplinks};

/// Port number that stands for no adapter: the fabric tells why when a unit is to go there.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Wire number that stands for all uplinks of the group: the destination was not heard behind any of them yet.
const EVERY_UPLINK: u32 = u32::MAX;

/// The paths of one member, in one turn.
pub(crate) struct Reachable<'a, M: Member, P> {
    pub(crate) shared: &'a Shared,
    pub(crate) lanes: &'a mut Lanes<M>,
    pub(crate) accounts: &'a mut Accounts,
    pub(crate) uplinks: &'a mut Uplinks<P>,
    pub(crate) from: PortId,
    pub(crate) now: Time,
}

impl<M: Member, P: Port> Paths for Reachable<'_, M, P> {
    /// Both epochs only grow, so their sum changes with each of them.
    fn epoch(&self) -> u64 {
        self.shared.epoch() + self.uplinks.epoch()
    }

    fn path(&mut self, route: &Route) -> Path {
        let fabric = self.shared.read();
        match fabric.way(self.from, route.sgid, route.dgid) {
            Ok(Way::Port(port)) => Path::Local(port.0),
            Ok(Way::Wire) => {
                let group = fabric.group(self.from);
                let uplink =
                    group.and_then(|group| self.uplinks.leads_to(group, route.dgid, self.now));
                Path::Wire(uplink.map_or(EVERY_UPLINK, |uplink| uplink.0))
            }
            Err(_) => Path::Local(NOWHERE),
        }
    }

    fn is_any_full(&self) -> bool {
        self.uplinks.is_any_full(self.now)
            || self.lanes.is_any_full()
            || self.accounts.is_any_closed()
    }

    fn is_full(&mut self, path: Path, flow: Flow) -> bool {
        if self.is_limited(path, flow) {
            return true;
        }
        let wire = match path {
            Path::Wire(wire) => wire,
            Path::Local(port) => return self.is_lane_full(PortId(port)),
        };
        let uplink = (wire != EVERY_UPLINK).then_some(UplinkId(wire));
        let group = self.shared.read().group(self.from);
        group.is_some_and(|group| self.uplinks.holds_up(self.from, group, uplink, self.now))
    }

    fn train_bytes(&self) -> u32 {
        TRAIN_BYTES
    }
}

impl<M: Member, P> Reachable<'_, M, P> {
    /// Whether a limit of either end holds a flow up, not counting the limit of what the member sends.
    fn is_limited(&mut self, path: Path, flow: Flow) -> bool {
        if !self.accounts.is_any_closed() {
            return false;
        }
        let own = |limit| Account {
            port: self.from,
            limit,
        };
        let peers = |limit| match path {
            Path::Local(port) => Some(Account {
                port: PortId(port),
                limit,
            }),
            Path::Wire(_) => None,
        };
        let accounts = match flow {
            Flow::Give => [peers(Limit::InOps), peers(Limit::InBits)],
            Flow::Take => [peers(Limit::InOps), peers(Limit::OutBits)],
            Flow::Answer => [None, None],
        };
        let own = (flow == Flow::Take).then(|| own(Limit::InBits));
        let mut accounts = accounts.into_iter().chain([own]).flatten();
        accounts.any(|account| {
            self.accounts
                .holds_up(self.shared, self.from, account, self.now)
        })
    }

    /// Whether the lane to the shard that has a member is full.
    fn is_lane_full(&mut self, to: PortId) -> bool {
        if !self.lanes.is_any_full() {
            return false;
        }
        let home = self.shared.home(to);
        home.is_some_and(|home| self.lanes.holds_up(self.from, home.shard))
    }
}
