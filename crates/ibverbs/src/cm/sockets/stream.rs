//! One end of a stream: what may be sent, what has come, and how the peer learns of room.

use core::ffi::c_int;
use std::collections::VecDeque;

use super::memory::{Buffer, LOCAL_WRITE, REMOTE_WRITE};
use super::wire::{
    Control, Introduction, MAPPED_BYTES, Message, PLACE_BYTES, PLACES, Place, entries, scale,
};
use crate::abi::{CompChannel, Cq, Kind, Pd, Qp, Rdma, RecvWr, SendWr, Sge, Wc};
use crate::channel::{ibv_ack_cq_events, ibv_destroy_comp_channel, ibv_get_cq_event};
use crate::cq::{ibv_destroy_cq, poll_cq, req_notify_cq};
use crate::errno::{Errno, Result};
use crate::recv::post_recv;
use crate::send::post_send;

/// Control messages that may be under way, besides those that carry data.
const CONTROLS: u32 = 4;
/// Work of control messages, beyond that of data, whose work names its bytes.
const CONTROL_WORK: u64 = 1 << 32;
/// Completions taken at a time.
const BATCH: usize = 16;
/// Most bytes of one message.
const LONGEST: usize = 1 << 16;

const OPCODE_WRITE: u32 = 0;
const OPCODE_WRITE_IMM: u32 = 1;
const SIGNALED: u32 = 2;
const INLINE: u32 = 8;
/// `IBV_WC_RECV` and everything that uses up a receive.
const RECEIVED: u32 = 1 << 7;

/// Sizes of an end.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) send_bytes: usize,
    pub(super) receive_bytes: usize,
    pub(super) sends: u32,
    pub(super) receives: u32,
    pub(super) map: usize,
}

/// Where completions come and how they are waited for.
#[derive(Clone, Copy)]
pub(super) struct Completions {
    pub(super) channel: *mut CompChannel,
    pub(super) cq: *mut Cq,
}

/// One end.
pub(super) struct Stream {
    sizes: Sizes,
    qp: *mut Qp,
    pub(super) completions: Completions,
    send: Buffer,
    receive: Buffer,
    targets: Buffer,
    // Sending.
    send_slots: u32,
    controls: u32,
    send_room: usize,
    send_at: usize,
    sent: u16,
    may_send: u16,
    target: usize,
    /// The place that is being filled, once it was taken from the list.
    remote_targets: Place,
    next_told: u32,
    remote_map: usize,
    // Receiving.
    messages: VecDeque<u32>,
    read_at: usize,
    free_at: usize,
    free_bytes: usize,
    received: u16,
    tell_at: u16,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) connected: bool,
    unacknowledged: u32,
}

// SAFETY: queue pairs and queues may be used from any thread.
unsafe impl Send for Stream {}

impl Stream {
    /// # Safety
    /// `pd`, the queue pair and its completions belong together and outlive the stream.
    pub(super) unsafe fn new(
        pd: *mut Pd,
        qp: *mut Qp,
        completions: Completions,
        sizes: Sizes,
    ) -> Result<Self> {
        let access = LOCAL_WRITE | REMOTE_WRITE;
        let target_bytes = PLACES * PLACE_BYTES + entries(scale(sizes.map)) * MAPPED_BYTES;
        // SAFETY: as promised.
        let (send, receive, targets) = unsafe {
            (
                Buffer::new(pd, sizes.send_bytes, LOCAL_WRITE)?,
                Buffer::new(pd, sizes.receive_bytes, access)?,
                Buffer::new(pd, target_bytes, access)?,
            )
        };
        let mut stream = Self {
            sizes,
            qp,
            completions,
            send,
            receive,
            targets,
            send_slots: sizes.sends - CONTROLS,
            controls: CONTROLS,
            send_room: sizes.send_bytes,
            send_at: 0,
            sent: 0,
            may_send: 0,
            target: 0,
            remote_targets: Place::default(),
            next_told: 1,
            remote_map: 0,
            messages: VecDeque::new(),
            read_at: 0,
            free_at: sizes.receive_bytes / 2,
            free_bytes: sizes.receive_bytes / 2,
            received: 0,
            tell_at: (sizes.receives / 2) as u16,
            readable: true,
            writable: true,
            connected: false,
            unacknowledged: 0,
        };
        for _ in 0..sizes.receives + CONTROLS {
            stream.post_receive()?;
        }
        Ok(stream)
    }

    /// Requests that the queue pair must have room for.
    pub(super) const fn requests(sizes: &Sizes) -> (u32, u32) {
        (sizes.sends, sizes.receives + CONTROLS)
    }

    /// What the peer is to be told.
    pub(super) fn introduction(&self) -> Introduction {
        Introduction {
            credits: self.sizes.receives as u16,
            map_entries: scale(self.sizes.map),
            targets: Place {
                address: self.targets.address(0),
                key: self.targets.rkey(),
                length: PLACES as u32,
            },
            buffer: Place {
                address: self.receive.address(0),
                key: self.receive.rkey(),
                length: (self.sizes.receive_bytes / 2) as u32,
            },
        }
    }

    /// What the peer told.
    pub(super) fn meet(&mut self, peer: &Introduction) {
        self.may_send = peer.credits;
        self.remote_targets = peer.targets;
        self.remote_map = entries(peer.map_entries);
        self.set_place(0, peer.buffer);
        self.connected = true;
    }

    fn place(&self, index: usize) -> Place {
        Place::from_memory(self.targets.get(index * PLACE_BYTES))
    }

    fn set_place(&self, index: usize, place: Place) {
        let bytes = place.to_memory();
        // SAFETY: an array of that length.
        unsafe {
            self.targets
                .write(index * PLACE_BYTES, bytes.as_ptr(), PLACE_BYTES);
        }
    }

    fn post_receive(&mut self) -> Result<()> {
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

    fn post(
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
    pub(super) fn can_send(&self) -> bool {
        self.send_slots > 0
            && self.send_room > 0
            && self.sent != self.may_send
            && self.place(self.target).length > 0
    }

    /// Whether nothing that was sent is still under way.
    pub(super) fn all_sent(&self) -> bool {
        self.send_slots == self.sizes.sends - CONTROLS && self.controls == CONTROLS
    }

    pub(super) fn has_data(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Sends the front of some bytes; how many went.
    ///
    /// # Safety
    /// `data` has `length` bytes.
    pub(super) unsafe fn send(&mut self, data: *const u8, length: usize) -> Result<usize> {
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
        // Before the message: once it is out, the peer may write a new place there at any time.
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

    /// Takes bytes that have come; how many there were. With `peek` they stay.
    ///
    /// # Safety
    /// `to` has room for `length` bytes.
    pub(super) unsafe fn receive(&mut self, to: *mut u8, length: usize, peek: bool) -> usize {
        let (mut done, mut at, mut index) = (0, self.read_at, 0);
        while done < length {
            let Some(message) = self.messages.get(index).map(|bytes| *bytes as usize) else {
                break;
            };
            // A message does not cross the end of the buffer, unless the peer says so.
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

    /// Says a control message.
    pub(super) fn control(&mut self, control: Control) -> Result<()> {
        if self.controls == 0 {
            return Err(Errno(libc::EAGAIN));
        }
        self.say(Message::Control(control), None)
    }

    fn say(&mut self, message: Message, place: Option<(Place, [u8; PLACE_BYTES])>) -> Result<()> {
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

    /// Tells the peer of room, if there is much of it or it may soon send no more messages.
    fn give_credits(&mut self) -> Result<()> {
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
        let room = Place {
            address: self.receive.address(self.free_at),
            key: self.receive.rkey(),
            length: half as u32,
        };
        let to = Place {
            address: self.remote_targets.address + u64::from(self.next_told) * PLACE_BYTES as u64,
            ..self.remote_targets
        };
        self.say(message, Some((to, room.to_memory())))?;
        self.free_bytes -= half;
        self.free_at = (self.free_at + half) % self.sizes.receive_bytes;
        self.next_told = (self.next_told + 1) % self.remote_targets.length.max(1);
        Ok(())
    }

    /// Takes completions; an error is the stream's end.
    pub(super) fn process(&mut self) -> Result<()> {
        let mut batch = [Wc::default(); BATCH];
        loop {
            // SAFETY: room for that many, from a queue that is there.
            let count = unsafe { poll_cq(self.completions.cq, BATCH as c_int, batch.as_mut_ptr()) };
            if count < 0 {
                return Err(Errno(libc::EIO));
            }
            for completion in &batch[..count as usize] {
                self.complete(completion)?;
            }
            if count == 0 {
                break;
            }
        }
        self.give_credits()
    }

    fn complete(&mut self, completion: &Wc) -> Result<()> {
        if completion.status != 0 {
            self.hang_up();
            return Ok(());
        }
        if completion.opcode & RECEIVED != 0 {
            self.heard(u32::from_be(completion.imm_data));
            return if self.connected {
                self.post_receive()
            } else {
                Ok(())
            };
        }
        match completion.wr_id {
            CONTROL_WORK.. => self.controls += 1,
            bytes => {
                self.send_slots += 1;
                self.send_room += bytes as usize;
            }
        }
        Ok(())
    }

    fn heard(&mut self, immediate: u32) {
        match Message::from_immediate(immediate) {
            Some(Message::Data(bytes)) => {
                self.received = self.received.wrapping_add(1);
                if (1..=self.sizes.receive_bytes).contains(&(bytes as usize)) {
                    self.messages.push_back(bytes);
                }
            }
            Some(Message::Credits(credits)) => self.may_send = credits,
            Some(Message::Control(Control::Disconnect)) => self.hang_up(),
            Some(Message::Control(Control::Shutdown)) => {
                self.readable = false;
                if !self.writable {
                    self.hang_up();
                }
            }
            Some(Message::Control(Control::KeepAlive) | Message::Mapped(_)) | None => {}
        }
    }

    /// The peer is gone; what has come can still be read.
    pub(super) fn hang_up(&mut self) {
        (self.connected, self.readable, self.writable) = (false, false, false);
    }

    /// Asks for a notification of the next completion.
    pub(super) fn arm(&mut self) {
        // SAFETY: a queue that is there.
        unsafe { req_notify_cq(self.completions.cq, 0) };
    }

    /// Takes a notification, which must have come.
    pub(super) fn notified(&mut self) {
        let (mut cq, mut context) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: the channel has an event, and the places are ours.
        if unsafe { ibv_get_cq_event(self.completions.channel, &raw mut cq, &raw mut context) } == 0
        {
            self.unacknowledged += 1;
        }
    }

    /// Writes into the peer's mapped memory; how many bytes went.
    ///
    /// # Safety
    /// `data` has `length` bytes.
    pub(super) unsafe fn write_mapped(
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

    /// The rest of the peer's mapped memory from an offset on.
    fn mapped(&self, offset: u64) -> Option<Place> {
        (0..entries(scale(self.sizes.map))).find_map(|index| {
            let at = PLACES * PLACE_BYTES + index * MAPPED_BYTES;
            let start = u64::from_ne_bytes(self.targets.get(at));
            let place = Place::from_memory(self.targets.get(at + 8));
            let inside = offset.checked_sub(start)?;
            let left = u64::from(place.length).checked_sub(inside)?;
            (left > 0).then_some(Place {
                address: place.address + inside,
                key: place.key,
                length: left as u32,
            })
        })
    }

    /// Tells the peer of memory that it may write at an offset.
    pub(super) fn map(&mut self, index: usize, offset: u64, place: Place) -> Result<()> {
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

    /// Entries of the peer's map that are free for ours.
    pub(super) fn map_entries(&self) -> usize {
        self.remote_map
    }

    /// Frees what belongs to completions; the queue pair must be gone.
    pub(super) fn release(self) {
        // SAFETY: made for this stream, and its queue pair is gone.
        unsafe {
            ibv_ack_cq_events(self.completions.cq, self.unacknowledged);
            ibv_destroy_cq(self.completions.cq);
            ibv_destroy_comp_channel(self.completions.channel);
        }
    }
}
