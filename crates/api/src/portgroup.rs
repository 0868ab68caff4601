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
    /// The number.
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

/// By hand, so that a text in its place is told what to be instead of "expected i64".
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
    /// The number.
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

/// As [`VlanVisitor`].
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
    /// VLAN of its frames on a raw uplink; they have no tag there without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
    /// VXLAN network of its frames in a tunnel. The VLAN's number when absent; a group with neither
    /// stays on its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vni: Option<Vni>,
    /// Ethernet cards of guests, and the host's own, may send RoCEv2 frames; only adapters do otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_roce_frames: bool,
    /// Users that may use those of its adapters that name none themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UnixName>,
    /// Groups whose members may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<UnixName>,
    /// The most that its adapters send and receive together.
    #[serde(flatten)]
    pub limits: Limits,
    /// What the turns of all its adapters weigh beside those of other port groups of a shard.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight: Weight,
}

/// A change of a port group. What is absent stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortGroupChange {
    /// The most that its adapters send and receive together.
    #[serde(flatten)]
    pub limits: LimitsChange,
    /// What the turns of all its adapters weigh from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
}

/// A port group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortGroup {
    /// Unique among port groups.
    pub name: Name,
    /// VLAN of its frames on a raw uplink; they have no tag there without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
    /// VXLAN network of its frames in a tunnel. The VLAN's number when absent; a group with neither
    /// stays on its host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vni: Option<Vni>,
    /// Ethernet cards of guests, and the host's own, may send RoCEv2 frames; only adapters do otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_roce_frames: bool,
    /// Whether it outlives the daemon.
    pub origin: Origin,
    /// Its adapters, by name.
    pub adapters: Vec<Name>,
    /// Users that may use those of its adapters that name none themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UnixName>,
    /// Groups whose members may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<UnixName>,
    /// The most that its adapters send and receive together.
    #[serde(flatten)]
    pub limits: Limits,
    /// What the turns of all its adapters weigh beside those of other port groups of a shard.
    #[serde(default, skip_serializing_if = "is_default")]
    pub weight: Weight,
    /// How limits held up what its adapters send: theirs and its own.
    #[serde(default)]
    pub throttled: Throttled,
    /// The same of who sends to them.
    #[serde(default)]
    pub throttled_in: Throttled,
    /// Packets for them that were dropped because of limits.
    #[serde(default)]
    pub over_limit: u64,
    /// What was thrown away. It has to be counted by the data path: absent from lists and from answers to changes,
    /// and while a thread of the data path does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<PortGroupDrops>,
}

/// What was thrown away in a port group, by reason; a reason that never happened is absent.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PortGroupDrops {
    /// What its adapters count, of those that it has now, and what uplinks dropped for it that none of them got. The
    /// latter begins anew once the group has no adapter.
    pub rdma: BTreeMap<String, u64>,
    /// What the Ethernet ports of its adapters count.
    pub ethernet: BTreeMap<String, u64>,
}

impl PortGroupDrops {
    /// Adds what an adapter counts.
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
