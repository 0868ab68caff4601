//! A file that the source's QEMU writes its stream into, served by this relay (FUSE).
//!
//! ```text
//!   QEMU's threads ── write(page, offset) ──► kernel ──► request ──► relay: notes the page, answers
//! ```
//!
//! A socket copies a page's bytes in and out again, one page after the other, by one thread at each end. Into a file
//! QEMU writes half a MiB at a time, beside its search for the next pages, and the kernel copies it once. Nothing is
//! stored: a page is read from the guest's memory afterwards, as with a socket.
//!
//! This module serves requests and does not know what is written.

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
use request::{
    Asked, DATA, PAGE_BYTES, REQUEST_BYTES_MAX, Request, answer, init, opened, status, written,
};

/// How long the kernel may take to open the file.
const OPEN_LIMIT: Duration = Duration::from_secs(5);

/// Interval at which opening is checked.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// A write request that has not been answered.
#[derive(Clone, Copy)]
struct Writing {
    number: u64,
    at: u64,
    bytes: usize,
}

/// The buffer for requests of the kernel. The data of a write begin at a page boundary, as QEMU's pages do: the kernel
/// copies page by page, and would otherwise copy each in two parts.
struct RequestBuffer {
    memory: Vec<u8>,
    start: usize,
}

impl RequestBuffer {
    fn new() -> Self {
        let memory = vec![0; REQUEST_BYTES_MAX + 2 * PAGE_BYTES];
        let first_page = memory.as_ptr().align_offset(PAGE_BYTES);
        Self {
            memory,
            start: first_page + PAGE_BYTES - DATA,
        }
    }

    fn room(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..REQUEST_BYTES_MAX]
    }

    /// The first bytes of the request.
    fn get(&self, bytes: usize) -> &[u8] {
        &self.memory[self.start..][..bytes]
    }
}

/// The file and the state of serving it.
pub(crate) struct StreamFile {
    device: File,
    request: RequestBuffer,
    writing: Option<Writing>,
    /// Handle for the next open.
    next_handle: u64,
    /// Handle of the writer: QEMU.
    writer: Option<u64>,
    /// Our descriptor of the file, through which others open it.
    own: Option<File>,
}

impl StreamFile {
    /// Mounts the file, and opens it once.
    pub(crate) fn new(mounter: &Mounter) -> io::Result<Self> {
        let made = mounter.run()?;
        ioctl_fionbio(&made.device, true)?;
        let mut file = Self {
            device: made.device.into(),
            request: RequestBuffer::new(),
            writing: None,
            next_handle: 1,
            writer: None,
            own: None,
        };
        let path = format!("/proc/self/fd/{}", made.mount.as_raw_fd());
        let (tell, told) = channel();
        thread::spawn(move || {
            // The open waits for answers of the other thread.
            let opened = File::options().write(true).open(path);
            // A kernel without `FOPEN_NOFLUSH` sends a flush at the first close, and learns that it need not send
            // another. If that close were at the end of this process, nothing would answer, and the process would wait
            // for itself.
            let opened = opened.and_then(|file| file.try_clone().map(drop).map(|()| file));
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

    /// The path by which QEMU's user opens the file, as long as it is served.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let own = self.own.as_ref()?;
        let process = std::process::id();
        Some(format!("/proc/{process}/fd/{}", own.as_raw_fd()).into())
    }

    fn answer(&mut self, number: u64, outcome: Result<&[u8], Errno>) -> io::Result<()> {
        match self.device.write_all(&answer(number, outcome)) {
            // The process that asked has been killed.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            answered => answered,
        }
    }

    /// Serves one request.
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
            let length = match self.device.read(self.request.room()) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Arrival::Nothing),
                // The kernel withdrew the request.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let request = Request::parse(self.request.get(length));
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
            bytes: writing.map_or(&[], |it| &self.request.get(DATA + it.bytes)[DATA..]),
        }
    }

    /// A write request is taken as a whole.
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
            // Other requests end when the device is closed.
            let _ = self.answer(it.number, Err(Errno::IO));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Longest wait for the kernel.
    const PATIENCE: Timespec = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };

    #[test]
    #[ignore = "the other process of a test"]
    fn mounter() {
        mount().unwrap();
    }

    fn file() -> StreamFile {
        let test = std::env::current_exe().unwrap();
        // A process with threads cannot enter namespaces, and a test has threads.
        let enter = match geteuid().is_root() {
            true => "",
            false => "unshare --user --map-root-user --mount",
        };
        let arguments = format!(
            "exec {enter} {} --ignored --exact --nocapture stream_file::tests::mounter",
            test.display()
        );
        let mounter = Mounter {
            program: "/bin/sh".into(),
            arguments: ["-c".to_owned(), arguments].to_vec(),
        };
        StreamFile::new(&mounter).unwrap()
    }

    /// Waits for the next piece or the end; fails if neither comes.
    fn arrival(file: &mut StreamFile) -> Arrival {
        loop {
            match file.read().unwrap() {
                Arrival::Nothing => {
                    let mut waiting = [PollFd::new(&*file, PollFlags::IN)];
                    assert_eq!(poll(&mut waiting, Some(&PATIENCE)), Ok(1), "nothing comes");
                }
                arrival => return arrival,
            }
        }
    }

    #[test]
    fn what_is_written_arrives_with_its_offset_and_closing_is_the_end() {
        let mut file = file();
        let path = file.path().unwrap();
        let writer = thread::spawn(move || {
            let opened = File::options().write(true).open(path).unwrap();
            opened.write_all_at(&[7; 600 << 10], 5 << 30).unwrap();
            opened.write_all_at(b"rest", 3).unwrap();
        });
        let mut pieces = Vec::new();
        while arrival(&mut file) == Arrival::Piece {
            let piece = file.piece();
            assert_eq!(piece.bytes.as_ptr().align_offset(PAGE_BYTES), 0);
            pieces.push((piece.at.unwrap(), piece.bytes.len(), piece.bytes[0]));
            let length = piece.bytes.len();
            file.take(length).unwrap();
        }
        assert_eq!(pieces, [(5 << 30, 600 << 10, 7), (3, 4, b'r')]);
        writer.join().unwrap();
    }

    #[test]
    fn a_second_writer_is_refused_and_one_that_never_wrote_is_no_end() {
        let mut file = file();
        let path = file.path().unwrap();
        let writer = thread::spawn(move || {
            let open = || File::options().write(true).open(&path).unwrap();
            drop(open());
            let first = open();
            first.write_all_at(b"first", 0).unwrap();
            let refused = open().write_all_at(b"second", 0).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ResourceBusy);
        });
        assert_eq!(arrival(&mut file), Arrival::Piece);
        assert_eq!(file.piece().bytes, b"first");
        file.take(5).unwrap();
        assert_eq!(arrival(&mut file), Arrival::End);
        writer.join().unwrap();
    }

    #[test]
    fn a_writer_outlives_who_served_the_file() {
        let mut file = file();
        let path = file.path().unwrap();
        let writer = thread::spawn(move || {
            let opened = File::options().write(true).open(path).unwrap();
            let failed = opened.write_all_at(b"lost", 0).unwrap_err();
            // QEMU aborts if its close fails.
            (failed.raw_os_error(), close(opened))
        });
        assert_eq!(arrival(&mut file), Arrival::Piece);
        drop(file);
        let (failed, closed) = writer.join().unwrap();
        assert!(failed.is_some());
        assert_eq!(closed, 0);
    }

    /// Returns the result of `close`, which dropping a file hides.
    fn close(file: File) -> i32 {
        // SAFETY: the descriptor is owned here, and nobody uses it afterwards.
        unsafe { libc::close(std::os::fd::IntoRawFd::into_raw_fd(file)) }
    }
}
