//! Sizes of a queue pair: whether its rings fit the pages that the driver gave.
//!
//! ```text
//!   pages   0        1 … send_chunks   … total_chunks - 1
//!           state    send ring         receive ring (none with a shared queue)
//! ```

use super::Errno;
use super::errno::require;
use crate::abi::request::CreateQp;
use crate::abi::response::QpSizes;
use crate::config::DeviceLimits;
use crate::queue::work::{WorkArea, recv_stride, send_stride};
use crate::ring::{RECV_STATE, SEND_STATE};

/// Rings that fit their pages.
pub(super) struct Geometry {
    pub(super) sizes: QpSizes,
    /// Number of pages in all.
    pub(super) pages: u32,
    pub(super) send: WorkArea,
    pub(super) recv: Option<WorkArea>,
}

impl Geometry {
    pub(super) fn check(request: &CreateQp, limits: &DeviceLimits) -> Result<Self, Errno> {
        let pages = u32::from(request.total_chunks.get());
        let send_pages = u32::from(request.send_chunks.get());
        let recv_pages = pages.checked_sub(1 + send_pages).ok_or(Errno::Invalid)?;
        let sizes = sizes(request);
        let send = send_area(&sizes, limits)?;
        require(u64::from(send_pages) >= send.pages())?;
        let recv = match request.is_srq {
            0 => Some(recv_area(&sizes, limits, 1 + send_pages)?),
            1 => None,
            _ => return Err(Errno::Invalid),
        };
        require(recv.is_none_or(|area| u64::from(recv_pages) >= area.pages()))?;
        Ok(Self {
            sizes,
            pages,
            send,
            recv,
        })
    }
}

fn sizes(request: &CreateQp) -> QpSizes {
    QpSizes {
        max_send_wr: request.max_send_wr,
        max_recv_wr: request.max_recv_wr,
        max_send_sge: request.max_send_sge,
        max_recv_sge: request.max_recv_sge,
        max_inline_data: 0.into(),
    }
}

fn send_area(sizes: &QpSizes, limits: &DeviceLimits) -> Result<WorkArea, Errno> {
    let (slots, sges) = (sizes.max_send_wr.get(), sizes.max_send_sge.get());
    check(slots, sges, limits)?;
    Ok(WorkArea {
        slots,
        stride: send_stride(sges),
        first_page: 1,
        state: SEND_STATE,
    })
}

fn recv_area(sizes: &QpSizes, limits: &DeviceLimits, first_page: u32) -> Result<WorkArea, Errno> {
    let (slots, sges) = (sizes.max_recv_wr.get(), sizes.max_recv_sge.get());
    check(slots, sges, limits)?;
    Ok(WorkArea {
        slots,
        stride: recv_stride(sges),
        first_page,
        state: RECV_STATE,
    })
}

fn check(slots: u32, sges: u32, limits: &DeviceLimits) -> Result<(), Errno> {
    require(slots.is_power_of_two() && slots <= limits.queue_requests)?;
    require((1..=limits.sges).contains(&sges))
}
