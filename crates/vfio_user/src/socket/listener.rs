//! The socket that QEMU connects to: one device, one client.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, Stat, fchmod, lstat, unlink};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};

use super::Connection;
use crate::client_fd::{ClientFd, Closing};

/// Longest path of a Unix socket in bytes: `sun_path` has 108 with the NUL (unix(7)).
const MAX_PATH: usize = 107;

/// Most clients that may wait to be accepted or refused; there should be one.
const BACKLOG: i32 = 4;

/// Reasons why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// The path does not fit a socket address.
    #[error("the socket path {path} has {length} bytes and the limit is {MAX_PATH}: choose a shorter one", path = .path.display())]
    PathTooLong {
        /// The requested path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// Another process listens at the path.
    #[error("another process serves the socket {}: stop it or choose another path", .0.display())]
    InUse(PathBuf),
    /// Something that is not a socket is at the path.
    #[error("{} exists and is not a socket: remove it or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot listen on the socket {path}: {errno}", path = .path.display())]
    Io {
        /// The requested path.
        path: PathBuf,
        /// Error of the system.
        errno: Errno,
    },
}

/// A listening socket. Only its owner may connect (mode 0600). Dropping it removes the file, unless another one has
/// been put in its place.
#[derive(Debug)]
pub struct Listener {
    /// The socket. Clients may wait in it, with descriptors that they sent.
    socket: ClientFd,
    closing: Closing,
    path: PathBuf,
    /// Device and inode of the socket file.
    identity: (u64, u64),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Listener {
    /// Listens at `path`. A socket file that a dead process left is replaced. `closing` closes the socket, and
    /// everything that came from clients.
    ///
    /// # Errors
    /// See [`ListenerError`].
    pub fn bind(path: impl Into<PathBuf>, closing: Closing) -> Result<Self, ListenerError> {
        Self::follow(path, None, closing)
    }

    /// Like [`bind`](Self::bind), with the listening socket that a previous process left, if any.
    ///
    /// # Errors
    /// See [`ListenerError`].
    pub fn follow(
        path: impl Into<PathBuf>,
        left: Option<OwnedFd>,
        closing: Closing,
    ) -> Result<Self, ListenerError> {
        let path = path.into();
        let length = path.as_os_str().len();
        if length > MAX_PATH {
            return Err(ListenerError::PathTooLong { path, length });
        }
        let bound = match left {
            Some(socket) => lstat(&path).map(|file| (socket, identity(&file))),
            None => bind_new(&path),
        };
        match bound {
            Err(Errno::ADDRINUSE) => {
                remove_stale(&path)?;
                bind_new(&path)
            }
            result => result,
        }
        .map(|(socket, identity)| Listener {
            socket: ClientFd::new(socket, closing.clone()),
            closing,
            path: path.clone(),
            identity,
        })
        .map_err(|errno| ListenerError::Io { path, errno })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the next waiting client, if there is one. If the device already has a client, the caller must drop the new
    /// one: two guests cannot share a device.
    ///
    /// # Errors
    /// The process has no descriptor left, or the system is out of memory.
    pub fn accept(&self) -> io::Result<Option<Connection>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match accept_with(&self.socket, flags) {
            Ok(socket) => Ok(Some(Connection::new(socket, self.closing.clone()))),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if lstat(&self.path).is_ok_and(|now| identity(&now) == self.identity) {
            // A file that cannot be removed stays.
            let _ = unlink(&self.path);
        }
    }
}

fn stream_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// Binds a new socket. The mode is set on the socket before it has a name: the file never exists with another mode, and
/// the process's umask, which other threads share, is left alone.
fn bind_new(path: &Path) -> Result<(OwnedFd, (u64, u64)), Errno> {
    let socket = stream_socket()?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok((socket, identity(&lstat(path)?)))
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Removes the socket file if no process listens on it.
fn remove_stale(path: &Path) -> Result<(), ListenerError> {
    let io = |errno| ListenerError::Io {
        path: path.into(),
        errno,
    };
    let file = lstat(path).map_err(io)?;
    if FileType::from_raw_mode(file.st_mode) != FileType::Socket {
        return Err(ListenerError::NotASocket(path.into()));
    }
    match probe(path) {
        Err(Errno::CONNREFUSED) => unlink(path).map_err(io),
        Ok(()) | Err(Errno::AGAIN) => Err(ListenerError::InUse(path.into())),
        Err(errno) => Err(io(errno)),
    }
}

fn probe(path: &Path) -> Result<(), Errno> {
    connect(&stream_socket()?, &SocketAddrUnix::new(path)?)
}
