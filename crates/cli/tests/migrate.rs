//! `vrdma migrate` where there is nothing to migrate; the room migration has the rest.

use std::process::Command;

#[test]
fn a_migration_that_cannot_begin_says_why() {
    for recover in ["", " --recover"] {
        refused(recover);
    }
}

fn refused(option: &str) {
    let words = "--socket /nonexistent/a migrate vm1 --to /nonexistent/b --qmp /nonexistent/a.qmp --to-qmp /nonexistent/b.qmp --memory tcp:b:1";
    let words = format!("{words}{option}");
    let program = env!("CARGO_BIN_EXE_vrdma");
    let output = Command::new(program)
        .args(words.split(' '))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = "vrdma: at the source: no daemon: /nonexistent/a does not exist";
    assert!(told.starts_with(expected), "{told}");
}
