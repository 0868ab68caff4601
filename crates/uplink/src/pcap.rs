//! Packet captures for Wireshark and tshark: pcap with nanoseconds, Ethernet frames
//! (draft-ietf-opsawg-pcap).
//!
//! ```text
//!   file    a1b23c4d | 2 | 4 | 0 | 0 | snap length | 1         host byte order, as the magic tells
//!   record  seconds | nanoseconds | captured | on the wire | bytes ...
//! ```

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
const LINKTYPE_ETHERNET: u32 = 1;

/// What Wireshark accepts of one packet.
const SNAP_BYTES: usize = 262_144;

/// Writes frames as a capture. Give it a buffered writer.
#[derive(Debug)]
pub struct Pcap<W: Write> {
    to: W,
}

impl<W: Write> Pcap<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&MAGIC_NANOSECONDS.to_ne_bytes())?;
        for number in VERSION {
            to.write_all(&number.to_ne_bytes())?;
        }
        for number in [0, 0, SNAP_BYTES as u32, LINKTYPE_ETHERNET] {
            to.write_all(&number.to_ne_bytes())?;
        }
        Ok(Self { to })
    }

    /// Adds a frame that passed now.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.write_at(now.unwrap_or_default(), frame)
    }

    /// Adds a frame that passed at a time since 1970, or since whatever a simulation counts from.
    ///
    /// # Errors
    /// The writer's.
    pub fn write_at(&mut self, at: Duration, frame: &[u8]) -> io::Result<()> {
        let captured = &frame[..frame.len().min(SNAP_BYTES)];
        let lengths = [captured.len(), frame.len()].map(|len| len as u32);
        for number in [
            at.as_secs() as u32,
            at.subsec_nanos(),
            lengths[0],
            lengths[1],
        ] {
            self.to.write_all(&number.to_ne_bytes())?;
        }
        self.to.write_all(captured)
    }

    /// Hands on what the writer holds back.
    ///
    /// # Errors
    /// The writer's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_is_laid_out_as_the_draft_says() {
        let mut bytes = Vec::new();
        let mut pcap = Pcap::new(&mut bytes).unwrap();
        pcap.write_at(Duration::new(7, 9), &[1, 2, 3]).unwrap();
        let numbers = [2 | 4 << 16, 0, 0, 262_144, 1, 7, 9, 3, 3];
        let mut expected = 0xa1b2_3c4d_u32.to_ne_bytes().to_vec();
        expected.extend(numbers.map(u32::to_le_bytes).concat());
        expected.extend([1, 2, 3]);
        if cfg!(target_endian = "little") {
            assert_eq!(bytes, expected);
        }
    }
}
