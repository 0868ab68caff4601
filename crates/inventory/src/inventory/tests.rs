use vrdma_api::PortGroupRequest;

use super::*;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn group(text: &str) -> PortGroupRequest {
    PortGroupRequest {
        allow_roce_frames: false,
        limits: Default::default(),
        weight: Default::default(),
        name: name(text),
        vlan: None,
        vni: None,
        users: Vec::new(),
        groups: Vec::new(),
    }
}

fn adapter(text: &str, portgroup: &str) -> AdapterRequest {
    AdapterRequest {
        name: name(text),
        portgroup: name(portgroup),
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
    }
}

fn with_groups(names: &[&str]) -> Inventory {
    let mut inventory = Inventory::new(Path::new("/run/vrdma"), 1);
    for name in names {
        inventory
            .add_portgroup(&group(name), Origin::Config)
            .unwrap();
    }
    inventory
}

#[test]
fn groups_and_adapters_get_small_numbers_that_are_free() {
    let mut inventory = with_groups(&["a", "b"]);
    let add = |inventory: &mut Inventory, text: &str| {
        inventory
            .add_adapter(&adapter(text, "b"), Origin::Runtime)
            .unwrap()
            .port
            .0
    };
    assert_eq!(
        ["x", "y", "z"].map(|text| add(&mut inventory, text)),
        [0, 1, 2]
    );
    assert_eq!(inventory.remove_adapter(&name("y")), Ok(PortId(1)));
    assert_eq!(["v", "w"].map(|text| add(&mut inventory, text)), [1, 3]);
}

#[test]
fn a_refused_adapter_leaves_nothing() {
    let mut inventory = with_groups(&["a"]);
    let first = inventory
        .add_adapter(&adapter("x", "a"), Origin::Runtime)
        .unwrap();
    let same_mac = AdapterRequest {
        mac: Some(MacAddress::derived_from(&name("x"))),
        ..adapter("y", "a")
    };
    let refusal = inventory
        .add_adapter(&same_mac, Origin::Runtime)
        .unwrap_err();
    assert_eq!((refusal.kind, refusal.field), (Kind::Conflict, Field::Mac));
    assert_eq!(
        inventory.ports().collect::<Vec<_>>(),
        [(&name("x"), first.port)]
    );
    assert_eq!(
        inventory.adapter(&name("y")).unwrap_err().kind,
        Kind::Missing
    );
}

#[test]
fn a_group_in_use_stays() {
    let mut inventory = with_groups(&["a"]);
    inventory
        .add_adapter(&adapter("x", "a"), Origin::Runtime)
        .unwrap();
    let refusal = inventory.remove_portgroup(&name("a")).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the port group \"a\" still has x; remove its adapters first"
    );
    inventory.remove_adapter(&name("x")).unwrap();
    inventory.remove_portgroup(&name("a")).unwrap();
    assert_eq!(
        inventory.remove_portgroup(&name("a")).unwrap_err().kind,
        Kind::Missing
    );
}

#[test]
fn the_tables_are_bounded() {
    let mut inventory = with_groups(&["a"]);
    for number in 0..ADAPTERS_MAX {
        inventory
            .add_adapter(&adapter(&format!("x{number}"), "a"), Origin::Runtime)
            .unwrap();
    }
    let refusal = inventory
        .add_adapter(&adapter("y", "a"), Origin::Runtime)
        .unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "there are 16384 adapters already, which is the limit; remove some first"
    );
    let sentence = inventory
        .remove_portgroup(&name("a"))
        .unwrap_err()
        .to_string();
    assert!(
        sentence.contains("and 16376 more") && sentence.len() < 200,
        "{sentence}"
    );
}
