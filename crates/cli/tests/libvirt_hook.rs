//! The hook that keeps `virsh migrate` from leaving adapters behind, called as libvirt calls it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

const HOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/libvirt/hook");

const WITH_ADAPTER: &str = "<domain><qemu:arg value='{\"driver\":\"vfio-user-pci\"}'/></domain>";

/// Calls the hook with the arguments of libvirt.org/hooks.html: the domain, the operation, its sub-operation, an extra;
/// the domain's XML is the input.
fn called(operation: &str, xml: &str) -> Output {
    let mut hook = Command::new(HOOK)
        .args(["vm1", operation, "begin", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A hook that needs no XML may not read it.
    let _unread = hook.stdin.take().unwrap().write_all(xml.as_bytes());
    hook.wait_with_output().unwrap()
}

#[test]
fn a_migration_that_would_leave_an_adapter_behind_is_refused() {
    let refused = called("migrate", WITH_ADAPTER);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("domain vm1") && said.contains("vrdma migrate"),
        "{said}"
    );
}

/// The hook prints nothing: its output would become the domain's XML.
#[test]
fn all_else_goes_on_with_its_own_xml() {
    let others = [
        ("migrate", "<domain/>"),
        ("start", WITH_ADAPTER),
        ("release", WITH_ADAPTER),
    ];
    for (operation, xml) in others {
        let output = called(operation, xml);
        assert!(output.status.success(), "{operation}");
        assert_eq!(output.stdout, b"", "{operation}");
    }
}
