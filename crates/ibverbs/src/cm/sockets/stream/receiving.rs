//! Data that has come, and receives for data to come.

use super::Stream;
use crate::abi::RecvWr;
use crate::errno::{Errno, Result};
use crate::recv::post_recv;

impl Stream {
    pub(super) fn post_receive(&mut self) -> Result<()> {
        let mut request = RecvWr {
            wr_id: 0,
            next: core::ptr::null_mut(),
            sg_list: core::ptr::null_mut(),
            num_sge: 0,
        };
        let mut bad = core::ptr::null_mut();
        // SAFETY: one request without buffers, for a queue pair that is there.
        match unsafe { post_recv(self.qp, &raw mut request, &raw mut bad) } {
            0 => Ok(()),
            error => Err(Errno(error)),
        }
    }

    pub(in crate::cm::sockets) fn has_data(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Takes bytes that have come; returns how many. With `peek` they stay.
    ///
    /// # Safety
    /// `to` has room for `length` bytes.
    pub(in crate::cm::sockets) unsafe fn receive(
        &mut self,
        to: *mut u8,
        length: usize,
        peek: bool,
    ) -> usize {
        let (mut done, mut at, mut index) = (0, self.read_at, 0);
        while done < length {
            let Some(message) = self.messages.get(index).map(|bytes| *bytes as usize) else {
                break;
            };
            // A message does not cross the end of the buffer, unless the peer says that it does.
            let to_end = self.sizes.receive_bytes - at;
            let count = message.min(length - done).min(to_end);
            // SAFETY: as promised.
            unsafe { self.receive.read(at, to.add(done), count) };
            (done, at) = (done + count, (at + count) % self.sizes.receive_bytes);
            if peek {
                index += 1;
            } else if count == message {
                self.messages.pop_front();
            } else if let Some(first) = self.messages.front_mut() {
                *first -= count as u32;
            }
        }
        if !peek {
            self.read_at = at;
            self.free_bytes += done;
        }
        done
    }
}
