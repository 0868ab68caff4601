//! Transfers that wait to leave for other shards, and requests that are out there.

use std::collections::{BTreeSet, VecDeque};

use vrdma_adapter::ShardId;
use vrdma_switch::PortId;

use super::{Lane, Transfer};
use crate::budget::{Budget, QUANTUM};
use crate::member::Member;

/// Most units that wait for one shard before queue pairs wait, too. One turn of a member may add 64.
const UNITS_MAX: usize = 256;

/// Most bytes of answers that wait for one shard before units of that shard are no longer taken.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Most transfers for members that are on their way here, some 400 bytes each, and packets. Beyond it no more units are
/// taken.
const EARLY_MAX: usize = 4096;

/// The transfers taken from one shard in a turn.
#[derive(Default)]
struct Incoming {
    units: Budget,
    answers: Budget,
}

/// The transfers that wait for one shard.
struct Outgoing<M: Member> {
    units: VecDeque<Transfer<M>>,
    answers: VecDeque<Transfer<M>>,
    /// Bytes of READ data among the answers.
    answer_bytes: usize,
    /// Members with units that wait for room.
    awaiting: BTreeSet<PortId>,
}

/// The lanes to all other shards.
pub(crate) struct Lanes<M: Member> {
    outgoing: Vec<Outgoing<M>>,
    incoming: Vec<Incoming>,
    /// Number of shards whose lane has no room.
    full: usize,
    /// By port: requests whose payload other shards may be reading.
    read_elsewhere: Vec<u32>,
    /// Members that send nothing for now.
    held: BTreeSet<PortId>,
    /// Transfers for members that are on their way here.
    early: VecDeque<Transfer<M>>,
}

impl<M: Member> Outgoing<M> {
    fn new() -> Self {
        Self {
            units: VecDeque::new(),
            answers: VecDeque::new(),
            answer_bytes: 0,
            awaiting: BTreeSet::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.units.len() >= UNITS_MAX
    }
}

impl<M: Member> Lanes<M> {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            outgoing: (0..shards).map(|_| Outgoing::new()).collect(),
            incoming: (0..shards).map(|_| Incoming::default()).collect(),
            full: 0,
            read_elsewhere: Vec::new(),
            held: BTreeSet::new(),
            early: VecDeque::new(),
        }
    }

    fn to(&mut self, shard: ShardId) -> Option<&mut Outgoing<M>> {
        self.outgoing.get_mut(usize::from(shard.0))
    }

    /// Queues a unit even if there is no room: senders that can wait have asked before.
    pub(crate) fn push_unit(&mut self, shard: ShardId, transfer: Transfer<M>) {
        let Some(lane) = self.to(shard) else { return };
        let was_full = lane.is_full();
        lane.units.push_back(transfer);
        let is_full = lane.is_full();
        self.full += usize::from(is_full && !was_full);
    }

    pub(crate) fn push_answer(&mut self, shard: ShardId, transfer: Transfer<M>) {
        if let Some(lane) = self.to(shard) {
            lane.answer_bytes += data_bytes(&transfer);
            lane.answers.push_back(transfer);
        }
    }

    pub(crate) fn has_room(&self, shard: ShardId) -> bool {
        let lane = self.outgoing.get(usize::from(shard.0));
        lane.is_some_and(|lane| !lane.is_full())
    }

    fn budget(&mut self, shard: ShardId, lane: Lane) -> Option<&mut Budget> {
        let incoming = self.incoming.get_mut(usize::from(shard.0))?;
        Some(match lane {
            Lane::Units => &mut incoming.units,
            Lane::Answers => &mut incoming.answers,
        })
    }

    /// Begins a turn.
    pub(crate) fn renew(&mut self, shard: ShardId, lane: Lane) {
        if let Some(budget) = self.budget(shard, lane) {
            budget.renew(QUANTUM);
        }
    }

    /// Charges a lane for bytes taken from a shard.
    pub(crate) fn charge(&mut self, shard: ShardId, lane: Lane, bytes: u64) {
        if let Some(budget) = self.budget(shard, lane) {
            budget.charge(bytes);
        }
    }

    /// Whether the budget of a lane is used up in this turn.
    pub(crate) fn is_spent(&mut self, shard: ShardId, lane: Lane) -> bool {
        let budget = self.budget(shard, lane);
        budget.is_none_or(|budget| budget.is_spent())
    }

    /// Whether more is taken from a lane: answers to units may be long, and transfers for members that are on their way
    /// here must be kept.
    pub(crate) fn takes(&mut self, shard: ShardId, lane: Lane) -> bool {
        let waiting = self.outgoing.get(usize::from(shard.0));
        let has_room = waiting.is_some_and(|waiting| waiting.answer_bytes < ANSWER_BYTES_MAX)
            && self.early.len() < EARLY_MAX;
        (lane == Lane::Answers || has_room) && !self.is_spent(shard, lane)
    }

    pub(crate) fn is_any_full(&self) -> bool {
        self.full > 0
    }

    /// Whether a member has to wait with units for a shard. It goes on when there is room.
    pub(crate) fn holds_up(&mut self, member: PortId, shard: ShardId) -> bool {
        let full = self.to(shard).filter(|lane| lane.is_full());
        full.map(|lane| lane.awaiting.insert(member)).is_some()
    }

    /// Prepares for a transfer to leave a lane; returns the members that waited for the room, if there is some then.
    pub(crate) fn make_room(&mut self, shard: ShardId, lane: Lane) -> Option<BTreeSet<PortId>> {
        let outgoing = self.to(shard).filter(|_| lane == Lane::Units)?;
        if outgoing.units.len() != UNITS_MAX {
            return None;
        }
        let waited = std::mem::take(&mut outgoing.awaiting);
        self.full -= 1;
        Some(waited)
    }

    /// Returns the next transfer of a lane, after [`make_room`](Self::make_room).
    pub(crate) fn pop(&mut self, shard: ShardId, lane: Lane) -> Option<Transfer<M>> {
        let outgoing = self.to(shard)?;
        match lane {
            Lane::Answers => {
                let transfer = outgoing.answers.pop_front()?;
                outgoing.answer_bytes -= data_bytes(&transfer);
                Some(transfer)
            }
            Lane::Units => outgoing.units.pop_front(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let mut lanes = self.outgoing.iter();
        lanes.all(|lane| lane.units.is_empty() && lane.answers.is_empty())
    }

    /// Notes that another shard may read a member's memory for one more request.
    pub(crate) fn reads(&mut self, member: PortId) {
        let number = member.0 as usize;
        if self.read_elsewhere.len() <= number {
            self.read_elsewhere.resize(number + 1, 0);
        }
        self.read_elsewhere[number] += 1;
    }

    /// Notes that it has read for one of them.
    pub(crate) fn has_read(&mut self, member: PortId) {
        if let Some(count) = self.read_elsewhere.get_mut(member.0 as usize) {
            debug_assert!(*count > 0, "an answer to no request");
            *count = count.saturating_sub(1);
        }
    }

    pub(crate) fn is_read_elsewhere(&self, member: PortId) -> bool {
        let count = self.read_elsewhere.get(member.0 as usize);
        count.is_some_and(|count| *count > 0)
    }

    pub(crate) fn hold(&mut self, member: PortId) {
        self.held.insert(member);
    }

    pub(crate) fn release(&mut self, member: PortId) {
        self.held.remove(&member);
    }

    pub(crate) fn is_held(&self, member: PortId) -> bool {
        !self.held.is_empty() && self.held.contains(&member)
    }

    /// Keeps a transfer for a member that is on its way here.
    pub(crate) fn keep_early(&mut self, transfer: Transfer<M>) {
        self.early.push_back(transfer);
    }

    pub(crate) fn take_early(&mut self) -> VecDeque<Transfer<M>> {
        std::mem::take(&mut self.early)
    }
}

fn data_bytes<M: Member>(transfer: &Transfer<M>) -> usize {
    match transfer {
        Transfer::Answer(carried) => carried.data.len(),
        _ => 0,
    }
}
