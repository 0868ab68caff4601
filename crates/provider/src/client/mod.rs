//! The process's end: calls to the daemon, and the rings as the library uses them.
//!
//! Nothing here locks: one thread at a time may use a queue's object, as the library's lock of that
//! queue provides.

mod completion;
mod connection;
mod data;
mod enclosed;
#[cfg(not(loom))]
mod queue_memory;
mod receive;
mod send;

pub use completion::CompletionQueue;
pub use connection::{Answer, CallError, Connection};
pub use enclosed::{Enclosed, Piece};
#[cfg(not(loom))]
pub use queue_memory::QueueMemory;
pub use receive::ReceiveQueue;
pub use send::{Full, SendQueue};

use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::CQ_ENTRIES_MAX;
use crate::atomics::Area;
use crate::layout::queue_header;
use crate::message::QueueGeometry;

/// Takes the oldest request that the daemon has not done out of the queue, and returns its place.
fn take_back(area: &Area, ring: &QueueGeometry, producer: u32) -> Option<usize> {
    let word = area.u32(ring.header as usize + queue_header::CONSUMER);
    let consumer = word.load(Acquire);
    let waiting = producer.wrapping_sub(consumer);
    if waiting == 0 || waiting > ring.slots {
        return None;
    }
    word.store(consumer.wrapping_add(1), Release);
    let slot = consumer & (ring.slots - 1);
    Some((ring.slots_at + slot * ring.stride) as usize)
}

/// Checks that a queue's parts lie inside its area: with another version of the daemon the library must fail and not
/// crash.
fn check(area: &Area, header_bytes: usize, stride: u32, ring: &QueueGeometry) -> io::Result<()> {
    let slots = u64::from(ring.slots) * u64::from(ring.stride);
    let ends = [
        u64::from(ring.header) + header_bytes as u64,
        u64::from(ring.slots_at) + slots,
        u64::from(ring.data_at) + u64::from(ring.data_bytes),
    ];
    let inside = ends.iter().all(|end| *end <= area.length() as u64);
    let shaped = ring.slots.is_power_of_two()
        && ring.slots <= CQ_ENTRIES_MAX
        && ring.stride >= stride
        && (ring.header | ring.slots_at | ring.stride | ring.data_at).is_multiple_of(8);
    if inside && shaped {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}
