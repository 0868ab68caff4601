//! Frames after the handshake.

use std::fmt;

use snow::{HandshakeState, TransportState};

use crate::frame;

/// Bytes that sealing adds.
const TAG_BYTES: usize = 16;

/// What one frame can say.
pub const PIECE_BYTES_MAX: usize = u16::MAX as usize - TAG_BYTES;

/// The other end said what it must not, or somebody between has changed it. The session is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("what it says cannot be understood")]
pub struct Broken;

/// Both ends have the key, and keys of their own for this session.
pub struct Session(TransportState);

impl Session {
    pub(crate) fn after(handshake: HandshakeState) -> Option<Self> {
        handshake.into_transport_mode().ok().map(Self)
    }

    /// The frame that says this, of at most [`PIECE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// It is longer.
    pub fn seal(&mut self, plain: &[u8]) -> Result<Vec<u8>, Broken> {
        if plain.len() > PIECE_BYTES_MAX {
            return Err(Broken);
        }
        let mut message = vec![0; plain.len() + TAG_BYTES];
        let sealed = self.0.write_message(plain, &mut message);
        sealed.map_err(|_| Broken)?;
        Ok(frame(&message))
    }

    /// What the body of a frame says.
    ///
    /// # Errors
    /// It is not the next one of the other end.
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
