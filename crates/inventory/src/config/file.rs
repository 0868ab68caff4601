//! The structure of the file. Values that other lines can contradict remember their place.

use std::ops::Range;
use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;
use vrdma_api::{
    AdapterKind, AdapterRequest, Addresses, DoorbellMode, Endpoint, Guarantee, Interface, Limits,
    MacAddress, Name, OpsRate, PeerRequest, PollMode, PortGroupRequest, Rate, UnixName, UplinkKind,
    UplinkRequest, Vlan, Vni, Weight,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tables {
    #[serde(default)]
    pub(super) daemon: DaemonTable,
    pub(super) migration: Option<MigrationTable>,
    #[serde(default)]
    pub(super) portgroup: Vec<PortGroupTable>,
    #[serde(default)]
    pub(super) uplink: Vec<UplinkTable>,
    #[serde(default)]
    pub(super) peer: Vec<PeerTable>,
    #[serde(default)]
    pub(super) adapter: Vec<AdapterTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [daemon]")]
pub(super) struct DaemonTable {
    pub(super) socket: Option<Spanned<PathBuf>>,
    pub(super) run_dir: Option<Spanned<PathBuf>>,
    pub(super) shards: Option<Spanned<i64>>,
    pub(super) cores: Option<Spanned<String>>,
    pub(super) poll: Option<PollMode>,
    pub(super) sandbox: Option<bool>,
    pub(super) supervise: Option<bool>,
    pub(super) trust_own_user: Option<bool>,
    pub(super) userfaultfd: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [migration]")]
pub(super) struct MigrationTable {
    pub(super) listen: Spanned<String>,
    pub(super) key: Spanned<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[portgroup]]")]
pub(super) struct PortGroupTable {
    pub(super) name: Spanned<Name>,
    pub(super) vlan: Option<Spanned<Vlan>>,
    pub(super) vni: Option<Spanned<Vni>>,
    #[serde(default)]
    pub(super) allow_roce_frames: bool,
    pub(super) limit_out: Option<Rate>,
    pub(super) limit_in: Option<Rate>,
    pub(super) limit_out_ops: Option<OpsRate>,
    pub(super) limit_in_ops: Option<OpsRate>,
    pub(super) guarantee_out: Option<Spanned<Rate>>,
    pub(super) guarantee_in: Option<Spanned<Rate>>,
    pub(super) guarantee_out_ops: Option<Spanned<OpsRate>>,
    pub(super) guarantee_in_ops: Option<Spanned<OpsRate>>,
    pub(super) weight: Option<Weight>,
    pub(super) users: Option<Spanned<Vec<UnixName>>>,
    pub(super) groups: Option<Spanned<Vec<UnixName>>>,
}

impl PortGroupTable {
    pub(super) fn request(&self) -> PortGroupRequest {
        PortGroupRequest {
            name: self.name.get_ref().clone(),
            vlan: self.vlan.as_ref().map(|vlan| *vlan.get_ref()),
            vni: self.vni.as_ref().map(|vni| *vni.get_ref()),
            allow_roce_frames: self.allow_roce_frames,
            users: list(self.users.as_ref()),
            groups: list(self.groups.as_ref()),
            limits: Limits {
                limit_out: self.limit_out,
                limit_in: self.limit_in,
                limit_out_ops: self.limit_out_ops,
                limit_in_ops: self.limit_in_ops,
                guarantee_out: value(self.guarantee_out.as_ref()),
                guarantee_in: value(self.guarantee_in.as_ref()),
                guarantee_out_ops: value(self.guarantee_out_ops.as_ref()),
                guarantee_in_ops: value(self.guarantee_in_ops.as_ref()),
            },
            weight: self.weight.unwrap_or_default(),
        }
    }

    /// Returns the place of one of the port group's guarantees.
    pub(super) fn guarantee_span(&self, which: Guarantee) -> Option<Range<usize>> {
        let bits = [&self.guarantee_out, &self.guarantee_in];
        let ops = [&self.guarantee_out_ops, &self.guarantee_in_ops];
        guarantee_span(which, bits, ops)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[uplink]]")]
pub(super) struct UplinkTable {
    pub(super) name: Spanned<Name>,
    pub(super) kind: Spanned<UplinkKind>,
    pub(super) interface: Option<Spanned<Interface>>,
    pub(super) listen: Option<Spanned<Endpoint>>,
    pub(super) key: Option<Spanned<PathBuf>>,
    pub(super) faults: Option<Spanned<String>>,
}

impl UplinkTable {
    pub(super) fn request(&self) -> UplinkRequest {
        UplinkRequest {
            name: self.name.get_ref().clone(),
            kind: *self.kind.get_ref(),
            interface: self.interface.as_ref().map(|it| it.get_ref().clone()),
            listen: self.listen.as_ref().map(|listen| *listen.get_ref()),
            key: self.key.as_ref().map(|key| key.get_ref().clone()),
            faults: self.faults.as_ref().map(|faults| faults.get_ref().clone()),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table [[peer]]")]
pub(super) struct PeerTable {
    pub(super) uplink: Spanned<Name>,
    pub(super) address: Spanned<Endpoint>,
    #[serde(default)]
    pub(super) any_port: bool,
    pub(super) key: Option<Spanned<PathBuf>>,
    pub(super) stations: Option<Spanned<Vec<MacAddress>>>,
    pub(super) vnis: Option<Spanned<Vec<Vni>>>,
}

impl PeerTable {
    pub(super) fn request(&self) -> PeerRequest {
        PeerRequest {
            uplink: self.uplink.get_ref().clone(),
            address: *self.address.get_ref(),
            any_port: self.any_port,
            key: self.key.as_ref().map(|key| key.get_ref().clone()),
            stations: list(self.stations.as_ref()),
            vnis: list(self.vnis.as_ref()),
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
    #[serde(default)]
    pub(super) kind: AdapterKind,
    pub(super) ip: Option<Spanned<Addresses>>,
    pub(super) shard: Option<Spanned<u16>>,
    #[serde(default)]
    pub(super) away: bool,
    pub(super) limit_out: Option<Spanned<Rate>>,
    pub(super) limit_in: Option<Spanned<Rate>>,
    pub(super) limit_out_ops: Option<Spanned<OpsRate>>,
    pub(super) limit_in_ops: Option<Spanned<OpsRate>>,
    pub(super) guarantee_out: Option<Spanned<Rate>>,
    pub(super) guarantee_in: Option<Spanned<Rate>>,
    pub(super) guarantee_out_ops: Option<Spanned<OpsRate>>,
    pub(super) guarantee_in_ops: Option<Spanned<OpsRate>>,
    pub(super) weight: Option<Spanned<Weight>>,
    pub(super) users: Option<Spanned<Vec<UnixName>>>,
    pub(super) groups: Option<Spanned<Vec<UnixName>>>,
}

impl AdapterTable {
    pub(super) fn request(&self) -> AdapterRequest {
        AdapterRequest {
            name: self.name.get_ref().clone(),
            portgroup: self.portgroup.get_ref().clone(),
            mac: self.mac.as_ref().map(|mac| *mac.get_ref()),
            doorbells: self.doorbells,
            kind: self.kind,
            ip: self
                .ip
                .as_ref()
                .map(|ip| ip.get_ref().clone())
                .unwrap_or_default(),
            shard: self.shard.as_ref().map(|shard| *shard.get_ref()),
            away: self.away,
            limits: Limits {
                limit_out: value(self.limit_out.as_ref()),
                limit_in: value(self.limit_in.as_ref()),
                limit_out_ops: value(self.limit_out_ops.as_ref()),
                limit_in_ops: value(self.limit_in_ops.as_ref()),
                guarantee_out: value(self.guarantee_out.as_ref()),
                guarantee_in: value(self.guarantee_in.as_ref()),
                guarantee_out_ops: value(self.guarantee_out_ops.as_ref()),
                guarantee_in_ops: value(self.guarantee_in_ops.as_ref()),
            },
            weight: value(self.weight.as_ref()).unwrap_or_default(),
            users: list(self.users.as_ref()),
            groups: list(self.groups.as_ref()),
        }
    }
}

impl AdapterTable {
    /// Returns the place of the first limit, or else guarantee, or else weight.
    pub(super) fn limit_span(&self) -> Option<Range<usize>> {
        let rates = [
            &self.limit_out,
            &self.limit_in,
            &self.guarantee_out,
            &self.guarantee_in,
        ];
        let ops = [
            &self.limit_out_ops,
            &self.limit_in_ops,
            &self.guarantee_out_ops,
            &self.guarantee_in_ops,
        ];
        let rates = rates.into_iter().flatten().map(Spanned::span);
        let ops = ops.into_iter().flatten().map(Spanned::span);
        let weight = self.weight.iter().map(Spanned::span);
        rates.chain(ops).chain(weight).next()
    }

    /// Returns the place of one of the adapter's guarantees.
    pub(super) fn guarantee_span(&self, which: Guarantee) -> Option<Range<usize>> {
        let bits = [&self.guarantee_out, &self.guarantee_in];
        let ops = [&self.guarantee_out_ops, &self.guarantee_in_ops];
        guarantee_span(which, bits, ops)
    }
}

fn guarantee_span(
    which: Guarantee,
    bits: [&Option<Spanned<Rate>>; 2],
    ops: [&Option<Spanned<OpsRate>>; 2],
) -> Option<Range<usize>> {
    match which {
        Guarantee::Out => bits[0].as_ref().map(Spanned::span),
        Guarantee::In => bits[1].as_ref().map(Spanned::span),
        Guarantee::OutOps => ops[0].as_ref().map(Spanned::span),
        Guarantee::InOps => ops[1].as_ref().map(Spanned::span),
    }
}

fn value<T: Copy>(given: Option<&Spanned<T>>) -> Option<T> {
    given.map(|given| *given.get_ref())
}

fn list<T: Clone>(given: Option<&Spanned<Vec<T>>>) -> Vec<T> {
    given.map_or_else(Vec::new, |given| given.get_ref().clone())
}
