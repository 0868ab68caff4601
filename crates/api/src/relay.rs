//! Messages between `vrdma migrate` and the relay that it starts: one JSON object per line.
//!
//! ```text
//!   vrdma migrate ── RelayRequest ──► vrdma relay      its end of input means: end
//!                 ◄── RelayTold ────                   ready, then done; or failed, at any time
//! ```

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// A request to a relay at the source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelayRequest {
    /// Address at which the relay at the destination listens.
    pub to: SocketAddr,
    /// The process of the source's QEMU.
    pub process: u32,
    /// The blocks of shared memory.
    pub blocks: Vec<RelayBlock>,
}

/// A block of a VM's memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RelayBlock {
    /// Name of the block in QEMU.
    pub name: String,
    /// Length of the block.
    pub bytes: u64,
    /// Bytes of one of the host's pages that the block consists of.
    pub page_bytes: u64,
    /// Address at which the source's QEMU has mapped it.
    pub source: u64,
    /// Address at which the destination's QEMU has mapped it.
    pub destination: u64,
}

/// A report of that relay.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelayTold {
    /// Both relays have the memory.
    Ready {
        /// QEMU's migration URI at the source.
        source: String,
        /// QEMU's migration URI at the destination.
        destination: String,
        /// A file that QEMU may write its stream into instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    /// Everything has been transferred.
    Done {
        /// Pages that were placed.
        pages: u64,
        /// Bytes of the stream beside them.
        forwarded_bytes: u64,
        /// Processor time that the relay took, registering the memory included.
        #[serde(default)]
        processor_ms: u64,
    },
    /// The relay has ended with a failure.
    Failed {
        /// The reason, as a sentence.
        why: String,
    },
}
