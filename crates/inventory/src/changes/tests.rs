use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use vrdma_api::{Name, Origin};
use vrdma_keep::Area;

use crate::config::Config;

use super::*;

const CONFIGURED: &str = "[[portgroup]]\nname = \"blue\"\n\n[[adapter]]\nname = \"c1\"\nportgroup = \"blue\"\nkind = \"process\"\n";

fn configured(text: &str) -> Inventory {
    let config = Config::from_text(Path::new("x.toml"), text, Path::new("/run/v"));
    config.unwrap().inventory
}

fn area() -> OwnedFd {
    Area::create(CAPACITY).unwrap()
}

/// Starts a worker that goes on from the area.
fn worker(area: &OwnedFd, text: &str) -> (Changes, Inventory) {
    let mut inventory = configured(text);
    let found = Found::open(area.as_fd()).unwrap();
    (Changes::follow(Some(found), &mut inventory), inventory)
}

fn adapter(name: &str) -> Object {
    Object::Adapter(name.parse().unwrap())
}

fn add(inventory: &mut Inventory, json: &str) {
    let request = serde_json::from_str(json).unwrap();
    inventory.add_adapter(&request, Origin::Runtime).unwrap();
}

fn names(inventory: &Inventory) -> Vec<String> {
    inventory
        .ports()
        .map(|(name, _)| name.to_string())
        .collect()
}

#[test]
fn workers_follow_each_other_with_what_was_added_changed_and_removed() {
    let area = area();
    let (mut changes, mut now) = worker(&area, CONFIGURED);
    add(&mut now, r#"{ "name": "vm1", "portgroup": "blue" }"#);
    changes.keep(&adapter("vm1"), &now);
    now.remove_adapter(&"c1".parse().unwrap()).unwrap();
    changes.keep(&adapter("c1"), &now);
    let (mut changes, mut now) = worker(&area, CONFIGURED);
    assert_eq!(names(&now), ["vm1"]);
    let name: Name = "vm1".parse().unwrap();
    let change = serde_json::from_str(r#"{ "weight": 7 }"#).unwrap();
    now.change_adapter(&name, &change).unwrap();
    changes.keep(&adapter("vm1"), &now);
    let (mut changes, mut now) = worker(&area, CONFIGURED);
    assert_eq!(now.adapter(&name).unwrap().weight.get().get(), 7);
    now.remove_adapter(&name).unwrap();
    changes.keep(&adapter("vm1"), &now);
    let (changes, now) = worker(&area, CONFIGURED);
    assert_eq!(names(&now), [""; 0]);
    let kept = changes.store.unwrap().places;
    assert_eq!(kept.into_keys().collect::<Vec<_>>(), [adapter("c1")]);
}

#[test]
fn a_difference_may_be_long() {
    let area = area();
    let (mut changes, mut now) = worker(&area, CONFIGURED);
    let tunnel = r#"{ "name": "up0", "kind": "tunnel", "listen": "192.0.2.1" }"#;
    let tunnel = serde_json::from_str(tunnel).unwrap();
    now.add_uplink(&tunnel, Origin::Runtime).unwrap();
    let stations = (0..1000).map(|n| format!("\"52:54:00:00:{:02x}:{:02x}\"", n >> 8, n & 255));
    let peer = format!(
        r#"{{ "uplink": "up0", "address": "192.0.2.2", "stations": [{}] }}"#,
        stations.collect::<Vec<_>>().join(", ")
    );
    let peer: vrdma_api::PeerRequest = serde_json::from_str(&peer).unwrap();
    now.add_peer(&peer, Origin::Runtime).unwrap();
    changes.keep(&Object::Uplink(tunnel.name), &now);
    changes.keep(&Object::Peer(peer.uplink, peer.address), &now);
    let (_, follower) = worker(&area, CONFIGURED);
    assert_eq!(follower.peers(), now.peers());
    assert_eq!(follower.peers()[0].request.stations.len(), 1000);
}

#[test]
fn who_edits_the_configuration_has_the_last_word() {
    let area = area();
    let (mut changes, mut now) = worker(&area, CONFIGURED);
    let name: Name = "c1".parse().unwrap();
    let change = serde_json::from_str(r#"{ "weight": 7 }"#).unwrap();
    now.change_adapter(&name, &change).unwrap();
    changes.keep(&adapter("c1"), &now);
    add(&mut now, r#"{ "name": "vm1", "portgroup": "blue" }"#);
    changes.keep(&adapter("vm1"), &now);
    let edited = format!(
        "{CONFIGURED}weight = 2\n\n[[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"\nweight = 4\n"
    );
    for text in [edited.as_str(), CONFIGURED] {
        let (_, follower) = worker(&area, text);
        let weight = follower.adapter(&name).unwrap().weight.get().get();
        assert_eq!(weight, if text == edited { 2 } else { 1 }, "{text}");
    }
}

/// The next worker knows every connection that holds an adapter; the adapter goes with the first one that ends.
#[test]
fn the_next_worker_knows_all_who_hold_an_adapter() {
    let area = area();
    let (mut changes, mut now) = worker(&area, CONFIGURED);
    add(
        &mut now,
        r#"{ "name": "run", "portgroup": "blue", "kind": "process" }"#,
    );
    changes.keep(&adapter("run"), &now);
    let holders: [OwnedFd; 3] = std::array::from_fn(|_| File::open("/dev/null").unwrap().into());
    let numbers = holders.each_ref().map(AsRawFd::as_raw_fd);
    for number in numbers {
        changes.hold(&"run".parse().unwrap(), number, &now);
    }
    let open = |which: &[usize]| {
        let given = which
            .iter()
            .map(|at| (numbers[*at], holders[*at].try_clone().unwrap()));
        Inherited::given(given.collect())
    };
    for (which, held) in [(&[0, 1, 2][..], 3), (&[0, 1, 2], 3), (&[0, 2], 0)] {
        let mut inventory = configured(CONFIGURED);
        let mut found = Found::open(area.as_fd()).unwrap();
        found.claim(&mut open(which));
        let mut changes = Changes::follow(Some(found), &mut inventory);
        assert_eq!(changes.take_claimed().len(), held, "{which:?}");
        let there = names(&inventory).contains(&"run".to_owned());
        assert_eq!(there, held > 0, "{which:?}");
    }
}

/// Otherwise the holder of the other adapter would end this one.
#[test]
fn an_adapter_of_the_configuration_is_held_by_nobody_who_held_another_of_its_name() {
    let area = area();
    let (mut changes, mut now) = worker(&area, CONFIGURED);
    let connection = area.try_clone().unwrap();
    let name: Name = "vm1".parse().unwrap();
    add(&mut now, r#"{ "name": "vm1", "portgroup": "blue" }"#);
    changes.hold(&name, connection.as_raw_fd(), &now);
    let edited = format!("{CONFIGURED}\n[[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"\n");
    for (text, held) in [(CONFIGURED, 1), (&edited, 0)] {
        let mut found = Found::open(area.as_fd()).unwrap();
        let connection = connection.try_clone().unwrap();
        found.holds.push((name.clone(), connection));
        let mut inventory = configured(text);
        let mut changes = Changes::follow(Some(found), &mut inventory);
        assert_eq!(changes.take_claimed().len(), held, "{text}");
        assert!(inventory.adapter(&name).is_ok());
    }
}

#[test]
fn a_part_that_is_missing_costs_its_own_object_only() {
    let area = area();
    let (mut changes, mut now) = worker(&area, CONFIGURED);
    for name in ["vm1", "vm2"] {
        add(
            &mut now,
            &format!(r#"{{ "name": "{name}", "portgroup": "blue" }}"#),
        );
        changes.keep(&adapter(name), &now);
    }
    let store = changes.store.unwrap();
    let slot = store.places[&adapter("vm1")].slots[0];
    store.records.put(slot, b"{").unwrap();
    store.records.commit();
    let (_, follower) = worker(&area, CONFIGURED);
    assert_eq!(names(&follower), ["c1", "vm2"]);
}

/// Makes one record of each kind.
fn all_kinds() -> Vec<Kept> {
    let mut now = configured(CONFIGURED);
    add(
        &mut now,
        r#"{ "name": "vm1", "portgroup": "blue", "ip": "learn", "users": ["root"] }"#,
    );
    let red = serde_json::from_str(r#"{ "name": "red", "vlan": 10, "limit_in": "1gbit" }"#);
    now.add_portgroup(&red.unwrap(), Origin::Runtime).unwrap();
    let tunnel = r#"{ "name": "up0", "kind": "tunnel", "listen": "192.0.2.1" }"#;
    let tunnel = serde_json::from_str(tunnel).unwrap();
    now.add_uplink(&tunnel, Origin::Runtime).unwrap();
    let peer = r#"{ "uplink": "up0", "address": "192.0.2.2", "vnis": [7] }"#;
    let peer: vrdma_api::PeerRequest = serde_json::from_str(peer).unwrap();
    now.add_peer(&peer, Origin::Runtime).unwrap();
    let group = |name: &str| Object::PortGroup(name.parse().unwrap());
    let (uplink, peer) = (tunnel.name, Object::Peer(peer.uplink, peer.address));
    let objects = [
        group("red"),
        group("blue"),
        Object::Uplink(uplink),
        peer,
        adapter("vm1"),
        adapter("c2"),
    ];
    let kept = objects.into_iter().enumerate().map(|(place, object)| Kept {
        difference: now.difference(&object),
        configured: (place % 2 == 1).then_some(7),
        held_by: (place == 4).then_some(12),
        also_held_by: Vec::new(),
    });
    kept.collect()
}

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/changes5.txt")
}

#[test]
fn what_workers_of_this_format_keep_is_read() {
    let text = std::fs::read_to_string(corpus()).unwrap();
    let kept: Vec<Kept> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(kept, all_kinds());
}

#[test]
fn what_was_kept_before_there_were_guarantees_of_arrivals_is_read() {
    let text = r#"{"difference":{"port-group-limits":["blue",{"limit_out":null,"limit_in":null,"limit_out_ops":null,"limit_in_ops":null,"guarantee_out":null,"weight":1}]},"configured":7,"held_by":null}"#;
    let kept: Kept = serde_json::from_str(text).unwrap();
    let Difference::PortGroupLimits(_, change) = kept.difference else {
        panic!("it is a change of limits");
    };
    let of_arrivals = change.limits.guarantee_in;
    assert_eq!(
        (change.limits.guarantee_out, of_arrivals),
        (Some(None), None)
    );
}

#[test]
#[ignore = "writes the corpus"]
fn write_the_corpus() {
    let lines = all_kinds()
        .iter()
        .map(|kept| serde_json::to_string(kept).unwrap() + "\n")
        .collect::<String>();
    std::fs::write(corpus(), lines).unwrap();
}
