//! The border of an adapter, where a run may break the adapter on purpose: checkers that let a broken engine pass prove
//! nothing.

use vrdma_verbs::memory::Memory as _;
use vrdma_verbs::packet::{Arrival, Content, Reply};
use vrdma_verbs::unit::{Request, RequestOp, Response, ResponseBody, Route};
use vrdma_verbs::work::{Completion, Output, Status};
use vrdma_verbs::{Hca, Time};
use vrdma_wire::{Packet, Service};

use crate::Kind;
use crate::memory::{Memory, Region};

/// A way to break an adapter, or what its carrier knows of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// A SEND is acknowledged and not delivered.
    AckEarly,
    /// A completion is forgotten.
    DropCompletion,
    /// A completion comes twice.
    DoubleCompletion,
    /// Two completions of a queue are swapped.
    SwapCompletions,
    /// A message is delivered twice, the second time in place of the next one.
    RepeatMessage,
    /// A byte changes between the check of the ICRC and memory.
    CorruptData,
    /// An atomic is executed twice.
    RepeatAtomic,
    /// Time-outs never fire.
    Deaf,
    /// A flushed queue completes one more request.
    CompleteAfterFlush,
    /// A receive reports a length that is not the message's.
    WrongLength,
    /// An error is reported as success.
    HideError,
    /// Units are as long as their messages.
    LongUnits,
    /// The carrier is not told of weights.
    FlatWeights,
    /// The carrier is not told of limits.
    NoLimits,
    /// The carrier is not told of guarantees.
    NoGuarantees,
}

impl Sabotage {
    /// Every kind with the name that the command line takes.
    pub const ALL: [(Self, &'static str); 15] = [
        (Self::AckEarly, "ack-early"),
        (Self::DropCompletion, "drop-completion"),
        (Self::DoubleCompletion, "double-completion"),
        (Self::SwapCompletions, "swap-completions"),
        (Self::RepeatMessage, "repeat-message"),
        (Self::CorruptData, "corrupt-data"),
        (Self::RepeatAtomic, "repeat-atomic"),
        (Self::Deaf, "deaf"),
        (Self::CompleteAfterFlush, "complete-after-flush"),
        (Self::WrongLength, "wrong-length"),
        (Self::HideError, "hide-error"),
        (Self::LongUnits, "long-units"),
        (Self::FlatWeights, "flat-weights"),
        (Self::NoLimits, "no-limits"),
        (Self::NoGuarantees, "no-guarantees"),
    ];

    /// Returns the kind of runs that notice it.
    pub fn kind(self) -> Kind {
        match self {
            Self::LongUnits | Self::FlatWeights | Self::NoLimits | Self::NoGuarantees => {
                Kind::Crowds
            }
            _ => Kind::Engines,
        }
    }

    /// Finds it by its name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find_map(|(kind, known)| (known == name).then_some(kind))
    }
}

/// One in this many chances is used to break something: often enough for a short run, seldom enough that things go well
/// before.
const EVERY: u32 = 7;

/// One adapter's border.
#[derive(Debug)]
pub(crate) struct Border {
    sabotage: Option<Sabotage>,
    chances: u32,
    held: Option<Output>,
}

/// The parts of an adapter that a packet meets behind the border.
pub(crate) struct Entry<'a> {
    pub(crate) hca: &'a mut Hca<Region>,
    pub(crate) memory: &'a Memory,
    pub(crate) now: Time,
}

impl Entry<'_> {
    fn receive(&mut self, arrival: &Arrival<'_, Region>) {
        self.hca.receive(arrival, self.memory, self.now);
    }
}

impl Border {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self {
            sabotage,
            chances: 0,
            held: None,
        }
    }

    /// Whether the adapter learns that time has passed.
    pub(crate) fn hears_time(&self) -> bool {
        self.sabotage != Some(Sabotage::Deaf)
    }

    /// Whether to break something now, given that there is a chance to.
    fn strikes(&mut self, kind: Sabotage) -> bool {
        if self.sabotage != Some(kind) {
            return false;
        }
        self.chances += 1;
        self.chances.is_multiple_of(EVERY)
    }

    /// Takes in a packet. A returned reply is forged and goes on the wire.
    pub(crate) fn take_in(
        &mut self,
        packet: &Packet<'_>,
        mut entry: Entry<'_>,
    ) -> Option<Reply<Region>> {
        let arrival = entry.hca.decode(packet)?;
        let Content::Request(request) = &arrival.content else {
            entry.receive(&arrival);
            return None;
        };
        let message = request.op == RequestOp::Send && request.service == Service::Rc;
        let whole = message && request.first && request.last;
        if whole && request.ack_request && self.strikes(Sabotage::AckEarly) {
            return Some(acknowledge(request));
        }
        if !arrival.payload.is_empty() && self.strikes(Sabotage::CorruptData) {
            let mut payload = arrival.payload.to_vec();
            payload[0] ^= 1;
            entry.receive(&Arrival {
                payload: &payload,
                ..arrival.clone()
            });
            return None;
        }
        entry.receive(&arrival);
        if whole && self.strikes(Sabotage::RepeatMessage) {
            let mut again = arrival.clone();
            if let Content::Request(request) = &mut again.content {
                request.psn = request.psn.plus(1);
            }
            entry.receive(&again);
        }
        self.repeat_atomic(request, &entry);
        None
    }

    /// Executes an atomic twice. The simulation has its atomic words at the front of buffers.
    fn repeat_atomic(&mut self, request: &Request<Region>, entry: &Entry<'_>) {
        let RequestOp::FetchAdd { remote, add } = request.op else {
            return;
        };
        if self.strikes(Sabotage::RepeatAtomic) {
            let (region, offset) = crate::end::place_of(remote.addr);
            let add = |old: u64| old.wrapping_add(add);
            let _ = entry.memory.fetch_update(&region, offset, &add);
        }
    }

    /// Hands out a completion or an event.
    pub(crate) fn hand_out(&mut self, mut output: Output, out: &mut impl FnMut(Output)) {
        if let Some(completion) = completion(&mut output) {
            let failed = completion.status != Status::Success;
            if self.strikes(Sabotage::DropCompletion) {
                return;
            }
            if failed && self.strikes(Sabotage::HideError) {
                completion.status = Status::Success;
            }
            if completion.byte_len > 0 && self.strikes(Sabotage::WrongLength) {
                completion.byte_len -= 1;
            }
            if self.held.is_none() && self.strikes(Sabotage::SwapCompletions) {
                self.held = Some(output);
                return;
            }
            if failed && self.strikes(Sabotage::CompleteAfterFlush) {
                let mut late = output;
                if let Some(late) = self::completion(&mut late) {
                    late.status = Status::Success;
                }
                out(output);
                return out(late);
            }
            if self.strikes(Sabotage::DoubleCompletion) {
                out(output);
            }
        }
        out(output);
        if let Some(held) = self.held.take() {
            out(held);
        }
    }
}

fn completion(output: &mut Output) -> Option<&mut Completion> {
    match output {
        Output::SendDone { completion, .. } => completion.as_mut(),
        Output::RecvDone { completion, .. } => Some(completion),
        Output::Event(_) => None,
    }
}

fn acknowledge(request: &Request<Region>) -> Reply<Region> {
    let response = Response {
        route: Route {
            sgid: request.route.dgid,
            dgid: request.route.sgid,
            ..request.route
        },
        source: request.destination,
        destination: request.source,
        psn: request.psn,
        msn: 0,
        body: ResponseBody::Ack,
    };
    Reply::Response {
        response,
        packets: 1,
        first: true,
        last: true,
    }
}
