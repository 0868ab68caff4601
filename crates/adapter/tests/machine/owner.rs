//! Rings in vectors.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use vrdma_adapter::{Client, Core, FrontEnd, RunState, Turn};
use vrdma_verbs::attr::Access;
use vrdma_verbs::memory::{CopyFault, Fault, Memory, Spot};
use vrdma_verbs::object::{CqId, Owner, PdId, QpId, QpSpec, QpType, SrqId, WindowKind};
use vrdma_verbs::work::{
    BindWindow, Completion, Event, RecvWr, Remote, SendOp, SendWr, Sge, SgeList, Status,
};
use vrdma_verbs::{Hca, Reaped, Source, Time};
use vrdma_wire::{Gid, Lkey, Rkey};

use crate::engine::{LIMITS, connect, identity, region};

const OWNER: Owner = Owner(1);

/// An action of the machine on the rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Log {
    Released,
    Written(u8),
    Published,
    QpFailed,
    CqFailed,
    Forgotten,
}

/// Reason why a ring failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Broken {
    Full,
    Index,
}

/// Memory that accepts every access.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Memory for Nothing {
    type Region = ();

    fn read(&self, _: &(), _: u64, out: &mut [u8]) -> Result<(), Fault> {
        out.fill(0);
        Ok(())
    }

    fn write(&self, _: &(), _: u64, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    fn copy(&self, _: Spot<'_, ()>, _: &Self, _: Spot<'_, ()>, _: u64) -> Result<(), CopyFault> {
        Ok(())
    }

    fn fetch_update(&self, _: &(), _: u64, _: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
        Ok(0)
    }
}

/// An adapter with one queue pair, connected to itself.
pub(crate) struct Rings {
    core: Core<()>,
    pub(crate) qp: QpId,
    pd: PdId,
    keys: (Lkey, Rkey),
    state: Option<RunState>,
    /// Queue pairs that only take turns.
    pub(crate) others: BTreeMap<QpId, RunState>,
    /// Number of looks at the state of one of them.
    pub(crate) looks: u64,
    sends: VecDeque<SendWr<()>>,
    /// Free room of the completion ring, which nobody polls.
    room: usize,
    unpublished: usize,
    published: usize,
    dead: (bool, bool),
    /// Whether progress was noted but not committed, so that it would be lost with the process.
    pub(crate) uncommitted: bool,
    /// Number of notes of progress.
    pub(crate) notes: usize,
    /// Whether notes are recorded.
    pub(crate) keeps_records: bool,
    log: Vec<Log>,
}

impl Rings {
    pub(crate) const TURN: Turn<'static, Nothing> = Turn {
        memory: &Nothing,
        now: Time(1),
    };
    pub(crate) const SOURCE: Source<'static, Nothing> = Source::Memory(&Nothing);

    pub(crate) fn connected_to_itself(completions: usize) -> Self {
        let mut hca = Hca::new(identity(), LIMITS);
        let gid = Gid::from_ipv4(Ipv4Addr::LOCALHOST);
        hca.bind_gid(0, gid).unwrap();
        let pd = hca.create_pd(OWNER).unwrap();
        let cq = hca.create_cq(OWNER).unwrap();
        let qp = hca.create_qp(QpSpec::new(QpType::Rc, pd, cq, cq)).unwrap();
        let keys = hca.register(pd, region()).unwrap();
        connect(&mut hca, qp, gid);
        Self {
            core: Core::new(hca, 1 << 18),
            qp,
            pd,
            keys: (keys.lkey, keys.rkey),
            state: Some(RunState::default()),
            others: BTreeMap::new(),
            looks: 0,
            sends: VecDeque::new(),
            room: completions,
            unpublished: 0,
            published: 0,
            dead: (false, false),
            uncommitted: false,
            notes: 0,
            keeps_records: true,
            log: Vec::new(),
        }
    }

    /// Puts WRITEs of 8 bytes into the send ring.
    pub(crate) fn post(&mut self, count: u64) {
        self.post_as(SendOp::Write(self.remote()), count);
    }

    /// Puts atomics into the send ring.
    pub(crate) fn post_atomics(&mut self, count: u64) {
        let remote = self.remote();
        self.post_as(SendOp::FetchAdd { remote, add: 1 }, count);
    }

    /// Puts a bind of a window to the region into the send ring.
    pub(crate) fn post_bind(&mut self) {
        let allocated = self.core.hca.alloc_mw(self.pd, WindowKind::Two);
        let key = allocated.unwrap().rkey;
        let bind = BindWindow {
            window: Rkey::from_parts(key.index(), key.variant().wrapping_add(1)),
            region: self.keys.0,
            start: 0,
            length: 8,
            access: Access::REMOTE_WRITE,
            zero_based: false,
        };
        self.post_as(SendOp::BindWindow(bind), 1);
    }

    fn remote(&self) -> Remote {
        Remote {
            addr: 0,
            rkey: self.keys.1,
        }
    }

    fn post_as(&mut self, op: SendOp<()>, count: u64) {
        let sge = Sge {
            addr: 0,
            length: 8,
            lkey: self.keys.0,
        };
        self.sends.extend((0..count).map(|id| SendWr {
            signaled: true,
            sges: SgeList::from_slice(&[sge]),
            ..SendWr::new(id, op.clone())
        }));
    }

    pub(crate) fn register(&mut self, count: usize) {
        for _ in 0..count {
            self.core.hca.register(self.pd, region()).unwrap();
        }
    }

    pub(crate) fn retire(&mut self) {
        self.core.hca.retire_owner(OWNER);
    }

    /// Returns how many completions the owner can see.
    pub(crate) fn completed(&self) -> usize {
        self.published
    }

    pub(crate) fn take_log(&mut self) -> Vec<Log> {
        std::mem::take(&mut self.log)
    }
}

impl FrontEnd for Rings {
    type Region = ();
    type Memory<'m> = Nothing;
    type Error = Broken;

    fn is_overflow(error: Broken) -> bool {
        error == Broken::Full
    }

    fn core(&self) -> &Core<()> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core<()> {
        &mut self.core
    }

    fn run_state(&mut self, id: QpId) -> Option<&mut RunState> {
        self.looks += 1;
        let own = self.state.as_mut().filter(|_| id == self.qp);
        own.or_else(|| self.others.get_mut(&id))
    }

    fn client_of(&self, _: QpId) -> Option<Client> {
        Some(Client {
            user: 0,
            owner: OWNER,
        })
    }

    fn take_doorbells(&mut self, _: Turn<'_, Nothing>) -> bool {
        false
    }

    fn run_deferred(&mut self, _: Turn<'_, Nothing>) -> bool {
        false
    }

    fn deferred_until(&self) -> Option<Time> {
        None
    }

    fn fetch_send(&mut self, _: Turn<'_, Nothing>, _: QpId) -> Result<Option<SendWr<()>>, Broken> {
        let waiting = if self.dead.0 {
            None
        } else {
            self.sends.pop_front()
        };
        Ok(waiting)
    }

    fn fetch_recv(&mut self, _: Turn<'_, Nothing>, _: QpId) -> Result<Option<RecvWr>, Broken> {
        Ok(None)
    }

    fn fetch_shared_recv(
        &mut self,
        _: Turn<'_, Nothing>,
        _: SrqId,
    ) -> Result<Option<RecvWr>, Broken> {
        Ok(None)
    }

    fn left_of_armed(&mut self, _: Turn<'_, Nothing>, _: SrqId) -> Result<Option<u32>, Broken> {
        Ok(None)
    }

    fn release_sends(&mut self, _: QpId, _: u32) {}

    fn release_recv(&mut self, _: QpId) -> bool {
        true
    }

    fn publish_released(&mut self, _: Turn<'_, Nothing>, _: QpId) -> Result<(), Broken> {
        self.log.push(Log::Released);
        Ok(())
    }

    fn keeps_records(&self) -> bool {
        self.keeps_records
    }

    fn write_completion(
        &mut self,
        _: Turn<'_, Nothing>,
        _: CqId,
        completion: &Completion,
        urgent: bool,
    ) -> Result<bool, Broken> {
        assert_eq!(urgent, completion.status != Status::Success);
        if self.dead.1 {
            return Ok(false);
        }
        if self.published + self.unpublished == self.room {
            return Err(Broken::Full);
        }
        self.log.push(Log::Written(completion.status as u8));
        self.unpublished += 1;
        Ok(self.unpublished == 1)
    }

    fn publish_written(&mut self, _: Turn<'_, Nothing>, _: CqId) -> Result<(), Broken> {
        self.log.push(Log::Published);
        self.published += std::mem::take(&mut self.unpublished);
        Ok(())
    }

    fn note_progress(&mut self, _: QpId) {
        self.uncommitted = true;
        self.notes += 1;
    }

    fn commit(&mut self) {
        self.uncommitted = false;
    }

    fn post_event(&mut self, _: Turn<'_, Nothing>, _: Event) {}

    fn forget(&mut self, reaped: Reaped) {
        self.log.push(Log::Forgotten);
        if reaped == Reaped::Qp(self.qp) {
            vrdma_adapter::Sending::forget_turn(self, self.qp);
            self.state = None;
        }
    }

    fn qp_failed(&mut self, _: Turn<'_, Nothing>, _: QpId, _: Broken) -> bool {
        let alive = !std::mem::replace(&mut self.dead.0, true);
        self.log.extend(alive.then_some(Log::QpFailed));
        alive
    }

    fn cq_failed(&mut self, _: Turn<'_, Nothing>, _: CqId, _: Broken) -> bool {
        let alive = !std::mem::replace(&mut self.dead.1, true);
        self.log.extend(alive.then_some(Log::CqFailed));
        alive
    }

    fn srq_failed(&mut self, _: Turn<'_, Nothing>, _: SrqId, _: Broken) -> bool {
        true
    }
}
