//! Messages between host and agent, one JSON object a line.
//!
//! The host numbers its commands; every event about a command carries the
//! number. A guest's boot is announced by [`Event::Hello`], so a second one on
//! the same channel means that the guest was restarted and every command is gone.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The virtio-serial port's name, on QEMU's command line and in the guest's sysfs.
pub const PORT_NAME: &str = "org.vrdma.lab";

/// Longest line that either side accepts, in bytes. Output travels in pieces of [`CHUNK`], so a longer line means that
/// the peer has lost its place.
pub const MAX_LINE: u64 = 1 << 20;

/// Most bytes of input or output in one message.
pub const CHUNK: usize = 16 << 10;

/// A message from the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Asks for an [`Event::Hello`].
    Hello,
    /// Starts `sh -c command` in a process group of its own.
    Run {
        /// The number that the host gives this command.
        id: u64,
        /// A shell command line.
        command: String,
        /// Whether [`Request::Input`] will follow; standard input is empty otherwise.
        input: bool,
    },
    /// Bytes for a command's standard input; no bytes close it.
    Input {
        /// The command's number.
        id: u64,
        /// Bytes to write.
        bytes: Bytes,
    },
    /// Sends a signal to a command's process group.
    Kill {
        /// The command's number.
        id: u64,
        /// The signal's number.
        signal: i32,
    },
}

/// A message from the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The agent is ready.
    Hello,
    /// A command runs.
    Started {
        /// The command's number.
        id: u64,
        /// Its first process, which leads the group of the same number.
        pid: u32,
    },
    /// A command wrote something.
    Output {
        /// The command's number.
        id: u64,
        /// The stream that it was written to.
        stream: Stream,
        /// Bytes that were written.
        bytes: Bytes,
    },
    /// A command's first process ended and its output is complete.
    Ended {
        /// The command's number.
        id: u64,
        /// As a shell reports it: the exit code, or 128 and the signal's number.
        status: i32,
    },
}

/// A command's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Raw bytes. In JSON each byte is the character of the same number, which loses nothing and leaves ASCII readable in a
/// captured conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().copied().map(char::from).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.chars()
            .map(|c| u8::try_from(c).map_err(serde::de::Error::custom))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// Writes one message and its line end in a single write.
///
/// # Errors
/// When the stream fails.
pub fn send(message: &impl Serialize, to: &mut impl Write) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads the next message; `None` at the end of the stream.
///
/// # Errors
/// When the stream fails, or `InvalidData` for a line that is too long or no message.
pub fn receive<T: for<'de> Deserialize<'de>>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&line)
        .map(Some)
        .map_err(io::Error::from)
}

#[cfg(test)]
mod tests;
