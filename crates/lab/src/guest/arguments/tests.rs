use std::net::Ipv4Addr;
use std::path::PathBuf;

use super::super::config::{Kind, MAX_SOCKET_PATH, check_socket_path};
use super::*;
use crate::process::Lifetime;

fn config() -> GuestConfig {
    GuestConfig {
        name: "a".to_owned(),
        kind: Kind::Vrdma,
        address: Ipv4Addr::new(10, 10, 0, 1),
        mac: "52:54:00:00:00:01".to_owned(),
        memory_mib: 512,
        processors: 2,
        ethernet: Ethernet::Switch("/r/a.ethernet".into()),
        vfio_user: Some("/r/a.vfio-user".into()),
        second: None,
        host: None,
        verbs: None,
        mtu: None,
        host_cpus: None,
        run_dir: "/r".into(),
        variables: vec![("A".to_owned(), "10.10.0.1".to_owned())],
        lifetime: Lifetime::Owned,
        incoming: false,
        libvirt: false,
    }
}

fn line(config: &GuestConfig) -> String {
    let image = Image::at("/i");
    let words = arguments(&image, Accelerator::Tcg, config);
    words
        .iter()
        .map(|word| word.to_str().unwrap())
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_adapter_is_two_functions_of_one_slot() {
    let line = line(&config());
    assert!(
        line.contains(
            "-netdev stream,id=network,server=off,reconnect-ms=200,addr.type=unix,addr.path=/r/a.ethernet"
        )
    );
    assert!(
        line.contains("vmxnet3,netdev=network,addr=5.0,multifunction=on,mac=52:54:00:00:00:01")
    );
    assert!(line.contains(
        r#""addr":"5.1","driver":"vfio-user-pci","socket":{"path":"/r/a.vfio-user","type":"unix"}"#
    ));
    assert!(line.contains("memory-backend-memfd,id=ram,size=512M,share=on"));
}

#[test]
fn a_guest_without_rdma_has_no_second_function() {
    let tcp = GuestConfig {
        kind: Kind::Tcp,
        vfio_user: None,
        ..config()
    };
    assert!(!line(&tcp).contains("vfio-user"));
    assert!(tcp.check().is_ok());
}

#[test]
fn commas_in_paths_are_doubled() {
    let odd = GuestConfig {
        run_dir: "/a,b".into(),
        ..config()
    };
    assert!(line(&odd).contains("path=/a,,b/a.agent,"));
}

#[test]
fn peers_name_each_other() {
    let ethernet = Ethernet::Peer {
        own: "/r/1".into(),
        other: "/r/2".into(),
    };
    let line = line(&GuestConfig {
        ethernet,
        ..config()
    });
    assert!(line.contains(
        "dgram,id=network,local.type=unix,local.path=/r/1,remote.type=unix,remote.path=/r/2"
    ));
}

#[test]
fn a_card_on_a_tap_is_virtio() {
    let tap = |offloads| GuestConfig {
        ethernet: Ethernet::Tap {
            interface: "tap",
            offloads,
        },
        ..config()
    };
    let (plain, with_all) = (line(&tap(false)), line(&tap(true)));
    assert!(plain.contains("-netdev tap,id=network,ifname=tap,script=no,downscript=no"));
    assert!(plain.contains("virtio-net-pci,csum=off,gso=off,"));
    assert!(with_all.contains("virtio-net-pci,netdev=network,addr=5.0"));
}

#[test]
fn a_lent_card_takes_the_place_of_qemus() {
    let lent = GuestConfig {
        kind: Kind::Hca,
        vfio_user: None,
        ethernet: Ethernet::Lent("0000:01:10.0".to_owned()),
        ..config()
    };
    let line = line(&lent);
    assert!(line.contains("-device vfio-pci,host=0000:01:10.0,addr=5.0"));
    assert!(!line.contains("-netdev"));
    assert!(lent.check().is_ok());
    let both = GuestConfig {
        kind: Kind::Vrdma,
        vfio_user: config().vfio_user,
        ..lent
    };
    assert!(both.check().is_err());
}

#[test]
fn a_guest_that_lends_functions_has_an_iommu() {
    let lender = GuestConfig {
        kind: Kind::Tcp,
        vfio_user: None,
        ethernet: Ethernet::Functions,
        ..config()
    };
    assert!(lender.check().is_ok());
    let line = line(&lender);
    let places = [
        "kernel-irqchip=split",
        " intel_iommu=on",
        "-device intel-iommu,",
        "-device igb,addr=5.0",
    ]
    .map(|words| {
        line.find(words)
            .unwrap_or_else(|| panic!("{words}: {line}"))
    });
    assert!(places.is_sorted(), "{line}");
    assert!(!line.contains("-netdev"));
}

#[test]
fn long_socket_paths_are_refused_with_their_length() {
    let path = |length: usize| PathBuf::from(format!("/{}", "x".repeat(length - 1)));
    assert!(check_socket_path(&path(MAX_SOCKET_PATH)).is_ok());
    let error = check_socket_path(&path(MAX_SOCKET_PATH + 1)).unwrap_err();
    assert!(error.to_string().contains("has 108 bytes"));
    let deep = GuestConfig {
        run_dir: path(104),
        ..config()
    };
    assert!(deep.check().is_err());
}

#[test]
fn kind_and_socket_must_agree() {
    assert!(
        GuestConfig {
            vfio_user: None,
            ..config()
        }
        .check()
        .is_err()
    );
    assert!(
        GuestConfig {
            kind: Kind::Rxe,
            ..config()
        }
        .check()
        .is_err()
    );
}

#[test]
fn pinning_wraps_the_command() {
    let mut qemu = std::process::Command::new("qemu");
    qemu.arg("-x").env("MODULES", "/m");
    let pinned = GuestConfig {
        host_cpus: Some("1".to_owned()),
        ..config()
    }
    .placed(&qemu);
    let words: Vec<_> = pinned.get_args().collect();
    assert_eq!(pinned.get_program(), "taskset");
    assert_eq!(words, ["--cpu-list", "1", "qemu", "-x"]);
    assert_eq!(pinned.get_envs().count(), 1);
}

#[test]
fn the_environment_is_shell_text() {
    assert_eq!(
        config().environment(),
        "NAME='a'\nKIND='vrdma'\nA='10.10.0.1'\n"
    );
}

#[test]
fn a_guest_that_comes_from_another_qemu_waits_for_it() {
    let coming = GuestConfig {
        incoming: true,
        ..config()
    };
    assert!(line(&coming).ends_with(" -incoming defer -S"));
    assert!(!line(&config()).contains("-incoming"));
}
