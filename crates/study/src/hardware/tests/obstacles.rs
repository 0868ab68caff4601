//! Why this machine's hardware cannot be lent: what its cards lack or are used for, and what the machine lacks.

use super::*;

/// Checks that the sentence on a transport contains this.
#[track_caller]
fn assert_obstacle(scene: &Scene, transport: Transport, obstacle: &str) {
    let told = scene.says(transport);
    assert!(told.contains(obstacle), "{transport:?}: {told}");
}

/// Writes the number of virtual functions that the first card can have, or has.
fn set_functions(scene: &Scene, name: &str, number: &str) {
    let path = format!("sys/bus/pci/devices/{CARD}/{name}");
    file(scene.root(), &path, number);
}

/// Takes down the interface of the first card.
fn take_down(scene: &Scene) {
    file(scene.root(), "sys/class/net/eth0/flags", "0x1002");
}

/// Adds a device to the IOMMU group of the first card.
fn add_to_group(scene: &Scene, address: &str) {
    let path = format!("sys/kernel/iommu_groups/01/devices/{address}");
    file(scene.root(), &path, "");
}

/// Adds a disk to the IOMMU group of the first card.
fn add_disk_to_group(scene: &Scene) {
    device(scene.root(), "0000:03:00.0", "0x010000", "nvme");
    add_to_group(scene, "0000:03:00.0");
}

#[test]
fn a_card_in_use_is_not_taken() {
    let scene = Scene::new();
    file(
        scene.root(),
        "proc/net/route",
        "Iface Destination\neth0 0000A8C0\neth0 00000000\neth1 0000A8C0\n",
    );
    let whole = Transport::Passthrough;
    let default_route = "eth0 of 0000:01:00.0 carries the default route";
    assert_obstacle(&scene, whole, default_route);
    assert_obstacle(&scene, whole, "eth1 of 0000:02:00.0 carries routes");
    assert_obstacle(&scene, Transport::Sriov, "carries the default route");
    assert!(scene.hardware().lend(Transport::Sriov).is_err());
    assert_eq!(scene.driver(CARD).as_deref(), Some("mlx5_core"));
}

#[test]
fn a_card_needs_two_virtual_functions_and_may_have_none_yet() {
    let scene = Scene::new();
    assert_eq!(scene.says(Transport::Sriov), "");
    set_functions(&scene, "sriov_numvfs", "3");
    assert_obstacle(&scene, Transport::Sriov, "has 3 virtual functions already");
    assert_eq!(
        scene.says(Transport::RxeSriov),
        "",
        "two whole cards do as well"
    );
    set_functions(&scene, "sriov_totalvfs", "1");
    assert_obstacle(&scene, Transport::Sriov, "offers 1 virtual functions");
}

#[test]
fn virtual_functions_need_an_interface_that_is_up() {
    let scene = Scene::new();
    take_down(&scene);
    let down = "eth0 of 0000:01:00.0 is down";
    assert_obstacle(&scene, Transport::Sriov, down);
}

#[test]
fn a_whole_card_shares_its_group_only_with_bridges() {
    let scene = Scene::new();
    let whole = Transport::Passthrough;
    add_to_group(&scene, "0000:00:00.0");
    assert_eq!(scene.says(whole), "", "a bridge may share the group");
    add_disk_to_group(&scene);
    let shared = "shares its IOMMU group 01 with 0000:03:00.0";
    assert_obstacle(&scene, whole, shared);
    assert_obstacle(&scene, whole, "0000:02:00.0 is free, but");
}

#[test]
fn what_the_machine_lacks_is_named_before_the_obstacles_of_a_card() {
    let scene = Scene::new();
    take_down(&scene);
    add_disk_to_group(&scene);
    assert_eq!(
        scene.says(Transport::Hca),
        "this machine has no RDMA adapter"
    );
    let cards = [CARD, SECOND].map(|card| format!("sys/bus/pci/devices/{card}"));
    for card in &cards {
        scene.remove(&format!("{card}/infiniband"));
    }
    assert_obstacle(&scene, Transport::Passthrough, "is an RDMA adapter");
    scene.remove("sys/kernel/iommu_groups");
    assert_obstacle(&scene, Transport::RxeSriov, "no IOMMU");
    for card in &cards {
        scene.remove(card);
    }
    assert_obstacle(&scene, Transport::RxeSriov, "no network card");
}

#[test]
fn only_root_with_the_driver_lends() {
    let scene = Scene {
        is_root: false,
        ..Scene::new()
    };
    assert_obstacle(&scene, Transport::Passthrough, "only root");
    let scene = Scene::new();
    scene.remove("sys/bus/pci/drivers/vfio-pci");
    assert_obstacle(&scene, Transport::Passthrough, "modprobe vfio-pci");
}
