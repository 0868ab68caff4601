//! Port groups: adapters of one group reach each other and nobody else.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::limits::is_default;
use crate::{AdapterStats, Limits, LimitsChange, Name, Origin, Throttled, UnixName, Weight};

/// An IEEE 802.1Q VLAN number, 1 to 4094.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(into = "u16")]
pub struct Vlan(u16);

impl Vlan {
    /// Returns the number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// Why a number is not a [`Vlan`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAVlan(String);

impl fmt::Display for NotAVlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not a VLAN: use a number from 1 to 4094, or leave the VLAN out",
            self.0
        )
    }
}

impl std::error::Error for NotAVlan {}

impl TryFrom<i64> for Vlan {
    type Error = NotAVlan;

    fn try_from(number: i64) -> Result<Self, NotAVlan> {
        match u16::try_from(number) {
            Ok(vlan @ 1..=4094) => Ok(Self(vlan)),
            _ => Err(NotAVlan(number.to_string())),
        }
    }
}

impl<'de> Deserialize<'de> for Vlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(VlanVisitor)
    }
}

/// A visitor of our own, so that an error for a text says what to write, instead of "expected i64".
struct VlanVisitor;

impl Visitor<'_> for VlanVisitor {
    type Value = Vlan;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a VLAN number from 1 to 4094 without quotes")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Vlan, E> {
        Vlan::try_from(number).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Vlan, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl FromStr for Vlan {
    type Err = NotAVlan;

    fn from_str(text: &str) -> Result<Self, NotAVlan> {
        let number: i64 = text.parse().map_err(|_| NotAVlan(format!("{text:?}")))?;
        Self::try_from(number)
    }
}

impl From<Vlan> for u16 {
    fn from(vlan: Vlan) -> Self {
        vlan.0
    }
}

impl fmt::Display for Vlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A VXLAN network identifier, 1 to 16777215 (RFC 7348 section 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(into = "u32")]
pub struct Vni(u32);

impl Vni {
    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl From<Vlan> for Vni {
    fn from(vlan: Vlan) -> Self {
        Self(u32::from(vlan.get()))
    }
}

/// Why a number is not a [`Vni`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAVni(String);

impl fmt::Display for NotAVni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not a VNI: use a number from 1 to 16777215, or leave the VNI out",
            self.0
        )
    }
}

impl std::error::Error for NotAVni {}

impl TryFrom<i64> for Vni {
    type Error = NotAVni;

    fn try_from(number: i64) -> Result<Self, NotAVni> {
        match u32::try_from(number) {
            Ok(vni @ 1..=0xff_ffff) => Ok(Self(vni)),
            _ => Err(NotAVni(number.to_string())),
        }
    }
}

impl<'de> Deserialize<'de> for Vni {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(VniVisitor)
    }
}

/// A visitor of our own, as [`VlanVisitor`].
struct VniVisitor;

impl Visitor<'_> for VniVisitor {
    type Value = Vni;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a VNI from 1 to 16777215 without quotes")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Vni, E> {
        Vni::try_from(number).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Vni, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl FromStr for Vni {
    type Err = NotAVni;

    fn from_str(text: &str) -> Result<Self, NotAVni> {
        let number: i64 = text.parse().map_err(|_| NotAVni(format!("{text:?}")))?;
        Self::try_from(number)
    }
}

impl From<Vni> for u32 {
    fn from(vni: Vni) -> Self {
        vni.0
    }
}

impl fmt::Display for Vni {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A port group to add.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortGroupRequest {
    /// Unique among port groups.
    pub name: Name,
    /// VLAN of its frames on a raw uplink; without one, they are untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
    /// VXLAN network of its frames in a tunnel. The VLAN's number when absent; a group with neither
    /// stays on its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vni: Option<Vni>,
    /// Whether Ethernet cards of guests, and the host's own, may send RoCEv2 frames; otherwise only adapters may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_roce_frames: bool,
    /// Users that may use its adapters that name none themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UnixName>,
    /// Groups whose members may use those adapters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<UnixName>,
    /// Limits and guarantees of its adapters together.
    #[serde(flatten)]
    pub limits: Limits,
    /// Weight of the turns of all its adapters beside those of other port groups of a shard.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight: Weight,
}

/// A change of a port group. Values that are absent stay as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortGroupChange {
    /// Changes of the limits and guarantees of its adapters together.
    #[serde(flatten)]
    pub limits: LimitsChange,
    /// Weight of the turns of all its adapters from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
}

/// A port group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortGroup {
    /// Unique among port groups.
    pub name: Name,
    /// VLAN of its frames on a raw uplink; without one, they are untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
    /// VXLAN network of its frames in a tunnel. The VLAN's number when absent; a group with neither
    /// stays on its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vni: Option<Vni>,
    /// Whether Ethernet cards of guests, and the host's own, may send RoCEv2 frames; otherwise only adapters may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_roce_frames: bool,
    /// Whether it outlives the daemon.
    pub origin: Origin,
    /// Its adapters, by name.
    pub adapters: Vec<Name>,
    /// Users that may use its adapters that name none themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UnixName>,
    /// Groups whose members may use those adapters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<UnixName>,
    /// Limits and guarantees of its adapters together.
    #[serde(flatten)]
    pub limits: Limits,
    /// Weight of the turns of all its adapters beside those of other port groups of a shard.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight: Weight,
    /// Waits of its adapters' messages for limits: those of the adapters and of the port group.
    #[serde(default)]
    pub throttled: Throttled,
    /// The same for messages to its adapters.
    #[serde(default)]
    pub throttled_in: Throttled,
    /// Packets for them that were dropped because of limits.
    #[serde(default)]
    pub over_limit: u64,
    /// Drops. The data path has to count them: absent from lists and from answers to changes, and while a thread of the
    /// data path does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<PortGroupDrops>,
}

/// Drops in a port group, by reason; a reason that never occurred is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PortGroupDrops {
    /// Drops counted by its present adapters, and drops of uplinks of packets for the group that reached none of them.
    /// The latter begin anew once the group has no adapter.
    pub rdma: BTreeMap<String, u64>,
    /// Drops counted by the Ethernet ports of its adapters.
    pub ethernet: BTreeMap<String, u64>,
}

impl PortGroupDrops {
    /// Adds the counters of an adapter.
    pub fn add(&mut self, stats: &AdapterStats) {
        add(&mut self.rdma, &stats.rdma.counters.drops);
        add(&mut self.ethernet, &stats.ethernet.drops);
    }
}

fn add(sum: &mut BTreeMap<String, u64>, drops: &BTreeMap<String, u64>) {
    for (reason, count) in drops {
        let sum = sum.entry(reason.clone()).or_default();
        *sum = sum.saturating_add(*count);
    }
}
