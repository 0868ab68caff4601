//! A fuzz body for a private part of this room, for `crates/fuzz`: the adapter's file of a snapshot.

use crate::snapshot::file::{Contents, seal};

/// Reads the bytes as a file, once with their own digest and once with the right one.
///
/// # Panics
/// If a file that was read differs after it is written and read again.
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
