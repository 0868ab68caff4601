//! The daemon's configuration file.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use vrdma_api::DoorbellMode;

use super::{Adapter, User, control_socket};
use crate::pair::Side;
use crate::wire::{INTERFACE, Uplink, VNI, WireConfig, migration_end, tunnel_end};

/// The uplink's name.
const UPLINK: &str = "wire";

#[derive(Serialize)]
struct Configuration<'a> {
    daemon: DaemonTable<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    migration: Option<MigrationTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    uplink: Vec<UplinkTable<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    peer: Vec<PeerTable>,
    portgroup: Vec<PortGroupTable<'a>>,
    adapter: Vec<AdapterTable<'a>>,
}

#[derive(Serialize)]
struct DaemonTable<'a> {
    socket: &'a Path,
    run_dir: &'a Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<String>,
}

#[derive(Serialize)]
struct MigrationTable {
    listen: SocketAddr,
    key: PathBuf,
}

#[derive(Serialize)]
struct UplinkTable<'a> {
    name: &'static str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
    #[serde(skip_serializing_if = "str::is_empty")]
    faults: &'a str,
}

#[derive(Serialize)]
struct PeerTable {
    uplink: &'static str,
    address: SocketAddr,
}

#[derive(Serialize)]
struct PortGroupTable<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    vni: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_roce_frames: Option<bool>,
}

#[derive(Serialize)]
struct AdapterTable<'a> {
    name: &'a str,
    portgroup: &'a str,
    mac: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    doorbells: Option<DoorbellMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<Ipv4Addr>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    away: bool,
}

/// The wire that an uplink is plugged into.
#[derive(Clone, Copy)]
pub(super) struct Plug<'a> {
    pub(super) wire: &'a WireConfig,
    pub(super) side: Side,
    /// The interface of a raw uplink.
    pub(super) interface: &'static str,
}

/// The text of the file with port groups and their adapters, for a daemon without a wire (`None`) or on one host of a
/// wire. Its data path may have a core for itself.
pub(super) fn configuration(
    run_dir: &Path,
    groups: &[(&str, &[Adapter])],
    plug: Option<Plug<'_>>,
    core: Option<u32>,
) -> Result<String> {
    let tunnel = plug.filter(|plug| plug.wire.uplink != Uplink::Raw);
    let configuration = Configuration {
        daemon: DaemonTable {
            socket: &control_socket(run_dir),
            run_dir,
            shards: shards().filter(|_| core.is_none()),
            cores: core.map(|core| core.to_string()),
        },
        migration: plug.and_then(|plug| migration(plug, run_dir)),
        uplink: plug.map(|plug| uplink(plug, run_dir)).into_iter().collect(),
        peer: tunnel.map(|plug| peer(plug.side)).into_iter().collect(),
        portgroup: groups
            .iter()
            .map(|&(name, adapters)| PortGroupTable {
                name,
                vni: tunnel.map(|_| VNI),
                allow_roce_frames: has_guest_stack(adapters).then_some(true),
            })
            .collect(),
        adapter: groups
            .iter()
            .flat_map(|&(name, adapters)| adapters.iter().map(move |adapter| table(name, adapter)))
            .collect(),
    };
    Ok(toml::to_string(&configuration)?)
}

/// Whether a guest's network card sends RoCEv2, which the switch would drop.
fn has_guest_stack(adapters: &[Adapter]) -> bool {
    let mut users = adapters.iter().map(|adapter| adapter.user);
    users.any(|user| user == User::GuestStack)
}

/// Number of shards of the lab's daemons, if not one: `VRDMA_TEST_SHARDS`.
fn shards() -> Option<u16> {
    std::env::var("VRDMA_TEST_SHARDS").ok()?.parse().ok()
}

fn uplink<'a>(plug: Plug<'a>, run_dir: &Path) -> UplinkTable<'a> {
    let Plug {
        wire,
        side,
        interface,
    } = plug;
    let raw = wire.uplink == Uplink::Raw;
    UplinkTable {
        name: UPLINK,
        kind: if raw { "raw" } else { "tunnel" },
        interface: raw.then_some(interface),
        listen: (!raw).then(|| tunnel_end(side)),
        key: (wire.uplink == Uplink::Sealed).then(|| key_file(run_dir)),
        faults: &wire.faults,
    }
}

/// The table by which hosts that reach each other by IP hand adapters over by themselves. Hosts whose cable is in a
/// bridge have none: the address is on the bridge's port.
fn migration(plug: Plug<'_>, run_dir: &Path) -> Option<MigrationTable> {
    (plug.interface == INTERFACE).then(|| MigrationTable {
        listen: migration_end(plug.side),
        key: key_file(run_dir),
    })
}

/// The table for a daemon that is started beside that of its host.
pub(super) fn spare_migration(listen: SocketAddr, run_dir: &Path) -> Result<String> {
    #[derive(Serialize)]
    struct Tables {
        migration: MigrationTable,
    }
    let key = key_file(run_dir);
    let migration = MigrationTable { listen, key };
    Ok(toml::to_string(&Tables { migration })?)
}

/// The file with the key of sealed tunnels and of migrations.
fn key_file(run_dir: &Path) -> PathBuf {
    run_dir.join("hosts.key")
}

/// Writes the key that the lab's hosts share.
pub(super) fn write_key(run_dir: &Path) -> Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(key_file(run_dir))?;
    Ok(file.write_all("5a".repeat(32).as_bytes())?)
}

fn peer(side: Side) -> PeerTable {
    PeerTable {
        uplink: UPLINK,
        address: tunnel_end(side.other()),
    }
}

fn table<'a>(portgroup: &'a str, adapter: &'a Adapter) -> AdapterTable<'a> {
    let (doorbells, kind, ip) = match adapter.user {
        User::Guest(doorbells) => (Some(doorbells), None, None),
        User::GuestStack => (None, None, None),
        User::Processes(ip) => (None, Some("process"), Some(ip)),
        User::HostStack(ip) => (None, Some("tap"), Some(ip)),
    };
    AdapterTable {
        name: &adapter.name,
        portgroup,
        mac: &adapter.mac,
        doorbells,
        kind,
        ip,
        away: adapter.is_away,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::INTERFACE;

    fn plug(wire: &WireConfig, side: Side) -> Plug<'_> {
        Plug {
            wire,
            side,
            interface: INTERFACE,
        }
    }

    fn text(plug: Option<Plug<'_>>) -> String {
        let adapter = Adapter {
            name: "a".to_owned(),
            mac: "52:54:00:00:00:01".to_owned(),
            user: User::Guest(DoorbellMode::Trapped),
            is_away: false,
        };
        configuration(Path::new("/r"), &[("lab", &[adapter])], plug, None).unwrap()
    }

    #[test]
    fn a_daemon_alone_has_no_uplink() {
        let expected = "\
[daemon]
socket = \"/r/vrdmad.sock\"
run_dir = \"/r\"

[[portgroup]]
name = \"lab\"

[[adapter]]
name = \"a\"
portgroup = \"lab\"
mac = \"52:54:00:00:00:01\"
doorbells = \"trapped\"
";
        assert_eq!(text(None), expected);
    }

    #[test]
    fn a_tunnel_knows_its_peer_and_its_tenant() {
        let wire = WireConfig {
            uplink: Uplink::Tunnel,
            faults: "loss=1%".to_owned(),
            ..WireConfig::default()
        };
        let expected = "\
[[uplink]]
name = \"wire\"
kind = \"tunnel\"
listen = \"192.0.2.2:4789\"
faults = \"loss=1%\"

[[peer]]
uplink = \"wire\"
address = \"192.0.2.1:4789\"

[[portgroup]]
name = \"lab\"
vni = 100
";
        assert!(text(Some(plug(&wire, Side::B))).contains(expected));
    }

    #[test]
    fn a_guest_that_does_rdma_by_itself_may_send_its_frames() {
        let adapter = Adapter {
            name: "a".to_owned(),
            mac: "52:54:00:00:00:01".to_owned(),
            user: User::GuestStack,
            is_away: false,
        };
        let groups = [("lab", &[adapter][..])];
        let text = configuration(Path::new("/run/lab"), &groups, None, None).unwrap();
        assert!(text.contains("\nallow_roce_frames = true\n"), "{text}");
    }

    #[test]
    fn processes_know_their_adapter_by_its_address() {
        let adapter = Adapter {
            name: "p".to_owned(),
            mac: "52:54:00:00:00:01".to_owned(),
            user: User::Processes(Ipv4Addr::new(192, 0, 2, 1)),
            is_away: false,
        };
        let text = configuration(Path::new("/r"), &[("lab", &[adapter])], None, None).unwrap();
        assert!(
            text.ends_with("\nkind = \"process\"\nip = \"192.0.2.1\"\n"),
            "{text}"
        );
    }

    #[test]
    fn the_hosts_stack_is_a_tap() {
        let adapter = Adapter {
            name: "h".to_owned(),
            mac: "52:54:00:00:00:03".to_owned(),
            user: User::HostStack(Ipv4Addr::new(192, 0, 2, 3)),
            is_away: false,
        };
        let text = configuration(Path::new("/r"), &[("lab", &[adapter])], None, None).unwrap();
        assert!(
            text.ends_with("\nkind = \"tap\"\nip = \"192.0.2.3\"\n"),
            "{text}"
        );
    }

    #[test]
    fn tenants_have_port_groups_of_their_own() {
        let adapter = |name: &str| Adapter {
            name: name.to_owned(),
            mac: "52:54:00:00:00:01".to_owned(),
            user: User::Processes(Ipv4Addr::new(192, 0, 2, 1)),
            is_away: false,
        };
        let (one, other) = ([adapter("a1")], [adapter("a2")]);
        let text =
            configuration(Path::new("/r"), &[("t1", &one), ("t2", &other)], None, None).unwrap();
        assert!(text.contains("[[portgroup]]\nname = \"t1\"\n\n[[portgroup]]\nname = \"t2\"\n"));
        assert!(
            text.contains("name = \"a2\"\nportgroup = \"t2\"\n"),
            "{text}"
        );
    }

    #[test]
    fn the_data_path_may_have_a_core() {
        let text = configuration(Path::new("/r"), &[], None, Some(1)).unwrap();
        assert!(text.contains("run_dir = \"/r\"\ncores = \"1\"\n"), "{text}");
    }

    #[test]
    fn hosts_that_reach_each_other_hand_adapters_over() {
        let wire = WireConfig::default();
        let table = "[migration]\nlisten = \"192.0.2.1:4793\"\nkey = \"/r/hosts.key\"\n";
        assert!(text(Some(plug(&wire, Side::A))).contains(table));
        let bridged = Plug {
            interface: crate::wire::PORT,
            ..plug(&wire, Side::A)
        };
        assert!(!text(Some(bridged)).contains("[migration]"));
    }

    #[test]
    fn a_raw_uplink_is_an_interface() {
        let text = text(Some(plug(&WireConfig::default(), Side::A)));
        assert!(text.contains("kind = \"raw\"\ninterface = \"wire\"\n\n[[portgroup]]"));
        assert!(!text.contains("vni"));
    }
}
