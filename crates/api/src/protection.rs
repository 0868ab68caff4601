//! Measures that protect the host from the daemon.

use serde::{Deserialize, Serialize};

/// Something that the daemon can no longer do, or should not be able to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Protection {
    /// Its name, such as `core dumps`.
    pub name: String,
    /// Whether the kernel holds the daemon to it.
    pub in_force: bool,
    /// What the protection means, or why it is not in force.
    pub detail: String,
}
