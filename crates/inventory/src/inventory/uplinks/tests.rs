use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use vrdma_api::{PortGroupRequest, Vni};

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn raw(text: &str, interface: &str) -> UplinkRequest {
    UplinkRequest {
        name: name(text),
        kind: UplinkKind::Raw,
        interface: Some(interface.parse().unwrap()),
        listen: None,
        key: None,
        faults: None,
    }
}

fn tunnel(text: &str, listen: &str) -> UplinkRequest {
    UplinkRequest {
        kind: UplinkKind::Tunnel,
        interface: None,
        listen: Some(listen.parse().unwrap()),
        ..raw(text, "x")
    }
}

fn peer(uplink: &str, address: &str) -> PeerRequest {
    PeerRequest {
        uplink: name(uplink),
        address: address.parse().unwrap(),
        any_port: false,
        key: None,
        stations: Vec::new(),
        vnis: Vec::new(),
    }
}

#[test]
fn a_station_is_behind_one_peer() {
    let mut inventory = with_tunnel();
    let with = |address: &str, macs: &[&str]| PeerRequest {
        stations: macs.iter().map(|mac| mac.parse().unwrap()).collect(),
        ..peer("up0", address)
    };
    let (a, b) = ("02:00:00:00:00:0a", "02:00:00:00:00:0b");
    let twice = inventory.add_peer(&with("192.0.2.2", &[a, a]), Origin::Runtime);
    assert!(sentence(twice).contains("named twice"));
    inventory
        .add_peer(&with("192.0.2.2", &[a]), Origin::Runtime)
        .unwrap();
    let taken = inventory.add_peer(&with("192.0.2.3", &[b, a]), Origin::Runtime);
    assert_eq!(
        sentence(taken),
        "the station 02:00:00:00:00:0a is behind the peer 192.0.2.2:4789 already; name it for one peer only"
    );
    assert_eq!(inventory.peers().len(), 1);
    let (_, spec) = &inventory.peer_specs()[0];
    assert_eq!(spec.stations, [Mac([2, 0, 0, 0, 0, 10])]);
}

/// Makes a folder with a key file of that mode.
fn key_file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    (folder, path)
}

fn with_key(file: &Path) -> UplinkRequest {
    UplinkRequest {
        key: Some(file.to_owned()),
        ..tunnel("up0", "192.0.2.1")
    }
}

#[test]
fn peers_have_the_key_of_their_uplink_or_their_own() {
    let (_one, of_uplink) = key_file(&"01".repeat(32), 0o600);
    let (_two, own) = key_file(&"02".repeat(32), 0o400);
    let mut inventory = inventory();
    inventory
        .add_uplink(&with_key(&of_uplink), Origin::Config)
        .unwrap();
    let other = PeerRequest {
        key: Some(own),
        ..peer("up0", "192.0.2.3")
    };
    for request in [&peer("up0", "192.0.2.2"), &other] {
        inventory.add_peer(request, Origin::Config).unwrap();
    }
    let keys = |text: &str| Some(text.repeat(32).parse().unwrap());
    let specs = inventory.peer_specs();
    assert_eq!(
        [&specs[0].1.keys, &specs[1].1.keys],
        [&keys("01"), &keys("02")]
    );
    assert!(inventory.peers().iter().all(|peer| peer.sealed));
}

#[test]
fn key_files_that_will_not_do_are_told_and_change_nothing() {
    let (_a, open) = key_file(&"01".repeat(32), 0o640);
    let (_b, broken) = key_file("secret", 0o600);
    let (_c, long) = key_file(&"#\n".repeat(3000), 0o600);
    let cases = [
        (open.clone(), "is open to other users; `chmod 600 "),
        (broken, ": line 1 is no key: write 64 hexadecimal digits"),
        (long, "is no regular file of at most 4096 bytes"),
        (open.with_extension("no"), ": No such file"),
        (PathBuf::from("/dev/null"), "is no regular file"),
        (PathBuf::from("key"), "is not an absolute path"),
    ];
    for (file, expected) in cases {
        let mut inventory = inventory();
        let refused = inventory.add_uplink(&with_key(&file), Origin::Config);
        let refusal = refused.unwrap_err();
        assert_eq!(refusal.field, Field::Key);
        assert!(refusal.to_string().contains(expected), "{refusal}");
        assert_eq!(inventory.uplinks().count(), 0);
    }
    let (_d, good) = key_file(&"01".repeat(32), 0o600);
    let on_raw = UplinkRequest {
        key: Some(good),
        ..raw("up0", "eth1")
    };
    let refused = inventory().add_uplink(&on_raw, Origin::Config);
    assert!(sentence(refused).contains("leave the key out"));
}

fn group(text: &str, vlan: Option<i64>, vni: Option<i64>) -> PortGroupRequest {
    PortGroupRequest {
        allow_roce_frames: false,
        limits: Default::default(),
        weight: Default::default(),
        name: name(text),
        vlan: vlan.map(|vlan| vlan.try_into().unwrap()),
        vni: vni.map(|vni| vni.try_into().unwrap()),
        users: Vec::new(),
        groups: Vec::new(),
    }
}

fn inventory() -> Inventory {
    Inventory::new(Path::new("/run/vrdma"), 1)
}

fn with_tunnel() -> Inventory {
    let mut inventory = inventory();
    let added = inventory.add_uplink(&tunnel("up0", "192.0.2.1"), Origin::Config);
    assert_eq!(added.unwrap().id, UplinkId(0));
    inventory
}

fn sentence<T: std::fmt::Debug>(refused: Result<T, Refusal>) -> String {
    refused.unwrap_err().to_string()
}

#[test]
fn an_interface_or_address_has_one_uplink() {
    let mut inventory = with_tunnel();
    let mut add = |request: &UplinkRequest| inventory.add_uplink(request, Origin::Runtime);
    add(&raw("up1", "eth1")).unwrap();
    assert!(sentence(add(&raw("up2", "eth1"))).contains("belongs to the uplink \"up1\""));
    assert!(sentence(add(&tunnel("up2", "192.0.2.1"))).contains("\"up0\" listens at"));
    assert!(sentence(add(&raw("up1", "eth2"))).contains("choose another name"));
    let both = UplinkRequest {
        listen: tunnel("up3", "192.0.2.9").listen,
        ..raw("up3", "eth3")
    };
    assert!(sentence(add(&both)).contains("needs an interface"));
}

#[test]
fn peers_are_other_hosts_of_a_tunnel() {
    let mut inventory = with_tunnel();
    inventory
        .add_uplink(&raw("eth", "eth1"), Origin::Config)
        .unwrap();
    let mut add = |request: &PeerRequest| inventory.add_peer(request, Origin::Runtime);
    add(&peer("up0", "192.0.2.2")).unwrap();
    for (wrong, part) in [
        (peer("up0", "192.0.2.2:4789"), "has the peer"),
        (peer("up0", "192.0.2.1"), "is no other host"),
        (peer("up0", "0.0.0.0"), "is no other host"),
        (peer("up0", "2001:db8::2"), "one IP version"),
        (peer("eth", "192.0.2.2"), "is raw"),
        (
            peer("up9", "192.0.2.2"),
            "there is no uplink \"up9\"; add it first or use one of eth, up0",
        ),
    ] {
        let sentence = sentence(add(&wrong));
        assert!(sentence.contains(part), "{sentence}");
    }
    let address = "192.0.2.2".parse().unwrap();
    inventory.remove_peer(&name("up0"), address).unwrap();
    assert!(sentence(inventory.remove_peer(&name("up0"), address)).contains("has no peer"));
}

#[test]
fn groups_stay_apart_outside_the_host() {
    let mut inventory = with_tunnel();
    let mut add = |request: &PortGroupRequest| inventory.add_portgroup(request, Origin::Runtime);
    add(&group("a", Some(10), None)).unwrap();
    assert!(sentence(add(&group("b", None, Some(10)))).contains("VNI 10 belongs"));
    add(&group("b", Some(11), Some(5000))).unwrap();
    assert!(sentence(add(&group("c", None, Some(5000)))).contains("VNI 5000 belongs"));
    add(&group("c", None, None)).unwrap();
    add(&group("d", None, None)).unwrap();
    let refused = inventory.add_uplink(&raw("eth", "eth1"), Origin::Runtime);
    assert!(sentence(refused).contains("\"c\" and \"d\" have no VLAN"));
    inventory.remove_portgroup(&name("d")).unwrap();
    inventory
        .add_uplink(&raw("eth", "eth1"), Origin::Runtime)
        .unwrap();
    let refused = inventory.add_portgroup(&group("d", None, Some(7)), Origin::Runtime);
    assert!(sentence(refused).contains("\"c\" and \"d\" have no VLAN"));
}

#[test]
fn segments_default_to_the_vlan() {
    let mut inventory = inventory();
    inventory
        .add_portgroup(&group("a", Some(10), None), Origin::Config)
        .unwrap();
    let request = vrdma_api::AdapterRequest {
        name: name("x"),
        portgroup: name("a"),
        mac: None,
        doorbells: Default::default(),
        kind: Default::default(),
        ip: Default::default(),
        shard: None,
        away: false,
        limits: Default::default(),
        weight: Default::default(),
        users: Vec::new(),
        groups: Vec::new(),
    };
    let segment = inventory
        .add_adapter(&request, Origin::Config)
        .unwrap()
        .segment;
    assert_eq!(segment.vni, Some(Vni::try_from(10).unwrap()));
}
