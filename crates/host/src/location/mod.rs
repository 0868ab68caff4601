//! Adapters that go to another host, and their peers: which of them stand still, and which go on where.
//!
//! ```text
//!   source            PAUSE e ──► peer: waits, uses up no retry ──► PAUSE_ACK
//!   (frozen)         ◄── data ──  peer that did not hear it; the answer is PAUSE e
//!   (frozen)       ◄── PROBE ──── peer, after 250 ms; the answer is PAUSE e, and it waits on
//!   source (away)     MOVED   ──► peer: forgets where it was, and asks again
//!   destination       RESUME e+1 ──► peer: goes on at once ──► RESUME_ACK
//!                     ALIVE   ──► peer: the same, had it missed that
//! ```
//! Notices ([`vrdma_wire::Notice`]) go where packets go; between adapters of one daemon they are handed over directly.
//! Nobody waits for an answer: a peer that does not know notices sends on, and its retries decide. What is believed is
//! bounded: an epoch pauses once, and for at most [`PAUSE_MAX`] after the adapter was last heard of; older epochs
//! change nothing.
//!
//! [`remotes`] is the peer's half and [`own`] that of the adapter that goes; both are without I/O. [`carry`] is the
//! carrier's part. None of it is saved: a carrier that follows another pauses nobody, and answers questions by the
//! epoch that the adapter has.

mod carry;
mod own;
mod remotes;
mod tombstones;

use std::collections::VecDeque;
use std::time::Duration;

use vrdma_switch::{GroupId, Neighbour, PortId, UplinkId};
use vrdma_verbs::Time;
use vrdma_verbs::unit::Route;
use vrdma_wire::{Gid, Mac, Notice};

use own::Own;
use remotes::Remotes;
pub(crate) use tombstones::Tombstones;

/// How long to wait for a peer that stands still before asking what has become of it, and before asking again. Most
/// migrations are shorter.
const GUARD: Duration = Duration::from_millis(250);

/// How long to wait for a peer that is not heard of. Then connections go on as if nothing had been said, and their own
/// retries decide.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long to wait for a peer that keeps saying that it stands still.
const PAUSE_LONGEST: Duration = Duration::from_secs(60);

/// Least time between two pauses of one peer: each costs a look at the connections to it.
const PAUSES_APART: Duration = Duration::from_millis(10);

/// How soon a peer that was elsewhere is asked again.
const MOVED_ASK_AGAIN: Duration = Duration::from_millis(20);

/// How long the epoch of a peer is remembered, so that late or repeated notices change nothing. Longer than any frame
/// is on its way.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Most peers that are remembered: of one adapter, and of all of a shard, about 100 bytes each. A peer that is not in
/// the table is not waited for.
const REMOTES_OF_PORT: usize = 1024;
const REMOTES_MAX: usize = 1 << 16;

/// For how long a PAUSE without acknowledgement is repeated, and the first interval, which doubles each time.
const PAUSE_REPEATED: Duration = Duration::from_millis(20);
const PAUSE_AGAIN: Duration = Duration::from_millis(2);

/// The same of a RESUME: for as long as peers wait. The intervals grow up to `RESUME_APART`.
const RESUME_REPEATED: Duration = PAUSE_MAX;
const RESUME_AGAIN: Duration = Duration::from_millis(5);
const RESUME_APART: Duration = Duration::from_millis(200);

/// Peers that send to an adapter that stands still are reminded: at most so many in this time, of all adapters
/// together.
const REMINDED_APART: Duration = Duration::from_millis(1);
const REMINDED_AT_ONCE: usize = 64;

/// Most peers of one adapter that are told. Further ones are not, and their retries decide.
const TOLD_MAX: usize = 4096;

/// Most notices of one adapter in a turn.
const TOLD_A_TURN: usize = 256;

/// Most notices that wait for the end of the turn. Further ones are lost, as on a wire.
const OUTBOX_MAX: usize = 1 << 14;

/// The source address of the notice that an adapter has moved: no station has it, so no switch looks for the adapter
/// behind this host again. Locally administered, and "vRDM" in the middle.
pub(crate) const NOBODY: Mac = Mac([0x02, b'v', b'R', b'D', b'M', 0]);

/// Hop limit of answers.
const HOP_LIMIT: u8 = 64;

/// One notice, as it arrived for an adapter of this shard.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The adapter.
    pub(crate) port: PortId,
    /// Its address.
    pub(crate) local: Gid,
    /// The peer's address.
    pub(crate) remote: Gid,
    pub(crate) notice: Notice,
    /// Where the peer is, if it is on another host.
    pub(crate) from: Option<Neighbour>,
}

/// A notice that leaves.
struct Leaving {
    port: PortId,
    route: Route,
    notice: Notice,
}

/// An answer in the name of an adapter that is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Farewell {
    pub(crate) uplink: UplinkId,
    pub(crate) group: GroupId,
    pub(crate) route: Route,
    /// The station that asked.
    pub(crate) to: Mac,
    pub(crate) notice: Notice,
}

/// The state of one shard; see the module.
#[derive(Default)]
pub(crate) struct Locations {
    own: Own,
    remotes: Remotes,
    /// Notices that leave at the end of the turn: nothing is sent by an uplink while packets are taken from it.
    outbox: VecDeque<Leaving>,
    farewells: Vec<Farewell>,
    /// Peers that have said where they are.
    found: Vec<(GroupId, Gid, Neighbour)>,
}

impl Locations {
    /// When something is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let due = [self.own.next_deadline(), self.remotes.next_deadline()];
        due.into_iter().flatten().min()
    }

    /// Whether nothing waits for the end of the turn.
    fn is_quiet(&self) -> bool {
        self.outbox.is_empty() && self.farewells.is_empty() && self.found.is_empty()
    }

    fn send(&mut self, leaving: Leaving) {
        if self.outbox.len() < OUTBOX_MAX {
            self.outbox.push_back(leaving);
        }
    }
}

/// Returns the route of an answer.
fn way(local: Gid, remote: Gid) -> Route {
    Route {
        sgid: local,
        dgid: remote,
        hop_limit: HOP_LIMIT,
        ..Route::default()
    }
}
