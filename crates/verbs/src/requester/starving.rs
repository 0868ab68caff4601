//! Queue pairs that share a slow peer, which serves one queue pair as long as that has packets: Linux's rxe takes up to
//! 1024 packets of one before it turns to the next. As long as answers call for new packets before the last ones are
//! done, only one queue pair is served, and the others time out.
//!
//! ```text
//!   one hears nothing for 10 ms, or   ──► the others with that peer send a few packets, wait for the
//!   its round trips have become long      answer, send a few more: meanwhile the peer turns to it
//! ```
//!
//! Only the two newest starving queue pairs and one peer are remembered: starving queue pairs are silent anyway, and
//! with several slow peers the others only hold back a little less.

use core::time::Duration;

use vrdma_wire::Gid;

use crate::object::QpId;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::time::Time;

/// Longest time that packets may queue at a peer: well below the local ACK time-outs of tens of milliseconds that
/// applications choose. A slow receiver with a long queue loses nothing, and would not stop a window that only reacts
/// to losses.
const QUEUEING_MAX: Duration = Duration::from_millis(10);

/// Time for which the others hold back: the least, and in round trips.
const COURTESY: Duration = Duration::from_millis(100);
const COURTESY_ROUNDS: u32 = 4;

/// What the queue pairs know together about the peer that answered last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    gid: Gid,
    /// The shortest round trip.
    shortest: Duration,
    /// The last two queue pairs that waited long for an answer, and until when the others hold back. There are two, so
    /// that each of them has another one.
    starving: [Option<(QpId, Time)>; 2],
}

impl Peer {
    fn starves(&mut self, qp: QpId, until: Time) {
        let [newer, older] = self.starving;
        let other = newer.filter(|(known, _)| *known != qp).or(older);
        self.starving = [Some((qp, until)), other];
    }
}

impl<R> Qp<R> {
    /// Notes a probe that went out. The time until the next one is about as long as silence has lasted.
    pub(super) fn note_silence(&self, now: Time, shared: &mut Shared<R>) {
        let wire = self.requester.wire.as_ref();
        if wire.is_some_and(|wire| wire.patience() >= QUEUEING_MAX) {
            self.peer(shared).starves(self.id, now + COURTESY);
        }
    }

    /// Notes an answer. One long round trip may have been a pause of the peer's processor; when they are long on
    /// average, this end's packets queue there.
    pub(super) fn note_round_trip(&mut self, now: Time, shared: &mut Shared<R>) {
        let Some(wire) = &mut self.requester.wire else {
            return;
        };
        let (Some(newest), Some((mean, _))) = (wire.newest.take(), wire.round_trip) else {
            return;
        };
        let own = wire.shortest;
        let peer = self.peer(shared);
        peer.shortest = peer.shortest.min(own);
        if mean.min(newest) <= QUEUEING_MAX.max(2 * peer.shortest) {
            return;
        }
        let lasts = COURTESY.max(COURTESY_ROUNDS * newest);
        peer.starves(self.id, now + lasts);
        if let Some(wire) = &mut self.requester.wire {
            wire.relieve();
        }
    }

    fn peer<'a>(&self, shared: &'a mut Shared<R>) -> &'a mut Peer {
        let gid = self.attr.address.dgid;
        let known = shared.peer.filter(|peer| peer.gid == gid);
        shared.peer.insert(known.unwrap_or(Peer {
            gid,
            shortest: Duration::MAX,
            starving: [None; 2],
        }))
    }

    /// Whether another queue pair has waited long for the same peer.
    pub(super) fn holds_back(&self, now: Time, shared: &Shared<R>) -> bool {
        let Some(peer) = &shared.peer else {
            return false;
        };
        let mut starving = peer.starving.iter().flatten();
        starving.any(|(qp, until)| *qp != self.id && now < *until)
            && peer.gid == self.attr.address.dgid
    }
}
