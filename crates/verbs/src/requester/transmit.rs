//! Cutting messages into units.

use vrdma_wire::{Mtu, Psn, Qkey};

use crate::attr::{Address, QpState};
use crate::hca::Hca;
use crate::object::QpId;
use crate::path::{Known, Pace, Paths};
use crate::qp::Qp;
use crate::requester::start::Start;
use crate::requester::{Pending, Phase};
use crate::shared::Shared;
use crate::time::Time;
use crate::timers::Schedule;
use crate::unit::{InlinePart, Payload, Request, RequestOp, RequestTail};
use crate::work::{Datagram, Remote, SendOp, SendWr, Status};

/// PSNs that may be without an answer. A quarter of the circle: old and new stay apart for both ends
/// (IBTA 9.7.1) even when the last unit is large.
const PSN_WINDOW: u32 = 1 << 22;

/// What the request at the cursor leads to.
enum Step {
    /// A unit goes out.
    Unit(Cut),
    /// Look at the cursor again.
    Again,
    /// Nothing can go out now.
    Idle,
    /// Our GID is not bound: as if the unit had been lost on its way.
    NoRoute,
}

/// Where a unit lies in its message.
#[derive(Clone, Copy)]
struct Cut {
    /// Index of the request.
    index: usize,
    psn: Psn,
    offset: u32,
    length: u32,
    packets: u32,
    first: bool,
    last: bool,
    ack: bool,
}

/// What one look at a QP goes by.
struct Turn<'a, P> {
    now: Time,
    unit_bytes: u32,
    paths: &'a mut P,
    schedule: &'a mut Schedule,
}

impl<R: Clone> Hca<R> {
    /// A QP that may have units to send: ask it with [`Hca::poll_transmit`], which puts it back at
    /// the end when it may have more. So the QPs take turns.
    #[inline]
    pub fn next_ready(&mut self) -> Option<QpId> {
        let id = self.schedule.pop_ready()?;
        if let Some(qp) = self.qps.get_mut(id.0) {
            qp.scheduled.ready = false;
        }
        Some(id)
    }

    /// The next unit of a QP. `paths` tells where the peer of a connection is, see [`Paths`]: for
    /// one on this host a unit has at most `unit_bytes` rounded down to whole packets, but at least
    /// one packet; on a wire it is one packet. Requests that fail on our side, and those that need
    /// no unit, are dealt with on the way.
    #[inline(never)]
    pub fn poll_transmit(
        &mut self,
        id: QpId,
        now: Time,
        unit_bytes: u32,
        paths: &mut impl Paths,
    ) -> Option<Request<R>> {
        let qp = self.qps.get_mut(id.0)?;
        let turn = Turn {
            now,
            unit_bytes,
            paths,
            schedule: &mut self.schedule,
        };
        qp.transmit(&mut self.shared, turn)
    }
}

impl<R: Clone> Qp<R> {
    /// The next unit: what was lost of a READ or atomic, else the one at the cursor. Units are
    /// large: each is made in the caller's place by the last thing that is done here.
    fn transmit<P: Paths>(
        &mut self,
        shared: &mut Shared<R>,
        mut turn: Turn<'_, P>,
    ) -> Option<Request<R>> {
        loop {
            match self.step(shared, &mut turn) {
                Ok(Step::Unit(cut)) => {
                    let mut payload = Payload::default();
                    match self.fill(&mut payload, shared, cut) {
                        Ok(()) => return self.unit(cut, shared, turn, payload),
                        Err(status) => self.fail_at_cursor(status, shared),
                    }
                }
                Ok(Step::Again) => {}
                Ok(Step::Idle) => break,
                Ok(Step::NoRoute) => {
                    self.start_timer(turn.now);
                    break;
                }
                Err(status) => self.fail_at_cursor(status, shared),
            }
        }
        self.reschedule_timer(turn.schedule);
        None
    }

    #[inline]
    fn step<P: Paths>(
        &mut self,
        shared: &mut Shared<R>,
        turn: &mut Turn<'_, P>,
    ) -> Result<Step, Status> {
        if !self.sends() || self.requester.rnr_until.is_some() {
            return Ok(Step::Idle);
        }
        if self.requester.awaiting.has_lost()
            && let Some(again) = self.ask_again(shared, turn)
        {
            return Ok(again);
        }
        let Some(pending) = self.requester.queue.get(self.requester.cursor) else {
            return Ok(Step::Idle);
        };
        let start = match pending.phase {
            Phase::Posted => self.start_posted(shared)?,
            Phase::Started => Start::Units,
            Phase::Done => {
                self.requester.cursor += 1;
                return Ok(Step::Again);
            }
            Phase::Failed(_) => Start::Wait,
        };
        match start {
            Start::Units => self.cut_unit(shared, turn),
            Start::Wait => Ok(Step::Idle),
            Start::Done => {
                self.settle(shared);
                Ok(Step::Again)
            }
        }
    }

    /// SQD lets messages end but none begin (IBTA 10.3.1.6).
    #[inline]
    fn start_posted(&mut self, shared: &mut Shared<R>) -> Result<Start, Status> {
        match self.attr.state {
            QpState::Sqd => Ok(Start::Wait),
            _ => self.start_request(shared),
        }
    }

    #[inline]
    fn cut_unit<P: Paths>(
        &mut self,
        shared: &Shared<R>,
        turn: &mut Turn<'_, P>,
    ) -> Result<Step, Status> {
        let index = self.requester.cursor;
        if !shared.has_gid(self.address_of(index).sgid_index) {
            return Ok(Step::NoRoute);
        }
        if !self.is_connected() {
            let length = self.requester.queue[index].length;
            return Ok(Step::Unit(Cut::whole(length, index, self.requester.next)));
        }
        let route = || shared.route(&self.attr.address);
        let Some(pace) = Known::of(&mut self.requester.known, route, turn.paths) else {
            return Ok(Step::NoRoute);
        };
        Ok(self.cut(pace, turn).map_or(Step::Idle, Step::Unit))
    }

    /// Where a request goes.
    #[inline]
    fn address_of(&self, index: usize) -> &Address {
        self.datagram(&self.requester.queue[index].wr)
            .map_or(&self.attr.address, |datagram| &datagram.address)
    }

    /// The destination of a request that has its own.
    #[inline]
    fn datagram<'a>(&self, wr: &'a SendWr<R>) -> Option<&'a Datagram> {
        match self.is_connected() {
            true => None,
            false => wr.datagram.as_ref(),
        }
    }

    /// The next unit of a connection, if the window has room for it.
    #[inline]
    fn cut<P>(&mut self, pace: Pace, turn: &Turn<'_, P>) -> Option<Cut> {
        let requester = &self.requester;
        let pending = &requester.queue[requester.cursor];
        let answered = pending.wr.op.is_read_or_atomic();
        if answered && requester.awaiting.len() >= usize::from(self.attr.max_rd_atomic) {
            return None;
        }
        let mtu = self.attr.path_mtu;
        let at = requester.next.since(pending.first);
        let offset = at * mtu.bytes();
        let left = pending.length - offset;
        let longest = match pace {
            Pace::Local => whole_packets(mtu, turn.unit_bytes),
            Pace::Wire if answered => mtu.bytes() * self.read_slice(at),
            Pace::Wire => mtu.bytes(),
        };
        let length = left.min(longest);
        let mut cut = Cut {
            index: requester.cursor,
            psn: requester.next,
            offset,
            length,
            packets: mtu.packets(length),
            first: offset == 0,
            last: length == left,
            ack: true,
        };
        if requester.next.since(requester.settled) + cut.packets > PSN_WINDOW {
            return None;
        }
        if pace == Pace::Wire {
            let ack = self.fit_window(cut.packets, cut.last, turn.now)?;
            cut.ack = ack || answered;
        }
        Some(cut)
    }

    /// A request for what was lost of a READ or atomic.
    #[cold]
    fn ask_again<P>(&mut self, shared: &Shared<R>, turn: &mut Turn<'_, P>) -> Option<Step> {
        let hole = self.requester.awaiting.first_lost()?;
        if !shared.has_gid(self.attr.address.sgid_index) {
            return Some(Step::NoRoute);
        }
        let index = self.requester.holding(hole.begin)?;
        let pending = &self.requester.queue[index];
        let mtu = self.attr.path_mtu.bytes();
        let at = hole.begin.since(pending.first);
        let packets = hole.end.since(hole.begin);
        let offset = at * mtu;
        let cut = Cut {
            index,
            psn: hole.begin,
            offset,
            length: (pending.length - offset).min(packets * mtu),
            packets,
            first: at == 0,
            last: at + packets >= pending.packets,
            ack: true,
        };
        self.start_timer(turn.now);
        Some(Step::Unit(cut))
    }

    /// Sends a unit.
    #[inline]
    fn unit<P>(
        &mut self,
        cut: Cut,
        shared: &mut Shared<R>,
        turn: Turn<'_, P>,
        payload: Payload<R>,
    ) -> Option<Request<R>> {
        let Pending { wr, length, .. } = &self.requester.queue[cut.index];
        let answered = wr.op.is_read_or_atomic();
        let datagram = self.datagram(wr);
        let op = match datagram {
            Some(datagram) => RequestOp::Datagram {
                qkey: self.effective_qkey(datagram.qkey),
            },
            None => request_op(wr, cut, *length),
        };
        let destination = datagram.map_or(self.attr.dest_qpn, |datagram| datagram.qpn);
        let address = datagram.map_or(&self.attr.address, |datagram| &datagram.address);
        let route = shared.route(address)?;
        let tail = if cut.last { tail(&wr.op) } else { None };
        let solicited = wr.solicited && cut.last && !answered;
        let ack_request = cut.ack && self.is_reliable();
        self.note_sent(cut, answered, shared, turn.now);
        self.reschedule(turn.schedule);
        Some(Request {
            route,
            service: self.spec.qp_type.service(),
            source: self.qpn,
            destination,
            psn: cut.psn,
            packets: cut.packets,
            first: cut.first || answered,
            last: cut.last || answered,
            op,
            tail,
            solicited,
            ack_request,
            payload,
        })
    }

    /// Puts what a unit carries into an empty payload.
    #[inline]
    fn fill(&self, payload: &mut Payload<R>, shared: &Shared<R>, cut: Cut) -> Result<(), Status> {
        let wr = &self.requester.queue[cut.index].wr;
        if wr.op.is_read_or_atomic() {
            return Ok(());
        }
        if let Some(inline) = &wr.inline {
            let part = InlinePart::new(inline, cut.offset, cut.length);
            *payload = Payload::Inline(part);
        } else if let Payload::Memory(stretches) = payload {
            let bytes = (cut.offset, cut.length);
            let found = shared.gather(self.spec.pd, &wr.sges, bytes, stretches);
            return found.ok_or(Status::LocProt);
        }
        Ok(())
    }

    /// With bit 31 set the QP's own key is used (IBTA 10.2.5).
    fn effective_qkey(&self, qkey: Qkey) -> Qkey {
        if qkey.is_privileged() {
            self.attr.qkey
        } else {
            qkey
        }
    }

    /// The cursor moves past a unit. Where nobody answers, it is done with that.
    #[inline]
    fn note_sent(&mut self, cut: Cut, answered: bool, shared: &mut Shared<R>, now: Time) {
        let end = cut.psn.plus(cut.packets);
        let reliable = self.is_reliable();
        let requester = &mut self.requester;
        if cut.psn != requester.next {
            requester.awaiting.asked_again(cut.psn, requester.next);
            return;
        }
        let pending = &requester.queue[requester.cursor];
        requester.next = end;
        requester.cursor += usize::from(end.since(pending.first) >= pending.packets);
        if answered {
            requester.awaiting.push(cut.psn, end);
        }
        requester.note_on_wire(end, cut.ack && reliable, now);
        if requester.sent.is_before(end) {
            requester.sent = end;
        }
        if reliable {
            self.start_timer(now);
        } else {
            requester.unacked = end;
            self.settle(shared);
        }
    }
}

impl Cut {
    fn whole(length: u32, index: usize, psn: Psn) -> Self {
        Self {
            index,
            psn,
            offset: 0,
            length,
            packets: 1,
            first: true,
            last: true,
            ack: false,
        }
    }
}

/// Units must end on packet borders, or their PSNs would not be those of a wire.
fn whole_packets(mtu: Mtu, unit_bytes: u32) -> u32 {
    let packet = mtu.bytes();
    (unit_bytes - unit_bytes % packet).max(packet)
}

#[inline]
fn request_op<R>(wr: &SendWr<R>, cut: Cut, length: u32) -> RequestOp {
    match wr.op {
        SendOp::Write(remote) | SendOp::WriteImm(remote, _) => RequestOp::Write {
            target: cut.first.then_some((remote, length)),
        },
        SendOp::Read(remote) => RequestOp::Read {
            remote: Remote {
                addr: remote.addr.wrapping_add(u64::from(cut.offset)),
                ..remote
            },
            length: cut.length,
        },
        SendOp::CompareSwap {
            remote,
            compare,
            swap,
        } => RequestOp::CompareSwap {
            remote,
            compare,
            swap,
        },
        SendOp::FetchAdd { remote, add } => RequestOp::FetchAdd { remote, add },
        _ => RequestOp::Send,
    }
}

fn tail<R>(op: &SendOp<R>) -> Option<RequestTail> {
    match op {
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => Some(RequestTail::Imm(*imm)),
        SendOp::SendInvalidate(key) => Some(RequestTail::Invalidate(*key)),
        _ => None,
    }
}
