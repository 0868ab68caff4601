//! What processes have of what the daemon holds for them, and how much they may have.

use serde::{Deserialize, Serialize};

/// Of the processes of one user, or of all users.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// What it is, in the plural.
    pub kind: String,
    /// How much there is now; bytes where the kind says so.
    pub used: u64,
    /// How much there may be. More is refused with `ENOMEM`.
    pub limit: u64,
}

/// What one user's processes have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserUsage {
    /// Number of the user.
    pub uid: u32,
    /// Name, if the host knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All kinds.
    pub resources: Vec<ResourceUsage>,
    /// Lines about the user's programs that the log was not told, since there were too many.
    #[serde(default)]
    pub log_lines_left_out: u64,
}

/// `GET /v1/users`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Users that have something now, or had lately, by number.
    pub users: Vec<UserUsage>,
    /// All of them together. What the machine has beyond these limits is kept for VMs and the daemon.
    pub all: Vec<ResourceUsage>,
}
