//! Asynchronous events, into the event ring.

use vrdma_memory::View;
use vrdma_verbs::work::Event;

use super::{Adapter, Turn};
use crate::abi::event::{EventCode, EventEntry};
use crate::abi::register::Vector;
use crate::queue::RingError;

/// How often an invalid index in a device ring is tolerated before the device gives up: the driver never writes one,
/// and waiting does not repair a torn page table.
const RING_FAULTS_MAX: u32 = 16;

impl Adapter {
    /// Tells the guest about an event.
    pub(crate) fn write_event(&mut self, turn: Turn<'_, '_>, event: Event) {
        let (code, info) = encode(event);
        self.push_event(turn, code, info);
    }

    pub(crate) fn push_event(&mut self, turn: Turn<'_, '_>, code: EventCode, info: u32) {
        self.events.offer(EventEntry {
            code: (code as u32).into(),
            info: info.into(),
        });
        self.flush_events(turn);
    }

    /// Continues both rings after the last entry that the guest was shown.
    pub(crate) fn resume_rings(&mut self, turn: Turn<'_, '_>) {
        let events = self.events.resume(turn.memory);
        let notifications = self.notifications.resume(turn.memory);
        if events.and(notifications).is_err() {
            self.break_down();
        }
    }

    /// Tries again to move waiting events into the ring.
    pub(super) fn flush_events(&mut self, turn: Turn<'_, '_>) {
        let flushed = self.events.flush(turn.memory);
        if self.ring_worked(flushed) {
            self.raise(Vector::Event);
        }
    }

    /// Tries again to move waiting completion notifications into the ring.
    pub(super) fn flush_notifications(&mut self, turn: Turn<'_, '_>) {
        let flushed = self.notifications.flush(turn.memory);
        if self.ring_worked(flushed) {
            self.raise(Vector::Completion);
        }
    }

    fn ring_worked(&mut self, flushed: Result<bool, RingError>) -> bool {
        match flushed {
            Ok(false) => false,
            Ok(true) => {
                self.ring_faults = 0;
                true
            }
            Err(RingError::Index) if self.ring_faults < RING_FAULTS_MAX => {
                self.ring_faults += 1;
                false
            }
            Err(_) => {
                self.break_down();
                false
            }
        }
    }

    /// Whether events or notifications wait for the guest to make room.
    pub(crate) fn rings_are_full(&self) -> bool {
        self.events.is_waiting() || self.notifications.is_waiting()
    }

    /// Whether both rings are still in the guest's memory.
    pub(crate) fn rings_are_mapped(&self, memory: &View<'_>) -> bool {
        self.events.is_mapped(memory) && self.notifications.is_mapped(memory)
    }

    /// Forgets waiting events about an object that is gone.
    pub(crate) fn forget_events(&mut self, codes: &[EventCode], info: u32) {
        let about = |entry: &EventEntry| {
            let code = entry.code.get();
            entry.info.get() == info && codes.iter().any(|known| *known as u32 == code)
        };
        self.events.retain(|entry| !about(entry));
    }
}

fn encode(event: Event) -> (EventCode, u32) {
    match event {
        Event::CqError(cq) => (EventCode::CqErr, cq.0),
        Event::QpFatal(qp) => (EventCode::QpFatal, qp.0),
        Event::QpRequestError(qp) => (EventCode::QpReqErr, qp.0),
        Event::QpAccessError(qp) => (EventCode::QpAccessErr, qp.0),
        Event::CommEstablished(qp) => (EventCode::CommEst, qp.0),
        Event::SqDrained(qp) => (EventCode::SqDrained, qp.0),
        Event::SrqError(srq) => (EventCode::SrqErr, srq.0),
        Event::SrqLimitReached(srq) => (EventCode::SrqLimitReached, srq.0),
        Event::LastWqeReached(qp) => (EventCode::QpLastWqeReached, qp.0),
    }
}

/// Events about queue pairs.
pub(crate) const QP_EVENTS: &[EventCode] = &[
    EventCode::QpFatal,
    EventCode::QpReqErr,
    EventCode::QpAccessErr,
    EventCode::CommEst,
    EventCode::SqDrained,
    EventCode::QpLastWqeReached,
];

/// Events about completion queues.
pub(crate) const CQ_EVENTS: &[EventCode] = &[EventCode::CqErr];

/// Events about shared receive queues.
pub(crate) const SRQ_EVENTS: &[EventCode] = &[EventCode::SrqErr, EventCode::SrqLimitReached];
