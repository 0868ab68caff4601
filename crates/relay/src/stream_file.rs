//! A file that the source's QEMU writes its stream into, and which this relay serves (FUSE).
//!
//! ```text
//!   QEMU's threads ── write(page, offset) ──► kernel ──► request ──► relay: notes the page, answers
//! ```
//!
//! A socket takes a page's bytes in and gives them out again, one page after the other, by one thread at each end. Of a file QEMU
//! writes half a MiB at a time, beside its search for the next pages, and the kernel copies it once. Nothing is stored: a page is
//! read from the guest's memory afterwards, as with a socket.
//!
//! It serves requests and does not know what is written.

mod mount;
mod request;

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{getegid, geteuid};
use rustix::time::Timespec;

use crate::end::{Arrival, End, Piece};
pub use mount::{Mounter, mount};
use request::{Asked, DATA, REQUEST_BYTES_MAX, Request, answer, init, opened, status, written};

/// How long the kernel may take to open the file.
const OPEN_LIMIT: Duration = Duration::from_secs(5);

/// Between two looks whether it is open.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// A request to write that has not been answered.
#[derive(Clone, Copy)]
struct Writing {
    number: u64,
    at: u64,
    bytes: usize,
}

/// The file, served here.
pub(crate) struct StreamFile {
    device: File,
    request: Vec<u8>,
    writing: Option<Writing>,
    /// Of who opens it next.
    next_handle: u64,
    /// Who writes it: QEMU.
    writer: Option<u64>,
    /// By this descriptor others open it.
    own: Option<File>,
}

impl StreamFile {
    /// Mounts it, and opens it once.
    pub(crate) fn new(mounter: &Mounter) -> io::Result<Self> {
        let made = mounter.run()?;
        ioctl_fionbio(&made.device, true)?;
        let mut file = Self {
            device: made.device.into(),
            request: vec![0; REQUEST_BYTES_MAX],
            writing: None,
            next_handle: 1,
            writer: None,
            own: None,
        };
        let path = format!("/proc/self/fd/{}", made.mount.as_raw_fd());
        let (tell, told) = channel();
        thread::spawn(move || {
            // This waits for answers of the other thread.
            let opened = File::options().write(true).open(path);
            drop(made.mount);
            let _ = tell.send(opened);
        });
        let deadline = Instant::now() + OPEN_LIMIT;
        loop {
            match told.try_recv() {
                Ok(opened) => break file.own = Some(opened?),
                Err(TryRecvError::Empty) if Instant::now() < deadline => {}
                Err(_) => return Err(ErrorKind::TimedOut.into()),
            }
            poll(&mut [PollFd::new(&file.device, PollFlags::IN)], Some(&LOOK))?;
            file.read()?;
        }
        Ok(file)
    }

    /// Where QEMU's user opens it, for as long as it is served.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let own = self.own.as_ref()?;
        let process = std::process::id();
        Some(format!("/proc/{process}/fd/{}", own.as_raw_fd()).into())
    }

    fn answer(&mut self, number: u64, outcome: Result<&[u8], Errno>) -> io::Result<()> {
        match self.device.write_all(&answer(number, outcome)) {
            // Whoever asked has been killed.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            answered => answered,
        }
    }

    /// One request.
    fn serve(&mut self, request: Request) -> io::Result<Arrival> {
        let number = request.number;
        match request.asked {
            Asked::Init => self.answer(number, Ok(&init()))?,
            Asked::Status => {
                let status = status(geteuid().as_raw(), getegid().as_raw());
                self.answer(number, Ok(&status))?;
            }
            Asked::Open => {
                self.answer(number, Ok(&opened(self.next_handle)))?;
                self.next_handle += 1;
            }
            Asked::Write { handle, at, bytes } => {
                if *self.writer.get_or_insert(handle) != handle {
                    self.answer(number, Err(Errno::BUSY))?;
                    return Ok(Arrival::Nothing);
                }
                self.writing = Some(Writing { number, at, bytes });
                return Ok(Arrival::Piece);
            }
            Asked::Release { handle } => {
                self.answer(number, Ok(&[]))?;
                if self.writer == Some(handle) {
                    return Ok(Arrival::End);
                }
            }
            Asked::Nothing => self.answer(number, Ok(&[]))?,
            Asked::Unanswered => {}
            Asked::Unknown => self.answer(number, Err(Errno::NOSYS))?,
        }
        Ok(Arrival::Nothing)
    }
}

impl AsFd for StreamFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl End for StreamFile {
    fn read(&mut self) -> io::Result<Arrival> {
        while self.writing.is_none() {
            let length = match self.device.read(&mut self.request) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Arrival::Nothing),
                // A request that was taken back.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let request = Request::parse(&self.request[..length]);
            let request = request.ok_or(ErrorKind::InvalidData)?;
            if self.serve(request)? == Arrival::End {
                return Ok(Arrival::End);
            }
        }
        Ok(Arrival::Piece)
    }

    fn piece(&self) -> Piece<'_> {
        let writing = self.writing.as_ref();
        Piece {
            at: writing.map(|it| it.at),
            bytes: writing.map_or(&[], |it| &self.request[DATA..DATA + it.bytes]),
        }
    }

    /// A request is taken as a whole.
    fn take(&mut self, _bytes: usize) -> io::Result<()> {
        match self.writing.take() {
            Some(it) => self.answer(it.number, Ok(&written(it.bytes))),
            None => Ok(()),
        }
    }

    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }

    fn shutdown(&mut self, how: Shutdown) {
        if let Some(it) = self.writing.take_if(|_| how == Shutdown::Both) {
            // Others end when the device is closed.
            let _ = self.answer(it.number, Err(Errno::IO));
        }
    }
}
