//! The messages that the two relays exchange on their connection.
//!
//! ```text
//!   source ──── HELLO: blocks, and where they are in the destination's QEMU ────► destination
//!          ◄─── READY: where they are to be written, and where QEMU shall listen
//!          ════ BYTES, pages by RDMA WRITE between them ════════════════════════►
//!          ◄═══ BYTES ═══════════════════════════════════════════════════════════
//!          ──── END in each direction; FAILED instead of anything, and then nothing more
//! ```

use serde::{Deserialize, Serialize};

/// Version of this protocol.
pub(crate) const VERSION: u32 = 1;

/// Bytes of the longest message, and so of a buffer.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Most forwarded bytes in a message.
pub(crate) const PAYLOAD_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 1;

/// Most blocks that are placed; guests have one, or one a NUMA node.
pub(crate) const BLOCKS_MAX: usize = 64;

/// Longest sentence that is accepted from the other relay.
const SENTENCE_BYTES_MAX: usize = 1024;

/// The request of the source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: u32,
    pub(crate) blocks: Vec<HelloBlock>,
}

/// A block of memory in the destination's QEMU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct HelloBlock {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// The offer of the destination.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// The migration URI at which the destination's QEMU is to listen.
    pub(crate) uri: String,
    /// The blocks, in the order in which the source named them.
    pub(crate) blocks: Vec<ReadyBlock>,
}

/// The place to which a block is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ReadyBlock {
    pub(crate) address: u64,
    pub(crate) key: u32,
}

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    Hello(Hello),
    Ready(Ready),
    /// Bytes for QEMU.
    Bytes(Vec<u8>),
    /// QEMU will send no more.
    End,
    /// Why the sender cannot go on.
    Failed(String),
}

const HELLO: u8 = 1;
const READY: u8 = 2;
const BYTES: u8 = 3;
const END: u8 = 4;
const FAILED: u8 = 5;

impl Message {
    /// Writes the message into a buffer that has room for the longest, and returns its length.
    pub(crate) fn write(&self, to: &mut [u8]) -> usize {
        let json = |value: Result<Vec<u8>, serde_json::Error>| value.unwrap_or_default();
        let (kind, body) = match self {
            Self::Bytes(bytes) => return put(to, BYTES, bytes),
            Self::Hello(hello) => (HELLO, json(serde_json::to_vec(hello))),
            Self::Ready(ready) => (READY, json(serde_json::to_vec(ready))),
            Self::End => (END, Vec::new()),
            Self::Failed(sentence) => (FAILED, sentence.clone().into_bytes()),
        };
        put(to, kind, &body)
    }

    /// Reads a message; `None` if it is malformed.
    pub(crate) fn read(from: &[u8]) -> Option<Self> {
        let (kind, body) = from.split_first()?;
        Some(match *kind {
            HELLO => Self::Hello(serde_json::from_slice(body).ok()?),
            READY => Self::Ready(serde_json::from_slice(body).ok()?),
            BYTES => Self::Bytes(body.to_vec()),
            END => Self::End,
            FAILED => {
                let body = &body[..body.len().min(SENTENCE_BYTES_MAX)];
                // Without control characters, which could move a terminal's cursor.
                let text = String::from_utf8_lossy(body);
                Self::Failed(text.chars().filter(|letter| !letter.is_control()).collect())
            }
            _ => return None,
        })
    }
}

/// Writes kind and body. A body that is too long is cut; none is, see `BLOCKS_MAX` and `PAYLOAD_BYTES_MAX`.
fn put(to: &mut [u8], kind: u8, body: &[u8]) -> usize {
    let Some((first, rest)) = to.split_first_mut() else {
        return 0;
    };
    let length = body.len().min(rest.len());
    *first = kind;
    rest[..length].copy_from_slice(&body[..length]);
    1 + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent() {
        let most = ReadyBlock {
            address: u64::MAX,
            key: u32::MAX,
        };
        let block = HelloBlock {
            address: u64::MAX,
            bytes: u64::MAX,
        };
        let all = [
            Message::Hello(Hello {
                version: VERSION,
                blocks: vec![block; BLOCKS_MAX],
            }),
            Message::Ready(Ready {
                uri: "unix:/run/x".to_owned(),
                blocks: vec![most; BLOCKS_MAX],
            }),
            Message::Bytes(vec![7; PAYLOAD_BYTES_MAX]),
            Message::End,
            Message::Failed("no".to_owned()),
        ];
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        for message in all {
            let length = message.write(&mut buffer);
            assert_eq!(Message::read(&buffer[..length]), Some(message));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        assert_eq!(Message::read(&[]), None);
        assert_eq!(Message::read(&[9, 1]), None);
        assert_eq!(Message::read(&[HELLO, b'{']), None);
        let said = Message::read(b"\x05no\x1b[2Jway");
        assert_eq!(said, Some(Message::Failed("no[2Jway".to_owned())));
    }
}
