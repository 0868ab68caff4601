use std::path::Path;

use vrdma_api::AdapterChange;

use super::*;
use crate::config::Config;

const CONFIGURED: &str = r#"
[[portgroup]]
name = "blue"
vlan = 10

[[portgroup]]
name = "gone"
vlan = 11

[[uplink]]
name = "up0"
kind = "tunnel"
listen = "192.0.2.1:4789"

[[peer]]
uplink = "up0"
address = "192.0.2.2:4789"

[[adapter]]
name = "c1"
portgroup = "blue"
kind = "process"
ip = "10.0.0.1"

[[adapter]]
name = "c2"
portgroup = "gone"
kind = "process"
ip = "10.0.0.2"
"#;

fn configured(text: &str) -> Inventory {
    let config = Config::from_text(Path::new("x.toml"), text, Path::new("/run/v"));
    config.unwrap().inventory
}

fn parsed<T: for<'a> Deserialize<'a>>(json: &str) -> T {
    serde_json::from_str(json).unwrap()
}

fn name(name: &str) -> Name {
    name.parse().unwrap()
}

/// Returns everything that the API reports of an inventory.
fn told(inventory: &Inventory) -> String {
    let uplinks: Vec<_> = inventory.uplinks().map(|(_, uplink)| uplink).collect();
    let parts = [
        serde_json::to_string_pretty(&inventory.portgroups()),
        serde_json::to_string_pretty(&uplinks),
        serde_json::to_string_pretty(&inventory.peers()),
        serde_json::to_string_pretty(&inventory.adapters()),
    ];
    parts.map(Result::unwrap).join("\n")
}

/// Returns the differences as a worker keeps them.
fn differences(now: &Inventory, changed: &[Object]) -> Vec<Difference> {
    let kept = changed.iter().map(|object| now.difference(object));
    let bytes = serde_json::to_vec(&kept.collect::<Vec<_>>()).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Makes an inventory in which addresses change hands, a port group goes, and another one comes with all kinds of
/// objects.
fn changed() -> (Inventory, Vec<Object>) {
    let mut now = configured(CONFIGURED);
    let runtime = Origin::Runtime;
    now.remove_adapter(&name("c2")).unwrap();
    now.remove_portgroup(&name("gone")).unwrap();
    now.remove_adapter(&name("c1")).unwrap();
    let moved = r#"{ "name": "c1", "portgroup": "blue", "kind": "process", "ip": "10.0.0.2" }"#;
    now.add_adapter(&parsed(moved), runtime).unwrap();
    let change: AdapterChange = parsed(r#"{ "limit_out": "1gbit", "users": ["root"] }"#);
    now.change_adapter(&name("c1"), &change).unwrap();
    let limits: PortGroupChange = parsed(r#"{ "limit_in": "2gbit", "weight": 3 }"#);
    now.change_portgroup(&name("blue"), &limits).unwrap();
    let red = parsed(r#"{ "name": "red", "vlan": 11, "users": ["root"] }"#);
    now.add_portgroup(&red, runtime).unwrap();
    let adapter = parsed(
        r#"{ "name": "vm1", "portgroup": "red", "shard": 0, "weight": 2, "ip": "10.0.0.1" }"#,
    );
    now.add_adapter(&adapter, runtime).unwrap();
    let own = parsed(
        r#"{ "name": "c3", "portgroup": "blue", "kind": "process", "ip": "10.0.0.1", "groups": ["root"] }"#,
    );
    now.add_adapter(&own, runtime).unwrap();
    let uplink = parsed(r#"{ "name": "up1", "kind": "tunnel", "listen": "192.0.2.9:4789" }"#);
    now.add_uplink(&uplink, runtime).unwrap();
    let peer = parsed(r#"{ "uplink": "up1", "address": "192.0.2.3:4789" }"#);
    now.add_peer(&peer, runtime).unwrap();
    let configured_peer: PeerRequest =
        parsed(r#"{ "uplink": "up0", "address": "192.0.2.2:4789" }"#);
    now.remove_peer(&name("up0"), configured_peer.address)
        .unwrap();
    let objects = vec![
        Object::Adapter(name("vm1")),
        Object::Peer(name("up1"), peer.address),
        Object::Adapter(name("c2")),
        Object::PortGroup(name("gone")),
        Object::Adapter(name("c3")),
        Object::Adapter(name("c1")),
        Object::PortGroup(name("red")),
        Object::Uplink(name("up1")),
        Object::PortGroup(name("blue")),
        Object::Peer(name("up0"), configured_peer.address),
    ];
    (now, objects)
}

#[test]
fn the_inventory_is_as_it_was_whatever_the_order() {
    let (now, mut objects) = changed();
    for _ in 0..objects.len() {
        let mut follower = configured(CONFIGURED);
        assert_eq!(follower.follow(&differences(&now, &objects)), []);
        assert_eq!(told(&follower), told(&now));
        objects.rotate_left(1);
    }
}

#[test]
fn what_was_made_and_removed_leaves_nothing() {
    let mut now = configured(CONFIGURED);
    let adapter = parsed(r#"{ "name": "vm1", "portgroup": "blue" }"#);
    now.add_adapter(&adapter, Origin::Runtime).unwrap();
    now.remove_adapter(&name("vm1")).unwrap();
    let removed = now.difference(&Object::Adapter(name("vm1")));
    assert_eq!(removed, Difference::Removed(Object::Adapter(name("vm1"))));
    let mut follower = configured(CONFIGURED);
    assert_eq!(follower.follow(&[removed]), []);
    assert_eq!(told(&follower), told(&configured(CONFIGURED)));
}

#[test]
fn who_edits_the_configuration_has_the_last_word() {
    let (now, objects) = changed();
    let edited = CONFIGURED.replace(
        "[[adapter]]\nname = \"c1\"",
        "[[adapter]]\nname = \"c0\"\nportgroup = \"blue\"\nkind = \"process\"\nip = \"10.0.0.9\"\n\n[[adapter]]\nname = \"c1\"",
    );
    let edited = edited.replace("10.0.0.9", "10.0.0.1").replace(
        "name = \"c1\"\nportgroup = \"blue\"\nkind = \"process\"\nip = \"10.0.0.1\"",
        "name = \"c1\"\nportgroup = \"blue\"\nkind = \"process\"\nip = \"10.0.0.4\"",
    );
    let mut follower = configured(&edited);
    let refused = follower.follow(&differences(&now, &objects));
    let [(object, refusal)] = refused.as_slice() else {
        panic!("{refused:?}");
    };
    assert_eq!(*object, Object::Adapter(name("c3")));
    assert!(refusal.to_string().contains("10.0.0.1"), "{refusal}");
    assert!(follower.adapter(&name("vm1")).is_ok());
}
