//! Port groups: adapters of one group reach each other and nobody else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Name, Origin};

/// An IEEE 802.1Q VLAN number, 1 to 4094.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "u16")]
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

/// A port group to add.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortGroupRequest {
    /// Unique among port groups.
    pub name: Name,
    /// VLAN of its frames on an uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
}

/// A port group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortGroup {
    /// Unique among port groups.
    pub name: Name,
    /// VLAN of its frames on an uplink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<Vlan>,
    /// Whether it outlives the daemon.
    pub origin: Origin,
    /// Its adapters, by name.
    pub adapters: Vec<Name>,
}
