//! The memory of messages: buffers to send from and to receive into.

use std::ptr;

use vrdma_ibverbs::abi::Sge;

use super::setup::Objects;
use super::{LOCAL_WRITE, MESSAGES};
use crate::failure::Failure;
use crate::message::{MESSAGE_BYTES_MAX, Message};

/// Send and receive buffers, registered as one region. The daemon writes the second half, so nobody makes references
/// into it.
pub(super) struct Buffers {
    start: *mut u8,
    key: u32,
}

/// Bytes of both halves.
const BYTES: usize = 2 * MESSAGES * MESSAGE_BYTES_MAX;

impl Buffers {
    pub(super) fn new(objects: &mut Objects) -> Result<Self, Failure> {
        let start = Box::into_raw(vec![0_u8; BYTES].into_boxed_slice()).cast::<u8>();
        // SAFETY: freed when this is dropped, which is after the connection.
        let region = unsafe { objects.register(start.cast(), BYTES, LOCAL_WRITE) }?;
        Ok(Self {
            start,
            key: region.local_key,
        })
    }

    fn place(&self, index: usize) -> Sge {
        Sge {
            addr: self.at(index) as u64,
            length: MESSAGE_BYTES_MAX as u32,
            lkey: self.key,
        }
    }

    fn at(&self, index: usize) -> *mut u8 {
        assert!(index < 2 * MESSAGES, "no such buffer");
        // SAFETY: within the memory, as was just checked.
        unsafe { self.start.add(index * MESSAGE_BYTES_MAX) }
    }

    pub(super) fn send(&self, slot: usize) -> Sge {
        self.place(slot)
    }

    pub(super) fn receive(&self, slot: usize) -> Sge {
        self.place(MESSAGES + slot)
    }

    /// Puts a message into a buffer that is not in use and returns its length.
    pub(super) fn write(&self, slot: usize, message: &Message) -> usize {
        // SAFETY: within the memory, which the daemon only reads, after the message is posted.
        let buffer = unsafe { std::slice::from_raw_parts_mut(self.at(slot), MESSAGE_BYTES_MAX) };
        message.write(buffer)
    }

    /// Returns a private copy of a received message.
    pub(super) fn read(&self, slot: usize, length: usize) -> Vec<u8> {
        let length = length.min(MESSAGE_BYTES_MAX);
        let mut copy = vec![0; length];
        // SAFETY: within the memory, and another allocation.
        unsafe { ptr::copy(self.at(MESSAGES + slot), copy.as_mut_ptr(), length) };
        copy
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let memory = ptr::slice_from_raw_parts_mut(self.start, BYTES);
        // SAFETY: made by `new`, and the region has ended.
        drop(unsafe { Box::from_raw(memory) });
    }
}
