//! Calls of a queue pair to its [`Wire`](crate::requester::wire::Wire).

use vrdma_wire::Psn;

use crate::attr::QpState;
use crate::qp::Qp;
use crate::requester::rate::Rate;
use crate::requester::wire::{READ_SLICE_MAX, READ_SLICE_MIN, WINDOW_BYTES, WINDOW_MAX};
use crate::requester::{Pending, Phase, Requester};
use crate::shared::Shared;
use crate::time::Time;
use crate::work::SendOp;

impl<R> Requester<R> {
    /// Notes that packets of SENDs and WRITEs were answered, or that data came.
    #[inline]
    pub(super) fn wire_answered(&mut self, packets: u32, now: Time) {
        if self.wire.is_none() {
            return;
        }
        let more = !self.is_answered() || self.unacked != self.sent;
        let unacked = self.unacked;
        if let Some(wire) = &mut self.wire {
            wire.answered(packets, unacked, more, now);
        }
    }

    /// Notes a unit that goes out, up to `end`: its number of packets, and whether it asks for an acknowledgement.
    #[inline]
    pub(super) fn note_on_wire(&mut self, end: Psn, packets: u32, asked: bool, now: Time) {
        if let Some(wire) = &mut self.wire {
            let fresh = self.sent.is_before(end);
            wire.sent(end, packets, asked, fresh, now);
        }
    }

    pub(super) fn wire_lost(&mut self) {
        let sent = self.sent;
        if let Some(wire) = &mut self.wire {
            wire.lost(sent);
        }
    }

    /// Notes that a packet was lost, and that all packets behind it are sent again.
    pub(super) fn wire_gap(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.shrink();
        }
    }

    pub(super) fn wire_rewound(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.rewound();
        }
    }

    /// Returns the time at which silence has lasted too long.
    #[inline]
    pub(super) fn probe_at(&self) -> Option<Time> {
        self.wire.as_deref()?.probe_at
    }

    /// Returns when the rate lets a waiting packet go: one of a request, or of an answer to the peer.
    #[inline]
    pub(super) fn held_until(&self) -> Option<Time> {
        let wire = self.wire.as_deref()?;
        let rate = wire.rate.as_ref().filter(|_| wire.held);
        rate.map(Rate::opens_at)
    }

    /// Lets everything that the rate held back try again.
    pub(super) fn wire_released(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.held = false;
        }
    }

    /// Whether it is time for a probe; if so, the next one is due later.
    pub(super) fn takes_probe(&mut self, now: Time) -> bool {
        let waits = self.rnr_until.is_none();
        let silent = waits && (self.unacked != self.sent || !self.awaiting.is_empty());
        let Some(wire) = &mut self.wire else {
            return false;
        };
        if wire.probe_at.is_none_or(|at| at > now) {
            return false;
        }
        if !silent {
            wire.probe_at = None;
            return false;
        }
        wire.shrink();
        wire.probe();
        wire.probe_at = Some(now + wire.patience());
        true
    }
}

impl<R> Qp<R> {
    /// Returns the packets from a place in a READ to the end of its slice. Slices begin at the same places whenever
    /// they are asked for: a part of one is a repetition that every responder answers, parts of two are not.
    pub(super) fn read_slice(&self, at: u32) -> u32 {
        let outstanding = u32::from(self.attr.max_rd_atomic).max(1);
        let slice = (READ_SLICE_MAX / outstanding).clamp(READ_SLICE_MIN, READ_SLICE_MAX);
        slice - at % slice
    }

    /// Returns how many packets may go as one unit. It is one where packets were lost, credits are short, or the
    /// connection is slowed down; otherwise no more than the window has room for, and few enough that answers keep
    /// coming.
    #[inline(never)]
    pub(super) fn train(&self, most: u32, shared: &Shared<R>, now: Time) -> u32 {
        let requester = &self.requester;
        let Some(wire) = requester.wire.as_ref().filter(|_| most > 1) else {
            return 1;
        };
        let calm = wire.probes == 0 && wire.rate.is_none() && requester.next == requester.sent;
        if !calm || !self.is_reliable() || requester.is_limited() || self.holds_back(now, shared) {
            return 1;
        }
        let outstanding = requester.next.since(requester.unacked);
        let room = wire.window.saturating_sub(outstanding);
        most.min(room).min(wire.window / 4).max(1)
    }

    /// Whether the next unit may go, and whether it asks for an acknowledgement.
    #[inline(never)]
    pub(super) fn fit_window(
        &mut self,
        packets: u32,
        last: bool,
        shared: &Shared<R>,
        now: Time,
    ) -> Option<bool> {
        let holds_back = self.holds_back(now, shared);
        let limited = self.requester.is_limited();
        let follows = last && self.more_follows();
        let mtu = self.attr.path_mtu.bytes();
        let reliable = self.is_reliable();
        let Requester {
            next,
            unacked,
            sent,
            wire,
            ..
        } = &mut self.requester;
        let wire = wire.get_or_insert_default();
        let outstanding = next.since(*unacked);
        wire.window = wire.window.min(WINDOW_MAX).min(WINDOW_BYTES / mtu);
        let room = wire.room(holds_back);
        if holds_back && wire.waits_for_answer(*unacked) {
            return None;
        }
        if outstanding > 0 && (limited || outstanding + packets > room) {
            return None;
        }
        if !reliable {
            wire.rate.get_or_insert_with(|| Rate::of_a_link(now));
        }
        if !wire.pays(u64::from(mtu), now) {
            return None;
        }
        let ends = last && !(follows && wire.rate.is_none());
        let full = outstanding + packets >= room;
        let again = next == unacked && next != sent;
        let asks = ends || full || again || limited || wire.unasked + packets >= wire.ack_every();
        self.requester.spend_credit();
        Some(asks)
    }

    /// Whether another SEND or WRITE goes out right behind, so that its acknowledgement covers this one.
    fn more_follows(&self) -> bool {
        let Some(Pending { wr, phase, .. }) = self.requester.queue.get(self.requester.cursor + 1)
        else {
            return false;
        };
        let plain = matches!(
            wr.op,
            SendOp::Send | SendOp::SendImm(_) | SendOp::Write(_) | SendOp::WriteImm(..)
        );
        let open = matches!(phase, Phase::Posted | Phase::Started);
        let room = self.requester.has_credit_for_next();
        plain && open && room && !wr.fence && self.attr.state == QpState::Rts
    }

    /// Slows down: the peer's adapter reports that packets meet congestion.
    pub(crate) fn slow_down(&mut self, now: Time) {
        let mtu = self.attr.path_mtu.bytes();
        let wire = self.requester.wire.get_or_insert_default();
        let free = wire.free_rate(mtu);
        let rate = wire.rate.get_or_insert_with(|| Rate::new(free, now));
        rate.notify(now);
    }

    /// Returns how many packets of READ data may go as one unit: one while a rate holds the queue pair.
    pub(crate) fn answer_packets(&self, train_bytes: u32) -> u32 {
        let wire = self.requester.wire.as_deref();
        match wire.is_some_and(|wire| wire.rate.is_some()) {
            true => 1,
            false => train_bytes / self.attr.path_mtu.bytes(),
        }
    }

    /// Whether the rate lets a packet of READ data go.
    pub(crate) fn pays_for_data(&mut self, now: Time) -> bool {
        let mtu = u64::from(self.attr.path_mtu.bytes());
        let wire = self.requester.wire.as_mut();
        wire.is_none_or(|wire| wire.pays(mtu, now))
    }
}
