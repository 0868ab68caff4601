//! Replays the inputs of the targets, those that they reached and those that once failed, without libFuzzer.

use std::fs;
use std::path::{Path, PathBuf};

use vrdma_fuzz::{TARGETS, Target};

/// Most bytes of inputs that the repository keeps.
const KEPT_BYTES_MAX: u64 = 2 << 20;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The entries of a folder, sorted; none if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn inputs(target: &str) -> Vec<PathBuf> {
    let of = |kind: &str| entries(&folder(kind).join(target));
    [of("corpus"), of("found")].concat()
}

/// The inputs that make a target fail.
fn failed(target: &Target) -> Vec<PathBuf> {
    let fails = |path: &PathBuf| {
        let input = fs::read(path).unwrap();
        std::panic::catch_unwind(|| (target.run)(&input)).is_err()
    };
    inputs(target.name).into_iter().filter(fails).collect()
}

#[test]
fn no_target_fails_an_input_that_is_known() {
    let failed: Vec<_> = TARGETS.iter().flat_map(failed).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn each_target_has_a_program_and_inputs_and_there_are_no_others() {
    let names = |folder: PathBuf| -> Vec<String> {
        let name = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        entries(&folder).iter().map(name).collect()
    };
    let targets: Vec<_> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    assert!(targets.is_sorted());
    assert_eq!(names(folder("targets")), targets);
    assert_eq!(names(folder("corpus")), targets);
    assert!(
        names(folder("found"))
            .iter()
            .all(|name| targets.contains(name))
    );
    for target in targets {
        assert!(!inputs(&target).is_empty(), "{target} has no inputs");
    }
}

#[test]
fn what_is_kept_stays_small() {
    let inputs = TARGETS.iter().flat_map(|target| inputs(target.name));
    let bytes: u64 = inputs.map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes <= KEPT_BYTES_MAX, "{bytes} bytes");
}
