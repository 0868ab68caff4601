//! A socket at one adapter: its queue pair, what it sends and what has come.
//!
//! ```text
//!   slot of `send`     header | data                    free ─► under way ─► free
//!   slot of `receive`  GRH (40) | header | data         posted ─► arrived ─► read ─► posted
//! ```
//! A slot takes the longest datagram of the adapter. When all slots are taken, the adapter drops further datagrams, as
//! it does without a receive.

use core::ffi::c_int;
use std::collections::VecDeque;

use super::super::completions::BATCH;
use super::super::memory::{Buffer, LOCAL_WRITE};
use super::super::stream::Sizes;
use super::header::{Address, HEADER_MAX};
use super::peers::PeerHandle;
use super::pieces::Pieces;
use super::queue_pair::QueuePair;
use crate::abi::{Context, Kind, RecvWr, SendWr, Ud, Wc};
use crate::address::source;
use crate::cm::device::Opened;
use crate::errno::{Errno, Result};
use crate::open::OpenDevice;
use crate::recv::post_recv;
use crate::send::post_send;
use vrdma_provider::message::Name;

/// Slots of one direction.
const SLOTS: std::ops::RangeInclusive<usize> = 16..=4096;
/// Bytes in front of a received datagram.
const GRH_BYTES: usize = 40;

/// `IBV_WR_SEND` and `IBV_SEND_SIGNALED`.
const SEND: u32 = 2;
const SIGNALED: u32 = 2;
/// `IBV_WC_WR_FLUSH_ERR`: the queue pair has ended.
const FLUSHED: u32 = 5;

/// Bit of the `wr_id` of receives; the `wr_id` of a send is its slot alone.
const RECEIVE: u64 = 1 << 32;

/// A datagram that waits for the program.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    slot: usize,
    /// Where its data begins in the slot.
    skip: usize,
    pub(super) length: usize,
    pub(super) from: Address,
}

/// The socket's part at one adapter. The queue pair is dropped before the memory that it reaches.
pub(super) struct Station {
    pub(super) context: *mut Context,
    pair: QueuePair,
    /// Bytes of the longest datagram, with its header.
    pub(super) longest: usize,
    stride: usize,
    send: Buffer,
    receive: Buffer,
    sends: usize,
    free: Vec<usize>,
    arrived: VecDeque<Arrived>,
}

fn slots(bytes: usize, stride: usize, most: u32) -> usize {
    let slots = (bytes / stride).clamp(*SLOTS.start(), *SLOTS.end());
    slots.min(most as usize)
}

impl Station {
    /// Opens a station at an adapter that identifiers use.
    pub(super) fn open(opened: &Opened, sizes: &Sizes) -> Result<Self> {
        // SAFETY: devices of identifiers stay open.
        let device = unsafe { OpenDevice::of(opened.context)? };
        let longest = 128_usize << device.port()?.active_mtu.clamp(1, 5);
        let stride = (GRH_BYTES + longest).next_multiple_of(64);
        let most = device.limits.max_qp_wr;
        let sends = slots(sizes.send_bytes, stride, most);
        let receives = slots(sizes.receive_bytes, stride, most);
        // SAFETY: as above, and so do their domains.
        let (send, receive, pair) = unsafe {
            (
                Buffer::new(opened.pd, sends * stride, LOCAL_WRITE)?,
                Buffer::new(opened.pd, receives * stride, LOCAL_WRITE)?,
                QueuePair::new(opened, sends as u32, receives as u32)?,
            )
        };
        let station = Self {
            context: opened.context,
            pair,
            longest,
            stride,
            send,
            receive,
            sends,
            free: (0..sends).collect(),
            arrived: VecDeque::new(),
        };
        (0..receives).try_for_each(|slot| station.post_receive(slot))?;
        Ok(station)
    }

    pub(super) fn qpn(&self) -> u32 {
        // SAFETY: the station's own.
        unsafe { (*self.pair.qp).qp_num }
    }

    pub(super) fn adapter(&self) -> Result<Name> {
        // SAFETY: devices of identifiers stay open.
        Ok(unsafe { OpenDevice::of(self.context)? }
            .listed()
            .adapter()
            .name)
    }

    fn post_receive(&self, slot: usize) -> Result<()> {
        let mut sge = self.receive.sge(slot * self.stride, self.stride);
        let mut request = RecvWr {
            wr_id: RECEIVE | slot as u64,
            next: core::ptr::null_mut(),
            sg_list: &raw mut sge,
            num_sge: 1,
        };
        let mut bad = core::ptr::null_mut();
        // SAFETY: one request into a buffer of ours, for a queue pair that is there.
        match unsafe { post_recv(self.pair.qp, &raw mut request, &raw mut bad) } {
            0 => Ok(()),
            error => Err(Errno(error)),
        }
    }

    /// Takes completions; keeps only datagrams that are `wanted`, by their sender's address and queue pair.
    pub(super) fn process(&mut self, mut wanted: impl FnMut(&Address, u32) -> bool) -> Result<()> {
        let mut batch = [Wc::default(); BATCH];
        // Strangers may send for ever: once each slot was looked at, the program goes on.
        for _ in 0..=2 * *SLOTS.end() / BATCH {
            let count = self.pair.completions.poll(&mut batch)?;
            for completion in &batch[..count] {
                self.complete(completion, &mut wanted)?;
            }
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }

    fn complete(
        &mut self,
        completion: &Wc,
        wanted: &mut impl FnMut(&Address, u32) -> bool,
    ) -> Result<()> {
        if completion.status == FLUSHED {
            return Err(Errno(libc::ENETDOWN));
        }
        let slot = (completion.wr_id & !RECEIVE) as usize;
        if completion.wr_id & RECEIVE == 0 {
            self.free.push(slot);
            return Ok(());
        }
        match self.arrival(slot, completion) {
            Some(arrived) if wanted(&arrived.from, completion.src_qp) => {
                self.arrived.push_back(arrived);
                Ok(())
            }
            _ => self.post_receive(slot),
        }
    }

    /// Returns the datagram in a slot; `None` if it was not sent by a socket at the address that it names.
    fn arrival(&self, slot: usize, completion: &Wc) -> Option<Arrived> {
        let bytes = (completion.byte_len as usize).checked_sub(GRH_BYTES)?;
        if completion.status != 0 || bytes + GRH_BYTES > self.stride {
            return None;
        }
        let at = slot * self.stride;
        let from = Address::of_header(&self.receive.get(at + GRH_BYTES), bytes)?;
        if source(&self.receive.get(at)) != from.gid {
            return None;
        }
        let header = from.header_bytes();
        Some(Arrived {
            slot,
            skip: GRH_BYTES + header,
            length: bytes - header,
            from,
        })
    }

    pub(super) fn first(&self) -> Option<Arrived> {
        self.arrived.front().copied()
    }

    /// Copies a datagram out, as far as there is room; returns how many bytes.
    pub(super) fn read(&self, arrived: &Arrived, to: &Pieces<'_>) -> usize {
        let at = arrived.slot * self.stride + arrived.skip;
        to.each(arrived.length, |done, to, count| {
            // SAFETY: `to` is the program's, with that much room.
            unsafe { self.receive.read(at + done, to, count) };
        })
    }

    /// Drops the first datagram that has come.
    pub(super) fn drop_first(&mut self) -> Result<()> {
        match self.arrived.pop_front() {
            Some(arrived) => self.post_receive(arrived.slot),
            None => Ok(()),
        }
    }

    /// Drops datagrams from senders that are not `wanted`.
    pub(super) fn keep_only(&mut self, wanted: impl Fn(&Address) -> bool) -> Result<()> {
        let (kept, dropped) = std::mem::take(&mut self.arrived)
            .into_iter()
            .partition(|arrived: &Arrived| wanted(&arrived.from));
        self.arrived = kept;
        let mut dropped: VecDeque<Arrived> = dropped;
        dropped
            .drain(..)
            .try_for_each(|arrived| self.post_receive(arrived.slot))
    }

    pub(super) fn can_send(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn all_sent(&self) -> bool {
        self.free.len() == self.sends
    }

    /// Sends a datagram that is not too long; `false` if there is no slot.
    pub(super) fn send(
        &mut self,
        way: &PeerHandle,
        from: &Address,
        data: &Pieces<'_>,
    ) -> Result<bool> {
        let Some(slot) = self.free.pop() else {
            return Ok(false);
        };
        let (at, header) = (slot * self.stride, from.header_bytes());
        // SAFETY: an array of that length or longer.
        unsafe { self.send.write(at, from.header().as_ptr(), header) };
        let room = self.stride - HEADER_MAX;
        let count = data.each(room, |done, from, count| {
            // SAFETY: `from` is the program's, with that many bytes.
            unsafe { self.send.write(at + header + done, from, count) };
        });
        let posted = self.post_send(slot, header + count, way);
        if posted.is_err() {
            self.free.push(slot);
        }
        posted.map(|()| true)
    }

    fn post_send(&self, slot: usize, bytes: usize, way: &PeerHandle) -> Result<()> {
        let mut sge = self.send.sge(slot * self.stride, bytes);
        // SAFETY: numbers, pointers and unions of them, for which zero is nothing.
        let mut request: SendWr = unsafe { core::mem::zeroed() };
        (request.wr_id, request.opcode, request.send_flags) = (slot as u64, SEND, SIGNALED);
        (request.sg_list, request.num_sge) = (&raw mut sge, 1);
        request.wr = Kind {
            ud: Ud {
                ah: way.handle(),
                remote_qpn: way.queue_pair.qpn,
                remote_qkey: way.queue_pair.qkey,
            },
        };
        let mut bad = core::ptr::null_mut();
        // SAFETY: one request from a buffer of ours, for a queue pair and with a handle that are there.
        match unsafe { post_send(self.pair.qp, &raw mut request, &raw mut bad) } {
            0 => Ok(()),
            error => Err(Errno(error)),
        }
    }

    /// Arms the completions; returns the descriptor that becomes readable with the next one.
    pub(super) fn arm(&self) -> c_int {
        self.pair.completions.arm();
        self.pair.completions.fd()
    }

    /// Takes the notification of a descriptor, if it is this station's.
    pub(super) fn woken(&mut self, fd: c_int) {
        if self.pair.completions.fd() == fd {
            self.pair.completions.notified();
        }
    }
}
