//! How the context of an adapter goes from the source's daemon to the destination's.
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
//! Each arrow is one *frame* of a TCP connection, the context several: two bytes of length, highest first, and a Noise
//! message of at most 65,535 bytes (noiseprotocol.org, sections 3 and 13). The handshake is `NNpsk0` with a key of the same
//! form as a tunnel's. So nothing but a hello is parsed of who has no key, what was recorded opens nothing and cannot be sent
//! again, and a frame that was changed, left out or repeated ends the session.
//!
//! The ticket is of the orchestrator that asked the destination to expect the context: who has the key alone, or is late, cannot
//! put one in an adapter's way.
//!
//! This room makes and reads frames. It does not know sockets, time, adapters, or what a context is made of.

#![forbid(unsafe_code)]

mod hello;
mod message;
mod session;

pub use hello::{Call, HELLO_BYTES_MAX, NoSession, refusal, take_call};
pub use message::{Answer, Incoming, Request};
pub use session::{Broken, PIECE_BYTES_MAX, Session};

/// Which version of this protocol a daemon speaks.
pub const VERSION: u16 = 1;

/// Bytes in front of a frame that say how many follow.
pub const LENGTH_BYTES: usize = 2;

/// A message with its length.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes()[..], message].concat()
}

#[cfg(test)]
mod tests;
