//! Frames after the handshake.

use std::fmt;

use snow::{HandshakeState, TransportState};

use crate::frame;

/// Bytes that sealing adds to a message.
const TAG_BYTES: usize = 16;

/// Most bytes that one frame can carry.
pub const PIECE_BYTES_MAX: usize = u16::MAX as usize - TAG_BYTES;

/// The other end broke the protocol, or a frame was changed on its way. The session is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what it says cannot be understood")]
pub struct Broken;

/// A session: both ends have shown that they have the key, and have derived keys for this session alone.
pub struct Session(TransportState);

impl Session {
    pub(crate) fn after(handshake: HandshakeState) -> Option<Self> {
        handshake.into_transport_mode().ok().map(Self)
    }

    /// Seals up to [`PIECE_BYTES_MAX`] bytes into a frame.
    ///
    /// # Errors
    /// The message is longer.
    pub fn seal(&mut self, plain: &[u8]) -> Result<Vec<u8>, Broken> {
        if plain.len() > PIECE_BYTES_MAX {
            return Err(Broken);
        }
        let mut message = vec![0; plain.len() + TAG_BYTES];
        let sealed = self.0.write_message(plain, &mut message);
        sealed.map_err(|_| Broken)?;
        Ok(frame(&message))
    }

    /// Opens the body of a frame.
    ///
    /// # Errors
    /// The body is not the next one of the other end.
    pub fn open(&mut self, body: &[u8]) -> Result<Vec<u8>, Broken> {
        let mut plain = vec![0; body.len()];
        let length = self.0.read_message(body, &mut plain);
        plain.truncate(length.map_err(|_| Broken)?);
        Ok(plain)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session(not shown)")
    }
}
