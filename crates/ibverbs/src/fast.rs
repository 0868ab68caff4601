//! `--fast-local`: READs and WRITEs that this process carries out itself.
//!
//! ```text
//!   post ── all conditions hold ──► enter grant ─► pread, pwrite ─► exit grant ─► completion of our own
//!     └─ any does not ──► ring, daemon
//! ```
//!
//! The order of a queue pair holds because a request is carried out here only when the daemon has nothing of the queue
//! pair: the send ring is idle, and every completion of its CQ that the daemon owes was polled. Later requests come
//! later anyway. A request that fails here is posted to the daemon, which repeats it (READs and WRITEs may be) and
//! tells the error.
//!
//! Excluded are CQs with a channel (only the daemon can notify), extended CQs (their time stamps are the daemon's), and
//! memory on demand.

#[cfg(test)]
mod tests;

use core::ffi::c_uint;
use std::fs::File;
use std::os::unix::fs::FileExt;

use vrdma_provider::BUFFERS_MAX;
use vrdma_provider::fast::Page;
use vrdma_provider::layout::{Buffer, Completion, SendHeader, opcode, send_flag};
use vrdma_provider::message::{Reach, Reached, access};

use crate::cq::CompletionQueue;
use crate::open::OpenDevice;
use crate::qp::QueuePair;
use crate::region::Region;
use crate::send::{Payload, RTS};

/// Most keys of the peer that a queue pair asks for; requests with others are the daemon's.
const KNOWN: usize = 32;

/// The last bytes of a write are written alone, behind the rest: programs poll the end of a buffer.
const TAIL: usize = 8;

/// `IBV_WC_RDMA_WRITE`, `IBV_WC_RDMA_READ`.
const WC_WRITE: c_uint = 1;
const WC_READ: c_uint = 2;

/// What a queue pair knows of its peer's regions.
#[derive(Default)]
pub(crate) struct Peer {
    known: Vec<(u32, Known)>,
}

enum Known {
    /// A region that the daemon gave a grant for.
    Open { memory: File, reached: Reached },
    /// A key without a grant.
    Closed,
}

impl Peer {
    /// Forgets all keys, after every change of the queue pair.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    /// Returns the region that a key names, asked for once.
    fn find(&mut self, device: &OpenDevice, qp: u32, rkey: u32) -> Option<(&File, Reached)> {
        let found = self.known.iter().position(|(key, _)| *key == rkey);
        let room = self.known.len() < KNOWN;
        let index = found.or_else(|| {
            room.then(|| {
                self.known.push((rkey, ask(device, qp, rkey)));
                self.known.len() - 1
            })
        })?;
        match &self.known[index].1 {
            Known::Open { memory, reached } => Some((memory, *reached)),
            Known::Closed => None,
        }
    }

    fn drop_key(&mut self, rkey: u32) {
        self.known.retain(|(key, _)| *key != rkey);
    }
}

fn ask(device: &OpenDevice, qp: u32, rkey: u32) -> Known {
    let Ok(answer) = device.call_with(&Reach { qp, rkey }, &[]) else {
        return Known::Closed;
    };
    match answer.fds.into_iter().next() {
        Some(fd) => Known::Open {
            memory: fd.into(),
            reached: answer.body,
        },
        None => Known::Closed,
    }
}

/// Carries a request out. False: it is left to the daemon.
///
/// # Safety
/// Buffers of inline requests are readable, and buffers of others are as long as they are registered.
pub(crate) unsafe fn carry_out(
    peer: &mut Peer,
    queue_pair: &QueuePair,
    device: &OpenDevice,
    page: &Page,
    header: &SendHeader,
    payload: Payload<'_>,
) -> bool {
    let (right, wc_opcode) = match header.opcode {
        opcode::RDMA_WRITE => (access::REMOTE_WRITE, WC_WRITE),
        opcode::RDMA_READ if !payload.inline => (access::REMOTE_READ, WC_READ),
        _ => return false,
    };
    let mut place = [Buffer::default(); BUFFERS_MAX as usize];
    let Some(buffers) = local(queue_pair, device, payload, right, &mut place) else {
        return false;
    };
    let length: u64 = buffers.iter().map(|buffer| u64::from(buffer.length)).sum();
    let Some(send_cq) = queue_pair
        .send_cq()
        .filter(|_| length > 0 && queue_pair.state() == RTS)
    else {
        return false;
    };
    let signaled = queue_pair.signal_all || header.flags & send_flag::SIGNALED != 0;
    if !send_cq.takes_own(signaled) {
        return false;
    }
    let Some((memory, reached)) = peer.find(device, queue_pair.handle, header.rkey) else {
        return false;
    };
    let Some(at) = inside(&reached, right, header.remote_addr, length) else {
        return false;
    };
    if !page.enter(reached.index, reached.generation) {
        peer.drop_key(header.rkey);
        return false;
    }
    // SAFETY: registered and of the right kind, or inline, as `local` found and the caller promises.
    let moved = unsafe { transfer(memory, at, buffers, right == access::REMOTE_WRITE) };
    page.exit(reached.index);
    if moved && signaled {
        send_cq.complete_own(Completion {
            wr_id: header.wr_id,
            qp_num: queue_pair.number(),
            opcode: wc_opcode,
            byte_len: length as u32,
            ..Completion::default()
        });
    }
    moved
}

/// Returns where the range is in the descriptor.
fn inside(reached: &Reached, right: u32, address: u64, length: u64) -> Option<u64> {
    let from = address.checked_sub(reached.start)?;
    let end = from.checked_add(length)?;
    let allowed = reached.access & right != 0 && end <= reached.length;
    allowed.then(|| reached.offset.checked_add(from))?
}

/// Returns the buffers by their addresses in this process.
fn local<'a>(
    queue_pair: &QueuePair,
    device: &OpenDevice,
    payload: Payload<'a>,
    right: u32,
    place: &'a mut [Buffer; BUFFERS_MAX as usize],
) -> Option<&'a [Buffer]> {
    if payload.inline {
        let length: u64 = payload
            .buffers
            .iter()
            .map(|piece| u64::from(piece.length))
            .sum();
        return (length <= queue_pair.capacity.max_inline.into()).then_some(payload.buffers);
    }
    let regions = device.regions.read();
    let writes = right == access::REMOTE_READ;
    let usable = |region: &&Region| region.pd == queue_pair.pd && (region.is_writable || !writes);
    let place = place.get_mut(..payload.buffers.len())?;
    for (place, buffer) in place.iter_mut().zip(payload.buffers) {
        let region = regions.get(&buffer.lkey).filter(usable)?;
        let addr = region.locate(buffer.addr, buffer.length)?;
        *place = Buffer { addr, ..*buffer };
    }
    Some(place)
}

/// Copies between our buffers and the peer's memory. False: not all of it could be copied.
///
/// # Safety
/// The buffers are readable, or writable unless `writes`.
unsafe fn transfer(memory: &File, mut at: u64, buffers: &[Buffer], writes: bool) -> bool {
    for (index, buffer) in buffers.iter().enumerate() {
        let length = buffer.length as usize;
        let done = if writes {
            // SAFETY: readable as promised; other threads of the program may write meanwhile, as with
            // an adapter, and nothing is decided on the bytes.
            let bytes = unsafe { core::slice::from_raw_parts(buffer.addr as *const u8, length) };
            let is_last = index + 1 == buffers.len();
            let head = length.saturating_sub(if is_last { TAIL } else { 0 });
            let (head, tail) = bytes.split_at(head);
            let behind = at + head.len() as u64;
            memory
                .write_all_at(head, at)
                .and_then(|()| memory.write_all_at(tail, behind))
        } else {
            // SAFETY: writable as promised.
            let bytes = unsafe { core::slice::from_raw_parts_mut(buffer.addr as *mut u8, length) };
            memory.read_exact_at(bytes, at)
        };
        if done.is_err() {
            return false;
        }
        at += length as u64;
    }
    true
}

impl CompletionQueue {
    /// Whether requests may be carried out here: the daemon owes no completion that one of ours would overtake, nobody
    /// is to be notified, and there is room.
    fn takes_own(&self, signaled: bool) -> bool {
        // SAFETY: fields that do not change after the creation.
        let plain = unsafe {
            let ex = self.ex.get();
            (*ex).base.channel.is_null() && (*ex).start_poll.is_none()
        };
        plain && self.ring.lock().takes_own(signaled)
    }

    fn complete_own(&self, completion: Completion) {
        self.ring.lock().push_own(completion);
    }
}
