//! Agreement of two ends on the keys of a session by Noise (noiseprotocol.org): one call and one answer.

use snow::{HandshakeState, StatelessTransportState};

use super::header::Channel;
use super::key::Keys;

/// Identity of an end since it was opened: another number after a restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Life(pub(super) [u8; 16]);

/// Longest message: a public key, the content, and a tag.
const MESSAGE_BYTES_MAX: usize = 128;

/// Bytes of an answer's content: the life, and the number of the session.
const ANSWER_BYTES: usize = 16 + 4;

/// A call that waits for its answer.
pub(super) struct Call(HandshakeState);

/// Returns the prologue of a port's handshakes: a handshake for one port is invalid for the other.
fn context(channel: Channel) -> &'static [u8] {
    match channel {
        Channel::Roce => b"vrdma tunnel 1 roce",
        Channel::Rest => b"vrdma tunnel 1 rest",
    }
}

/// Begins a handshake. Returns it with the message to send.
pub(super) fn call(keys: &Keys, channel: Channel, life: Life) -> Option<(Call, Vec<u8>)> {
    let mut state = keys.caller(context(channel))?;
    let message = write(&mut state, &life.0)?;
    Some((Call(state), message))
}

/// Takes a call, if it was made with one of the keys. Returns the caller's life, and the call to answer.
pub(super) fn take_call(keys: &Keys, channel: Channel, message: &[u8]) -> Option<(Life, Taken)> {
    keys.callees(context(channel)).find_map(|mut state| {
        let life = read::<16>(&mut state, message)?;
        Some((Life(life), Taken(state)))
    })
}

/// A call that can be answered.
pub(super) struct Taken(HandshakeState);

impl Taken {
    /// Returns the keys to open with, and the message to send.
    pub(super) fn answer(
        mut self,
        life: Life,
        session: u32,
    ) -> Option<(StatelessTransportState, Vec<u8>)> {
        let mut said = [0; ANSWER_BYTES];
        said[..16].copy_from_slice(&life.0);
        said[16..].copy_from_slice(&session.to_be_bytes());
        let message = write(&mut self.0, &said)?;
        Some((self.0.into_stateless_transport_mode().ok()?, message))
    }
}

impl Call {
    /// Takes an answer. Returns the life of the answering end, and the number of the session. A forged answer changes
    /// nothing.
    pub(super) fn take_answer(&mut self, message: &[u8]) -> Option<(Life, u32)> {
        let said = read::<ANSWER_BYTES>(&mut self.0, message)?;
        let (life, session) = said.split_first_chunk::<16>()?;
        let session = session.try_into().map(u32::from_be_bytes).ok()?;
        Some((Life(*life), session))
    }

    /// Returns the keys to seal with, after an answer.
    pub(super) fn finish(self) -> Option<StatelessTransportState> {
        self.0.into_stateless_transport_mode().ok()
    }
}

fn write(state: &mut HandshakeState, said: &[u8]) -> Option<Vec<u8>> {
    let mut message = vec![0; MESSAGE_BYTES_MAX];
    let length = state.write_message(said, &mut message).ok()?;
    message.truncate(length);
    Some(message)
}

fn read<const N: usize>(state: &mut HandshakeState, message: &[u8]) -> Option<[u8; N]> {
    let mut said = [0; MESSAGE_BYTES_MAX];
    if message.len() > MESSAGE_BYTES_MAX {
        return None;
    }
    let length = state.read_message(message, &mut said).ok()?;
    said[..length].try_into().ok()
}
