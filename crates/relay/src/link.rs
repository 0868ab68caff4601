//! The connection between the two relays: messages, and writes into the other relay's memory, in one order.
//!
//! ```text
//!   messages ── SEND ──┐                     ┌── RECV buffers, given back when they were used
//!                      ├── one queue pair ───┤
//!   runs ─ RDMA WRITE ─┘                     └── memory, which is complete when a message behind it has come
//! ```
//!
//! Uses rdma_cm and verbs of our own libibverbs, linked into this program: the environment names the daemon and adapter
//! (`VRDMA_SOCKET`, `VRDMA_ADAPTER`). A slow receiver keeps its buffers, and the sender waits for it without limit; a
//! receiver that has gone is reported by an event or a completion. The link does not know what messages mean.

mod buffers;
mod setup;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::ptr;

use vrdma_ibverbs::abi;
use vrdma_ibverbs::channel::{ibv_ack_cq_events, ibv_get_cq_event};
use vrdma_ibverbs::cm;
use vrdma_ibverbs::cm::connect::rdma_disconnect;
use vrdma_ibverbs::cm::event::{rdma_ack_cm_event, rdma_get_cm_event};

use crate::failure::Failure;
use crate::guest::Mapped;
use crate::message::{MESSAGE_BYTES_MAX, Message};
use buffers::Buffers;
pub(crate) use setup::Listener;
use setup::Objects;

/// Most messages under way in each direction.
const MESSAGES: usize = 16;

/// Most requests under way: messages and writes.
const REQUESTS: usize = 256;

/// Most consecutive writes without a completion.
const QUIET: usize = 32;

/// Most bytes of writes under way: pages that QEMU believes to be at the destination before they are.
const WRITE_BYTES: u64 = 32 << 20;

/// Most completions that are taken at a time.
const TAKEN: usize = 32;

/// Bit of `wr_id` that marks a receive; the other bits are its buffer. Without it, `wr_id` is a request's number.
const RECEIVED: u64 = 1 << 63;

// <infiniband/verbs.h>
const WR_RDMA_WRITE: u32 = 0;
const WR_SEND: u32 = 2;
const SIGNALED: u32 = 1 << 1;
const LOCAL_WRITE: i32 = 1;
const REMOTE_WRITE: i32 = 1 << 1;
const FLUSHED: u32 = 5;
const REMOTE_ACCESS: u32 = 10;
const RETRY_EXCEEDED: u32 = 12;

// <rdma/rdma_cma.h>
const DISCONNECTED: u32 = 10;
const DEVICE_REMOVAL: u32 = 11;

/// A piece of memory to read here and write there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Write {
    pub(crate) from: u64,
    pub(crate) local_key: u32,
    pub(crate) to: u64,
    pub(crate) remote_key: u32,
    pub(crate) bytes: u32,
}

/// Registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    pub(crate) address: u64,
    pub(crate) local_key: u32,
    pub(crate) remote_key: u32,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
enum Posted {
    Message { slot: usize },
    Write { bytes: u64 },
}

/// A connection; it ends when it is dropped.
pub(crate) struct Link {
    // Fields are dropped in this order: objects that are registered before the memory they use.
    objects: Objects,
    buffers: Buffers,
    /// Send buffers that are not in use.
    free: Vec<usize>,
    posted: VecDeque<Posted>,
    /// The number of the first request in `posted`.
    first: u64,
    /// Writes since the last request with a completion.
    quiet: usize,
    write_bytes: u64,
    /// Received messages: buffer and length.
    arrived: VecDeque<(usize, usize)>,
    has_ended: bool,
}

impl Link {
    fn new(objects: Objects, buffers: Buffers) -> Self {
        Self {
            objects,
            buffers,
            free: (0..MESSAGES).collect(),
            posted: VecDeque::with_capacity(REQUESTS),
            first: 0,
            quiet: 0,
            write_bytes: 0,
            arrived: VecDeque::with_capacity(MESSAGES),
            has_ended: false,
        }
    }

    /// Registers a guest's memory until the connection ends, which makes all of its pages present. With `is_remote`,
    /// the other relay may write it.
    pub(crate) fn register(&mut self, memory: &Mapped, is_remote: bool) -> Result<Region, Failure> {
        let access = if is_remote {
            LOCAL_WRITE | REMOTE_WRITE
        } else {
            0
        };
        // SAFETY: the caller keeps the memory mapped longer than this connection; it holds whatever guests write.
        unsafe {
            self.objects
                .register(memory.start(), memory.bytes(), access)
        }
    }

    /// Whether a message can be sent now.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() && self.posted.len() < REQUESTS
    }

    /// Sends a message; the caller has checked that there is room.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Failure> {
        let Some(slot) = self.free.pop() else {
            return Err(Failure::new("there is no buffer for a message"));
        };
        let mut place = self.buffers.send(slot);
        place.length = self.buffers.write(slot, message) as u32;
        self.posted.push_back(Posted::Message { slot });
        self.quiet = 0;
        let request = self.request(&raw mut place, WR_SEND, SIGNALED);
        self.post(request)
    }

    /// Posts as many of the writes as there is room for and returns their number.
    pub(crate) fn write(&mut self, writes: &[Write]) -> Result<usize, Failure> {
        let mut count = 0;
        for write in writes {
            if self.posted.len() >= REQUESTS || self.write_bytes >= WRITE_BYTES {
                break;
            }
            let mut place = abi::Sge {
                addr: write.from,
                length: write.bytes,
                lkey: write.local_key,
            };
            let bytes = u64::from(write.bytes);
            self.posted.push_back(Posted::Write { bytes });
            self.write_bytes += bytes;
            self.quiet += 1;
            let is_told = self.quiet >= QUIET || self.write_bytes >= WRITE_BYTES / 2;
            if is_told {
                self.quiet = 0;
            }
            let flags = if is_told { SIGNALED } else { 0 };
            let mut request = self.request(&raw mut place, WR_RDMA_WRITE, flags);
            request.wr.rdma = abi::Rdma {
                remote_addr: write.to,
                rkey: write.remote_key,
            };
            self.post(request)?;
            count += 1;
        }
        Ok(count)
    }

    /// A work request for what was put into `posted` last.
    fn request(&self, place: *mut abi::Sge, opcode: u32, send_flags: u32) -> abi::SendWr {
        // SAFETY: integers, pointers that may be null, and unions of them.
        let mut request: abi::SendWr = unsafe { std::mem::zeroed() };
        request.wr_id = self.first + self.posted.len() as u64 - 1;
        request.sg_list = place;
        request.num_sge = 1;
        request.opcode = opcode;
        request.send_flags = send_flags;
        request
    }

    fn post(&mut self, mut request: abi::SendWr) -> Result<(), Failure> {
        let mut bad = ptr::null_mut();
        // SAFETY: a queue pair of this connection; the request, and the place that it points to in the caller's frame,
        // are there during the call. Buffers stay until the completion, since they return to `free` only afterwards;
        // guests' memory stays registered.
        let error = unsafe {
            match (*(*self.objects.qp).context).ops.post_send {
                Some(post) => post(self.objects.qp, &raw mut request, &raw mut bad),
                None => libc::ENOSYS,
            }
        };
        match error {
            0 => Ok(()),
            error => Err(Failure::new(format!(
                "the adapter takes no request: {}",
                std::io::Error::from_raw_os_error(error)
            ))),
        }
    }

    /// Takes completions; whether there were any.
    pub(crate) fn poll(&mut self) -> Result<bool, Failure> {
        let mut completions = [abi::Wc::default(); TAKEN];
        // SAFETY: a completion queue of this connection, and room for as many completions as are asked for.
        let count = unsafe {
            match (*(*self.objects.cq).context).ops.poll_cq {
                Some(poll) => poll(self.objects.cq, TAKEN as i32, completions.as_mut_ptr()),
                None => -1,
            }
        };
        let Ok(count) = usize::try_from(count) else {
            return Err(Failure::new("the adapter has gone; is its daemon there?"));
        };
        for completion in &completions[..count] {
            self.completed(completion)?;
        }
        Ok(count > 0)
    }

    fn completed(&mut self, completion: &abi::Wc) -> Result<(), Failure> {
        if completion.status != 0 {
            return Err(self.broken(completion.status));
        }
        if completion.wr_id & RECEIVED != 0 {
            let slot = (completion.wr_id & !RECEIVED) as usize;
            let length = (completion.byte_len as usize).min(MESSAGE_BYTES_MAX);
            self.arrived.push_back((slot, length));
            return Ok(());
        }
        // Requests before this one are done, too.
        while self.first <= completion.wr_id {
            match self.posted.pop_front() {
                Some(Posted::Message { slot }) => self.free.push(slot),
                Some(Posted::Write { bytes }) => self.write_bytes -= bytes,
                None => break,
            }
            self.first += 1;
        }
        Ok(())
    }

    fn broken(&self, status: u32) -> Failure {
        match status {
            FLUSHED => Failure::new("the other relay has gone"),
            RETRY_EXCEEDED => Failure::new("the other relay does not answer any more"),
            REMOTE_ACCESS => Failure::new("the other relay does not let its memory be written"),
            status => Failure::new(format!("the connection broke, completion status {status}")),
        }
    }

    /// The oldest received message.
    pub(crate) fn front(&self) -> Option<Vec<u8>> {
        let (slot, length) = *self.arrived.front()?;
        Some(self.buffers.read(slot, length))
    }

    /// Gives the buffer of the oldest received message back.
    pub(crate) fn release(&mut self) -> Result<(), Failure> {
        match self.arrived.pop_front() {
            Some((slot, _)) => self.receive(slot),
            None => Ok(()),
        }
    }

    fn receive(&mut self, slot: usize) -> Result<(), Failure> {
        let mut place = self.buffers.receive(slot);
        // SAFETY: the buffer stays as long as the connection.
        let error = unsafe { self.objects.receive(RECEIVED | slot as u64, &mut place) };
        match error {
            0 => Ok(()),
            error => Err(Failure::new(format!(
                "the adapter takes no buffer: {}",
                std::io::Error::from_raw_os_error(error)
            ))),
        }
    }

    /// Whether all that was posted is done. Writes at the end are not counted: they have no completion.
    pub(crate) fn is_idle(&self) -> bool {
        let is_message = |posted: &Posted| matches!(posted, Posted::Message { .. });
        !self.posted.iter().any(is_message)
    }

    /// Whether the other relay has ended the connection.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Requests a notification of the next completion.
    pub(crate) fn arm(&self) -> Result<(), Failure> {
        // SAFETY: a completion queue of this connection.
        let error = unsafe {
            match (*(*self.objects.cq).context).ops.req_notify_cq {
                Some(notify) => notify(self.objects.cq, 0),
                None => libc::ENOSYS,
            }
        };
        match error {
            0 => Ok(()),
            _ => Err(Failure::new("the adapter has gone; is its daemon there?")),
        }
    }

    /// Readable after a completion.
    pub(crate) fn completions(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel keeps the descriptor open as long as the connection.
        unsafe { BorrowedFd::borrow_raw((*self.objects.channel).fd) }
    }

    /// Readable when the other relay has ended the connection.
    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: as above.
        unsafe { BorrowedFd::borrow_raw((*(*self.objects.id).channel).fd) }
    }

    /// Takes a notification, after [`Self::completions`] was readable.
    pub(crate) fn notified(&mut self) {
        let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a channel of this connection, and room for two pointers; the queue is its own.
        unsafe {
            if ibv_get_cq_event(self.objects.channel, &raw mut cq, &raw mut context) == 0 {
                ibv_ack_cq_events(cq, 1);
            }
        }
    }

    /// Takes an event, after [`Self::events`] was readable.
    pub(crate) fn event(&mut self) {
        let mut event: *mut cm::abi::Event = ptr::null_mut();
        // SAFETY: the identifier's channel, room for a pointer, and an event that is read before it is given back.
        unsafe {
            if rdma_get_cm_event((*self.objects.id).channel, &raw mut event) != 0 {
                self.has_ended = true;
                return;
            }
            self.has_ended |= matches!((*event).event, DISCONNECTED | DEVICE_REMOVAL);
            rdma_ack_cm_event(event);
        }
    }

    /// Ends the connection; the other relay is told.
    pub(crate) fn disconnect(&mut self) {
        // SAFETY: an identifier with a queue pair.
        let _ = unsafe { rdma_disconnect(self.objects.id) };
    }
}
