//! Pipes to a client: completion notifications and asynchronous events.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// The daemon's end of a pipe. Writing never blocks: what finds no room waits here.
#[derive(Debug)]
pub(super) struct Pipe {
    write: OwnedFd,
}

impl Pipe {
    /// A pipe, and its read end for the client, who may make that block or not.
    pub(super) fn new() -> Result<(Self, OwnedFd), Errno> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&write, OFlags::NONBLOCK)?;
        Ok((Self { write }, read))
    }

    /// Writes a record, whole or not at all; false if there is no room. A client that closed its end
    /// wants no records.
    pub(super) fn write(&self, record: &[u8]) -> bool {
        !matches!(rustix::io::write(&self.write, record), Err(Errno::AGAIN))
    }
}

/// A completion channel.
#[derive(Debug)]
pub(super) struct Channel {
    pipe: Pipe,
    /// Completion queues that use it.
    pub(super) users: u32,
    /// Cookies that found the pipe full; each CQ at most once, so the client's CQs bound it.
    waiting: VecDeque<u64>,
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

    /// Notifies of a CQ; false if that has to wait.
    pub(super) fn notify(&mut self, cookie: u64) -> bool {
        if !self.waiting.contains(&cookie) {
            self.waiting.push_back(cookie);
        }
        self.flush()
    }

    /// Writes what waits; false if some still does.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(cookie) = self.waiting.front() {
            if !self.pipe.write(&cookie.to_ne_bytes()) {
                return false;
            }
            self.waiting.pop_front();
        }
        true
    }

    /// The CQ is gone.
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

    #[test]
    fn a_closed_end_swallows_everything() {
        let (mut channel, read) = Channel::new().unwrap();
        drop(read);
        assert!(channel.notify(1));
    }
}
