//! Interrupt vectors of one type, kept while the client rewires them.
//!
//! ```text
//!               raise                      set(eventfd)
//!   unwired ───────────> unwired, pending ──────────────> wired (signalled once)
//!      │  ^                     │ reset                       │ raise: signal
//!      │  └─────────────────────┘                             │
//!      └───────────────── set(eventfd) ──> wired ─────────────┘
//!                         set(none)    <──
//! ```
//!
//! QEMU unwires and rewires each MSI-X vector while the guest enables them one by one. An
//! interrupt that the device raises in between must not be lost: the driver would wait for its
//! completion for ever.

#[cfg(test)]
mod tests;

use rustix::io::Errno;

use crate::backend::{IrqAction, IrqData, SetIrqs};
use crate::client_fd::ClientFd;
use crate::eventfd::Eventfd;

/// Something that can be told "now".
pub trait Signal {
    /// Tells it; never waits.
    fn signal(&self);
}

#[derive(Debug)]
struct Vector<S> {
    sink: Option<S>,
    pending: bool,
}

impl<S: Signal> Vector<S> {
    fn raise(&mut self) {
        match &self.sink {
            Some(sink) => sink.signal(),
            None => self.pending = true,
        }
    }

    fn set(&mut self, sink: Option<S>) {
        self.sink = sink;
        if self.sink.is_some() && std::mem::take(&mut self.pending) {
            self.raise();
        }
    }
}

/// The vectors of one interrupt type. Vectors beyond the number are ignored by every method.
#[derive(Debug)]
pub struct IrqVectors<S> {
    vectors: Box<[Vector<S>]>,
}

impl<S: Signal> IrqVectors<S> {
    /// So many vectors, none of them wired.
    pub fn new(count: u16) -> Self {
        let vectors = (0..count)
            .map(|_| Vector {
                sink: None,
                pending: false,
            })
            .collect();
        IrqVectors { vectors }
    }

    /// Number of vectors.
    pub fn count(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// Wires a vector, which fires at once if it was raised while unwired, or unwires it.
    pub fn set(&mut self, vector: u32, sink: Option<S>) {
        if let Some(vector) = self.vectors.get_mut(vector as usize) {
            vector.set(sink);
        }
    }

    /// Unwires every vector. What is pending stays so.
    pub fn clear(&mut self) {
        for vector in &mut self.vectors {
            vector.set(None);
        }
    }

    /// Signals the vector, now or when it is next wired.
    pub fn raise(&mut self, vector: u32) {
        if let Some(vector) = self.vectors.get_mut(vector as usize) {
            vector.raise();
        }
    }

    /// The device was reset: nothing is pending any more. The wiring is the client's and stays.
    pub fn reset(&mut self) {
        for vector in &mut self.vectors {
            vector.pending = false;
        }
    }
}

impl IrqVectors<Eventfd> {
    /// Carries out a request of the client for these vectors.
    ///
    /// # Errors
    /// `EINVAL` for masking, which we do not announce, and for descriptors that are not eventfds;
    /// nothing has changed then.
    pub fn apply(&mut self, irqs: SetIrqs<'_>) -> Result<(), Errno> {
        if irqs.action != IrqAction::Trigger {
            return Err(Errno::INVAL);
        }
        let end = irqs.start.saturating_add(irqs.count).min(self.count());
        let range = irqs.start..end;
        match irqs.data {
            IrqData::None if irqs.count == 0 => self.clear(),
            IrqData::None => range.for_each(|vector| self.raise(vector)),
            IrqData::Bool(chosen) => range
                .zip(chosen)
                .filter(|(_, chosen)| **chosen != 0)
                .for_each(|(vector, _)| self.raise(vector)),
            IrqData::Eventfd(fds) if fds.is_empty() => {
                range.for_each(|vector| self.set(vector, None));
            }
            IrqData::Eventfd(fds) => self.wire(irqs.start, fds)?,
        }
        Ok(())
    }

    fn wire(&mut self, start: u32, fds: Vec<ClientFd>) -> Result<(), Errno> {
        let sinks = fds
            .into_iter()
            .map(Eventfd::adopt)
            .collect::<Result<Vec<_>, _>>()?;
        for (vector, sink) in (start..).zip(sinks) {
            self.set(vector, Some(sink));
        }
        Ok(())
    }
}
