//! Pages that the adapter wrote, which a context carries besides records: read from the frozen adapter's guest, and
//! written where it goes on.

use vrdma_api::CONTEXT_BYTES_MAX;
use vrdma_memory::{DirtyRun, PAGE, Space};
use vrdma_pvrdma::{Context, WrittenPages};
use vrdma_shard::Frozen;
use vrdma_wire::Mac;

use super::super::answer::Problem;

/// Guest addresses scanned in one step, and the end of all of them (PCI has 64 bits, processors 52).
pub(super) const LOOK_BYTES: u64 = 64 << 30;
pub(super) const ADDRESSES_END: u64 = 1 << 52;

/// Bytes copied under one view of the memory, which a shard may have to wait for.
pub(in crate::control) const PIECE: usize = 64 << 10;

/// Encodes the whole context.
pub(super) fn encode(mac: Mac, frozen: Frozen, leaves_pages: bool) -> Result<Vec<u8>, Problem> {
    let pages = match leaves_pages {
        true => Vec::new(),
        false => written_pages(&frozen.memory)?,
    };
    if frozen.memory.generation() != frozen.generation {
        return Err(mapped_anew());
    }
    let context = Context {
        mac,
        records: frozen.records,
        pages,
    };
    let bytes = context.encode();
    match bytes.len() <= CONTEXT_BYTES_MAX {
        true => Ok(bytes),
        false => Err(too_much()),
    }
}

/// Reads the pages in the log, with their contents.
fn written_pages(memory: &Space) -> Result<Vec<WrittenPages>, Problem> {
    let mut pages = Vec::new();
    let mut bytes = 0;
    for start in (0..ADDRESSES_END).step_by(LOOK_BYTES as usize) {
        for run in memory.dirty_log().take(start..start + LOOK_BYTES) {
            bytes += run.pages * PAGE;
            if bytes > CONTEXT_BYTES_MAX as u64 || pages.len() >= vrdma_pvrdma::RUNS_MAX as usize {
                return Err(too_much());
            }
            pages.push(read_pages(memory, run)?);
        }
    }
    Ok(pages)
}

fn too_much() -> Problem {
    Problem::conflict(format!(
        "the adapter has written more than {CONTEXT_BYTES_MAX} bytes of its guest's memory since it is tracked, or \
         65536 pages here and there: leave them to QEMU (`resend`), or migrate when it writes less"
    ))
}

pub(in crate::control) fn mapped_anew() -> Problem {
    Problem::conflict(
        "the guest's memory was mapped anew while the adapter was frozen: begin the migration again"
            .to_owned(),
    )
}

fn read_pages(memory: &Space, run: DirtyRun) -> Result<WrittenPages, Problem> {
    let mut bytes = vec![0; (run.pages * PAGE) as usize];
    for (at, piece) in (run.iova..).step_by(PIECE).zip(bytes.chunks_mut(PIECE)) {
        let read = memory.view().read(at, piece);
        read.map_err(|_| mapped_anew())?;
    }
    Ok(WrittenPages {
        address: run.iova,
        bytes,
    })
}

/// Writes the pages before the device goes on. Bus mastering, which QEMU may not have switched on yet, is left to the
/// device. If memory follows, a missing page comes from the source as the adapter left it, and must not be there
/// before.
pub(super) fn write_pages(
    memory: &Space,
    pages: &[WrittenPages],
    follows: bool,
) -> Result<(), Problem> {
    memory.set_bus_master(true);
    let piece_bytes = if follows { PAGE as usize } else { PIECE };
    for run in pages {
        let pieces = run.bytes.chunks(piece_bytes);
        for (at, piece) in (run.address..).step_by(piece_bytes).zip(pieces) {
            let view = memory.view();
            if follows && !view.has_page(at) {
                continue;
            }
            view.write(at, piece).map_err(|_| {
                Problem::conflict(format!(
                    "the guest has no memory at {at:#x} here: start both QEMUs with the same memory"
                ))
            })?;
        }
    }
    Ok(())
}
