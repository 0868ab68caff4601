//! Receive entries.

use vrdma_memory::View;
use vrdma_verbs::work::{RecvWr, Status};

use super::{Entry, FIRST_PIECE};
use crate::abi::work::{RECV_HEADER_BYTES, RecvHeader};
use crate::queue::RingError;

/// Copies and decodes the entry of `stride` bytes at `address`, with at most `max_sge` buffers.
pub(crate) fn decode(
    memory: &View<'_>,
    address: u64,
    stride: u32,
    max_sge: u32,
) -> Result<RecvWr, RingError> {
    let mut bytes = [0; FIRST_PIECE];
    let entry = Entry::copy(memory, address, stride, &mut bytes)?;
    let header: &RecvHeader = entry.header();
    let count = header.num_sge.get();
    let sges = if count > max_sge {
        Err(Status::LocQpOp)
    } else {
        Ok(entry.sges(RECV_HEADER_BYTES, count)?)
    };
    Ok(RecvWr {
        id: header.wr_id.get(),
        sges,
    })
}
