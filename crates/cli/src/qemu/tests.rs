use std::path::PathBuf;

use vrdma_api::{DoorbellMode, Origin};

use super::*;

fn adapter(run_dir: &str) -> Adapter {
    Adapter {
        name: "vm1".parse().unwrap(),
        portgroup: "blue".parse().unwrap(),
        mac: "52:54:00:00:00:01".parse().unwrap(),
        doorbells: DoorbellMode::Mapped,
        origin: Origin::Config,
        kind: Default::default(),
        ip: Default::default(),
        vfio_user_socket: Some(PathBuf::from(format!("{run_dir}/vm1.vfio-user"))),
        ethernet_socket: Some(PathBuf::from(format!("{run_dir}/vm1.ethernet"))),
        process_socket: None,
        shard: None,
        away: false,
        limits: Default::default(),
        weight: Default::default(),
        users: Vec::new(),
        groups: Vec::new(),
    }
}

fn options_in(run_dir: &str, memory: Option<&str>) -> Vec<QemuOption> {
    options(
        &adapter(run_dir),
        memory.map(|size| size.parse().unwrap()),
        "5".parse().unwrap(),
    )
}

#[test]
fn options_for_a_command_substitution() {
    insta::assert_snapshot!(plain(&options_in("/run/vrdma", Some("2G"))).unwrap(), @r#"
    -m 2G
    -object memory-backend-memfd,id=vrdma-memory,size=2G,share=on
    -machine memory-backend=vrdma-memory
    -netdev {"addr":{"path":"/run/vrdma/vm1.ethernet","type":"unix"},"id":"vrdma-vm1","reconnect-ms":200,"server":false,"type":"stream"}
    -device vmxnet3,netdev=vrdma-vm1,mac=52:54:00:00:00:01,addr=5.0,multifunction=on
    -device {"addr":"5.1","driver":"vfio-user-pci","socket":{"path":"/run/vrdma/vm1.vfio-user","type":"unix"}}
    "#);
}

#[test]
fn options_for_a_script() {
    insta::assert_snapshot!(quoted(&options_in("/run/o'neill, jr", None)), @r#"
    -netdev '{"addr":{"path":"/run/o'\''neill, jr/vm1.ethernet","type":"unix"},"id":"vrdma-vm1","reconnect-ms":200,"server":false,"type":"stream"}' \
    -device vmxnet3,netdev=vrdma-vm1,mac=52:54:00:00:00:01,addr=5.0,multifunction=on \
    -device '{"addr":"5.1","driver":"vfio-user-pci","socket":{"path":"/run/o'\''neill, jr/vm1.vfio-user","type":"unix"}}'
    "#);
}

#[test]
fn what_a_shell_would_split_is_refused() {
    for run_dir in ["/run/a b", "/run/a*", "/run/a\tb"] {
        assert!(
            plain(&options_in(run_dir, None))
                .unwrap_err()
                .to_string()
                .contains("use --quote")
        );
    }
}

#[test]
fn parts_of_a_libvirt_domain() {
    insta::assert_snapshot!(libvirt::domain(&options_in("/run/vrdma & co's", None)), @r#"
    <domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
      <memoryBacking>
        <source type='memfd'/>
        <access mode='shared'/>
      </memoryBacking>
      <qemu:commandline>
        <qemu:arg value='-netdev'/>
        <qemu:arg value='{"addr":{"path":"/run/vrdma &amp; co&apos;s/vm1.ethernet","type":"unix"},"id":"vrdma-vm1","reconnect-ms":200,"server":false,"type":"stream"}'/>
        <qemu:arg value='-device'/>
        <qemu:arg value='vmxnet3,netdev=vrdma-vm1,mac=52:54:00:00:00:01,addr=5.0,multifunction=on'/>
        <qemu:arg value='-device'/>
        <qemu:arg value='{"addr":"5.1","driver":"vfio-user-pci","socket":{"path":"/run/vrdma &amp; co&apos;s/vm1.vfio-user","type":"unix"}}'/>
      </qemu:commandline>
    </domain>
    "#);
}

#[test]
fn a_libvirt_domain_that_waits_for_a_vm() {
    let options = [monitor(Path::new("/run/a,b.qmp")), incoming()];
    let xml = libvirt::domain(&options);
    let arguments = xml.lines().filter(|line| line.contains("qemu:arg"));
    let arguments: Vec<_> = arguments.map(str::trim).collect();
    let expected = [
        "<qemu:arg value='-qmp'/>",
        "<qemu:arg value='unix:/run/a,,b.qmp,server=on,wait=off'/>",
        "<qemu:arg value='-incoming'/>",
        "<qemu:arg value='defer'/>",
    ];
    assert_eq!(arguments, expected);
}

#[test]
fn slots_are_hexadecimal_for_qemu() {
    let slot: Slot = "16".parse().unwrap();
    assert_eq!(slot.function(1), "10.1");
    for bad in ["0", "31", "-1", "5.0", "", "0x5"] {
        assert!(bad.parse::<Slot>().is_err(), "{bad}");
    }
}

#[test]
fn memory_sizes_have_a_unit() {
    for good in ["512M", "2G", "1T", "65536K"] {
        assert_eq!(good.parse::<MemorySize>().unwrap().to_string(), good);
    }
    for bad in [
        "",
        "2",
        "G",
        "0G",
        "+2G",
        "2g",
        "2 G",
        "2GB",
        "2G,share=off",
        "99999999999999999999G",
        "2Ü",
    ] {
        assert!(bad.parse::<MemorySize>().is_err(), "{bad}");
    }
}
