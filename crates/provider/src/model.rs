//! Models in loom, which tries every order of two sides' steps: the words and bytes that both share without a lock,
//! with the shipped code of both.
//!
//! Bytes that are copied are cells: loom fails a model in which one side writes them while the other side copies, or
//! without having seen that the other side is done. Words are loom's atomics.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use rustix::event::{EventfdFlags, eventfd};
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[cfg(test)]
mod completions;
#[cfg(test)]
mod doorbells;
#[cfg(test)]
mod queues;

/// Bytes of a line of memory. Its words are separate from its bytes.
const LINE: usize = 64;

/// Lines that the models of pages use: queues 0 to 63 of doorbells, the first grant of a page of grants.
const PAGE_LINES: usize = 3;

/// Memory that both sides have: a fixed number of lines, whatever its length is said to be.
#[derive(Clone, Debug)]
pub struct Area {
    lines: Arc<Vec<Line>>,
    length: usize,
}

#[derive(Debug)]
struct Line {
    short: [AtomicU32; 2],
    long: AtomicU64,
    bytes: UnsafeCell<[u8; LINE]>,
}

// SAFETY: bytes are only reached through loom's cells, which fail a model in which two threads reach them at once.
unsafe impl Sync for Line {}

impl Line {
    fn new() -> Self {
        Self {
            short: [AtomicU32::new(0), AtomicU32::new(0)],
            long: AtomicU64::new(0),
            bytes: UnsafeCell::new([0; LINE]),
        }
    }
}

impl Area {
    pub(crate) fn create(_name: &str, length: usize) -> io::Result<(Self, OwnedFd)> {
        let stands_for_memory = eventfd(0, EventfdFlags::CLOEXEC)?;
        let page = Self::of(PAGE_LINES, length);
        Ok((page, stands_for_memory))
    }

    /// Models share an area by cloning it.
    pub(crate) fn map(_fd: BorrowedFd<'_>, _length: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn of(lines: usize, length: usize) -> Self {
        Self {
            lines: Arc::new((0..lines).map(|_| Line::new()).collect()),
            length,
        }
    }

    /// Makes the memory of a queue, each part of which begins on a line.
    #[cfg(test)]
    fn of_lines(lines: usize) -> Self {
        Self::of(lines, lines * LINE)
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
        &self.lines[offset / LINE].short[offset % LINE / 4]
    }

    pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(LINE), "only the first word of a line");
        &self.lines[offset / LINE].long
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: a slice is readable.
        unsafe { self.write_from(offset, bytes.as_ptr(), bytes.len()) }
    }

    pub(crate) fn read(&self, offset: usize, out: &mut [u8]) {
        // SAFETY: a slice that nobody else has is writable.
        unsafe { self.read_to(offset, out.as_mut_ptr(), out.len()) }
    }

    /// # Safety
    /// `from` is readable for `length` bytes.
    pub(crate) unsafe fn write_from(&self, offset: usize, from: *const u8, length: usize) {
        self.each_line(offset, length, |line, at, done, bytes| {
            // SAFETY: readable as promised, and inside of the line.
            line.bytes.with_mut(|to| unsafe {
                ptr::copy(from.add(done), to.cast::<u8>().add(at), bytes)
            });
        });
    }

    /// # Safety
    /// `to` is writable for `length` bytes.
    pub(crate) unsafe fn read_to(&self, offset: usize, to: *mut u8, length: usize) {
        self.each_line(offset, length, |line, at, done, bytes| {
            // SAFETY: writable as promised, and inside of the line.
            line.bytes
                .with(|from| unsafe { ptr::copy(from.cast::<u8>().add(at), to.add(done), bytes) });
        });
    }

    /// Passes the parts of a range of bytes to `part`: the line, the place in it, how many bytes were before, and how
    /// many these are.
    fn each_line(
        &self,
        offset: usize,
        length: usize,
        mut part: impl FnMut(&Line, usize, usize, usize),
    ) {
        let mut done = 0;
        while done < length {
            let at = (offset + done) % LINE;
            let bytes = (LINE - at).min(length - done);
            part(&self.lines[(offset + done) / LINE], at, done, bytes);
            done += bytes;
        }
    }

    pub(crate) fn put<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) {
        self.write(offset, value.as_bytes());
    }

    pub(crate) fn get<T: FromBytes + IntoBytes>(&self, offset: usize) -> T {
        let mut value = T::new_zeroed();
        self.read(offset, value.as_mut_bytes());
        value
    }
}
