//! The files that remain accessible (Landlock): the whole file system for reading, nothing to execute, and the folders
//! of the daemon's own sockets for creating sockets.
//!
//! Not used for shards: the kernel does not let a thread under these rules access another process's memory, whatever
//! its rights, and copies between programs are just that. The system calls of shards let them open files only for
//! reading.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, make_bitflags,
};

/// Version of the rules that is used; older kernels enforce those that they know.
const KNOWN: ABI = ABI::V5;

/// The device of TAPs, for a daemon without a helper: a TAP may have been made for its user.
const TAP: &str = "/dev/net/tun";

/// Confines this thread, and those that it starts, to these paths.
pub(super) fn confine(sockets: &[PathBuf]) -> io::Result<()> {
    let handled = AccessFs::from_all(KNOWN);
    let created = Ruleset::default()
        .handle_access(handled)
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let reads = AccessFs::from_read(KNOWN) & !AccessFs::Execute;
    let uses = make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev});
    let mut rules = vec![(Path::new("/"), reads), (Path::new(TAP), uses)];
    let puts = make_bitflags!(AccessFs::{MakeSock | RemoveFile});
    rules.extend(sockets.iter().map(|folder| (folder.as_path(), puts)));
    let mut ruleset = created;
    for (path, access) in rules {
        // A path that does not exist cannot be used.
        let Ok(opened) = PathFd::new(path) else {
            continue;
        };
        let rule = PathBeneath::new(opened, access);
        ruleset = ruleset.add_rule(rule).map_err(io::Error::other)?;
    }
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(io::Error::other("the kernel has no Landlock")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::ErrorKind;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    #[test]
    fn sockets_come_and_go_in_their_folder_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("file"), "here").unwrap();
        let confined = thread::spawn(move || {
            confine(&[folder.path().to_owned()]).unwrap();
            let socket = folder.path().join("socket");
            drop(UnixListener::bind(&socket).unwrap());
            fs::remove_file(&socket).unwrap();
            let refused = |error: io::Error| error.kind() == ErrorKind::PermissionDenied;
            assert!(refused(
                File::create(folder.path().join("file")).unwrap_err()
            ));
            assert!(refused(
                UnixListener::bind(other.path().join("socket")).unwrap_err()
            ));
            assert!(refused(
                fs::remove_file(other.path().join("file")).unwrap_err()
            ));
            assert_eq!(
                fs::read_to_string(other.path().join("file")).unwrap(),
                "here"
            );
        });
        confined.join().unwrap();
    }
}
