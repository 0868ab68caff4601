//! Adapters: one PVRDMA function and one Ethernet port for one VM, or a device that processes open.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::is_default;
use crate::{Addresses, Limits, LimitsChange, MacAddress, Name, Origin, UnixName, Weight};

/// How the daemon learns of a guest's doorbells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DoorbellMode {
    /// Pages of user doorbells are shared memory: no exit to QEMU, no message.
    #[default]
    Mapped,
    /// Every doorbell is a message: slow, and for finding faults.
    Trapped,
}

impl fmt::Display for DoorbellMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mapped => "mapped",
            Self::Trapped => "trapped",
        })
    }
}

impl FromStr for DoorbellMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mapped" => Ok(Self::Mapped),
            "trapped" => Ok(Self::Trapped),
            _ => Err("use \"mapped\" or \"trapped\"".to_owned()),
        }
    }
}

/// Kind of an adapter's users.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AdapterKind {
    /// One VM, through QEMU.
    #[default]
    Vm,
    /// Programs of this host and its containers, through libibverbs.
    Process,
    /// The host's own IP stack: a network interface named as the adapter, without RDMA.
    Tap,
}

impl fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vm => "vm",
            Self::Process => "process",
            Self::Tap => "tap",
        })
    }
}

impl FromStr for AdapterKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "vm" => Ok(Self::Vm),
            "process" => Ok(Self::Process),
            "tap" => Ok(Self::Tap),
            _ => Err("use \"vm\", \"process\" or \"tap\"".to_owned()),
        }
    }
}

/// An adapter to add.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterRequest {
    /// Unique among adapters.
    pub name: Name,
    /// An existing port group.
    pub portgroup: Name,
    /// Unique among adapters; derived from the name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<MacAddress>,
    /// How doorbells arrive; only for a VM's adapter.
    #[serde(default)]
    pub doorbells: DoorbellMode,
    /// Kind of its users.
    #[serde(default)]
    pub kind: AdapterKind,
    /// IP address of a process adapter; a link-local one (169.254.0.0/16) when absent. A TAP's interface gets it in a
    /// network of 24 bits (IPv6: 64), or none. A VM's guest may use only the stated addresses, and nobody else may use
    /// them; or it may use only the first ones that it uses.
    #[serde(default, skip_serializing_if = "Addresses::is_empty")]
    pub ip: Addresses,
    /// The shard that serves it; the one with the fewest adapters when absent. A TAP has none.
    #[serde(
        default,
        deserialize_with = "crate::shard::stated",
        skip_serializing_if = "Option::is_none"
    )]
    pub shard: Option<u16>,
    /// Whether its VM is on another host, from which it may come by a migration; until then that host has its
    /// addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
    /// Limits and guarantees of its traffic.
    #[serde(flatten)]
    pub limits: Limits,
    /// Weight of its turns beside those of others of its port group and shard.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight: Weight,
    /// Users that may use it besides the daemon's own. With neither users nor groups, those of its port
    /// group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UnixName>,
    /// Groups whose members may use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<UnixName>,
}

/// A change of an adapter. Values that are absent stay as they are.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterChange {
    /// Changes of its limits and guarantees.
    #[serde(flatten)]
    pub limits: LimitsChange,
    /// Weight of its turns from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// Addresses that a VM's guest may use from now on, in place of all earlier ones; with none, it may use any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<Addresses>,
    /// Users that may use it from now on, in place of all earlier ones. Contexts that are open stay open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<UnixName>>,
    /// Groups whose members may use it, in place of all earlier ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<UnixName>>,
}

/// An adapter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Adapter {
    /// Unique among adapters.
    pub name: Name,
    /// The port group it is plugged into.
    pub portgroup: Name,
    /// The address of its Ethernet port; its RDMA identity is derived from it.
    pub mac: MacAddress,
    /// How doorbells arrive.
    pub doorbells: DoorbellMode,
    /// Whether it outlives the daemon.
    pub origin: Origin,
    /// Kind of its users.
    #[serde(default)]
    pub kind: AdapterKind,
    /// Its IP address; for a VM's adapter, the addresses that its guest may use.
    #[serde(default, skip_serializing_if = "Addresses::is_empty")]
    pub ip: Addresses,
    /// Socket for QEMU's `vfio-user-pci`; only for a VM's adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vfio_user_socket: Option<PathBuf>,
    /// Socket for QEMU's `-netdev stream`; only for a VM's adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ethernet_socket: Option<PathBuf>,
    /// Socket for programs that are to reach this adapter only; only for a process adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_socket: Option<PathBuf>,
    /// The shard that serves it now; absent for a TAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// Whether its VM is on another host, from which it may come by a migration; until then that host has its
    /// addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub away: bool,
    /// Limits and guarantees of its traffic.
    #[serde(flatten)]
    pub limits: Limits,
    /// Weight of its turns beside those of others of its port group and shard.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight: Weight,
    /// Users that may use it besides the daemon's own: those named for it, or else those of its port group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UnixName>,
    /// Groups whose members may use it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<UnixName>,
}
