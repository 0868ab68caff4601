//! The hello: the first frame in each direction.
//!
//! ```text
//!   0          8         10
//!   | "vRDMA-ho" | version | Noise message, or nothing: refused |
//! ```

use std::fmt;

use snow::HandshakeState;
use vrdma_uplink::Keys;

use crate::session::Session;
use crate::{VERSION, frame};

const MAGIC: [u8; 8] = *b"vRDMA-ho";

/// Prologue of the handshake: a handshake for another purpose with the same key does not fit this one.
const PROLOGUE: &[u8] = b"vrdma handover 1";

/// Room for a public key and a tag, and some more.
const NOISE_BYTES_MAX: usize = 128;

/// Body of the longest hello: a longer one comes from a stranger.
pub const HELLO_BYTES_MAX: usize = MAGIC.len() + size_of_val(&VERSION) + NOISE_BYTES_MAX;

/// Why two ends have no session. The sentences are about the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoSession {
    /// The frame is no hello.
    #[error("it is no vrdmad that listens for migrations")]
    Stranger,
    /// The hello has another version.
    #[error(
        "it hands adapters over by version {0} of the protocol, and this daemon by version {VERSION}; use the same release on both hosts"
    )]
    Version(u16),
    /// The hello was not made with any of our keys.
    #[error("it has another key; give both daemons the same in [migration]")]
    Key,
}

/// A call that waits for its answer.
pub struct Call(HandshakeState);

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Call(not shown)")
    }
}

impl Call {
    /// Begins a call, and returns it with the frame to send; `None` if the system has no random numbers.
    #[must_use]
    pub fn begin(keys: &Keys) -> Option<(Self, Vec<u8>)> {
        let mut state = keys.caller(PROLOGUE)?;
        let frame = hello(&write(&mut state)?);
        Some((Self(state), frame))
    }

    /// Takes the body of the frame that came back.
    ///
    /// # Errors
    /// [`NoSession`].
    pub fn take_answer(mut self, body: &[u8]) -> Result<Session, NoSession> {
        let noise = noise(body)?;
        if !reads(&mut self.0, noise) {
            return Err(NoSession::Key);
        }
        Session::after(self.0).ok_or(NoSession::Key)
    }
}

/// Takes the body of a caller's first frame, and returns the session and the frame to send.
///
/// # Errors
/// [`NoSession`]; [`refusal`] tells the caller.
pub fn take_call(keys: &Keys, body: &[u8]) -> Result<(Session, Vec<u8>), NoSession> {
    let noise = noise(body)?;
    let mut taken = keys.callees(PROLOGUE);
    let mut state = taken
        .find_map(|mut state| reads(&mut state, noise).then_some(state))
        .ok_or(NoSession::Key)?;
    let frame = hello(&write(&mut state).ok_or(NoSession::Key)?);
    let session = Session::after(state).ok_or(NoSession::Key)?;
    Ok((session, frame))
}

/// Returns the frame that refuses a caller; from it, the caller knows whether version or key differ. Strangers get
/// none.
#[must_use]
pub fn refusal(why: NoSession) -> Option<Vec<u8>> {
    (why != NoSession::Stranger).then(|| hello(&[]))
}

fn hello(noise: &[u8]) -> Vec<u8> {
    frame(&[&MAGIC[..], &VERSION.to_be_bytes(), noise].concat())
}

fn noise(body: &[u8]) -> Result<&[u8], NoSession> {
    let rest = body.strip_prefix(&MAGIC).ok_or(NoSession::Stranger)?;
    let (version, noise) = rest.split_first_chunk().ok_or(NoSession::Stranger)?;
    match u16::from_be_bytes(*version) {
        VERSION => Ok(noise),
        other => Err(NoSession::Version(other)),
    }
}

fn write(state: &mut HandshakeState) -> Option<Vec<u8>> {
    let mut message = vec![0; NOISE_BYTES_MAX];
    let length = state.write_message(&[], &mut message).ok()?;
    message.truncate(length);
    Some(message)
}

/// Whether the message was made with the key of this handshake, and carries no payload.
fn reads(state: &mut HandshakeState, message: &[u8]) -> bool {
    let mut said = [0; NOISE_BYTES_MAX];
    message.len() <= NOISE_BYTES_MAX && matches!(state.read_message(message, &mut said), Ok(0))
}
