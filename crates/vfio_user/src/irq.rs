//! Interrupt vectors of one type, whose interrupts survive rewiring by the client.
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

/// A sink for signals, such as an eventfd.
pub trait Signal {
    /// Signals it.
    ///
    /// # Errors
    /// The signal made the caller wait, for some milliseconds.
    fn signal(&self) -> Result<(), Blocks>;
}

/// The sink made its signaller wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocks;

#[derive(Debug)]
struct Vector<S> {
    sink: Option<S>,
    pending: bool,
}

impl<S: Signal> Vector<S> {
    fn raise(&mut self) -> Result<(), Blocks> {
        match &self.sink {
            Some(sink) => sink.signal(),
            None => {
                self.pending = true;
                Ok(())
            }
        }
    }

    fn set(&mut self, sink: Option<S>) -> Result<(), Blocks> {
        self.sink = sink;
        if self.sink.is_some() && std::mem::take(&mut self.pending) {
            self.raise()?;
        }
        Ok(())
    }
}

/// The vectors of one interrupt type. Every method ignores vectors beyond their number.
///
/// A client that makes one signal wait gets no more signals, by any vector: it could make each of them wait.
#[derive(Debug)]
pub struct IrqVectors<S> {
    vectors: Box<[Vector<S>]>,
    blocks: bool,
}

impl<S: Signal> IrqVectors<S> {
    /// Makes `count` vectors, none of them wired.
    pub fn new(count: u16) -> Self {
        let vectors = (0..count)
            .map(|_| Vector {
                sink: None,
                pending: false,
            })
            .collect();
        IrqVectors {
            vectors,
            blocks: false,
        }
    }

    /// Number of vectors.
    pub fn count(&self) -> u32 {
        self.vectors.len() as u32
    }

    /// Wires a vector, which fires at once if it was raised while unwired, or unwires the vector.
    pub fn set(&mut self, vector: u32, sink: Option<S>) {
        self.unless_blocked(vector, |vector| vector.set(sink));
    }

    /// Unwires every vector. Pending interrupts stay pending.
    pub fn clear(&mut self) {
        for vector in &mut self.vectors {
            vector.sink = None;
        }
    }

    /// Signals the vector, now or when it is next wired.
    pub fn raise(&mut self, vector: u32) {
        self.unless_blocked(vector, Vector::raise);
    }

    /// Whether the client has made a signal wait: the connection with it should end.
    pub fn blocks(&self) -> bool {
        self.blocks
    }

    fn unless_blocked(
        &mut self,
        vector: u32,
        work: impl FnOnce(&mut Vector<S>) -> Result<(), Blocks>,
    ) {
        if self.blocks {
            return;
        }
        let vector = self.vectors.get_mut(vector as usize);
        if vector.is_some_and(|vector| work(vector).is_err()) {
            self.blocks = true;
            self.clear();
        }
    }

    /// Reacts to a reset of the device: nothing is pending any more. The wiring belongs to the client and stays.
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
    /// `EINVAL` for masking, which is not announced, and for descriptors that are not eventfds; then nothing has
    /// changed.
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
