//! Reads the key file of a tunnel or of migrations, unless others can read it.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::process::geteuid;
use vrdma_uplink::Keys;

use super::refusal::Refusal;

/// Most bytes of a key file: room for two keys and comments.
const FILE_BYTES_MAX: u64 = 4096;

/// Mode bits that give access to users other than the owner.
const OTHERS: u32 = 0o077;

/// Reads the keys of a file. A refusal is one sentence.
pub(crate) fn read(path: &Path) -> Result<Keys, Refusal> {
    let keys = if path.is_absolute() {
        read_private(path)
    } else {
        Err(format!(
            "{path:?} is not an absolute path; begin it with a slash"
        ))
    };
    keys.map_err(Refusal::key_file)
}

fn read_private(path: &Path) -> Result<Keys, String> {
    let shown = path.display();
    let unreadable = |error| format!("cannot read the key file {shown}: {error}");
    // A pipe or a device must not hold up the control plane: the file is checked before it is opened, and again
    // afterwards, since it may have been replaced.
    check(path, &path.metadata().map_err(unreadable)?)?;
    let file = File::open(path).map_err(unreadable)?;
    check(path, &file.metadata().map_err(unreadable)?)?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
    read.map_err(unreadable)?;
    text.parse()
        .map_err(|error| format!("the key file {shown}: {error}"))
}

fn check(path: &Path, metadata: &Metadata) -> Result<(), String> {
    let shown = path.display();
    let owner = metadata.uid();
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        Err(format!(
            "the key file {shown} is no regular file of at most {FILE_BYTES_MAX} bytes"
        ))
    } else if metadata.permissions().mode() & OTHERS != 0 {
        Err(format!(
            "the key file {shown} is open to other users; `chmod 600 {shown}`, and make a new key if they may have read it"
        ))
    } else if owner != 0 && owner != geteuid().as_raw() {
        Err(format!(
            "the key file {shown} belongs to user {owner}; give it to the daemon's user or to root"
        ))
    } else {
        Ok(())
    }
}
