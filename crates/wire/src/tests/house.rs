//! Rules of the project that a compiler on a machine with an operating system does not check.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;

use crate::registry::FORMATS;

fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = std::vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !is_test(&path) {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod").next().unwrap();
                sources.push((path, code.to_string()));
            }
        }
    }
    sources
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// Returns the texts between `before` and `after` in all sources.
fn between(before: &str, after: char) -> BTreeSet<String> {
    sources()
        .iter()
        .flat_map(|(_, code)| code.split(before).skip(1))
        .filter_map(|rest| rest.split(after).next())
        .map(ToString::to_string)
        .collect()
}

/// A format without an entry would not be fuzzed; that is how other parsers came to have reachable panics for years.
#[test]
fn every_format_has_a_fuzz_body() {
    let mut named: BTreeSet<_> = between("NAME: &'static str = \"", '"');
    for arguments in between("fixed_format!(", ')') {
        if let Some((_, name)) = arguments.split_once(", \"") {
            named.insert(name.trim_end_matches('"').to_string());
        }
    }
    named.extend(["packet", "notice packet"].map(ToString::to_string));
    let registered: BTreeSet<_> = FORMATS.iter().map(|entry| entry.name.to_string()).collect();
    assert_eq!(named, registered);
    assert_eq!(registered.len(), FORMATS.len());
    assert_eq!(between("impl Format for ", ' ').len() + 2, FORMATS.len());
}

/// Each view belongs to a format, so it is fuzzed with it.
#[test]
fn every_view_has_a_format() {
    let views = sources()
        .iter()
        .flat_map(|(_, code)| code.split("view! {").skip(1))
        .count();
    assert_eq!(
        views + 2,
        FORMATS.len(),
        "the packets have no view! of their own"
    );
}

#[test]
fn the_standard_library_is_not_named() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    assert!(lib.contains("#![no_std]") && lib.contains("#![forbid(unsafe_code)]"));
    for (path, code) in sources() {
        let code = code.replace("#[cfg(test)]\nextern crate std;", "");
        for name in ["std::", "alloc::", "extern crate"] {
            assert!(!code.contains(name), "{} names {name}", path.display());
        }
    }
}
