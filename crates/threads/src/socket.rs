//! Unix sockets in the file system that remove their files, and those of a crashed predecessor.
//!
//! A socket file without a listener was left by a killed daemon: it is replaced. One that answers belongs to a running
//! process: it is left alone, and so is every file that is not a socket.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen as start_listening,
    socket_with,
};
use vrdma_inventory::socket_path;

/// Most clients that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Why a socket could not be created: one sentence that names the path.
#[derive(Debug)]
pub struct BindError(String);

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BindError {}

/// A listening socket whose file is removed with it.
#[derive(Debug)]
pub struct BoundSocket {
    listener: UnixListener,
    file: BoundFile,
}

/// The file of a socket, which is removed when this is dropped.
#[derive(Debug)]
struct BoundFile {
    path: PathBuf,
    /// Device and inode: a file that somebody else has put in its place is not ours to remove.
    identity: (u64, u64),
}

impl BoundSocket {
    /// Listens at `path`; the file gets the permission bits `mode`. Does not block on accept.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, BindError> {
        Self::follow(path, mode, None)
    }

    /// The same with the listener that a previous worker has left there, if any.
    pub fn follow(path: &Path, mode: u32, left: Option<OwnedFd>) -> Result<Self, BindError> {
        socket_path::check_length(path).map_err(BindError)?;
        let failed = |error: io::Error| {
            let path = path.display();
            BindError(format!(
                "cannot create the socket {path}: {error}; check that its folder exists and is writable"
            ))
        };
        let listener = match left {
            Some(left) => UnixListener::from(left),
            None => {
                clear_stale(path)?;
                listen(path, mode).map_err(failed)?
            }
        };
        let bound = fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .and_then(|()| listener.set_nonblocking(true))
            .and_then(|()| fs::symlink_metadata(path));
        match bound {
            Ok(file) => Ok(Self {
                listener,
                file: BoundFile {
                    path: path.to_owned(),
                    identity: (file.dev(), file.ino()),
                },
            }),
            Err(error) => {
                let _ = fs::remove_file(path);
                Err(failed(error))
            }
        }
    }

    /// Returns the listener.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Returns the path that clients connect to.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Returns the listener without its file: no client can connect any more.
    pub fn into_listener(self) -> UnixListener {
        self.listener
    }
}

impl Drop for BoundFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Listens at a path. The file never has rights beyond `mode`, even before the umask's part in them is undone.
fn listen(path: &Path, mode: u32) -> io::Result<UnixListener> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    start_listening(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

fn clear_stale(path: &Path) -> Result<(), BindError> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BindError(format!("cannot look at {shown}: {error}"))),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(BindError(format!(
                "{shown} exists and is not a socket; move it away or choose another path"
            )));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|error| BindError(format!("cannot remove the stale socket {shown}: {error}"))),
        Ok(_) => Err(BindError(format!(
            "the socket {shown} is in use by a running process; stop it or choose another path"
        ))),
        Err(error) => Err(BindError(format!(
            "cannot tell whether the socket {shown} is in use: {error}"
        ))),
    }
}

#[cfg(test)]
mod tests;
