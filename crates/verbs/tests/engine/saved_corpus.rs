//! States that each version of the engine has saved, and that all later ones load: `saved/version1.bin` and so on.
//!
//! A file is never written again: the engine that saved it no longer exists.

use std::fs;
use std::path::PathBuf;

use vrdma_verbs::saved::VERSION;

use crate::saved::{furnished, restore, save};

fn file(version: u32) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/engine/saved");
    folder.join(format!("version{version}.bin"))
}

/// The states are of adapters with some objects of each kind.
#[test]
fn what_any_version_has_saved_is_loaded() {
    let of_now = furnished();
    for version in 1..=VERSION {
        let path = file(version);
        let bytes = fs::read(&path).unwrap_or_else(|error| {
            panic!(
                "{}: {error}; version {version} has no file: `cargo test -p vrdma-verbs --test engine -- --ignored \
                 write_the_corpus` writes it",
                path.display()
            )
        });
        assert_eq!(bytes[..2], [8, version as u8]);
        let hca = restore(&bytes).unwrap_or_else(|error| panic!("version {version}: {error}"));
        assert_eq!(hca.counts(), of_now.hca.counts());
        let outlines = [hca.outline(8), of_now.hca.outline(8)].map(|outline| {
            let qps = outline.qps.iter().map(|qp| {
                (
                    qp.state,
                    qp.peer.map(|(gid, _)| gid),
                    qp.unacked,
                    qp.expected,
                    qp.sends,
                )
            });
            let mrs = outline.mrs.iter();
            let mrs = mrs.map(|mr| (mr.kind, mr.length, mr.access, mr.is_valid));
            (qps.collect::<Vec<_>>(), mrs.collect::<Vec<_>>())
        });
        assert_eq!(outlines[0], outlines[1], "version {version}");
    }
}

#[test]
#[ignore = "writes a file, for whoever has raised the version"]
fn write_the_corpus() {
    let path = file(VERSION);
    assert!(!path.exists(), "what was saved once is not saved again");
    fs::write(path, save(&mut furnished())).unwrap();
}
