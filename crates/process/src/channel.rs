//! Pipes to a client: completion notifications and asynchronous events.
//!
//! ```text
//!   events in the pipe   0 ....................... most           capacity
//!   the next one         written       "events were lost"   |  none, until half of them were read
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};
use vrdma_adapter::Slots;
use vrdma_provider::message::{AsyncEvent, element};
use vrdma_verbs::object::Owner;
use zerocopy::IntoBytes;

use super::context::Context;

/// The daemon's end of a pipe. Writing never blocks: a record that finds no room waits in the daemon.
#[derive(Debug)]
pub(super) struct Pipe {
    write: OwnedFd,
}

impl Pipe {
    /// Makes a pipe, and its read end for the client, which may make that end blocking or not.
    pub(super) fn new() -> Result<(Self, OwnedFd), Errno> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&write, OFlags::NONBLOCK)?;
        Ok((Self { write }, read))
    }

    /// Goes on with a pipe of a process before this one.
    pub(super) fn resume(write: OwnedFd) -> Self {
        Self { write }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.write.as_fd()
    }

    /// Writes a record, whole or not at all; false if there is no room. If the client has closed its end, the record
    /// counts as written.
    pub(super) fn write(&self, record: &[u8]) -> bool {
        !matches!(rustix::io::write(&self.write, record), Err(Errno::AGAIN))
    }
}

/// `IBV_EVENT_DEVICE_FATAL`: the program's knowledge of its objects may be wrong from here on.
const DEVICE_FATAL: u32 = 8;

/// The asynchronous events of a client, which may leave them unread.
#[derive(Debug)]
pub(super) struct Events {
    pipe: Pipe,
    /// Unread bytes from which on an event is replaced by the one that tells of lost events.
    most: u64,
    /// Whether events were lost, as the last event in the pipe says.
    lost: bool,
}

impl Events {
    /// Goes on with the events of a process that has ended.
    pub(super) fn resume(write: OwnedFd) -> Result<Self, Errno> {
        Self::over(Pipe::resume(write))
    }

    fn over(pipe: Pipe) -> Result<Self, Errno> {
        // Half of the capacity: a page of a pipe is free only when all of it was read.
        let most = fcntl_getpipe_size(&pipe.write)? as u64 / 2;
        let lost = false;
        Ok(Self { pipe, most, lost })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.pipe.descriptor()
    }

    pub(super) fn new() -> Result<(Self, OwnedFd), Errno> {
        let (pipe, read) = Pipe::new()?;
        Ok((Self::over(pipe)?, read))
    }

    /// Writes an event. If thousands are unread, writes in its place that events are lost.
    pub(super) fn tell(&mut self, event: AsyncEvent) {
        // A pipe whose reader is gone takes everything.
        let unread = ioctl_fionread(&self.pipe.write).unwrap_or(0);
        self.lost &= unread > self.most / 2;
        if self.lost {
            return;
        }
        self.lost = unread >= self.most || !self.pipe.write(event.as_bytes());
        if self.lost {
            self.pipe.write(LOST.as_bytes());
        }
    }
}

/// The event that stands for those that were lost.
const LOST: AsyncEvent = AsyncEvent {
    event: DEVICE_FATAL,
    element: element::PORT,
    cookie: 0,
};

/// A completion channel.
#[derive(Debug)]
pub(super) struct Channel {
    pipe: Pipe,
    /// Number of completion queues that use the channel.
    pub(super) users: u32,
    /// Cookies that found the pipe full. Each CQ is in it at most once, so the number of the client's CQs bounds it.
    waiting: VecDeque<u64>,
}

/// A channel of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct ChannelOf {
    pub(super) owner: Owner,
    pub(super) number: u32,
}

impl ChannelOf {
    /// Finds the channel, unless it is gone.
    pub(super) fn find(self, contexts: &mut Slots<Context>) -> Option<&mut Channel> {
        let context = contexts.get_mut(self.owner.0)?;
        context.channels.get_mut(self.number)
    }
}

impl Channel {
    pub(super) fn new() -> Result<(Self, OwnedFd), Errno> {
        let (pipe, read) = Pipe::new()?;
        let channel = Self {
            pipe,
            users: 0,
            waiting: VecDeque::new(),
        };
        Ok((channel, read))
    }

    /// Goes on with a channel of a process before this one. Notifications that waited for room are repeated to each
    /// armed CQ.
    pub(super) fn resume(write: OwnedFd) -> Self {
        Self {
            pipe: Pipe::resume(write),
            users: 0,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.pipe.descriptor()
    }

    /// Notifies of a CQ; false if the notification has to wait.
    pub(super) fn notify(&mut self, cookie: u64) -> bool {
        if !self.waiting.contains(&cookie) {
            self.waiting.push_back(cookie);
        }
        self.flush()
    }

    /// Writes the notifications that wait; false if some still wait.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(cookie) = self.waiting.front() {
            if !self.pipe.write(&cookie.to_ne_bytes()) {
                return false;
            }
            self.waiting.pop_front();
        }
        true
    }

    /// Drops the notification of a CQ that is gone.
    pub(super) fn forget(&mut self, cookie: u64) {
        self.waiting.retain(|other| *other != cookie);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_written_later_and_once() {
        let (mut channel, read) = Channel::new().unwrap();
        let mut written = 0;
        while channel.notify(written) {
            written += 1;
        }
        assert!(!channel.notify(written), "the same queue waits once");
        let mut record = [0; 8];
        for expected in 0..=written {
            rustix::io::read(&read, &mut record).unwrap();
            assert_eq!(u64::from_ne_bytes(record), expected);
            channel.flush();
        }
        assert!(channel.waiting.is_empty());
    }

    /// Reads everything in the pipe: number and kind of each event.
    fn read_events(read: &OwnedFd) -> Vec<(u32, u64)> {
        let flags = rustix::fs::OFlags::NONBLOCK;
        fcntl_setfl(read, flags).unwrap();
        let mut record = [0; size_of::<AsyncEvent>()];
        let mut next = || rustix::io::read(read, &mut record).map(|_| record);
        let records = std::iter::from_fn(|| next().ok());
        let parsed = records.map(|record| {
            let event: AsyncEvent = vrdma_provider::message::parse(&record).unwrap();
            (event.event, event.cookie)
        });
        parsed.collect()
    }

    #[test]
    fn who_reads_no_events_is_told_that_some_were_lost() {
        let (mut events, read) = Events::new().unwrap();
        let event = |cookie| AsyncEvent {
            event: 3,
            element: element::QP,
            cookie,
        };
        for _ in 0..2 {
            (0..100_000).for_each(|cookie| events.tell(event(cookie)));
            let told = read_events(&read);
            let (last, before) = told.split_last().unwrap();
            assert_eq!(*last, (DEVICE_FATAL, 0), "once, at the end");
            let count = before.len() as u64;
            assert!(count >= 100, "{count}");
            assert!(
                before
                    .iter()
                    .copied()
                    .eq((0..count).map(|cookie| (3, cookie)))
            );
        }
        events.tell(event(7));
        assert_eq!(read_events(&read), [(3, 7)]);
        drop(read);
        (0..100_000).for_each(|cookie| events.tell(event(cookie)));
    }

    #[test]
    fn a_closed_end_swallows_everything() {
        let (mut channel, read) = Channel::new().unwrap();
        drop(read);
        assert!(channel.notify(1));
    }
}
