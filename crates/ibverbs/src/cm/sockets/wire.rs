//! The messages of rsockets: the private data of their calls, and immediate data.
//!
//! ```text
//!   immediate   31..29 operation | 28..0 bytes, credits, or which control
//! ```

/// Bytes of [`Introduction`].
pub(super) const INTRODUCTION_BYTES: usize = 40;

/// Bytes of a place in memory, in the form that the peer writes.
pub(super) const PLACE_BYTES: usize = 16;

/// Bytes of an entry of the map of memory.
pub(super) const MAPPED_BYTES: usize = 8 + PLACE_BYTES;

/// Places in the peer's buffer that are known at a time.
pub(super) const PLACES: usize = 2;

const VERSION: u8 = 1;
/// The sender's integers in memory are big-endian.
const BIG_ENDIAN: u8 = 1;
/// The sender has a map of memory.
const HAS_MAP: u8 = 2;

/// Memory of one side that the other may write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RemoteBuffer {
    pub(super) address: u64,
    pub(super) key: u32,
    pub(super) length: u32,
}

impl RemoteBuffer {
    /// Returns the form in memory: in the sender's byte order, which is the receiver's as well.
    pub(super) fn to_memory(self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..8].copy_from_slice(&self.address.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.key.to_ne_bytes());
        bytes[12..].copy_from_slice(&self.length.to_ne_bytes());
        bytes
    }

    pub(super) fn from_memory(bytes: [u8; PLACE_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Self {
            address: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            key: u32::from_ne_bytes([i, j, k, l]),
            length: u32::from_ne_bytes([m, n, o, p]),
        }
    }

    fn to_wire(self) -> [u8; PLACE_BYTES] {
        Self {
            address: self.address.to_be(),
            key: self.key.to_be(),
            length: self.length.to_be(),
        }
        .to_memory()
    }

    fn from_wire(bytes: [u8; PLACE_BYTES]) -> Self {
        let raw = Self::from_memory(bytes);
        Self {
            address: u64::from_be(raw.address),
            key: u32::from_be(raw.key),
            length: u32::from_be(raw.length),
        }
    }
}

/// What each side tells about itself with the call or its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Introduction {
    /// Messages that the side can receive.
    pub(super) credits: u16,
    /// Entries of the side's map of memory.
    pub(super) map_entries: u8,
    /// Memory where the side is told of room in the other's buffer; the length counts places.
    pub(super) targets: RemoteBuffer,
    /// The first room in the side's own buffer.
    pub(super) buffer: RemoteBuffer,
}

impl Introduction {
    pub(super) fn to_bytes(self) -> [u8; INTRODUCTION_BYTES] {
        let mut bytes = [0; INTRODUCTION_BYTES];
        let order = if cfg!(target_endian = "big") {
            BIG_ENDIAN
        } else {
            0
        };
        (bytes[0], bytes[1]) = (VERSION, HAS_MAP | order);
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[7] = self.map_entries;
        bytes[8..24].copy_from_slice(&self.targets.to_wire());
        bytes[24..].copy_from_slice(&self.buffer.to_wire());
        bytes
    }

    /// Reads an introduction; `None` if the peer has another version or the other byte order.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; INTRODUCTION_BYTES] = bytes.first_chunk()?;
        let order = if cfg!(target_endian = "big") {
            BIG_ENDIAN
        } else {
            0
        };
        if bytes[0] != VERSION || bytes[1] & BIG_ENDIAN != order {
            return None;
        }
        let has_map = bytes[1] & HAS_MAP != 0;
        Some(Self {
            credits: u16::from_be_bytes([bytes[2], bytes[3]]),
            map_entries: if has_map { bytes[7] } else { 0 },
            targets: RemoteBuffer::from_wire(*bytes[8..].first_chunk()?),
            buffer: RemoteBuffer::from_wire(*bytes[24..].first_chunk()?),
        })
    }
}

/// Returns the size of a map that eight bits stand for.
pub(super) const fn entries(scale: u8) -> usize {
    if scale <= 128 {
        scale as usize
    } else {
        ((scale & 127) as usize) << 8
    }
}

/// Returns the eight bits for a size, rounded down.
pub(super) const fn scale(entries: usize) -> u8 {
    if entries <= 128 {
        entries as u8
    } else {
        128 | (entries >> 8) as u8
    }
}

/// A control message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Control {
    /// The sender is gone.
    Disconnect = 0,
    /// The sender is still there.
    KeepAlive = 1,
    /// The sender sends no more.
    Shutdown = 2,
}

/// The meaning of immediate data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Message {
    /// This many bytes were written.
    Data(u32),
    /// This many messages may be sent in all; there may be room for more, too.
    Credits(u16),
    /// An entry of the map was written.
    Mapped(u16),
    /// See [`Control`].
    Control(Control),
}

impl Message {
    const DATA: u32 = 0;
    const CREDITS: u32 = 4;
    const MAPPED: u32 = 6;
    const CONTROL: u32 = 7;

    pub(super) fn to_immediate(self) -> u32 {
        let (operation, rest) = match self {
            Self::Data(bytes) => (Self::DATA, bytes),
            Self::Credits(credits) => (Self::CREDITS, credits.into()),
            Self::Mapped(index) => (Self::MAPPED, index.into()),
            Self::Control(control) => (Self::CONTROL, control as u32),
        };
        operation << 29 | rest
    }

    pub(super) fn from_immediate(immediate: u32) -> Option<Self> {
        let rest = immediate & ((1 << 29) - 1);
        Some(match immediate >> 29 {
            Self::DATA => Self::Data(rest),
            Self::CREDITS => Self::Credits(rest as u16),
            Self::MAPPED => Self::Mapped(rest as u16),
            Self::CONTROL => Self::Control(match rest {
                0 => Control::Disconnect,
                1 => Control::KeepAlive,
                2 => Control::Shutdown,
                _ => return None,
            }),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_goes_there_and_back() {
        let place = RemoteBuffer {
            address: 0x1122_3344_5566_7788,
            key: 7,
            length: 2,
        };
        let said = Introduction {
            credits: 384,
            map_entries: 1,
            targets: place,
            buffer: RemoteBuffer { key: 9, ..place },
        };
        let bytes = said.to_bytes();
        assert_eq!(bytes[..8], [1, 2, 1, 128, 0, 0, 0, 1]);
        assert_eq!(bytes[8..10], [0x11, 0x22]);
        assert_eq!(Introduction::from_bytes(&bytes), Some(said));
        assert_eq!(Introduction::from_bytes(&bytes[1..]), None);
        let mut other = bytes;
        other[0] = 2;
        assert_eq!(Introduction::from_bytes(&other), None);
    }

    #[test]
    fn immediate_data_says_what_it_was_made_of() {
        for message in [
            Message::Data(0x1fff_ffff),
            Message::Credits(65535),
            Message::Mapped(3),
            Message::Control(Control::Shutdown),
        ] {
            let immediate = message.to_immediate();
            assert_eq!(Message::from_immediate(immediate), Some(message));
        }
        assert_eq!(Message::Credits(1).to_immediate(), 0x8000_0001);
        assert_eq!(Message::from_immediate(1 << 29), None);
    }

    #[test]
    fn sizes_of_maps_are_rounded_down() {
        for (wanted, got) in [(0, 0), (1, 1), (128, 128), (300, 256)] {
            assert_eq!(entries(scale(wanted)), got);
        }
    }
}
