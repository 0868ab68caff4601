//! The sockets of processes: one for all adapters, and one for each.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use vrdma_process::Admitted;
use vrdma_provider::daemon;
use vrdma_provider::socket::SOCKET_FILE;

use crate::legacy::Legacy;

/// Members of the daemon's group may use the socket for all adapters; which adapters they may use is another question.
const MODE: u32 = 0o660;

/// A listening socket in the run folder; its file goes away with it.
#[derive(Debug)]
pub struct ProcessSocket {
    listener: OwnedFd,
    _file: SocketFile,
}

/// The file of a socket, which it removes.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

/// The socket of one adapter. The error is a sentence.
pub(crate) fn bind_own(
    path: &Path,
    admitted: &Admitted,
    left: Option<OwnedFd>,
) -> Result<(OwnedFd, SocketFile), String> {
    bind(path, own_mode(admitted), left)
}

/// Lets those users connect to the socket of an adapter who may use it now.
pub fn let_connect(path: &Path, admitted: &Admitted) {
    let mode = Permissions::from_mode(own_mode(admitted));
    if let Err(error) = fs::set_permissions(path, mode) {
        tracing::warn!("cannot change who may open {}: {error}", path.display());
    }
}

/// Returns the mode of the socket file: everybody, or the daemon's user. The shard asks the kernel who it is exactly.
fn own_mode(admitted: &Admitted) -> u32 {
    match admitted.users.is_empty() && admitted.groups.is_empty() {
        true => 0o600,
        false => 0o666,
    }
}

/// Listens at a path that is free, or has what a dead daemon left; with the listener that the worker before has left
/// there, if there is one.
fn bind(path: &Path, mode: u32, left: Option<OwnedFd>) -> Result<(OwnedFd, SocketFile), String> {
    let shown = path.display();
    vrdma_inventory::socket_path::check_length(path)?;
    if left.is_none()
        && let Err(error) = fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(format!("cannot remove the stale socket {shown}: {error}"));
    }
    let listen = move || -> std::io::Result<_> {
        let listener = match left {
            Some(left) => left,
            None => daemon::listen(path, Mode::from_raw_mode(mode))?,
        };
        let file = SocketFile(path.to_owned());
        // The mode above went through the umask.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok((listener, file))
    };
    listen().map_err(|error| format!("cannot create the socket {shown}: {error}"))
}

impl ProcessSocket {
    /// Listens in `run_dir`, which the caller has claimed: a file that is there already belongs to a dead daemon, or to
    /// the worker before. The error is a sentence.
    pub fn bind(run_dir: &Path, legacy: &Legacy) -> Result<Self, String> {
        let path = run_dir.join(SOCKET_FILE);
        let (listener, file) = bind(&path, MODE, legacy.listener(&path))?;
        Ok(Self {
            listener,
            _file: file,
        })
    }

    /// Returns the listener, for the thread that serves it.
    pub fn listener(&self) -> std::io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!("cannot remove {}: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use vrdma_api::paths;
    use vrdma_provider::socket;

    #[test]
    fn launcher_and_library_mean_the_same() {
        assert_eq!(paths::PROCESS_SOCKET_FILE, socket::SOCKET_FILE);
        assert_eq!(paths::PROCESS_SOCKET_VARIABLE, socket::SOCKET_VARIABLE);
        assert_eq!(paths::ADAPTER_VARIABLE, socket::ADAPTER_VARIABLE);
        assert_eq!(paths::FAST_LOCAL_VARIABLE, socket::FAST_LOCAL_VARIABLE);
        assert_eq!(paths::ADOPT_VARIABLE, socket::ADOPT_VARIABLE);
        let folder = tempfile::tempdir().unwrap();
        let same = |named, xdg| {
            let path = socket::path(named, xdg);
            assert_eq!(paths::process_socket(named, xdg), path);
        };
        same(None, None);
        same(Some(folder.path()), None);
        same(None, Some(folder.path()));
        std::fs::create_dir(folder.path().join("vrdma")).unwrap();
        std::fs::write(folder.path().join("vrdma/process.sock"), "").unwrap();
        same(None, Some(folder.path()));
    }
}
