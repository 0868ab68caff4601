//! Messages of an end: data into the peer's room, and that there is room here.

use super::super::wire::{Control, Message, PLACE_BYTES, PLACES, RemoteBuffer};
use super::{CONTROL_WORK, CONTROLS, Stream};
use crate::abi::{Kind, Rdma, SendWr, Sge};
use crate::errno::{Errno, Result};
use crate::send::post_send;

/// Most bytes of one message.
pub(super) const LONGEST: usize = 1 << 16;

pub(super) const OPCODE_WRITE: u32 = 0;
pub(super) const OPCODE_WRITE_IMM: u32 = 1;
const SIGNALED: u32 = 2;
pub(super) const INLINE: u32 = 8;

impl Stream {
    pub(super) fn post(
        &self,
        work: u64,
        opcode: u32,
        flags: u32,
        to: (u64, u32),
        sge: Option<Sge>,
        immediate: u32,
    ) -> Result<()> {
        let mut sge = sge;
        // SAFETY: numbers, pointers and unions of them, for which zero is nothing.
        let mut request: SendWr = unsafe { core::mem::zeroed() };
        (request.wr_id, request.opcode) = (work, opcode);
        request.send_flags = SIGNALED | flags;
        request.imm_data = immediate.to_be();
        request.wr = Kind {
            rdma: Rdma {
                remote_addr: to.0,
                rkey: to.1,
            },
        };
        if let Some(sge) = &mut sge {
            (request.sg_list, request.num_sge) = (sge, 1);
        }
        let mut bad = core::ptr::null_mut();
        // SAFETY: one request whose buffer lies in ours, for a queue pair that is there.
        match unsafe { post_send(self.qp, &raw mut request, &raw mut bad) } {
            0 => Ok(()),
            error => Err(Errno(error)),
        }
    }

    /// Whether a byte can be sent now.
    pub(in crate::cm::sockets) fn can_send(&self) -> bool {
        self.send_slots > 0
            && self.send_room > 0
            && self.sent != self.may_send
            && self.place(self.target).length > 0
    }

    /// Whether nothing that was sent is under way any more.
    pub(in crate::cm::sockets) fn all_sent(&self) -> bool {
        self.send_slots == self.sizes.sends - CONTROLS && self.controls == CONTROLS
    }

    /// Sends the front of some bytes; returns how many.
    ///
    /// # Safety
    /// `data` has `length` bytes.
    pub(in crate::cm::sockets) unsafe fn send(
        &mut self,
        data: *const u8,
        length: usize,
    ) -> Result<usize> {
        if !self.can_send() {
            return Ok(0);
        }
        let mut place = self.place(self.target);
        let to_end = self.sizes.send_bytes - self.send_at;
        let most = to_end.min(self.send_room).min(place.length as usize);
        let count = length.min(most).min(LONGEST);
        // SAFETY: as promised; the ring has that much room there.
        unsafe { self.send.write(self.send_at, data, count) };
        let sge = self.send.sge(self.send_at, count);
        let said = Message::Data(count as u32).to_immediate();
        let to = (place.address, place.key);
        place.address += count as u64;
        place.length -= count as u32;
        // Set before the message is posted: after that the peer may write a new place there at any time.
        self.set_place(self.target, place);
        self.post(count as u64, OPCODE_WRITE_IMM, 0, to, Some(sge), said)?;
        self.send_slots -= 1;
        self.send_room -= count;
        self.send_at = (self.send_at + count) % self.sizes.send_bytes;
        self.sent = self.sent.wrapping_add(1);
        if place.length == 0 {
            self.target = (self.target + 1) % PLACES;
        }
        Ok(count)
    }

    /// Sends a control message.
    pub(in crate::cm::sockets) fn control(&mut self, control: Control) -> Result<()> {
        if self.controls == 0 {
            return Err(Errno(libc::EAGAIN));
        }
        self.say(Message::Control(control), None)
    }

    fn say(
        &mut self,
        message: Message,
        place: Option<(RemoteBuffer, [u8; PLACE_BYTES])>,
    ) -> Result<()> {
        let said = message.to_immediate();
        match place {
            None => self.post(CONTROL_WORK, OPCODE_WRITE_IMM, 0, (0, 0), None, said)?,
            Some((to, bytes)) => {
                let sge = Sge {
                    addr: bytes.as_ptr() as u64,
                    length: PLACE_BYTES as u32,
                    lkey: 0,
                };
                let to = (to.address, to.key);
                self.post(CONTROL_WORK, OPCODE_WRITE_IMM, INLINE, to, Some(sge), said)?;
            }
        }
        self.controls -= 1;
        Ok(())
    }

    /// Tells the peer of room, if there is much of it, or if the peer may soon send no more messages.
    pub(super) fn give_credits(&mut self) -> Result<()> {
        let half = self.sizes.receive_bytes / 2;
        let has_room = self.free_bytes >= half;
        let is_time = self.received.wrapping_sub(self.tell_at) as i16 >= 0;
        if !self.connected || self.controls == 0 || !(has_room || is_time) {
            return Ok(());
        }
        self.tell_at = self.received.wrapping_add((self.sizes.receives / 2) as u16);
        let credits = self.received.wrapping_add(self.sizes.receives as u16);
        let message = Message::Credits(credits);
        if !has_room {
            return self.say(message, None);
        }
        let room = RemoteBuffer {
            address: self.receive.address(self.free_at),
            key: self.receive.rkey(),
            length: half as u32,
        };
        let to = RemoteBuffer {
            address: self.remote_targets.address + u64::from(self.next_told) * PLACE_BYTES as u64,
            ..self.remote_targets
        };
        self.say(message, Some((to, room.to_memory())))?;
        self.free_bytes -= half;
        self.free_at = (self.free_at + half) % self.sizes.receive_bytes;
        self.next_told = (self.next_told + 1) % self.remote_targets.length.max(1);
        Ok(())
    }
}
