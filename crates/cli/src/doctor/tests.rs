use std::io::{self, ErrorKind};
use std::path::Path;

use super::*;

const QEMU: &str = "qemu-system-x86_64";

fn said(check: Check) -> (Verdict, String) {
    (check.verdict, format!("{}: {}", check.name, check.sentence))
}

#[test]
fn an_old_qemu_is_told_from_a_new_one() {
    let judge = |text| said(qemu::judge_version(Path::new(QEMU), text));
    let (verdict, sentence) =
        judge("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright");
    assert_eq!(verdict, Verdict::Fail);
    insta::assert_snapshot!(sentence, @"QEMU: qemu-system-x86_64 is version 7.2.22 and has no usable vfio-user-pci; install QEMU 11 or later (Debian 13 has it in trixie-backports), or name another program with --qemu");
    assert_eq!(
        judge("QEMU emulator version 11.1.3 (Debian)").0,
        Verdict::Ok
    );
    assert_eq!(judge("QEMU emulator version 100.0").0, Verdict::Ok);
    for odd in [
        "",
        "hello",
        "version",
        "version x.y",
        "QEMU emulator version ",
    ] {
        assert_eq!(judge(odd).0, Verdict::Fail, "{odd}");
    }
}

#[test]
fn a_missing_qemu_or_device_is_broken() {
    let (verdict, sentence) = said(qemu::absent(Path::new(QEMU), ErrorKind::NotFound, ""));
    assert_eq!(verdict, Verdict::Fail);
    assert!(
        sentence.contains("there is no qemu-system-x86_64; install"),
        "{sentence}"
    );
    let (verdict, sentence) = said(qemu::judge_device(Path::new(QEMU), false));
    assert_eq!(verdict, Verdict::Fail);
    assert!(
        sentence.contains("has no device vfio-user-pci"),
        "{sentence}"
    );
}

#[test]
fn no_program_is_one_finding() {
    assert_eq!(qemu::checks(Path::new("/nonexistent/qemu")).len(), 1);
}

#[test]
fn without_kvm_it_is_slow_not_broken() {
    let closed = |kind: ErrorKind| host::Kvm::Closed(io::Error::from(kind));
    for kvm in [
        host::Kvm::Broken,
        closed(ErrorKind::NotFound),
        closed(ErrorKind::PermissionDenied),
        closed(ErrorKind::Other),
    ] {
        let (verdict, sentence) = said(host::judge_kvm(kvm));
        assert_eq!(verdict, Verdict::Warn);
        assert!(sentence.contains("many times slower"), "{sentence}");
    }
    assert_eq!(host::judge_kvm(host::Kvm::Untried).verdict, Verdict::Warn);
    assert_eq!(host::judge_kvm(host::Kvm::Works).verdict, Verdict::Ok);
}

#[test]
fn a_run_folder_for_everybody_is_broken() {
    let judge = |mode| said(service::judge_run_dir(Path::new("/run/vrdma"), mode));
    assert_eq!(
        judge(Ok(0o40_750)),
        (
            Verdict::Ok,
            "run folder: /run/vrdma has mode 750".to_owned()
        )
    );
    let (verdict, sentence) = judge(Ok(0o40_777));
    assert_eq!(
        (verdict, sentence.contains("chmod o-w /run/vrdma")),
        (Verdict::Fail, true)
    );
    assert_eq!(judge(Err(ErrorKind::NotFound.into())).0, Verdict::Fail);
}

#[test]
fn descriptors_are_counted_for_the_adapters() {
    let judge = |limit, adapters| service::judge_descriptors(limit, adapters).verdict;
    assert_eq!(judge(Some(1024), 40), Verdict::Ok);
    assert_eq!(judge(Some(1024), 41), Verdict::Fail);
    assert_eq!(judge(None, 0), Verdict::Warn);
}

#[test]
fn limits_are_read_from_the_kernels_table() {
    let table = |soft: &str| {
        format!(
            "Limit   Soft Limit  Hard Limit  Units\nMax processes  1  2  processes\nMax open files  {soft}  4096  files\n"
        )
    };
    assert_eq!(service::open_files(&table("1024")), Some(1024));
    assert_eq!(service::open_files(&table("unlimited")), Some(u64::MAX));
    assert_eq!(service::open_files("Max open files"), None);
    assert_eq!(service::open_files(""), None);
}

#[test]
fn a_kernel_without_memory_files_is_broken() {
    let (verdict, sentence) = said(host::judge_memory_files(Err(
        ErrorKind::PermissionDenied.into()
    )));
    assert_eq!(
        (verdict, sentence.contains("seccomp")),
        (Verdict::Fail, true)
    );
    assert_eq!(host::memory_files().verdict, Verdict::Ok);
}

#[test]
fn adoption_takes_a_new_kernel_and_a_userfaultfd() {
    let found = |kernel, is_ours, is_lent| {
        said(host::judge_adopting(&host::Adopting {
            kernel,
            is_ours,
            is_lent,
        }))
    };
    for (case, verdict, part) in [
        (
            found((6, 1), true, true),
            Verdict::Warn,
            "this kernel is 6.1",
        ),
        (
            found((6, 11), true, false),
            Verdict::Ok,
            "programs of yours",
        ),
        (found((7, 0), false, true), Verdict::Ok, "vrdmad lends"),
        (
            found((6, 12), false, false),
            Verdict::Warn,
            "give vrdmad's group",
        ),
    ] {
        assert_eq!(case.0, verdict);
        assert!(case.1.contains(part), "{}", case.1);
    }
    assert_eq!(host::version("Linux 6.12.107+deb13-cloud"), Some((6, 12)));
    assert_eq!(host::version("Linux"), None);
}

#[test]
fn one_failure_makes_the_exit_status() {
    let good = [Check::ok("a", "fine"), Check::warn("b", "slow")];
    let bad = [Check::ok("a", "fine"), Check::fail("c", "broken; mend it")];
    assert_eq!(report(&good), report(&good).bad_news(false));
    assert_eq!(report(&bad), report(&bad).bad_news(true));
    insta::assert_snapshot!(report(&bad).form(false), @r#"
    ok    a: fine
    FAIL  c: broken; mend it
    "#);
    insta::assert_snapshot!(report(&bad).form(true), @r#"
    [
      {
        "name": "a",
        "verdict": "ok",
        "sentence": "fine"
      },
      {
        "name": "c",
        "verdict": "fail",
        "sentence": "broken; mend it"
      }
    ]
    "#);
}

#[test]
fn raw_uplinks_need_a_capability() {
    let status = "Name:\tvrdmad\nCapEff:\t0000000000002000\n";
    assert_eq!(uplink::effective(status), Some(0x2000));
    assert_eq!(uplink::effective("CapEff: x"), None);
    let (verdict, sentence) = said(uplink::judge_raw("vrdmad", Some(true)));
    assert_eq!(
        (verdict, sentence.as_str()),
        (Verdict::Ok, "raw uplinks: vrdmad has CAP_NET_RAW")
    );
    let (verdict, sentence) = said(uplink::judge_raw("vrdmad", Some(false)));
    assert_eq!(verdict, Verdict::Warn);
    assert!(sentence.contains("use a tunnel, or give it"), "{sentence}");
    assert_eq!(said(uplink::judge_raw("this user", None)).0, Verdict::Warn);
    assert_eq!(said(uplink::judge_tunnel(Ok(()))).0, Verdict::Ok);
    let refused = Err(io::Error::from(ErrorKind::PermissionDenied));
    assert_eq!(said(uplink::judge_tunnel(refused)).0, Verdict::Fail);
}
