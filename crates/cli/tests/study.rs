//! `vrdma study` starts a separate program, here in places that have it or not.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with the program, and nothing beside it except what a test puts there.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // A link, not a copy: a file that was just written may still be open for writing in a child of another test.
        fs::hard_link(env!("CARGO_BIN_EXE_vrdma"), folder.path().join("vrdma")).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn vrdma(&self, path: &Path, arguments: &[&str]) -> Output {
        Command::new(self.path("vrdma"))
            .args(arguments)
            .env("PATH", path)
            .output()
            .unwrap()
    }
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim_end()
}

#[test]
fn arguments_and_exit_status_are_passed_on() {
    let place = Place::new();
    let elsewhere = place.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink("/bin/echo", elsewhere.join("vrdma-study")).unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["study"], ""),
        (&["study", "--help"], "--help"),
        (&["study", "run", "s4", "--short"], "run s4 --short"),
        (&["study", "list", "--json"], "list --json"),
        (&["study", "--json", "list"], "--json list"),
        (&["--json", "study", "list"], "--json list"),
    ];
    for (arguments, seen) in cases {
        let output = place.vrdma(&elsewhere, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        // echo answers --help itself if it is the only argument.
        if *seen != "--help" {
            assert_eq!(text(&output.stdout), *seen, "{arguments:?}");
        }
    }
    symlink("/bin/sh", place.path("vrdma-study")).unwrap();
    let output = place.vrdma(&elsewhere, &["study", "-c", "exit 7"]);
    assert_eq!(output.status.code(), Some(7), "beside before PATH");
}

#[test]
fn without_it_a_sentence_says_how_to_get_it() {
    let place = Place::new();
    let output = place.vrdma(Path::new("/nonexistent"), &["study", "list"]);
    assert_eq!(output.status.code(), Some(1));
    let sentence = text(&output.stderr);
    assert!(
        sentence.starts_with("vrdma: vrdma-study is neither beside "),
        "{sentence}"
    );
    assert!(
        sentence.contains("cargo build --release --package vrdma-study"),
        "{sentence}"
    );
}

#[test]
fn the_help_lists_it() {
    let output = Place::new().vrdma(Path::new("/nonexistent"), &["--help"]);
    let help = text(&output.stdout);
    assert!(
        help.lines().any(|line| line.trim().starts_with("study ")),
        "{help}"
    );
}
