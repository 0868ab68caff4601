//! The next unit of a queue pair: from the request at the cursor to a unit, or to nothing for now.

use crate::attr::{Address, QpState};
use crate::hca::Hca;
use crate::object::QpId;
use crate::path::{Flow, Known, Path, Paths};
use crate::qp::Qp;
use crate::requester::Phase;
use crate::requester::cut::Cut;
use crate::requester::start::Start;
use crate::shared::Shared;
use crate::time::Time;
use crate::timers::Schedule;
use crate::unit::{Payload, Request};
use crate::work::{Datagram, SendOp, SendWr, Status};

/// Result of a look at the request at the cursor.
enum Step {
    /// A unit goes out, as it was cut.
    Unit,
    /// The cursor has to be looked at again.
    Again,
    /// Nothing can go out now.
    Idle,
    /// The source GID is not bound: the unit is treated as lost on its way.
    NoRoute,
}

/// Arguments of one look at a QP.
pub(super) struct Turn<'a, P> {
    pub(super) now: Time,
    unit_bytes: u32,
    pub(super) paths: &'a mut P,
    pub(super) schedule: &'a mut Schedule,
    /// The unit that goes out next. It is here and not in the results of the steps, since a unit takes many steps.
    cut: Cut,
}

impl<R: Clone> Hca<R> {
    /// Takes a QP that may have units to send. [`Hca::poll_transmit`] makes the units, and puts the QP back at the end
    /// when it may have more. So the QPs take turns.
    #[inline]
    pub fn next_ready(&mut self) -> Option<QpId> {
        let id = self.schedule.pop_ready()?;
        if let Some(qp) = self.qps.get_mut(id.0) {
            qp.scheduled.ready = false;
        }
        Some(id)
    }

    /// Whether [`Hca::next_ready`] may return a QP.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.schedule.has_ready()
    }

    /// Notes that a path takes units again: the QPs that wait for one may have units to send, or answers.
    pub fn path_has_room(&mut self) {
        for id in self.schedule.take_held_up() {
            if let Some(qp) = self.qps.get_mut(id.0) {
                qp.scheduled.held_up = false;
                self.schedule.make_ready(id, &mut qp.scheduled);
                self.schedule.make_answering(id, &mut qp.scheduled);
            }
        }
    }

    /// Makes the next unit of a QP. `paths` knows the places of peers, see [`Paths`]: for a peer on this host a unit
    /// has at most `unit_bytes` rounded down to whole packets, but at least one packet; on a wire it is one packet.
    /// Requests that fail on this side, and those that need no unit, are finished on the way.
    #[inline(always)]
    pub fn poll_transmit(
        &mut self,
        id: QpId,
        now: Time,
        unit_bytes: u32,
        paths: &mut impl Paths,
    ) -> Option<Request<R>> {
        match self.is_reaping() {
            true => self.poll_live(id, now, unit_bytes, paths),
            false => self.poll_any(id, now, unit_bytes, paths),
        }
    }

    /// A function of its own, to keep it out of the path of every message.
    #[cold]
    #[inline(never)]
    fn poll_live(
        &mut self,
        id: QpId,
        now: Time,
        unit_bytes: u32,
        paths: &mut impl Paths,
    ) -> Option<Request<R>> {
        self.qps.live_mut(id.0)?;
        self.poll_any(id, now, unit_bytes, paths)
    }

    #[inline(always)]
    fn poll_any(
        &mut self,
        id: QpId,
        now: Time,
        unit_bytes: u32,
        paths: &mut impl Paths,
    ) -> Option<Request<R>> {
        let qp = self.qps.get_mut(id.0)?;
        let mut turn = Turn {
            now,
            unit_bytes,
            paths,
            schedule: &mut self.schedule,
            cut: Cut::default(),
        };
        if let Some(request) = qp.short_message(&mut self.shared, &mut turn) {
            return Some(request);
        }
        qp.transmit(&mut self.shared, turn)
    }
}

impl<R: Clone> Qp<R> {
    /// Makes the next unit: the one that asks for lost data of a READ or atomic, else the one at the cursor. Units are
    /// large: each is made in the caller's place by the last call here.
    #[inline(never)]
    fn transmit<P: Paths>(
        &mut self,
        shared: &mut Shared<R>,
        mut turn: Turn<'_, P>,
    ) -> Option<Request<R>> {
        loop {
            match self.step(shared, &mut turn) {
                Ok(Step::Unit) => {
                    let cut = turn.cut;
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
                    turn.schedule.await_gid(self.id, &mut self.scheduled);
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
        if !self.sends() || self.requester.is_waiting() {
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
                self.complete_finished(shared);
                Ok(Step::Again)
            }
        }
    }

    /// SQD lets messages end but none begin (IBTA 10.3.1).
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
            if turn.paths.is_any_full() && self.datagram_waits(index, shared, turn.paths) {
                turn.schedule.hold_up(self.id, &mut self.scheduled);
                return Ok(Step::Idle);
            }
            let length = self.requester.queue[index].length;
            turn.cut = Cut::whole(length, index, self.requester.next);
            return Ok(Step::Unit);
        }
        let Some(path) = self.path(shared, turn.paths) else {
            return Ok(Step::NoRoute);
        };
        if turn.paths.is_any_full() && turn.paths.is_full(path, self.flow(index)) {
            turn.schedule.hold_up(self.id, &mut self.scheduled);
            return Ok(Step::Idle);
        }
        let train_bytes = turn.paths.train_bytes();
        match self.cut(path, shared, turn.unit_bytes, train_bytes, turn.now) {
            Some(cut) => turn.cut = cut,
            None => return Ok(Step::Idle),
        }
        Ok(Step::Unit)
    }

    /// Returns the path to the peer of a connection.
    #[inline]
    fn path(&mut self, shared: &Shared<R>, paths: &mut impl Paths) -> Option<Path> {
        let address = &self.attr.address;
        Known::of(&mut self.requester.known, || shared.route(address), paths)
    }

    #[cold]
    fn datagram_waits(&self, index: usize, shared: &Shared<R>, paths: &mut impl Paths) -> bool {
        let route = shared.route(self.address_of(index));
        route.is_some_and(|route| {
            let path = paths.path(&route);
            paths.is_full(path, Flow::Give)
        })
    }

    /// Returns the flow of the next unit.
    #[cold]
    fn flow(&self, index: usize) -> Flow {
        match self.requester.queue[index].wr.op {
            SendOp::Read(_) => Flow::Take,
            _ => Flow::Give,
        }
    }

    /// Whether answers owed to the peer have to wait for its path.
    #[cold]
    pub(crate) fn answers_wait(&mut self, shared: &Shared<R>, paths: &mut impl Paths) -> bool {
        let path = self.path(shared, paths);
        path.is_some_and(|path| paths.is_full(path, Flow::Answer))
    }

    /// Makes a request for lost data of a READ or atomic.
    #[cold]
    fn ask_again<P: Paths>(&mut self, shared: &Shared<R>, turn: &mut Turn<'_, P>) -> Option<Step> {
        let hole = self.requester.awaiting.first_lost()?;
        if !shared.has_gid(self.attr.address.sgid_index) {
            return Some(Step::NoRoute);
        }
        let path = Known::in_epoch(self.requester.known, turn.paths.epoch());
        turn.cut = self.cut_hole(hole, path)?;
        self.start_timer(turn.now);
        Some(Step::Unit)
    }

    /// Returns the destination address of a request.
    #[inline]
    fn address_of(&self, index: usize) -> &Address {
        self.datagram(&self.requester.queue[index].wr)
            .map_or(&self.attr.address, |datagram| &datagram.address)
    }

    /// Returns the destination of a request that has its own.
    #[inline]
    pub(super) fn datagram<'a>(&self, wr: &'a SendWr<R>) -> Option<&'a Datagram> {
        match self.is_connected() {
            true => None,
            false => wr.datagram.as_ref(),
        }
    }
}
