//! One real guest without a daemon: the image boots, runs commands and comes back from a reset.

use std::net::Ipv4Addr;
use std::time::Duration;

use vrdma_lab::guest::{Ethernet, Guest, GuestConfig, Kind};
use vrdma_lab::image::{Accelerator, Image};
use vrdma_lab::process::Lifetime;

fn config(run_dir: &std::path::Path, kind: Kind) -> GuestConfig {
    GuestConfig {
        name: "a".to_owned(),
        kind,
        address: Ipv4Addr::new(10, 10, 0, 1),
        mac: "52:54:00:00:00:01".to_owned(),
        memory_mib: 512,
        processors: 1,
        ethernet: Ethernet::Peer {
            own: run_dir.join("1"),
            other: run_dir.join("2"),
        },
        vfio_user: None,
        second: None,
        host: None,
        verbs: None,
        mtu: None,
        host_cpus: None,
        run_dir: run_dir.to_owned(),
        variables: Vec::new(),
        lifetime: Lifetime::Owned,
        incoming: false,
        libvirt: false,
    }
}

#[test]
fn a_guest_boots_obeys_and_reboots() {
    let image = Image::ensure().unwrap();
    let accelerator = Accelerator::choose(&image).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let guest = Guest::start(&image, accelerator, &config(folder.path(), Kind::Tcp)).unwrap();
    assert_eq!(guest.wait_ready().unwrap(), "");

    assert!(
        guest
            .check("ip -brief address show eth0")
            .unwrap()
            .contains("10.10.0.1/24")
    );
    assert_eq!(guest.run("exit 3").unwrap().status, 3);
    assert!(
        guest
            .check("modinfo -F version vmw_pvrdma; ls /opt/rdma-core/tests/base.py")
            .is_ok()
    );
    guest
        .put("/tmp/hello", "755", b"#!/bin/sh\necho \"$KIND\"\n")
        .unwrap();
    assert_eq!(guest.check("/tmp/hello").unwrap(), "tcp\n");

    let server = guest.spawn("nc -l 10.10.0.1 7000").unwrap();
    assert_eq!(guest.wait_settled(&server).unwrap(), "Listening");
    guest.check("echo hi | nc -N 10.10.0.1 7000").unwrap();
    assert_eq!(
        server.wait(Duration::from_secs(60)).unwrap().stdout,
        b"hi\n"
    );

    let lost = guest.spawn("exec sleep 1000").unwrap();
    guest.reboot().unwrap();
    assert!(lost.wait(Duration::from_secs(60)).is_err());
    assert!(
        guest.run("test -e /tmp/hello").unwrap().status != 0,
        "a reboot starts afresh"
    );
    guest.power_off().unwrap();
}
