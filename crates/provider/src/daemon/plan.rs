//! The places of a queue's parts in its memory: decided by the daemon, told to the client.
//!
//! ```text
//!   QP    0 send header | 256 recv header | 4096 send slots | recv slots | data area
//!   SRQ   0 header                        | 4096 slots
//!   CQ    0 header                        | 4096 entries | data area, for who puts messages in place
//! ```

use crate::layout::{
    COMPLETION_BYTES, ENCLOSED_MAX, ENCLOSING_AREA, queue_header, recv_stride, send_data_bytes,
    send_stride,
};
use crate::message::{QpCapacity, QueueGeometry};
use crate::{BUFFERS_MAX, CQ_ENTRIES_MAX, INLINE_MAX, INLINE_MIN, SLOTS_MAX};

const PAGE: u32 = 4096;

/// A queue pair's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpPlan {
    /// Sizes, rounded up to those that the queue pair gets.
    pub capacity: QpCapacity,
    /// Send queue.
    pub send: QueueGeometry,
    /// Receive queue; no slots with a shared one.
    pub recv: QueueGeometry,
    /// Bytes of the memory, in whole pages.
    pub bytes: u32,
}

impl QpPlan {
    /// Plans at least the sizes of `wanted`; `None` beyond the limits.
    pub fn new(wanted: &QpCapacity, has_srq: bool) -> Option<Self> {
        let sends = slots(wanted.max_send_wr)?;
        let recvs = if has_srq {
            0
        } else {
            slots(wanted.max_recv_wr)?
        };
        let (send_sges, recv_sges) = (buffers(wanted.max_send_sge)?, buffers(wanted.max_recv_sge)?);
        let inline =
            (wanted.max_inline <= INLINE_MAX).then_some(wanted.max_inline.max(INLINE_MIN))?;
        let (send_stride, recv_stride) = (send_stride(send_sges), recv_stride(recv_sges));
        let recv_at = PAGE + (sends * send_stride).next_multiple_of(PAGE);
        let data_at = recv_at + (recvs * recv_stride).next_multiple_of(PAGE);
        let data_bytes = send_data_bytes(sends, inline).next_multiple_of(PAGE);
        let capacity = QpCapacity {
            max_send_wr: sends,
            max_recv_wr: recvs,
            max_send_sge: send_sges,
            max_recv_sge: if has_srq { 0 } else { recv_sges },
            max_inline: inline,
        };
        let send = QueueGeometry {
            header: 0,
            slots_at: PAGE,
            slots: sends,
            stride: send_stride,
            data_at,
            data_bytes,
        };
        let recv = QueueGeometry {
            header: queue_header::BYTES as u32,
            slots_at: recv_at,
            slots: recvs,
            stride: recv_stride,
            data_at: 0,
            data_bytes: 0,
        };
        Some(Self {
            capacity,
            send,
            recv,
            bytes: data_at + data_bytes,
        })
    }
}

/// A shared receive queue's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqPlan {
    /// Buffers of one request.
    pub max_sge: u32,
    /// The queue.
    pub ring: QueueGeometry,
    /// Bytes of the memory, in whole pages.
    pub bytes: u32,
}

impl SrqPlan {
    /// Plans at least these sizes; `None` beyond the limits.
    pub fn new(max_wr: u32, max_sge: u32) -> Option<Self> {
        let (slots, max_sge) = (slots(max_wr)?, buffers(max_sge)?);
        let stride = recv_stride(max_sge);
        let ring = QueueGeometry {
            header: 0,
            slots_at: PAGE,
            slots,
            stride,
            data_at: 0,
            data_bytes: 0,
        };
        Some(Self {
            max_sge,
            ring,
            bytes: PAGE + (slots * stride).next_multiple_of(PAGE),
        })
    }
}

/// A completion queue's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqPlan {
    /// The queue.
    pub ring: QueueGeometry,
    /// Bytes of the memory, in whole pages.
    pub bytes: u32,
}

impl CqPlan {
    /// Plans at least that many entries, with or without room for messages; `None` beyond the limits.
    pub fn new(entries: u32, encloses: bool) -> Option<Self> {
        let slots = slots_below(CQ_ENTRIES_MAX, entries)?;
        let data_at = PAGE + (slots * COMPLETION_BYTES).next_multiple_of(PAGE);
        let data_bytes = if encloses {
            ENCLOSING_AREA + ENCLOSED_MAX
        } else {
            0
        };
        let ring = QueueGeometry {
            header: 0,
            slots_at: PAGE,
            slots,
            stride: COMPLETION_BYTES,
            data_at,
            data_bytes,
        };
        Some(Self {
            ring,
            bytes: data_at + data_bytes,
        })
    }
}

/// Slots for that many requests. Even 0 gets one: a queue without slots could not be used.
fn slots(wanted: u32) -> Option<u32> {
    slots_below(SLOTS_MAX, wanted)
}

fn slots_below(most: u32, wanted: u32) -> Option<u32> {
    (wanted <= most).then(|| wanted.max(1).next_power_of_two())
}

fn buffers(wanted: u32) -> Option<u32> {
    (wanted <= BUFFERS_MAX).then_some(wanted.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_behind_the_other() {
        let wanted = QpCapacity {
            max_send_wr: 100,
            max_recv_wr: 3,
            max_send_sge: 2,
            max_recv_sge: 1,
            max_inline: 220,
        };
        let plan = QpPlan::new(&wanted, false).unwrap();
        assert_eq!((plan.send.slots, plan.recv.slots), (128, 4));
        assert_eq!((plan.send.stride, plan.recv.stride), (192, 32));
        assert_eq!(plan.recv.slots_at, 4096 + 128 * 192);
        assert_eq!(plan.send.data_at, plan.recv.slots_at + 4096);
        assert_eq!(plan.bytes, plan.send.data_at + plan.send.data_bytes);
    }

    #[test]
    fn a_completion_queue_costs_its_header_and_its_entries() {
        for (entries, bytes) in [(1, 2), (64, 2), (65, 3), (1000, 17), (CQ_ENTRIES_MAX, 4097)] {
            let plan = CqPlan::new(entries, false).unwrap();
            assert_eq!(plan.bytes, bytes * PAGE, "{entries}");
            let enclosing = CqPlan::new(entries, true).unwrap();
            assert_eq!(enclosing.bytes, plan.bytes + enclosing.ring.data_bytes);
        }
    }

    #[test]
    fn a_short_message_goes_inline_even_if_nobody_asked() {
        let plan = QpPlan::new(&QpCapacity::default(), false).unwrap();
        assert_eq!(plan.capacity.max_inline, INLINE_MIN);
    }

    #[test]
    fn the_largest_fits_and_more_is_refused() {
        let most = QpCapacity {
            max_send_wr: SLOTS_MAX,
            max_recv_wr: SLOTS_MAX,
            max_send_sge: BUFFERS_MAX,
            max_recv_sge: BUFFERS_MAX,
            max_inline: INLINE_MAX,
        };
        assert!(QpPlan::new(&most, false).is_some());
        assert!(
            QpPlan::new(
                &QpCapacity {
                    max_send_wr: SLOTS_MAX + 1,
                    ..most
                },
                false
            )
            .is_none()
        );
        assert!(
            QpPlan::new(
                &QpCapacity {
                    max_inline: INLINE_MAX + 1,
                    ..most
                },
                false
            )
            .is_none()
        );
        assert!(CqPlan::new(CQ_ENTRIES_MAX, true).is_some());
        assert!(CqPlan::new(CQ_ENTRIES_MAX + 1, false).is_none());
        assert!(SrqPlan::new(SLOTS_MAX, BUFFERS_MAX + 1).is_none());
    }

    #[test]
    fn a_shared_queue_leaves_no_receive_slots() {
        let plan = QpPlan::new(&QpCapacity::default(), true).unwrap();
        assert_eq!((plan.recv.slots, plan.capacity.max_recv_sge), (0, 0));
    }
}
