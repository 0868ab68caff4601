//! A message that an entry of a completion queue encloses.

use std::sync::atomic::Ordering::AcqRel;

use crate::BUFFERS_MAX;
use crate::atomics::Area;
use crate::layout::{Buffer, Completion, EnclosedHeader, enclosed_bytes};
use crate::message::QueueGeometry;

/// A message that an entry of a completion queue encloses.
#[derive(Debug)]
pub struct Enclosed<'a> {
    area: &'a Area,
    at: usize,
    buffers: u32,
    bytes: u32,
}

impl<'a> Enclosed<'a> {
    /// Finds the message of an entry; `None` if it is not inside the data area.
    #[inline]
    pub(super) fn of(area: &'a Area, ring: &QueueGeometry, entry: &Completion) -> Option<Self> {
        let end = entry.enclosed_at.checked_add(entry.enclosed_bytes)?;
        let aligned = entry.enclosed_at.is_multiple_of(4);
        (end <= ring.data_bytes && entry.enclosed_bytes >= enclosed_bytes(0, 0) && aligned)
            .then_some(())?;
        let at = (ring.data_at + entry.enclosed_at) as usize;
        let header: EnclosedHeader = area.get(at);
        let front = (header.buffers <= BUFFERS_MAX).then(|| enclosed_bytes(header.buffers, 0))?;
        Some(Self {
            area,
            at,
            buffers: header.buffers,
            bytes: entry.enclosed_bytes.checked_sub(front)?,
        })
    }

    /// Claims the message. Whether the caller has to put it in place: if not, the daemon has done so.
    #[inline]
    pub fn claim(&self) -> bool {
        self.area.u32(self.at).swap(1, AcqRel) == 0
    }

    /// The message's buffers, as the receive names them, each with the bytes that belong there.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'a>> {
        let (area, at, buffers) = (self.area, self.at, self.buffers);
        let mut from = at + enclosed_bytes(buffers, 0) as usize;
        let end = from + self.bytes as usize;
        (0..buffers).map_while(move |index| {
            let buffer: Buffer = area.get(at + enclosed_bytes(index, 0) as usize);
            let start = from;
            from += buffer.length as usize;
            (from <= end).then_some(Piece {
                buffer,
                area,
                from: start,
            })
        })
    }
}

/// The part of a message for one buffer.
#[derive(Debug)]
pub struct Piece<'a> {
    /// The buffer that the part belongs to.
    pub buffer: Buffer,
    area: &'a Area,
    from: usize,
}

impl Piece<'_> {
    /// Copies the part to its place.
    ///
    /// # Safety
    /// `to` is writable for as many bytes as the buffer has.
    #[inline]
    pub unsafe fn put(&self, to: *mut u8) {
        // SAFETY: as promised.
        unsafe {
            self.area
                .read_to(self.from, to, self.buffer.length as usize)
        }
    }
}
