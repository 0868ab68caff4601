//! The daemon's half of a client's objects: the rings that belong to the engine's objects.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Instant;

use vrdma_adapter::RunState;
use vrdma_provider::daemon::{CompletionRing, RingError, WorkRing};
use vrdma_provider::message::{Adoption, QpCapacity};
use vrdma_verbs::object::{CqId, MrId, Owner, QpType};
use vrdma_wire::{Lkey, Qpn};

use crate::queue_pairs::Entry;
use crate::regions::Reached;
use crate::slabs::Part;

/// A memory region.
pub(super) struct Mr {
    pub(super) owner: Owner,
    /// Bytes of its file that are mapped here; 0 if the region is reached by its addresses.
    pub(super) mapped: u64,
    /// Its file, and the offset of the region in it: for clients that others may reach directly, and for a process that
    /// goes on after this one.
    pub(super) file: Option<(OwnedFd, u64)>,
    /// Time since when its end waits for others that reach it directly.
    pub(super) leaving: Option<Instant>,
    /// How its memory is reached.
    pub(super) way: Reached,
    /// Whether the client has adopted its memory, or why not.
    pub(super) adoption: Adoption,
    /// Completion queues with messages for it; `None` for a region from before this process.
    pub(super) enclosed_in: Option<BTreeSet<CqId>>,
}

/// A completion queue.
pub(super) struct Cq {
    pub(super) owner: Owner,
    pub(super) ring: CompletionRing,
    pub(super) memory: Part,
    pub(super) channel: Option<u32>,
    pub(super) cookie: u64,
    /// Whether entries were written that the client does not see yet.
    pub(super) unpublished: bool,
    /// Whether one of them is solicited or an error.
    pub(super) urgent: bool,
    /// Whether it overflowed, or its index is impossible: nothing is written any more.
    pub(super) dead: bool,
}

/// A shared receive queue.
pub(super) struct Srq {
    pub(super) owner: Owner,
    pub(super) ring: WorkRing,
    pub(super) memory: Part,
    pub(super) cookie: u64,
    pub(super) max_sge: u32,
    /// Armed limit; 0 is disarmed.
    pub(super) limit: u32,
    pub(super) dead: bool,
}

/// A queue pair.
pub(super) struct Qp {
    pub(super) owner: Owner,
    pub(super) qp_type: QpType,
    pub(super) qpn: Qpn,
    /// Entry of the number among those of its user.
    pub(super) _entry: Entry,
    pub(super) send: WorkRing,
    /// `None` with a shared receive queue.
    pub(super) recv: Option<WorkRing>,
    /// Memory of the rings.
    pub(super) memory: Part,
    pub(super) capacity: QpCapacity,
    pub(super) cookie: u64,
    /// Its bit in the client's doorbell page.
    pub(super) doorbell: u32,
    /// The data area as a region of the engine, so that payload in it is like any other payload.
    pub(super) data: (MrId, Lkey),
    /// Its state in the machine that runs it.
    pub(super) run: RunState,
    /// Whether the client was told to ring for receives, too.
    pub(super) flushing: bool,
    /// Whether its rings are unusable.
    pub(super) dead: bool,
}

impl Qp {
    /// Starts at zero after a reset, as the client does after the reply.
    pub(super) fn restart(&mut self) {
        self.send.restart();
        self.recv.iter_mut().for_each(WorkRing::restart);
        self.run.restart();
        (self.dead, self.flushing) = (false, false);
    }

    /// Requires a ring for each posted receive, since receives are flushed from now on.
    pub(super) fn demand_rings(&mut self) {
        if !std::mem::replace(&mut self.flushing, true) {
            self.recv.iter_mut().for_each(|recv| recv.demand_ring(true));
        }
    }

    /// Whether the send ring holds requests that were not fetched.
    pub(super) fn has_sends(&mut self) -> Result<bool, RingError> {
        Ok(!self.dead && self.send.available()? > 0)
    }

    /// Lets the client use the slots of requests that are done.
    pub(super) fn show_released(&mut self) {
        if !self.dead {
            self.send.show_released();
            self.recv.iter_mut().for_each(WorkRing::show_released);
        }
    }
}
