//! The protocol by which the context of an adapter goes from the source's daemon to the destination's.
//!
//! ```text
//!   source, calls                                 destination, listens
//!   hello: version, Noise          ──────────►    made with our key?
//!                                  ◄──────────    hello: version, Noise
//!   request: adapter, ticket, size ──────────►    expected with that ticket?
//!                                  ◄──────────    answer: expected | refused      ── size 0: this was all
//!   context, in pieces             ──────────►
//!                                  ◄──────────    answer: arrived | refused
//! ```
//!
//! Each arrow is one *frame* of a TCP connection, the context several: two bytes of length, big-endian, and a Noise
//! message of at most 65,535 bytes (noiseprotocol.org, sections 3 and 13). The handshake is `NNpsk0` with a key of the
//! same form as a tunnel's. So from an end without the key, nothing but a hello is parsed; recorded frames cannot be
//! decrypted or replayed; and a frame that was changed, left out or repeated ends the session.
//!
//! The ticket comes from the orchestrator that asked the destination to expect the context: an end that has only the
//! key, or is late, cannot interfere with an adapter's context.
//!
//! This room makes and reads frames. It does not know sockets, time, adapters, or the content of a context.

#![forbid(unsafe_code)]

mod hello;
mod message;
mod session;

pub use hello::{Call, HELLO_BYTES_MAX, NoSession, refusal, take_call};
pub use message::{Answer, Incoming, Request};
pub use session::{Broken, PIECE_BYTES_MAX, Session};

/// Version of this protocol that a daemon speaks.
pub const VERSION: u16 = 1;

/// Bytes in front of a frame that hold its length.
pub const LENGTH_BYTES: usize = 2;

/// Returns a message with its length in front.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes()[..], message].concat()
}

#[cfg(test)]
mod tests;
