//! The folder of the sockets, claimed by one daemon at a time.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;

/// The daemon's group may look, in which a QEMU of another user may be. Others get to the sockets of
/// adapters that name them, and see nothing else.
const MODE: u32 = 0o751;

/// A claim: an advisory lock on the folder itself, which leaves no file behind and ends with the
/// process however that ends.
#[derive(Debug)]
pub struct RunDir {
    _lock: File,
}

impl RunDir {
    /// Creates `path` if need be and claims it. The error is a sentence.
    pub fn claim(path: &Path) -> Result<Self, String> {
        create(path)?;
        let shown = path.display();
        let lock = File::open(path).map_err(|error| {
            format!("cannot open the run folder {shown}: {error}; choose one that the daemon's user owns, with run_dir")
        })?;
        access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| {
            format!("cannot write to the run folder {shown}: {error}; choose one that the daemon's user owns, with run_dir")
        })?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _lock: lock }),
            Err(Errno::WOULDBLOCK) => Err(format!(
                "another vrdmad uses the run folder {shown}; stop it or choose another folder with run_dir"
            )),
            Err(error) => Err(format!("cannot lock the run folder {shown}: {error}")),
        }
    }
}

fn create(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match DirBuilder::new().mode(MODE).create(path) {
        Ok(()) => {
            // The mode above went through the umask.
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(MODE);
            fs::set_permissions(path, permissions)
                .map_err(|error| format!("cannot set the mode of {shown}: {error}"))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(format!(
            "the run folder {shown} is not a folder; choose another with run_dir"
        )),
        Err(error) => Err(format!(
            "cannot create the run folder {shown}: {error}; create it for the daemon's user, or choose another with run_dir"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_daemon_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let first = RunDir::claim(&path).unwrap();
        let sentence = RunDir::claim(&path).unwrap_err();
        assert!(
            sentence.contains("another vrdmad uses the run folder"),
            "{sentence}"
        );
        drop(first);
        RunDir::claim(&path).unwrap();
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(
            RunDir::claim(&file)
                .unwrap_err()
                .contains("is not a folder")
        );
        assert!(
            RunDir::claim(&file.join("below"))
                .unwrap_err()
                .contains("cannot create")
        );
    }
}
