//! How the daemon protects its host from itself.

use serde::{Deserialize, Serialize};

/// Something that the daemon can no longer do, or should not be able to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Protection {
    /// Such as `core dumps`.
    pub name: String,
    /// Whether the kernel holds the daemon to it.
    pub in_force: bool,
    /// What that means, or why it is not so.
    pub detail: String,
}
