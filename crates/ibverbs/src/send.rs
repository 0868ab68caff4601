//! Posting sends.

#[cfg(test)]
mod tests;

use core::ffi::{c_int, c_uint};

use vrdma_provider::client::{Full, SendQueue};
use vrdma_provider::layout::{Buffer, SendHeader};
use vrdma_provider::{BUFFERS_MAX, EAGER_MAX};

use crate::abi;
use crate::adopt::unmapped;
use crate::builder::Builder;
use crate::errno::{Errno, Result};
use crate::fast::{Peer, carry_out};
use crate::open::OpenDevice;
use crate::qp::QueuePair;
use crate::request::{INLINE, Posted, buffers, describe, report, sends_payload, slot};

/// `IBV_QPS_RTS`: from here on sends may be posted.
pub(crate) const RTS: c_uint = 3;

/// The state that the lock of a send queue protects.
pub(crate) struct SendSide {
    pub(crate) queue: SendQueue,
    pub(crate) builder: Builder,
    /// What is known of the peer, for `--fast-local`.
    pub(crate) peer: Peer,
}

/// How the payload of a request travels.
#[derive(Clone, Copy)]
pub(crate) struct Payload<'a> {
    pub(crate) buffers: &'a [Buffer],
    /// Whether it travels by value, whatever the keys say: the addresses are the program's own.
    pub(crate) inline: bool,
}

impl SendSide {
    /// Carries one request out, or puts it into the ring.
    ///
    /// # Safety
    /// Buffers of inline requests are readable, and buffers of others are as long as they are registered.
    #[inline]
    pub(crate) unsafe fn push(
        &mut self,
        queue_pair: &QueuePair,
        device: &OpenDevice,
        header: &SendHeader,
        payload: Payload<'_>,
    ) -> Result<()> {
        let Some(page) = &device.grants else {
            // SAFETY: as promised.
            return unsafe { self.push_to_daemon(queue_pair, device, header, payload) };
        };
        if self.queue.is_idle()
            // SAFETY: as promised.
            && unsafe { carry_out(&mut self.peer, queue_pair, device, page, header, payload) }
        {
            return Ok(());
        }
        // SAFETY: as promised.
        unsafe { self.push_to_daemon(queue_pair, device, header, payload) }?;
        queue_pair.owe(header);
        Ok(())
    }

    /// Puts one request into the ring.
    ///
    /// # Safety
    /// As for [`push`](Self::push).
    #[inline]
    unsafe fn push_to_daemon(
        &mut self,
        queue_pair: &QueuePair,
        device: &OpenDevice,
        header: &SendHeader,
        payload: Payload<'_>,
    ) -> Result<()> {
        let Payload { buffers, inline } = payload;
        let length: u64 = buffers.iter().map(|buffer| u64::from(buffer.length)).sum();
        if inline {
            if length > queue_pair.capacity.max_inline.into() {
                return Err(Errno(libc::EINVAL));
            }
            // SAFETY: as promised.
            return full(unsafe { self.queue.push_copied(header, buffers) });
        }
        if buffers.len() > queue_pair.capacity.max_send_sge as usize {
            return Err(Errno(libc::EINVAL));
        }
        if length > 0 && length <= EAGER_MAX.into() && sends_payload(header.opcode) {
            let mut located = [Buffer::default(); BUFFERS_MAX as usize];
            if let Some(located) = locate(queue_pair, device, buffers, &mut located)
                // SAFETY: all of it is registered, so readable as promised.
                && unsafe { self.queue.push_eager(header, located) }.is_ok()
            {
                return Ok(());
            }
        }
        full(self.queue.push(header, buffers))
    }
}

fn full(outcome: core::result::Result<(), Full>) -> Result<()> {
    outcome.map_err(|Full| Errno(libc::ENOMEM))
}

/// Returns the addresses in this process, if every buffer is in a region of the queue pair's domain. If one is not, the
/// daemon judges.
fn locate<'a>(
    queue_pair: &QueuePair,
    device: &OpenDevice,
    buffers: &[Buffer],
    located: &'a mut [Buffer; BUFFERS_MAX as usize],
) -> Option<&'a [Buffer]> {
    let regions = device.regions.read();
    let located = located.get_mut(..buffers.len())?;
    for (place, buffer) in located.iter_mut().zip(buffers) {
        let region = regions
            .get(&buffer.lkey)
            .filter(|region| region.pd == queue_pair.pd)?;
        *place = Buffer {
            addr: region.locate(buffer.addr, buffer.length)?,
            ..*buffer
        };
    }
    Some(located)
}

/// Posts a chain up to its end or to the first request that fails.
///
/// # Safety
/// A chain of valid requests.
unsafe fn post(
    queue_pair: &QueuePair,
    device: &OpenDevice,
    first: *mut abi::SendWr,
) -> Posted<abi::SendWr> {
    if queue_pair.state() < RTS {
        return Posted::failed(Errno(libc::EINVAL), first);
    }
    unmapped::adopt_what_came();
    let mut side = queue_pair.send.lock();
    let mut next = first;
    let mut outcome = Ok(());
    // SAFETY: null or the next request of the chain.
    while let Some(request) = unsafe { next.as_ref() } {
        // SAFETY: a valid request names valid buffers and objects.
        outcome = unsafe {
            let mut slot = slot(request.wr_id, request.send_flags);
            describe(&mut slot, request, queue_pair.service).and_then(|()| {
                let payload = Payload {
                    buffers: buffers(request.sg_list, request.num_sge),
                    inline: request.send_flags & INLINE != 0,
                };
                side.push(queue_pair, device, &slot, payload)
            })
        };
        if outcome.is_err() {
            break;
        }
        next = request.next;
    }
    if next != first && !side.queue.is_idle() {
        side.queue.publish();
        drop(side);
        device.ringer.ring(queue_pair.doorbell);
    }
    Posted {
        outcome,
        bad_wr: next,
    }
}

/// `ops.post_send`.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut abi::Qp,
    first: *mut abi::SendWr,
    bad: *mut *mut abi::SendWr,
) -> c_int {
    // SAFETY: the header's wrapper passes a queue pair.
    let posted = match unsafe { QueuePair::of(qp) } {
        // SAFETY: and a chain of requests.
        Ok((queue_pair, device)) => unsafe { post(queue_pair, device, first) },
        Err(error) => Posted::failed(error, first),
    };
    // SAFETY: the place is the caller's.
    unsafe { report(posted, bad) }
}
