//! The readable part of a sealed datagram: which port and session open it, and its number.
//!
//! ```text
//!   0     1       2         4         8         16
//!   | 56  | kind  | reserved| session | counter | sealed: VXLAN header, frame | tag
//!           '- 80: for the port of RoCEv2
//! ```
//! The first byte has no valid VNI flag, so the datagram is not VXLAN. Nothing here is trusted: a datagram with another
//! session or counter does not open.

/// Bytes of the header.
pub(super) const LEN: usize = 16;

/// Bytes of the tag after the sealed part.
pub(super) const TAG: usize = 16;

/// The first byte.
pub(crate) const MARK: u8 = 0x56;

/// The bit of the second byte that says which port opens the datagram.
pub(crate) const FOR_ROCE: u8 = 0x80;

/// Kind of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// The first message of a handshake.
    Call = 1,
    /// The second message of a handshake.
    Answer = 2,
    /// A frame, or nothing.
    Frame = 3,
}

/// The tunnel's port that has the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Channel {
    /// The port of RoCEv2.
    Roce,
    /// The other port.
    Rest,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) channel: Channel,
    /// The number that the receiver gave to the session; in a call, the caller's number.
    pub(super) session: u32,
    pub(super) counter: u64,
}

impl Header {
    pub(super) fn bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let bit = match self.channel {
            Channel::Roce => FOR_ROCE,
            Channel::Rest => 0,
        };
        bytes[..2].copy_from_slice(&[MARK, self.kind as u8 | bit]);
        bytes[4..8].copy_from_slice(&self.session.to_be_bytes());
        bytes[8..].copy_from_slice(&self.counter.to_be_bytes());
        bytes
    }

    pub(super) fn parse(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = datagram.split_first_chunk::<LEN>()?;
        let [mark, kind, _, _, s0, s1, s2, s3, counter @ ..] = *header;
        let kind = match kind & !FOR_ROCE {
            1 => Kind::Call,
            2 => Kind::Answer,
            3 => Kind::Frame,
            _ => return None,
        };
        let header = Self {
            kind,
            channel: channel(datagram)?,
            session: u32::from_be_bytes([s0, s1, s2, s3]),
            counter: u64::from_be_bytes(counter),
        };
        (mark == MARK).then_some((header, rest))
    }
}

/// Returns the port that opens a datagram; `None` if it is not sealed.
pub(crate) fn channel(datagram: &[u8]) -> Option<Channel> {
    match datagram {
        [MARK, kind, ..] if kind & FOR_ROCE != 0 => Some(Channel::Roce),
        [MARK, ..] => Some(Channel::Rest),
        _ => None,
    }
}
