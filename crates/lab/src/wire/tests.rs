use std::process::Command;

use super::*;

fn config(uplink: Uplink) -> WireConfig {
    WireConfig {
        uplink,
        ..WireConfig::default()
    }
}

fn reaches(wire: &WiredHosts, from: Side, to: Side) -> bool {
    // The discard service of a host that is reachable refuses at once.
    let mut connect = Command::new("timeout");
    let script = format!("exec 3<>/dev/tcp/{}/9", address(to));
    connect.args(["20", "bash", "-c", &script]);
    let output = wire.host(from).command(&connect).output().unwrap();
    String::from_utf8_lossy(&output.stderr).contains("refused")
}

#[test]
fn hosts_reach_each_other_over_the_cable() {
    let folder = tempfile::tempdir().unwrap();
    let wire = WiredHosts::create(&WireConfig::default(), folder.path(), Lifetime::Owned).unwrap();
    assert!(reaches(&wire, Side::A, Side::B));
    wire.host(Side::B)
        .ip(&format!("link set {INTERFACE} down\n"))
        .unwrap();
    assert!(!reaches(&wire, Side::A, Side::B));
}

#[test]
fn cards_are_bridged_to_both_kinds_of_wire() {
    for uplink in [Uplink::Raw, Uplink::Tunnel] {
        let folder = tempfile::tempdir().unwrap();
        let config = config(uplink);
        let wire = WiredHosts::create(&config, folder.path(), Lifetime::Owned).unwrap();
        wire.add_tap(Side::B).unwrap();
    }
}

#[test]
fn tunnels_take_room_from_guests() {
    let guest = |uplink, mtu| {
        WireConfig {
            mtu,
            ..config(uplink)
        }
        .guest_mtu()
    };
    assert_eq!(guest(Uplink::Raw, 1500), 1500);
    assert_eq!(guest(Uplink::Tunnel, 1500), 1450);
    assert_eq!(guest(Uplink::Tunnel, 9050), 9000);
    assert_eq!(guest(Uplink::Sealed, 1500), 1418);
    assert_eq!(guest(Uplink::Raw, 65_535), 9000);
}

#[test]
fn a_wire_too_narrow_is_refused() {
    let narrow = WireConfig {
        mtu: MTU_MIN - 1,
        ..WireConfig::default()
    };
    assert!(narrow.check().unwrap_err().to_string().contains("657"));
}
