//! An event channel: events that wait, and a pipe with a byte for each.

use std::collections::VecDeque;
use std::io::{PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread};
use vrdma_provider::cm::{Event, TOKEN};

/// An event channel.
pub(super) struct Channel {
    /// Waiting events with their numbers, which rise.
    events: VecDeque<(u64, Event)>,
    pipe: PipeWriter,
    /// Announcements that the pipe had no room for.
    owed: usize,
    /// Number of identifiers that report here.
    pub(super) identifiers: usize,
}

impl Channel {
    /// Makes a channel, and the client's end of its pipe.
    pub(super) fn new() -> Result<(Self, OwnedFd), Errno> {
        let (reader, pipe) =
            std::io::pipe().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // This end only: the client's flags at its own end have no effect here.
        fcntl_setfl(pipe.as_fd(), OFlags::NONBLOCK)?;
        Ok((Self::over(pipe), reader.into()))
    }

    fn over(pipe: PipeWriter) -> Self {
        Self {
            events: VecDeque::new(),
            pipe,
            owed: 0,
            identifiers: 0,
        }
    }

    /// Goes on with the channel of an earlier service, without its events. `None` if the descriptor is no pipe.
    pub(super) fn resume(pipe: OwnedFd) -> Option<Self> {
        ioctl_fionread(&pipe).ok()?;
        Some(Self::over(pipe.into()))
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Queues an event; [`pay`](Self::pay) announces it.
    pub(super) fn push(&mut self, number: u64, event: Event) {
        self.events.push_back((number, event));
        self.owed += 1;
    }

    /// Queues an event that was queued before, and may have been announced.
    pub(super) fn resume_event(&mut self, number: u64, event: Event) {
        self.events.push_back((number, event));
    }

    /// Announces the events that are not announced. The program has read `read` announcements without having fetched
    /// their events.
    pub(super) fn announce_again(&mut self, read: usize) {
        let unread = ioctl_fionread(&self.pipe).unwrap_or_default() as usize;
        self.owed = self.events.len().saturating_sub(unread + read);
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Event)> {
        self.events.pop_front()
    }

    /// Finds an event that waits.
    pub(super) fn event(&self, number: u64) -> Option<&Event> {
        let found = self.events.binary_search_by_key(&number, |(it, _)| *it);
        self.events.get(found.ok()?).map(|(_, event)| event)
    }

    /// The numbers of the events that wait.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.events.iter().map(|(number, _)| *number)
    }

    /// Takes out the event of a group, likely one of the last, and returns its number, if there was one.
    pub(super) fn forget_group(&mut self, group: u64) -> Option<u64> {
        let mut events = self.events.iter();
        let at = events.rposition(|(_, event)| event.group == group)?;
        self.events.remove(at).map(|(number, _)| number)
    }

    /// Takes out all events of an identifier, also those that tell its listener of connection requests.
    pub(super) fn take_of(&mut self, id: u64) -> Vec<(u64, Event)> {
        let (taken, left) = std::mem::take(&mut self.events)
            .into_iter()
            .partition(|(_, event)| event.id == id || event.listener == id);
        self.events = left;
        taken.into()
    }

    /// Whether events are not announced yet.
    pub(super) fn is_in_debt(&self) -> bool {
        self.owed > 0
    }

    /// Announces what is owed, as far as there is room. For a client that has closed its end this does nothing.
    pub(super) fn pay(&mut self) {
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
