//! An adapter as bytes: everything it knows, without host pointers, so that another process can go on with it.
//!
//! Save when nothing is between the two ends of the engine's interface: every unit that was polled has been delivered
//! or given up, every output has been handed out, no owner is leaving. Units on a wire do not count. The restored
//! requester goes back to its oldest unanswered unit, so the peer sees at most repetitions; time-outs begin anew.
//!
//! Records have types of their own, numbered fields and meaningful defaults. A newer version, or bytes that this
//! version does not know, are refused rather than ignored.

mod convert;
mod counters;
mod objects;
mod older;
mod pieces;
mod progress;
mod queue_pair;
mod record;
mod regions;
mod salvage;
mod work;

use alloc::vec::Vec;

use prost::Message;

pub use pieces::{Piece, Pieces, QpPiece, is_receiving, read_frame, read_receive, region_name};
pub use progress::PROGRESS_BYTES;

use crate::hca::Hca;

/// Version of the records written. It grows with every change of the meaning of fields.
pub const VERSION: u32 = 2;

/// The oldest version that is still read.
const FIRST_VERSION: u32 = 1;

fn is_readable(version: u32) -> bool {
    (FIRST_VERSION..=VERSION).contains(&version)
}

/// Reason why an adapter cannot be saved now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotQuiet {
    /// [`Hca::poll_output`] still has outputs.
    #[error("completions or events wait to be handed out")]
    Outputs,
    /// [`Hca::reap`] still has objects to free: they would be saved as if they still had an owner.
    #[error("an owner is leaving, and what it had is not freed yet")]
    Leaving,
}

/// Reason why an adapter cannot be restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RestoreError {
    /// The bytes are no such records.
    #[error("the saved state is not readable")]
    Unreadable,
    /// Written by another version.
    #[error(
        "the saved state has version {0}, this engine reads versions {FIRST_VERSION} to {VERSION}"
    )]
    Version(u32),
    /// The records hold more than this version knows.
    #[error("the saved state has parts that this engine does not know")]
    Leftover,
    /// A value or a reference that no adapter can have.
    #[error("the saved state is not consistent: {0}")]
    Inconsistent(&'static str),
    /// The memory of a region was not found again.
    #[error("registered memory of the saved state does not exist here")]
    Region,
}

/// Turns a region into bytes.
type SaveRegion<'a, R> = &'a mut dyn FnMut(&R) -> Vec<u8>;

/// Finds a region by its bytes.
type FindRegion<'a, R> = &'a mut dyn FnMut(&[u8]) -> Option<R>;

impl<R: Clone> Hca<R> {
    /// Saves the whole adapter as bytes; `region` names registered memory for [`Hca::restore`].
    ///
    /// Errors: completions or events have not been polled yet, or an owner is leaving.
    pub fn save(&self, mut region: impl FnMut(&R) -> Vec<u8>) -> Result<Vec<u8>, NotQuiet> {
        if self.is_reaping() {
            return Err(NotQuiet::Leaving);
        }
        if !self.shared.outputs.is_empty() {
            return Err(NotQuiet::Outputs);
        }
        Ok(objects::save(self, &mut region).encode_to_vec())
    }

    /// Makes an adapter that goes on where [`Hca::save`] left off. `region` finds registered memory by the name under
    /// which it was saved. Nothing in `bytes` is trusted.
    pub fn restore(
        bytes: &[u8],
        mut region: impl FnMut(&[u8]) -> Option<R>,
    ) -> Result<Self, RestoreError> {
        let header = record::Header::decode(bytes).map_err(|_| RestoreError::Unreadable)?;
        if !is_readable(header.version) {
            return Err(RestoreError::Version(header.version));
        }
        let mut adapter = record::Adapter::decode(bytes).map_err(|_| RestoreError::Unreadable)?;
        if adapter.encoded_len() != bytes.len() {
            return Err(RestoreError::Leftover);
        }
        if adapter.version == FIRST_VERSION {
            older::upgrade(&mut adapter);
        }
        objects::restore(&adapter, &mut region)
    }
}

/// Returns `Ok` when `condition` holds, otherwise that `what` is inconsistent.
fn check(condition: bool, what: &'static str) -> Result<(), RestoreError> {
    condition
        .then_some(())
        .ok_or(RestoreError::Inconsistent(what))
}
