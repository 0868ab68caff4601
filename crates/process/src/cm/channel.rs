//! An event channel: events that wait, and a pipe that says how many.

use std::collections::VecDeque;
use std::io::{PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use vrdma_provider::cm::{Event, TOKEN};

/// An event channel.
pub(super) struct Channel {
    events: VecDeque<Event>,
    pipe: PipeWriter,
    /// Bytes that the pipe had no room for.
    owed: usize,
    /// Identifiers that report here.
    pub(super) identifiers: usize,
}

impl Channel {
    /// A channel, and the end of its pipe for the client.
    pub(super) fn new() -> Result<(Self, OwnedFd), Errno> {
        let (reader, pipe) =
            std::io::pipe().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // Only this end: what the client does to its own end does not reach here.
        fcntl_setfl(pipe.as_fd(), OFlags::NONBLOCK)?;
        let channel = Self {
            events: VecDeque::new(),
            pipe,
            owed: 0,
            identifiers: 0,
        };
        Ok((channel, reader.into()))
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push_back(event);
        self.owed += 1;
        self.pay();
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        self.pay();
        event
    }

    /// Events that wait.
    pub(super) fn waiting(&self) -> usize {
        self.events.len()
    }

    /// Takes out the event that tells of a group, which is likely one of the last. Whether there was one.
    pub(super) fn forget_group(&mut self, group: u64) -> bool {
        let at = self.events.iter().rposition(|event| event.group == group);
        at.and_then(|at| self.events.remove(at)).is_some()
    }

    /// Takes out all events of an identifier, also those that tell its listener of calls.
    pub(super) fn take_of(&mut self, id: u64) -> Vec<Event> {
        let (taken, left) = std::mem::take(&mut self.events)
            .into_iter()
            .partition(|event| event.id == id || event.listener == id);
        self.events = left;
        taken.into()
    }

    /// Writes what is owed, as far as there is room. A client that has closed its end is told
    /// nothing.
    fn pay(&mut self) {
        while self.owed > 0 {
            let tokens = [TOKEN; 64];
            let count = self.owed.min(tokens.len());
            match self.pipe.write(&tokens[..count]) {
                Ok(written) => self.owed -= written,
                Err(_) => return,
            }
        }
    }
}
