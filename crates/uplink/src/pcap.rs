//! Packet captures for Wireshark and tshark.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vrdma_wire::{pcap_header, pcap_record};

/// Writes frames as a capture. Give it a buffered writer.
#[derive(Debug)]
pub struct Pcap<W: Write> {
    to: W,
}

impl<W: Write> Pcap<W> {
    /// Begins a capture.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&pcap_header())?;
        Ok(Self { to })
    }

    /// Adds a frame that passed now.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.write_at(now.unwrap_or_default(), frame)
    }

    /// Adds a frame that passed at a time since 1970, or since the start of a simulation.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_at(&mut self, at: Duration, frame: &[u8]) -> io::Result<()> {
        let (header, captured) = pcap_record(at, frame);
        self.to.write_all(&header)?;
        self.to.write_all(captured)
    }

    /// Flushes the writer.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
