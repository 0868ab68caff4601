//! The programs that measure, and how their output becomes figures.
//!
//! ```text
//!  Tool --commands--> shell's words for server and client --their output--> Vec<Figure>
//! ```
//!
//! Every tool is a third-party program except the MPI programs and `vrdma-cp` of `programs/`.

pub(crate) mod cavity;
mod netpipe;
mod perftest;
mod plain;
mod precopy;
mod properties;
mod qperf;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::cell::{Setting, Unit};
use crate::plan::Scale;
use crate::programs::Own;
pub use netpipe::NetPipe;
pub use perftest::{Column, Perftest};
pub use plain::{Plain, Reads};
pub use precopy::{MEMORY_MIB, MemoryPath, Precopy, Told, Took};
pub use qperf::Qperf;

/// The result of one run for one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The last part of its key.
    pub size: String,
    /// Value in the cell's unit.
    pub value: f64,
    /// The mean latency, which stalls affect, unlike the typical one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
}

/// Commands of server and client; the server's is empty if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// Command on side a, started first.
    pub server: String,
    /// Command on side b, which knows the server's address as `$A`.
    pub client: String,
}

/// A program and its task.
#[derive(Debug, Clone, PartialEq)]
pub enum Tool {
    /// `ib_send_lat` and its kin.
    Perftest(Perftest),
    /// qperf, over TCP and verbs.
    Qperf(Qperf),
    /// A program that prints `figure SIZE VALUE` lines.
    Plain(Plain),
    /// The guest's view of its adapter compared with the daemon's; `properties` has the details.
    Properties,
    /// QEMU's migration of a guest's memory.
    Precopy(Precopy),
}

impl Tool {
    /// The commands to run.
    #[must_use]
    pub fn commands(&self, scale: Scale) -> Commands {
        match self {
            Self::Perftest(tool) => tool.commands(scale),
            Self::Qperf(tool) => tool.commands(scale),
            Self::Plain(tool) => tool.commands(scale),
            Self::Properties => properties::commands(),
            Self::Precopy(tool) => tool.commands(),
        }
    }

    /// The figures in a client's output.
    ///
    /// # Errors
    /// When there are none, with the output instead.
    pub fn figures(&self, unit: Unit, output: &str) -> Result<Vec<Figure>> {
        match self {
            Self::Perftest(tool) => tool.figures(output),
            Self::Qperf(tool) => tool.figures(unit, output),
            Self::Plain(tool) => tool.reads.figures(output),
            Self::Properties => properties::figures(output),
            Self::Precopy(tool) => tool.figures(output),
        }
    }

    /// The program that must be installed, and Debian's package of it; the guests' image brings QEMU.
    #[must_use]
    pub fn needs(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Perftest(tool) => Some((tool.program, "perftest")),
            Self::Qperf(_) => Some(("qperf", "qperf")),
            Self::Plain(tool) => Some(tool.needs),
            Self::Properties => Some(("ibv_devinfo", "ibverbs-utils")),
            Self::Precopy(_) => None,
        }
    }

    /// The program of ours that it starts.
    #[must_use]
    pub fn own(&self) -> Option<Own> {
        match self {
            Self::Plain(tool) => Some(tool.own),
            Self::Perftest(_) | Self::Qperf(_) | Self::Properties | Self::Precopy(_) => None,
        }
    }

    /// Seconds of a turn, about.
    #[must_use]
    pub fn seconds(&self, setting: Setting) -> u64 {
        match self {
            Self::Perftest(tool) => tool.seconds(),
            Self::Plain(tool) => tool.seconds(setting),
            Self::Qperf(_) | Self::Properties => 2,
            Self::Precopy(_) => 10,
        }
    }

    /// Whether its figures need the daemon's description of its adapters, as lines of JSON after the output.
    #[must_use]
    pub fn asks_daemon(&self) -> bool {
        matches!(self, Self::Properties)
    }

    /// Commands to run before the first turn that counts, if they matter; our programs warm up themselves.
    #[must_use]
    pub fn warm_up(&self) -> Option<Commands> {
        match self {
            Self::Perftest(tool) => Some(tool.warm_up()),
            Self::Qperf(_) | Self::Plain(_) | Self::Properties | Self::Precopy(_) => None,
        }
    }

    /// Longest time of a run on a busy machine, in seconds, where all its processors have a core of their own.
    #[must_use]
    pub fn limit(&self, scale: Scale) -> u64 {
        let full = match self {
            Self::Perftest(_) | Self::Qperf(_) | Self::Properties | Self::Precopy(_) => 180,
            Self::Plain(tool) => tool.limit,
        };
        match scale {
            Scale::Full => full,
            Scale::Short => full.min(SHORT_LIMIT),
        }
    }
}

/// Limit of a short run: one that hangs must not use the others' time; most take five seconds, the longest thirty.
const SHORT_LIMIT: u64 = 90;
