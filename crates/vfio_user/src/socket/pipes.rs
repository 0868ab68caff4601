//! Two pipes, from which messages go to the socket.
//!
//! One system call moves bytes from a pipe to the socket, so a pipe tells how much of a message was sent, even to
//! another process. One pipe has the committed message, or the rest of it; the next message is put into the other, and
//! then they change places. The committed state names the pipe, so a message that was put and not committed is never
//! taken for the one before.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::pipe::{
    PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with, splice,
};

/// Bytes of a new pipe: two pages, for QEMU's answers, of which all of configuration space is the longest. A pipe grows
/// for a longer one. More would count as memory of the daemon's user, which may have few pages.
pub(super) const PIPE_BYTES: usize = 8192;

#[derive(Debug)]
pub(super) struct Pipes {
    pipes: [Pipe; 2],
    /// Index of the pipe with the committed message.
    current: usize,
    /// Bytes in that pipe.
    held: usize,
}

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
}

impl Pipes {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self {
            pipes: [Pipe::new()?, Pipe::new()?],
            current: 0,
            held: 0,
        })
    }

    /// Resumes the pipes of another process: read end and write end of each. A message that it put and did not commit
    /// is dropped.
    pub(super) fn resume(ends: [(OwnedFd, OwnedFd); 2], current: usize) -> Result<Self, Errno> {
        let [first, second] = ends;
        let pipes = [
            Pipe::resume(first.0, first.1)?,
            Pipe::resume(second.0, second.1)?,
        ];
        pipes[current ^ 1].empty()?;
        let held = ioctl_fionread(&pipes[current].read)? as usize;
        Ok(Self {
            pipes,
            current,
            held,
        })
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    pub(super) fn ends(&self) -> [BorrowedFd<'_>; 4] {
        let [first, second] = &self.pipes;
        [&first.read, &first.write, &second.read, &second.write].map(AsFd::as_fd)
    }

    /// Whether there is something to send.
    pub(super) fn is_holding(&self) -> bool {
        self.held > 0
    }

    /// Puts the next message into the other pipe, which is empty.
    pub(super) fn put(&mut self, message: &[u8]) -> Result<(), Errno> {
        self.pipes[self.current ^ 1].put(message)
    }

    /// Makes the message that was put the one to send.
    pub(super) fn turn(&mut self, length: usize) {
        self.current ^= 1;
        self.held = length;
    }

    /// Sends as much as the socket takes at once. The socket is non-blocking.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let pipe = &self.pipes[self.current].read;
        let sent = splice(pipe, None, socket, None, self.held, SpliceFlags::NONBLOCK)?;
        if sent == 0 {
            // Another process emptied the pipe.
            return Err(Errno::PIPE);
        }
        self.held -= sent.min(self.held);
        Ok(())
    }
}

impl Pipe {
    fn new() -> Result<Self, Errno> {
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        let capacity = fcntl_setpipe_size(&write, PIPE_BYTES)?;
        Ok(Self {
            read,
            write,
            capacity,
        })
    }

    fn resume(read: OwnedFd, write: OwnedFd) -> Result<Self, Errno> {
        let capacity = fcntl_getpipe_size(&write)?;
        Ok(Self {
            read,
            write,
            capacity,
        })
    }

    fn put(&mut self, message: &[u8]) -> Result<(), Errno> {
        if message.len() > self.capacity {
            self.capacity = fcntl_setpipe_size(&self.write, message.len())?;
        }
        match write(&self.write, message)? {
            length if length == message.len() => Ok(()),
            _ => Err(Errno::NOSPC),
        }
    }

    fn empty(&self) -> Result<(), Errno> {
        let mut dropped = [0; 4096];
        loop {
            match read(&self.read, &mut dropped) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}
