//! Messages between the daemon and its helper: one packet of JSON in each direction, with descriptors.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

/// A request of the daemon. The room `uplink` checks the names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Two packet sockets for an Ethernet interface, not yet bound to it.
    Raw { interface: String },
    /// A TAP, set up with these addresses.
    Tap {
        name: String,
        mac: [u8; 6],
        ip: Option<IpAddr>,
    },
    /// Large buffers for the sockets that come with the request.
    Enlarge,
}

/// Answer of the helper. Its descriptors are sent beside the JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    /// A sentence, if the request failed.
    pub(super) error: Option<String>,
    /// Whether a TAP has the addresses that were asked for.
    pub(super) is_ours: bool,
    #[serde(skip)]
    pub(super) fds: Vec<OwnedFd>,
}

impl Answer {
    pub(super) fn of(done: Result<(bool, Vec<OwnedFd>), String>) -> Self {
        let (error, (is_ours, fds)) = match done {
            Ok(done) => (None, done),
            Err(sentence) => (Some(sentence), (false, Vec::new())),
        };
        Self {
            error,
            is_ours,
            fds,
        }
    }
}
