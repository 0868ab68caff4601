//! Registered memory of a socket.

use core::ffi::c_int;
use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::abi::{Mr, Pd, Sge};
use crate::errno::{Errno, Result};
use crate::memory::{ibv_dereg_mr, ibv_reg_mr};

const PAGE: usize = 4096;

/// `IBV_ACCESS_LOCAL_WRITE`.
pub(super) const LOCAL_WRITE: c_int = 1;
/// `IBV_ACCESS_REMOTE_WRITE`.
pub(super) const REMOTE_WRITE: c_int = 2;

/// A buffer that a queue pair reaches. The peer may write it at any time, so its bytes are copied and never borrowed.
pub(super) struct Buffer {
    start: *mut u8,
    layout: Layout,
    mr: *mut Mr,
}

// SAFETY: plain memory and a region, which may be used from any thread.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Makes a zeroed buffer of at least `bytes`.
    ///
    /// # Safety
    /// `pd` is a domain that outlives the buffer.
    pub(super) unsafe fn new(pd: *mut Pd, bytes: usize, access: c_int) -> Result<Self> {
        let size = bytes.next_multiple_of(PAGE).max(PAGE);
        let layout = Layout::from_size_align(size, PAGE).map_err(|_| Errno(libc::ENOMEM))?;
        // SAFETY: not empty.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        // SAFETY: memory of that size, kept until the region is gone.
        let mr = unsafe { ibv_reg_mr(pd, start.cast(), size, access) };
        if mr.is_null() {
            let error = Errno::last();
            // SAFETY: allocated above.
            unsafe { dealloc(start, layout) };
            return Err(error);
        }
        Ok(Self { start, layout, mr })
    }

    pub(super) fn address(&self, at: usize) -> u64 {
        self.start as u64 + at as u64
    }

    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: registered as long as the buffer lives.
        unsafe { (*self.mr).rkey }
    }

    pub(super) fn sge(&self, at: usize, length: usize) -> Sge {
        Sge {
            addr: self.address(at),
            length: length as u32,
            // SAFETY: as above.
            lkey: unsafe { (*self.mr).lkey },
        }
    }

    /// Copies bytes out of the buffer.
    ///
    /// # Safety
    /// `to` has room for `length` bytes.
    pub(super) unsafe fn read(&self, at: usize, to: *mut u8, length: usize) {
        assert!(at + length <= self.layout.size());
        // SAFETY: inside the buffer, and as promised; the program's memory is not ours.
        unsafe { libc::memcpy(to.cast(), self.start.add(at).cast(), length) };
    }

    /// Copies bytes into the buffer.
    ///
    /// # Safety
    /// `from` has `length` bytes.
    pub(super) unsafe fn write(&self, at: usize, from: *const u8, length: usize) {
        assert!(at + length <= self.layout.size());
        // SAFETY: inside the buffer, and as promised; the program's memory is not ours.
        unsafe { libc::memcpy(self.start.add(at).cast(), from.cast(), length) };
    }

    /// Returns a copy of some bytes.
    pub(super) fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: an array of that length.
        unsafe { self.read(at, bytes.as_mut_ptr(), N) };
        bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: registered and allocated by `new`; the queue pair that used it is gone.
        unsafe {
            ibv_dereg_mr(self.mr);
            dealloc(self.start, self.layout);
        }
    }
}
