//! The folder of the sockets, claimed by one daemon at a time.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The daemon's group may list the folder: a QEMU of another user may be in it. Others reach the sockets of adapters
/// that name them, and see nothing else.
const MODE: u32 = 0o751;

/// Write permission for everybody.
const OTHERS_WRITE: u32 = 0o002;

/// User that may have made the folder for the daemon's group.
const ROOT: u32 = 0;

/// A claim: an advisory lock on the folder itself, which leaves no file behind and ends with the process, however the
/// process ends.
#[derive(Debug)]
pub struct RunDir {
    _lock: File,
}

impl RunDir {
    /// Creates `path` if need be and claims it. The error is a sentence.
    pub fn claim(path: &Path) -> Result<Self, String> {
        create(path)?;
        let shown = path.display();
        let found = fs::metadata(path);
        let found =
            found.map_err(|error| format!("cannot look at the run folder {shown}: {error}"))?;
        check(path, found.uid(), found.mode())?;
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

/// Checks a folder that was there already: a user who can put sockets into it could pose as the daemon.
fn check(path: &Path, owner: u32, mode: u32) -> Result<(), String> {
    let (shown, user) = (path.display(), geteuid().as_raw());
    if owner != user && owner != ROOT {
        return Err(format!(
            "the run folder {shown} belongs to user {owner}, and vrdmad runs as user {user}; run `chown {user} {shown}`, or choose another with run_dir"
        ));
    }
    if mode & OTHERS_WRITE != 0 {
        return Err(format!(
            "anybody can put sockets into the run folder {shown}; run `chmod o-w {shown}`, or choose another with run_dir"
        ));
    }
    Ok(())
}

fn create(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match DirBuilder::new().mode(MODE).create(path) {
        Ok(()) => {
            // The umask has reduced the mode above.
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let set = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode));
        set(0o757).unwrap();
        let refused = RunDir::claim(folder.path()).unwrap_err();
        assert!(refused.contains("; run `chmod o-w /"), "{refused}");
        set(0o770).unwrap();
        RunDir::claim(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let (path, us) = (Path::new("/run/x"), geteuid().as_raw());
        let refused = check(path, us + 1, 0o755).unwrap_err();
        assert!(
            refused.contains(&format!("belongs to user {}, and", us + 1)),
            "{refused}"
        );
        check(path, us, 0o755).unwrap();
        check(path, ROOT, 0o770).unwrap();
    }

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
