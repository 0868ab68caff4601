//! Memory that an end lets its peer write (`riomap`, `riowrite`).

use super::super::wire::{
    MAPPED_BYTES, Message, PLACE_BYTES, PLACES, RemoteBuffer, entries, scale,
};
use super::sending::{INLINE, LONGEST, OPCODE_WRITE, OPCODE_WRITE_IMM};
use super::{CONTROL_WORK, Stream};
use crate::abi::Sge;
use crate::errno::{Errno, Result};

impl Stream {
    /// Writes into the peer's mapped memory; returns the number of bytes written.
    ///
    /// # Safety
    /// `data` has `length` bytes.
    pub(in crate::cm::sockets) unsafe fn write_mapped(
        &mut self,
        data: *const u8,
        length: usize,
        offset: u64,
    ) -> Result<usize> {
        let Some(place) = self.mapped(offset) else {
            return Err(Errno(libc::EINVAL));
        };
        if self.send_slots == 0 || self.send_room == 0 {
            return Ok(0);
        }
        let to_end = self.sizes.send_bytes - self.send_at;
        let most = to_end.min(self.send_room).min(place.length as usize);
        let count = length.min(most).min(LONGEST);
        // SAFETY: as promised; the ring has that much room there.
        unsafe { self.send.write(self.send_at, data, count) };
        let sge = self.send.sge(self.send_at, count);
        let to = (place.address, place.key);
        self.post(count as u64, OPCODE_WRITE, 0, to, Some(sge), 0)?;
        self.send_slots -= 1;
        self.send_room -= count;
        self.send_at = (self.send_at + count) % self.sizes.send_bytes;
        Ok(count)
    }

    /// Returns the rest of the peer's mapped memory from an offset on.
    fn mapped(&self, offset: u64) -> Option<RemoteBuffer> {
        (0..entries(scale(self.sizes.map))).find_map(|index| {
            let at = PLACES * PLACE_BYTES + index * MAPPED_BYTES;
            let start = u64::from_ne_bytes(self.targets.get(at));
            let place = RemoteBuffer::from_memory(self.targets.get(at + 8));
            let inside = offset.checked_sub(start)?;
            let left = u64::from(place.length).checked_sub(inside)?;
            (left > 0).then_some(RemoteBuffer {
                address: place.address + inside,
                key: place.key,
                length: left as u32,
            })
        })
    }

    /// Tells the peer of memory that it may write at an offset.
    pub(in crate::cm::sockets) fn map(
        &mut self,
        index: usize,
        offset: u64,
        place: RemoteBuffer,
    ) -> Result<()> {
        if index >= self.remote_map {
            return Err(Errno(libc::ENOBUFS));
        }
        if self.controls == 0 {
            return Err(Errno(libc::EAGAIN));
        }
        let mut entry = [0; MAPPED_BYTES];
        entry[..8].copy_from_slice(&offset.to_ne_bytes());
        entry[8..].copy_from_slice(&place.to_memory());
        let list = u64::from(self.remote_targets.length) * PLACE_BYTES as u64;
        let to = self.remote_targets.address + list + (index * MAPPED_BYTES) as u64;
        let sge = Sge {
            addr: entry.as_ptr() as u64,
            length: MAPPED_BYTES as u32,
            lkey: 0,
        };
        let said = Message::Mapped(index as u16).to_immediate();
        let to = (to, self.remote_targets.key);
        self.post(CONTROL_WORK, OPCODE_WRITE_IMM, INLINE, to, Some(sge), said)?;
        self.controls -= 1;
        Ok(())
    }

    /// Returns how many entries the peer's map has for our memory.
    pub(in crate::cm::sockets) fn map_entries(&self) -> usize {
        self.remote_map
    }
}
