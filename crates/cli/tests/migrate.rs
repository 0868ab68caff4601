//! `vrdma migrate` and snapshots that fail before they begin; the tests of the migration crate have the rest.

use std::process::Command;

#[test]
fn a_migration_that_cannot_begin_says_why() {
    for recover in ["", " --recover"] {
        refused(recover);
    }
}

fn refused(option: &str) {
    let words = "--socket /nonexistent/a migrate vm1 --to /nonexistent/b --qmp /nonexistent/a.qmp --to-qmp /nonexistent/b.qmp --memory tcp:b:1";
    let told = failed(&format!("{words}{option}"));
    let expected = "vrdma: at the source: no daemon: /nonexistent/a does not exist";
    assert!(told.starts_with(expected), "{told}");
}

/// Runs the program, which fails, and returns its error.
fn failed(words: &str) -> String {
    let program = env!("CARGO_BIN_EXE_vrdma");
    let output = Command::new(program)
        .args(words.split(' '))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_snapshot_that_cannot_begin_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vm1.adapter");
    let file = file.display();
    let words = |command: &str, file: &str| {
        format!(
            "--socket /nonexistent/a adapter {command} vm1 {file} --qmp /nonexistent/q --memory /nonexistent/m"
        )
    };
    let told = failed(&words("save", "/nonexistent/vm1.adapter"));
    assert!(
        told.starts_with("vrdma: cannot write /nonexistent/vm1.adapter: No such file"),
        "{told}"
    );
    let told = failed(&words("save", &file.to_string()));
    assert!(
        told.starts_with("vrdma: no daemon: /nonexistent/a does not exist"),
        "{told}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let told = failed(&words("restore", &file.to_string()));
    assert!(
        told.starts_with(&format!("vrdma: cannot read {file}: No such file")),
        "{told}"
    );
    std::fs::write(folder.path().join("vm1.adapter"), "vrdmactx").unwrap();
    let told = failed(&words("restore", &file.to_string()));
    assert!(
        told.contains("is no file that `vrdma adapter save` wrote"),
        "{told}"
    );
}
