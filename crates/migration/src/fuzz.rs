//! A fuzz body over what this room keeps to itself, for `crates/fuzz`: the adapter's file of a snapshot.

use crate::snapshot::file::{Contents, seal};

/// Reads the bytes as a file, with the digest that they have and with the right one.
///
/// # Panics
/// If what was read is not the same when it is written and read again.
pub fn snapshot_file(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    for bytes in [bytes, &sealed] {
        match Contents::decode(bytes) {
            Ok(contents) => assert_eq!(Contents::decode(&contents.encode()), Ok(contents)),
            Err(what) => assert!(!what.is_empty()),
        }
    }
}
