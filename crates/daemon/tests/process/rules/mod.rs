//! What a hostile client process may send, and how the daemon reacts: 48 rules, at least one test for each.
//!
//! | rules | about | where |
//! |---|---|---|
//! | 1 to 8 | packets and the hello | `rules::sessions`; 3 in `main` |
//! | 9 to 12 | users, descriptors, the log | `admission`, `lingering`, `stalling`, `log` |
//! | 13 to 24 | objects: handles, quotas, sizes, states, ends | `rules::objects`, `quotas`; 13, 17 and 23 in `main` |
//! | 25 to 32 | memory: ranges, rights, pages that go or never come | `rules::objects`, `memory`, `stalling` |
//! | 33 to 41 | rings, work requests, standing still | `rules::work`, `stopped`; 33 and 34 in `main` |
//! | 42 to 44 | grants | `fast` |
//! | 45 to 48 | connection management | `cm` of the crate `process` |
//!
//! The names of the tests state the rules. Where the device has the same rule for guests, the engine enforces it for
//! both: its own tests cover it. That a client's slot is copied once before it is looked at cannot be shown by a race
//! from one thread: the tests show instead that overwritten slots fail their own queue.

mod objects;
mod sessions;
mod work;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

pub(crate) use work::datagram;

/// Number of rules.
const RULES: u32 = 48;

/// Collects the numbers of the rules in the names of tests in a folder's files.
fn tested_in(folder: &Path, found: &mut BTreeSet<u32>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tested_in(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let tests = text.split("#[test]\nfn rule_p").skip(1);
            found.extend(tests.map(|test| test[..2].parse::<u32>().unwrap()));
        }
    }
}

#[test]
fn every_rule_has_a_test() {
    let mut found = BTreeSet::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for folder in ["daemon/tests/process", "process/src/cm/tests"] {
        tested_in(&crates.join(folder), &mut found);
    }
    assert!(found.iter().copied().eq(1..=RULES), "{found:?}");
}
