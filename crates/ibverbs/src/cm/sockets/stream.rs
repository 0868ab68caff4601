//! One end of a stream: what may be sent, what has come, and how the peer is told of room.

mod mapped;
mod receiving;
mod sending;

use std::collections::VecDeque;

use super::completions::{BATCH, Completions};
use super::memory::{Buffer, LOCAL_WRITE, REMOTE_WRITE};
use super::wire::{
    Control, Introduction, MAPPED_BYTES, Message, PLACE_BYTES, PLACES, RemoteBuffer, entries, scale,
};
use crate::abi::{Pd, Qp, Wc};
use crate::errno::Result;

/// Most control messages under way, besides messages that carry data.
const CONTROLS: u32 = 4;
/// `IBV_WC_RECV`: the bit of all operations that use up a receive.
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

/// `wr_id` of control messages, beyond those of data, which are numbers of bytes.
const CONTROL_WORK: u64 = 1 << 32;

/// One end of a stream.
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
    /// The peer's list of places, where it is told of room in our buffer.
    remote_targets: RemoteBuffer,
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
            remote_targets: RemoteBuffer::default(),
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
        };
        for _ in 0..sizes.receives + CONTROLS {
            stream.post_receive()?;
        }
        Ok(stream)
    }

    /// Returns the numbers of requests that the queue pair must have room for.
    pub(super) const fn requests(sizes: &Sizes) -> (u32, u32) {
        (sizes.sends, sizes.receives + CONTROLS)
    }

    /// Returns what the peer is told about this end.
    pub(super) fn introduction(&self) -> Introduction {
        Introduction {
            credits: self.sizes.receives as u16,
            map_entries: scale(self.sizes.map),
            targets: RemoteBuffer {
                address: self.targets.address(0),
                key: self.targets.rkey(),
                length: PLACES as u32,
            },
            buffer: RemoteBuffer {
                address: self.receive.address(0),
                key: self.receive.rkey(),
                length: (self.sizes.receive_bytes / 2) as u32,
            },
        }
    }

    /// Takes what the peer told about its end.
    pub(super) fn meet(&mut self, peer: &Introduction) {
        self.may_send = peer.credits;
        self.remote_targets = peer.targets;
        self.remote_map = entries(peer.map_entries);
        self.set_place(0, peer.buffer);
        self.connected = true;
    }

    fn place(&self, index: usize) -> RemoteBuffer {
        RemoteBuffer::from_memory(self.targets.get(index * PLACE_BYTES))
    }

    fn set_place(&self, index: usize, place: RemoteBuffer) {
        let bytes = place.to_memory();
        // SAFETY: an array of that length.
        unsafe {
            self.targets
                .write(index * PLACE_BYTES, bytes.as_ptr(), PLACE_BYTES);
        }
    }

    /// Takes completions; an error is the stream's end.
    pub(super) fn process(&mut self) -> Result<()> {
        let mut batch = [Wc::default(); BATCH];
        loop {
            let count = self.completions.poll(&mut batch)?;
            for completion in &batch[..count] {
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

    /// Notes that the peer is gone; data that has come can still be read.
    pub(super) fn hang_up(&mut self) {
        (self.connected, self.readable, self.writable) = (false, false, false);
    }

    /// Frees the completions; the queue pair must be gone.
    pub(super) fn release(self) {
        self.completions.release();
    }
}
