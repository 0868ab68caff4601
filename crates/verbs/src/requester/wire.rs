//! What a wire asks of the requester: a window, slices of READs, and acknowledgements asked for.

use crate::qp::Qp;

/// Packets that may be without an answer.
const WINDOW: u32 = 64;

/// Packets after which an acknowledgement is asked for in the middle of a message.
const ACK_EVERY: u32 = 16;

/// Packets that the responses to one READ request have at most. A constant, so that a slice asked for
/// again is part of the one asked for before: some responders answer nothing else.
const READ_SLICE: u32 = 32;

impl<R> Qp<R> {
    /// Packets from a place in a READ to the end of its slice.
    pub(super) fn read_slice(&self, at: u32) -> u32 {
        READ_SLICE - at % READ_SLICE
    }

    /// Whether the next unit fits, and whether it asks for an acknowledgement.
    pub(super) fn fit_window(&self, packets: u32, last: bool) -> Option<bool> {
        let requester = &self.requester;
        let outstanding = requester.next.since(requester.unacked);
        let room = WINDOW.checked_sub(outstanding + packets);
        if room.is_none() && outstanding > 0 {
            return None;
        }
        let every = requester.next.get().is_multiple_of(ACK_EVERY);
        Some(last || every || room.is_none_or(|room| room == 0))
    }
}
