//! What `vrdma migrate` and the relay that it starts say to each other: a JSON object a line.
//!
//! ```text
//!   vrdma migrate ── RelayRequest ──► vrdma relay      its end of input means: end
//!                 ◄── RelayTold ────                   ready, then done; or failed, at any time
//! ```

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What a relay at the source is to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelayRequest {
    /// Where the relay at the destination listens.
    pub to: SocketAddr,
    /// The process of the source's QEMU.
    pub process: u32,
    /// The blocks of shared memory.
    pub blocks: Vec<RelayBlock>,
}

/// A block of a VM's memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelayBlock {
    /// As QEMU calls it.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Bytes of the host's pages that it is made of.
    pub page_bytes: u64,
    /// Where it is mapped in the source's QEMU.
    pub source: u64,
    /// Where it is mapped in the destination's.
    pub destination: u64,
}

/// What that relay tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelayTold {
    /// Both relays have the memory.
    Ready {
        /// QEMU's migration URI at the source.
        source: String,
        /// The one at the destination.
        destination: String,
        /// A file that QEMU may write its stream into instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// All went over.
    Done {
        /// Pages that were placed.
        pages: u64,
        /// Bytes of the stream beside them.
        forwarded_bytes: u64,
        /// Processor time that the relay took, registering the memory included.
        #[serde(default)]
        processor_ms: u64,
    },
    /// It has ended.
    Failed {
        /// A sentence.
        why: String,
    },
}
