//! An adapter for processes: an engine, and the rings of the clients that opened it.
//!
//! ```text
//!   sessions: socket ─ requests ─► requests ┐
//!            └─ hang-up ─► close            ▼
//!   doorbell pages ─► vrdma_adapter (run queue, engine, batches) ◄──► requests and responses of peers
//!                                           │ front_end
//!                                           ▼
//!                             CQ rings, notifications into pipes
//! ```
//!
//! Each client is a context with an [`Owner`] of its own: the engine keeps contexts apart. Clients' memory is reached
//! through the regions themselves, so the adapter's own space is empty.
//!
//! A failed ring fails its own objects; a client that breaks the protocol loses its connection, and
//! with it all its objects.

#![forbid(unsafe_code)]

mod admission;
mod caller;
mod channel;
pub mod cm;
mod completion;
mod context;
mod decode;
mod directory;
mod doorbells;
mod entrances;
mod fast;
mod front_end;
mod holdings;
mod kept;
mod limits;
mod lines;
mod namespaces;
mod objects;
mod on_demand;
mod opening;
mod queue_pairs;
mod quota;
mod receive;
mod regions;
mod registry;
mod requests;
mod session;
mod sessions;
mod slabs;
mod spec;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustix::process::Pid;
use vrdma_adapter::{Core, Failing, Receiving, Slots};
use vrdma_keep::Records;
use vrdma_memory::{Region, Space, View};
use vrdma_verbs::object::{Identity, Owner, QpId, SrqId};
use vrdma_verbs::{Hca, Time};
use vrdma_wire::{Gid, Mtu};

pub use admission::{Admission, Admitted};
pub use caller::Caller;
use channel::ChannelOf;
use context::Context;
pub use directory::Directory;
pub use entrances::Entrance;
use fast::AdapterGrants;
use holdings::Holdings;
pub use kept::{Lost, Means, Recorder, Remembered, Revived, Taken};
pub use lines::Lines;
use objects::{Cq, Qp, Srq};
pub use on_demand::OnDemand;
pub use quota::Kind;
pub use regions::RegionCounts;
use regions::Regions;
pub use registry::Registry;
pub use sessions::{
    Adapters, CmGreeting, OpenSession, OpeningSession, Served, SessionId, Sessions,
};
pub use spec::ProcessSpec;
pub use users::{Usage, UserUsage, Users};

/// Longest unit between two adapters of this host, as for a VM's device.
const UNIT_BYTES: u32 = 256 << 10;

/// First owner number of clients; 0 is the daemon itself.
const FIRST_OWNER: u32 = 1;

/// The arguments of every step: the adapter's own space, which is empty, and the time.
pub type Turn<'a, 'v> = vrdma_adapter::Turn<'a, View<'v>>;

/// An adapter for processes.
pub struct Process {
    spec: ProcessSpec,
    space: Arc<Space>,
    core: Core<Region>,
    /// Contexts of clients by owner, from [`FIRST_OWNER`] on.
    contexts: Slots<Context>,
    /// Quotas of clients that are gone, until all their objects are freed.
    leaving: BTreeMap<Owner, Holdings>,
    mrs: Regions,
    cqs: Slots<Cq>,
    qps: Slots<Qp>,
    srqs: Slots<Srq>,
    grants: AdapterGrants,
    /// Clients whose doorbells are polled.
    polled: Vec<Owner>,
    /// Queue pairs whose doorbells were found; empty between two looks, but keeps its capacity.
    rung: Vec<QpId>,
    /// Channels whose pipe was full, each once, so no more than there are channels. A channel that is gone is skipped
    /// and forgotten at the next try.
    full_channels: BTreeSet<ChannelOf>,
    /// Time of the next try.
    retry_at: Option<Time>,
    /// The records for another process to go on with, if one would.
    recorder: Option<Recorder>,
    /// Objects that clients gave up, until no record names their descriptors.
    discarded: Vec<Box<dyn Send>>,
    /// Whether the multicast groups with members may differ from those that the fabric knows.
    groups_changed: bool,
}

impl Process {
    /// Makes an adapter without clients. `seed` makes numbers of an earlier life stale.
    fn new(spec: ProcessSpec, seed: u64) -> Self {
        let identity = Identity {
            mac: spec.mac,
            seed,
        };
        let mut hca = Hca::new(identity, limits::ENGINE);
        for (index, gid) in spec.addresses().into_iter().enumerate() {
            // `OnDemand` has checked the addresses, and there are two, for a table with room for more.
            let bound = hca.bind_gid(index as u8, gid);
            debug_assert!(bound.is_ok(), "{gid}");
        }
        Self {
            spec,
            space: Arc::new(Space::new()),
            core: Core::new(hca, UNIT_BYTES),
            contexts: Slots::new(),
            leaving: BTreeMap::new(),
            mrs: Regions::new(),
            cqs: Slots::new(),
            qps: Slots::new(),
            srqs: Slots::new(),
            grants: AdapterGrants::default(),
            polled: Vec::new(),
            rung: Vec::new(),
            full_channels: BTreeSet::new(),
            retry_at: None,
            recorder: None,
            discarded: Vec::new(),
            groups_changed: false,
        }
    }

    /// Starts to record what another process needs to go on for this one.
    fn record_in(&mut self, records: Records) {
        self.recorder = Some(Recorder::new(records));
        self.log_intents();
        self.record_adapter();
    }

    /// The description that the adapter was made with.
    pub fn spec(&self) -> &ProcessSpec {
        &self.spec
    }

    /// A space without maps: the regions lead to the memory that views of this space reach.
    pub fn memory(&self) -> Arc<Space> {
        Arc::clone(&self.space)
    }

    /// The multicast groups with members, if they may have changed since the last call.
    pub fn take_groups(&mut self) -> Option<Vec<Gid>> {
        let changed = std::mem::take(&mut self.groups_changed);
        changed.then(|| self.core.hca.multicast_groups().collect())
    }

    /// Lets [`take_groups`](Self::take_groups) return the groups again, since somebody new has to know them.
    pub fn tell_groups_again(&mut self) {
        self.groups_changed = true;
    }

    /// The engine, for counters.
    pub fn hca(&self) -> &Hca<Region> {
        &self.core.hca
    }

    /// Lets queue pairs that are connected to a peer wait: the peer stands still.
    pub fn pause_peer(&mut self, peer: Gid) {
        self.core.hca.pause_peer(peer);
    }

    /// Lets queue pairs that are connected to a peer go on.
    pub fn resume_peer(&mut self, peer: Gid) {
        self.core.hca.resume_peer(peer);
    }

    /// Sets the payload of one packet that the port offers from now on.
    pub fn set_mtu(&mut self, mtu: Mtu) {
        self.core.hca.set_port_mtu(mtu);
    }

    /// Number of clients that have the adapter open.
    pub fn clients(&self) -> u32 {
        self.contexts.iter().count() as u32
    }

    /// Number of their processes; a client whose process is not visible from here counts as one.
    pub fn processes(&self) -> u32 {
        let pids = || self.contexts.iter().map(|(_, context)| context.pid);
        let unseen = pids().filter(Option::is_none).count();
        let seen: BTreeSet<_> = pids().flatten().map(Pid::as_raw_nonzero).collect();
        (unseen + seen.len()) as u32
    }

    /// Number of regions by how they are reached.
    pub fn regions(&self) -> RegionCounts {
        self.mrs.counts()
    }

    /// Whether queue pairs wait for a turn.
    pub fn is_runnable(&self) -> bool {
        self.core.is_runnable()
    }

    /// Ends a batch, if one has begun.
    pub fn finish_batch(&mut self, now: Time) {
        if self.core.has_unpublished() {
            self.publish_now(now);
        }
        self.commit_records();
    }

    fn check_limit_now(&mut self, id: SrqId, now: Time) {
        let space = self.memory();
        let memory = &space.view();
        let turn = Turn { memory, now };
        if let Err(error) = self.check_limit(turn, id) {
            self.fail_srq(turn, id, error);
        }
    }

    fn context(&mut self, owner: Owner) -> Option<&mut Context> {
        self.contexts.get_mut(owner.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adapters and sessions move between shards; the test is that this compiles.
    #[test]
    fn adapters_and_sessions_may_move_between_threads() {
        fn may_move<T: Send>() {}
        may_move::<Process>();
        may_move::<OpeningSession>();
        may_move::<Registry>();
    }
}
