//! The shape of the file. Values that other lines can contradict remember their place.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;
use vrdma_api::{AdapterRequest, DoorbellMode, MacAddress, Name, PortGroupRequest, Vlan};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    #[serde(default)]
    pub(super) daemon: DaemonTable,
    #[serde(default)]
    pub(super) portgroup: Vec<PortGroupTable>,
    #[serde(default)]
    pub(super) adapter: Vec<AdapterTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [daemon]")]
pub(super) struct DaemonTable {
    pub(super) socket: Option<Spanned<PathBuf>>,
    pub(super) run_dir: Option<Spanned<PathBuf>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[portgroup]]")]
pub(super) struct PortGroupTable {
    pub(super) name: Spanned<Name>,
    pub(super) vlan: Option<Spanned<Vlan>>,
}

impl PortGroupTable {
    pub(super) fn request(&self) -> PortGroupRequest {
        PortGroupRequest {
            name: self.name.get_ref().clone(),
            vlan: self.vlan.as_ref().map(|vlan| *vlan.get_ref()),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[adapter]]")]
pub(super) struct AdapterTable {
    pub(super) name: Spanned<Name>,
    pub(super) portgroup: Spanned<Name>,
    pub(super) mac: Option<Spanned<MacAddress>>,
    #[serde(default)]
    pub(super) doorbells: DoorbellMode,
}

impl AdapterTable {
    pub(super) fn request(&self) -> AdapterRequest {
        AdapterRequest {
            name: self.name.get_ref().clone(),
            portgroup: self.portgroup.get_ref().clone(),
            mac: self.mac.as_ref().map(|mac| *mac.get_ref()),
            doorbells: self.doorbells,
        }
    }
}
