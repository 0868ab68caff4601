//! The other ends of connections: which queue pairs each has, and which of them stand still.
//!
//! ```text
//!   (peer's GID, index of ours) ──► the queue pairs between the two
//!   pause_peer    they send nothing, their time stands still, no retry is used up; posting goes on
//!   resume_peer   they send again from the oldest packet that is not acknowledged, with fresh retries
//! ```
//! A peer stands still while its machine moves to another host. The caller knows who announces that and for how long it
//! is believed: nothing here resumes by itself. A pause is not saved: a restored adapter sends to everybody.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use vrdma_wire::Gid;

use crate::attr::QpState;
use crate::hca::Hca;
use crate::list::{Link, List, Member};
use crate::object::QpId;
use crate::qp::Qp;
use crate::timers::Schedule;
use crate::unit::Route;

/// Lists of the queue pairs with one peer.
pub(crate) struct OfPeer;

/// The two ends of a connection: the peer's GID, and the index of the local GID.
pub(crate) type Ends = (Gid, u8);

/// All peers. Each has a queue pair, which bounds their number. The peers that stand still are those that the caller
/// has paused and not resumed.
#[derive(Default)]
pub(crate) struct Peers {
    known: BTreeMap<Ends, List<OfPeer>>,
    still: BTreeSet<Gid>,
}

impl Peers {
    fn lists_of(&self, peer: Gid) -> impl Iterator<Item = &List<OfPeer>> {
        let all = self.known.range((peer, u8::MIN)..=(peer, u8::MAX));
        all.map(|(_, list)| list)
    }
}

impl<R> Member<OfPeer> for Box<Qp<R>> {
    fn link(&self) -> Option<&Link> {
        Some(&self.links.of_peer)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.links.of_peer)
    }
}

impl<R> Qp<R> {
    /// Returns the ends of its connection. A failed queue pair stays connected until it is reset.
    fn ends(&self) -> Option<Ends> {
        let address = &self.attr.address;
        let is_tied = !matches!(self.attr.state, QpState::Reset | QpState::Init);
        (is_tied && self.is_connected()).then_some((address.dgid, address.sgid_index))
    }

    /// Stops sending: the peer stands still.
    fn pause(&mut self) {
        let requester = &mut self.requester;
        requester.paused = true;
        requester.deadline = None;
        requester.rnr_until = None;
    }

    /// Goes on with a peer, wherever it is now: what it has not acknowledged may be lost.
    fn go_on(&mut self, schedule: &mut Schedule) {
        let is_reliable = self.is_reliable();
        let requester = &mut self.requester;
        requester.paused = false;
        requester.forget_troubles();
        let is_answered = requester.unacked == requester.sent && requester.awaiting.is_empty();
        if is_reliable && !is_answered {
            requester.awaiting.lose_all();
            requester.rewind();
        }
        self.reschedule(schedule);
    }
}

impl<R: Clone> Hca<R> {
    /// Pauses connections to a peer that stands still, including new ones, until [`resume_peer`](Self::resume_peer).
    pub fn pause_peer(&mut self, peer: Gid) {
        self.peers.still.insert(peer);
        for id in self.queue_pairs_with(peer) {
            if let Some(qp) = self.qps.get_mut(id) {
                qp.pause();
            }
        }
    }

    /// Resumes connections to a peer, including those that were not paused, since what they sent may be lost.
    pub fn resume_peer(&mut self, peer: Gid) {
        self.peers.still.remove(&peer);
        for id in self.queue_pairs_with(peer) {
            if let Some(qp) = self.qps.get_mut(id) {
                qp.go_on(&mut self.schedule);
            }
        }
    }

    /// Resumes all connections after this adapter itself has stood still: the time that passed counts against no peer.
    pub fn resume_all(&mut self) {
        let peers: BTreeSet<Gid> = self.peers.known.keys().map(|(peer, _)| *peer).collect();
        let going = peers.difference(&self.peers.still);
        for peer in going.copied().collect::<Vec<_>>() {
            self.resume_peer(peer);
        }
    }

    /// Whether any queue pair is connected to a peer.
    pub fn has_peer(&self, peer: Gid) -> bool {
        self.peers.lists_of(peer).next().is_some()
    }

    /// Returns the routes to all peers, one for each pair of addresses. Only queue pairs that take part in anything
    /// count, and routes to this adapter itself are left out.
    pub fn peers(&self) -> impl Iterator<Item = Route> {
        let table = &self.qps.table;
        let routes = self.peers.known.values().filter_map(move |list| {
            let live = |qp: &Qp<R>| qp.receives() || qp.sends();
            let (_, qp) = list.iter(table).find(|(_, qp)| live(qp))?;
            self.shared.route(&qp.attr.address)
        });
        routes.filter(|route| !self.shared.gids.contains(&Some(route.dgid)))
    }

    fn queue_pairs_with(&self, peer: Gid) -> Vec<u32> {
        let lists = self.peers.lists_of(peer);
        let members = lists.flat_map(|list| list.iter(&self.qps.table));
        members.map(|(id, _)| id).collect()
    }

    /// Updates the lists of peers for a queue pair that may be connected to another peer than before, or to none.
    pub(crate) fn follow_peer(&mut self, id: QpId) {
        let Some(qp) = self.qps.get(id.0) else {
            return;
        };
        let (ends, before) = (qp.ends(), qp.links.peer);
        if ends == before {
            return;
        }
        self.leave_peer(id);
        let Some(ends) = ends else {
            return;
        };
        let list = self.peers.known.entry(ends).or_default();
        list.push(&mut self.qps.table, id.0);
        let is_still = self.peers.still.contains(&ends.0);
        if let Some(qp) = self.qps.get_mut(id.0) {
            qp.links.peer = Some(ends);
            match is_still {
                true => qp.pause(),
                false => qp.requester.paused = false,
            }
        }
    }

    /// Removes a queue pair from its peer's list, before it goes.
    pub(crate) fn leave_peer(&mut self, id: QpId) {
        let qp = self.qps.get_mut(id.0);
        let Some(ends) = qp.and_then(|qp| qp.links.peer.take()) else {
            return;
        };
        let Some(list) = self.peers.known.get_mut(&ends) else {
            debug_assert!(false, "{ends:?} has no list");
            return;
        };
        list.remove(&mut self.qps.table, id.0);
        if list.is_empty() {
            self.peers.known.remove(&ends);
        }
    }
}
