//! The list of capabilities in a stream's configuration, which the destination compares with its own.
//!
//! A stream that was written into a file has `mapped-ram` in its list. The destination gets no file, so the list is
//! forwarded without that name, and not at all if nothing else is in it.

use super::fault::text;
use super::header::Kind;
use super::{Fault, Sink, State};

/// The capability that comes with a file.
const MAPPED: &[u8] = b"mapped-ram";

/// Capabilities that put something else into the stream, or leave pages out of it.
const REFUSED: [&[u8]; 3] = [b"x-ignore-shared", MAPPED, b"multifd"];

/// Most capabilities in a list; QEMU has some twenty.
const COUNT_MAX: u32 = 256;

#[derive(Debug, Default)]
pub(super) struct Capabilities {
    is_of_file: bool,
    /// Bytes ahead of the list, without its length.
    header: Vec<u8>,
    /// Names that are forwarded; `count` is their number.
    names: Vec<u8>,
    count: u32,
    has_dropped: bool,
}

impl Capabilities {
    pub(super) fn of_file() -> Self {
        Self {
            is_of_file: true,
            ..Self::default()
        }
    }

    /// Begins a list; `held` ends with its length.
    pub(super) fn begin(
        &mut self,
        held: &[u8],
        count: u32,
        sink: &mut impl Sink,
    ) -> Result<State, Fault> {
        if count > COUNT_MAX {
            return Err(Fault::Capabilities(count));
        }
        let ahead = held.len().saturating_sub(size_of::<u32>());
        *self = Self {
            is_of_file: self.is_of_file,
            header: held[..ahead].to_vec(),
            ..Self::default()
        };
        Ok(self.next(count, sink))
    }

    /// Takes a name; `left` more follow.
    pub(super) fn name(
        &mut self,
        name: &[u8],
        left: u32,
        sink: &mut impl Sink,
    ) -> Result<State, Fault> {
        if self.is_of_file && name == MAPPED {
            self.has_dropped = true;
        } else if REFUSED.contains(&name) {
            return Err(Fault::Capability(text(name)));
        } else {
            self.count += 1;
            self.names.push(name.len() as u8);
            self.names.extend_from_slice(name);
        }
        Ok(self.next(left, sink))
    }

    fn next(&mut self, left: u32, sink: &mut impl Sink) -> State {
        if left > 0 {
            return State::At(Kind::Capability { left });
        }
        if self.count > 0 || !self.has_dropped {
            sink.forward(&self.header);
            sink.forward(&self.count.to_be_bytes());
            sink.forward(&self.names);
        }
        State::At(Kind::Detail)
    }
}
