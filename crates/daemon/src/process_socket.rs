//! The file of the process socket.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use vrdma_provider::daemon;
use vrdma_provider::socket::SOCKET_FILE;

/// Programs of the daemon's user and of its group may open adapters.
const MODE: u32 = 0o660;

/// A listening socket in the run folder; its file goes away with it.
#[derive(Debug)]
pub struct ProcessSocket {
    listener: OwnedFd,
    path: PathBuf,
}

impl ProcessSocket {
    /// Listens in `run_dir`, which the caller has claimed: a file that is there already is a dead
    /// daemon's. The error is a sentence.
    pub fn bind(run_dir: &Path) -> Result<Self, String> {
        let path = run_dir.join(SOCKET_FILE);
        let shown = path.display();
        crate::socket::check_length(&path)?;
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != ErrorKind::NotFound
        {
            return Err(format!("cannot remove the stale socket {shown}: {error}"));
        }
        let bound = daemon::listen(&path)
            .and_then(|listener| {
                fs::set_permissions(&path, Permissions::from_mode(MODE)).map(|()| listener)
            })
            .map_err(|error| format!("cannot create the socket {shown}: {error}"));
        bound.map(|listener| Self { listener, path })
    }

    /// The listener, for the thread that serves it.
    pub fn listener(&self) -> std::io::Result<OwnedFd> {
        self.listener.as_fd().try_clone_to_owned()
    }
}

impl Drop for ProcessSocket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
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
