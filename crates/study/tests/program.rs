//! The program, as far as it needs no guests.

use std::process::{Command, Output};

use serde_json::Value;

fn study(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vrdma-study"));
    command.args(arguments).output().unwrap()
}

#[test]
fn the_cells_are_listed() {
    let output = study(&["list", "s4/write-lat/F", "--json"]);
    assert!(output.status.success());
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[0]["cell"], "s4/write-lat/F");
}

#[test]
fn an_unknown_study_is_one_sentence() {
    let output = study(&["list", "s9"]);
    assert_eq!(output.status.code(), Some(1));
    let sentence = String::from_utf8(output.stderr).unwrap();
    assert!(sentence.starts_with("vrdma study: "), "{sentence}");
    assert!(
        sentence.contains("`vrdma study list` names them"),
        "{sentence}"
    );
    let output = study(&["--json", "list", "s9"]);
    let error: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(error["error"].is_string());
}

#[test]
fn the_help_calls_it_as_people_do() {
    let help = String::from_utf8(study(&["run", "--help"]).stdout).unwrap();
    assert!(help.contains("Usage: vrdma study run"), "{help}");
}
