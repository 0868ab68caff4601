//! The station at the other end of a port's cable.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use vrdma_uplink::Tap;
use vrdma_wire::qemu_stream::{FRAME_BYTES_MAX, HEADER_BYTES};

use super::client::Client;

/// Frames taken from a TAP at a time: as many as one read of a socket often returns.
const FRAMES_A_READ: usize = 64;

/// A station; see the module.
#[derive(Debug)]
pub(super) enum Station {
    /// A guest, through its QEMU.
    Guest(Client),
    /// The host's own IP stack.
    Host(Tap),
}

impl Station {
    /// Fills `buffer` with frames and their lengths; `None` when there are none.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Self::Guest(client) => client.receive(buffer),
            Self::Host(tap) => read_frames(tap, buffer),
        }
    }

    /// Keeps the beginning of a frame for the next [`receive`](Self::receive). A TAP returns whole frames.
    pub(super) fn carry(&mut self, buffer: &mut [u8], rest: Range<usize>) -> io::Result<()> {
        match self {
            Self::Guest(client) => client.carry(buffer, rest),
            Self::Host(_) => Ok(()),
        }
    }

    /// Whether looking again is useful only after more bytes have come.
    pub(super) fn is_stalled(&self) -> bool {
        matches!(self, Self::Guest(client) if client.is_stalled())
    }

    /// Sends frames of `bytes`, each a range with its header; `give_up` gets the length, without header, of each frame
    /// that is lost.
    pub(super) fn send(
        &mut self,
        bytes: &[u8],
        frames: &[Range<usize>],
        mut give_up: impl FnMut(usize),
    ) -> io::Result<()> {
        match self {
            Self::Guest(client) => client.send(bytes, frames, give_up),
            Self::Host(tap) => frames.iter().try_for_each(|frame| {
                let frame = &bytes[frame.start + HEADER_BYTES..frame.end];
                if !tap.send(frame)? {
                    give_up(frame.len());
                }
                Ok(())
            }),
        }
    }

    /// Sends frames that wait for room.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Guest(client) => client.flush(),
            Self::Host(_) => Ok(()),
        }
    }

    /// Whether frames wait for room.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, Self::Guest(client) if client.is_waiting())
    }
}

impl AsFd for Station {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Guest(client) => client.as_fd(),
            Self::Host(tap) => tap.as_fd(),
        }
    }
}

/// Reads frames in the format of QEMU's socket.
fn read_frames(tap: &Tap, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let mut filled = 0;
    for _ in 0..FRAMES_A_READ {
        let body = filled + HEADER_BYTES;
        let Some(room) = buffer.get_mut(body..body + FRAME_BYTES_MAX) else {
            break;
        };
        let Some(length) = tap.receive(room)?.filter(|length| *length > 0) else {
            break;
        };
        buffer[filled..body].copy_from_slice(&(length as u32).to_be_bytes());
        filled = body + length;
    }
    Ok((filled > 0).then_some(filled))
}
