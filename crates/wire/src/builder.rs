//! Makes a packet in a buffer: headers, then payload piece by piece while the ICRC is computed, then padding and ICRC.

use crate::bits::Bits;
use crate::bth::Bth;
use crate::ethernet::EthernetView;
use crate::extension::Extension;
use crate::format::Format;
use crate::icrc::Icrc;
use crate::ipv6::Ipv6;
use crate::packet::MAX_PAYLOAD;
use crate::path::Path;
use crate::transport::Transport;
use crate::udp::{ROCE_PORT, Udp};

/// Why a packet cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BuildError {
    /// The buffer is too small.
    #[error("the packet takes {need} bytes, more than the buffer has")]
    Buffer {
        /// Bytes that the packet would take.
        need: usize,
    },
    /// The payload is longer than [`MAX_PAYLOAD`], or the opcode has none.
    #[error("the opcode cannot carry that much payload")]
    Payload,
}

/// A packet that is being made.
#[derive(Debug)]
pub struct PacketBuilder<'b> {
    frame: &'b mut [u8],
    at: usize,
    missing: usize,
    pad: usize,
    icrc: Icrc,
}

/// Bytes of the longest frame; a buffer of this size always suffices.
pub const MAX_FRAME: usize = EthernetView::MAX_LEN
    + Ipv6::LEN
    + Udp::LEN
    + Bth::LEN
    + Extension::MAX_LEN
    + MAX_PAYLOAD
    + Icrc::LEN;

/// Returns the bytes of the frame that [`PacketBuilder`] makes of these parts.
pub fn frame_len(path: &Path, transport: &Transport, payload_len: usize) -> usize {
    path.header_len() + roce_len(transport, payload_len)
}

fn roce_len(transport: &Transport, payload_len: usize) -> usize {
    transport.header_len() + payload_len.next_multiple_of(4) + Icrc::LEN
}

impl<'b> PacketBuilder<'b> {
    /// Writes all headers for a payload of `payload_len` bytes, which has to be pushed next.
    ///
    /// # Errors
    /// See [`BuildError`]; the buffer is unchanged then.
    pub fn new(
        path: &Path,
        transport: &Transport,
        payload_len: usize,
        buffer: &'b mut [u8],
    ) -> Result<Self, BuildError> {
        if payload_len > MAX_PAYLOAD || payload_len > 0 && !transport.info().payload {
            return Err(BuildError::Payload);
        }
        let need = frame_len(path, transport, payload_len);
        let frame = buffer.get_mut(..need).ok_or(BuildError::Buffer { need })?;
        Ok(Self::begin(path, transport, payload_len, frame))
    }

    fn begin(path: &Path, transport: &Transport, payload_len: usize, frame: &'b mut [u8]) -> Self {
        let pad = payload_len.next_multiple_of(4) - payload_len;
        let bth_at = path.header_len();
        let extension_at = bth_at + Bth::LEN;
        let at = bth_at + transport.header_len();
        path.emit(ROCE_PORT, roce_len(transport, payload_len) as u16, frame);
        Bth {
            pad: Bits::low(pad as u8),
            ..*transport.bth()
        }
        .emit(&mut frame[bth_at..]);
        transport.extension().emit(&mut frame[extension_at..at]);
        let mut icrc = Icrc::new(&frame[path.ethernet_len()..extension_at]);
        icrc.update(&frame[extension_at..at]);
        Self {
            frame,
            at,
            missing: payload_len,
            pad,
            icrc,
        }
    }

    /// Appends payload, copying and hashing it in one pass.
    ///
    /// # Panics
    /// If the payload is longer than announced.
    pub fn push(&mut self, bytes: &[u8]) {
        let at = self.advance(bytes.len());
        self.icrc.update_copy(bytes, &mut self.frame[at..self.at]);
    }

    /// Appends `len` bytes of payload that `fill` writes into the frame: for memory that is not a slice. `fill` sees
    /// the earlier contents of the buffer.
    ///
    /// # Errors
    /// The error of `fill`; the packet is lost then.
    ///
    /// # Panics
    /// If the payload is longer than announced.
    pub fn push_with<E>(
        mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let at = self.advance(len);
        let room = &mut self.frame[at..self.at];
        fill(room)?;
        self.icrc.update(room);
        Ok(self)
    }

    fn advance(&mut self, len: usize) -> usize {
        assert!(len <= self.missing, "more payload than announced");
        self.missing -= len;
        let at = self.at;
        self.at += len;
        at
    }

    /// Appends padding and ICRC, and returns the frame.
    ///
    /// # Panics
    /// If payload is missing.
    pub fn finish(mut self) -> &'b [u8] {
        assert_eq!(self.missing, 0, "less payload than announced");
        let (pad, icrc) = self.frame[self.at..].split_at_mut(self.pad);
        pad.fill(0);
        self.icrc.update(pad);
        icrc.copy_from_slice(&self.icrc.finish());
        self.frame
    }
}

#[cfg(test)]
mod tests;
