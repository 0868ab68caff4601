//! Resources that the daemon holds for processes, and their limits.

use serde::{Deserialize, Serialize};

/// A resource of the processes of one user, or of all users.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// Its name, in the plural.
    pub kind: String,
    /// Amount in use now; in bytes if the name says so.
    pub used: u64,
    /// Most that may be in use. Requests beyond it are refused with `ENOMEM`.
    pub limit: u64,
}

/// Resources of one user's processes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserUsage {
    /// Number of the user.
    pub uid: u32,
    /// Name, if the host knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All resources.
    pub resources: Vec<ResourceUsage>,
    /// Lines about the user's programs that were left out of the log, because there were too many.
    #[serde(default)]
    pub log_lines_left_out: u64,
}

/// Answer to `GET /v1/users`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Users that hold something now, or have held something lately, by number.
    pub users: Vec<UserUsage>,
    /// Totals of all users. What the machine has beyond these limits is left to VMs and the daemon.
    pub all: Vec<ResourceUsage>,
}
