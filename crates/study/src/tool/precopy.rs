//! QEMU's own migration of a guest's memory: its speed and its processor time.
//!
//! The commands are only for readers: a stage migrates itself, see `stage/memory.rs`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Commands, Figure};

/// Memory of the guest.
pub const MEMORY_MIB: u64 = 2048;

const PAGES_A_GIB: f64 = 262_144.0;

/// The figure of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Pages a second.
    Pages,
    /// Seconds of the source's QEMU for each GiB sent, without its guest's.
    Source,
    /// The same for the destination's QEMU.
    Destination,
    /// The same for the daemons.
    Daemon,
}

/// The way of the memory over a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPath {
    /// QEMU's single stream.
    Stream,
    /// This number of parallel streams.
    Streams(u8),
    /// Relays write it from guest to guest, past both QEMUs.
    Placed,
}

/// A migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precopy {
    /// The figure.
    pub told: Told,
    /// The way of the memory.
    pub way: MemoryPath,
}

/// Results of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Took {
    /// Pages sent.
    pub pages: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// Seconds in which the guest stood still.
    pub downtime: f64,
    /// Processor seconds of the source's QEMU without its guest, and of its relay if there is one.
    pub source: f64,
    /// Processor seconds of the destination's QEMU, and of its relay.
    pub destination: f64,
    /// Processor seconds of the daemons.
    pub daemon: f64,
}

impl Precopy {
    pub(super) fn commands(self) -> Commands {
        let streams = match self.way {
            MemoryPath::Stream => String::new(),
            MemoryPath::Streams(channels) => format!(", multifd-channels {channels}"),
            MemoryPath::Placed => " by vrdma relay".to_owned(),
        };
        Commands {
            server: format!("qemu-system-x86_64 -m {MEMORY_MIB}M -S -incoming defer"),
            client: format!(
                "qemu-system-x86_64 -m {MEMORY_MIB}M, then migrate with max-bandwidth 0{streams}"
            ),
        }
    }

    pub(super) fn figures(self, output: &str) -> Result<Vec<Figure>> {
        let took: Took = serde_json::from_str(output).context("no record of a migration")?;
        let gibibytes = took.pages as f64 / PAGES_A_GIB;
        let (size, value) = match self.told {
            Told::Pages => ("-".to_owned(), took.pages as f64 / took.seconds),
            Told::Source => (MEMORY_MIB.to_string(), took.source / gibibytes),
            Told::Destination => (MEMORY_MIB.to_string(), took.destination / gibibytes),
            Told::Daemon => (MEMORY_MIB.to_string(), took.daemon / gibibytes),
        };
        let mean = None;
        Ok(vec![Figure { size, value, mean }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_for_each_second_or_gibibyte() {
        let took = Took {
            pages: 1 << 19,
            seconds: 2.0,
            downtime: 0.1,
            source: 0.5,
            destination: 0.25,
            daemon: 1.0,
        };
        let output = serde_json::to_string(&took).unwrap();
        let told = |told| {
            let tool = Precopy {
                told,
                way: MemoryPath::Stream,
            };
            tool.figures(&output).unwrap()[0].value
        };
        assert_eq!(told(Told::Pages), f64::from(1 << 18));
        assert_eq!(told(Told::Source), 0.25);
        assert_eq!(told(Told::Destination), 0.125);
        assert_eq!(told(Told::Daemon), 0.5);
    }
}
