//! Interrupt handlers: reading the ring of each vector.

use std::collections::VecDeque;

use vrdma_pvrdma::abi::event::{EventCode, EventEntry, NotifyEntry};
use vrdma_pvrdma::abi::register::Vector;

use crate::guest::Guest;

/// Interrupts and their ring entries that no test has taken yet.
#[derive(Debug, Default)]
pub struct Interrupts {
    /// Number of response interrupts.
    pub responses: u32,
    /// Asynchronous events: code and object.
    pub events: VecDeque<(u32, u32)>,
    /// CQs of notifications.
    pub notified: VecDeque<u32>,
    /// Number of times that each vector fired.
    pub fired: [u32; Vector::COUNT as usize],
    /// Whether handlers for events and notifications do not run, so that the rings fill up.
    pub blocked: bool,
    /// Vectors that fired and whose handlers have not run yet.
    pending: u32,
}

impl Guest {
    /// Takes the vectors that fired; their handlers run later.
    pub(crate) fn take_interrupts(&mut self) {
        self.interrupts.pending |= self.device.take_interrupts();
    }

    /// Whether handlers have to run.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupts.pending != 0
    }

    /// Runs the handlers of the vectors that fired.
    pub fn handle_interrupts(&mut self) {
        self.take_interrupts();
        let vectors = std::mem::take(&mut self.interrupts.pending);
        for (vector, fired) in self.interrupts.fired.iter_mut().enumerate() {
            *fired += vectors >> vector & 1;
        }
        self.interrupts.responses += vectors & Vector::Response.bit();
        if !self.interrupts.blocked {
            self.drain_events();
            self.drain_notifications();
        }
    }

    fn drain_events(&mut self) {
        let Some(driver) = &self.driver else { return };
        let view = self.ram.view();
        while let Some(entry) = driver.event_ring.pop::<EventEntry>(&view) {
            let event = (entry.code.get(), entry.info.get());
            self.interrupts.events.push_back(event);
        }
    }

    fn drain_notifications(&mut self) {
        let Some(driver) = &self.driver else { return };
        let view = self.ram.view();
        while let Some(entry) = driver.notify_ring.pop::<NotifyEntry>(&view) {
            self.interrupts.notified.push_back(entry.cq.get());
        }
    }

    /// Takes all events so far.
    pub fn take_events(&mut self) -> Vec<(EventCode, u32)> {
        self.handle_interrupts();
        let known = |(code, info)| (event_code(code), info);
        self.interrupts.events.drain(..).map(known).collect()
    }

    /// Takes all notified CQs so far.
    pub fn take_notified(&mut self) -> Vec<u32> {
        self.handle_interrupts();
        self.interrupts.notified.drain(..).collect()
    }
}

/// # Panics
/// On a code that the driver has no name for.
fn event_code(code: u32) -> EventCode {
    const KNOWN: [EventCode; 12] = [
        EventCode::CqErr,
        EventCode::QpFatal,
        EventCode::QpReqErr,
        EventCode::QpAccessErr,
        EventCode::CommEst,
        EventCode::SqDrained,
        EventCode::DeviceFatal,
        EventCode::PortActive,
        EventCode::PortErr,
        EventCode::SrqErr,
        EventCode::SrqLimitReached,
        EventCode::QpLastWqeReached,
    ];
    let known = KNOWN.into_iter().find(|known| *known as u32 == code);
    known.unwrap_or_else(|| panic!("unknown event code {code}"))
}
