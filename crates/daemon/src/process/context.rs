//! One client: what `ibv_open_device` made.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_memory::ClientMemory;
use vrdma_provider::doorbell::Listener;
use vrdma_provider::message::AsyncEvent;
use vrdma_verbs::object::QpId;
use zerocopy::IntoBytes;

use super::channel::{Channel, Pipe};
use super::limits::Usage;
use super::slots::Slots;

/// See the module.
pub(super) struct Context {
    pub(super) memory: Arc<ClientMemory>,
    pub(super) doorbells: Listener,
    pub(super) channels: Slots<Channel>,
    /// Which queue pair each bit of the doorbell page means.
    pub(super) bells: Vec<Option<QpId>>,
    pub(super) usage: Usage,
    events: Pipe,
}

impl Context {
    /// A context without objects, and the read end of its events for the client.
    pub(super) fn new(memory: Arc<ClientMemory>) -> Result<(Self, OwnedFd), Errno> {
        let (events, read) = Pipe::new()?;
        let doorbells = Listener::new().map_err(|_| Errno::NOMEM)?;
        let context = Self {
            memory,
            doorbells,
            channels: Slots::new(),
            bells: Vec::new(),
            usage: Usage::default(),
            events,
        };
        Ok((context, read))
    }

    /// A free bit of the doorbell page for a queue pair; the quota of queue pairs bounds it.
    pub(super) fn take_bell(&mut self, qp: QpId) -> u32 {
        let free = self.bells.iter().position(Option::is_none);
        let bit = free.unwrap_or(self.bells.len());
        if bit == self.bells.len() {
            self.bells.push(None);
        }
        self.bells[bit] = Some(qp);
        bit as u32
    }

    /// The queue pair is gone.
    pub(super) fn drop_bell(&mut self, qp: QpId) {
        for bell in self.bells.iter_mut().filter(|bell| **bell == Some(qp)) {
            *bell = None;
        }
    }

    /// Tells of an event. One that finds thousands unread is lost, as the client chose.
    pub(super) fn announce(&self, event: AsyncEvent) {
        self.events.write(event.as_bytes());
    }
}
