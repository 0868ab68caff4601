//! A network interface of this host whose other end is in this process: frames that the host's IP stack sends are
//! received here, and the other way round.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::sys::{Interface, tap};

/// Why there is no such interface. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The text cannot be an interface name.
    #[error("`{0}` is no interface name: 1 to 15 bytes, without `/`, `:`, blanks and zero bytes")]
    Name(String),
    /// The kernel has no TAP, or the container lacks its device.
    #[error(
        "TAP interfaces need /dev/net/tun, which is not here; load the module `tun`, or pass the \
         device into the container"
    )]
    NoDevice,
    /// CAP_NET_ADMIN is missing, and the interface was not made for us.
    #[error(
        "making the TAP interface `{0}` needs the capability CAP_NET_ADMIN; without it have \
         `ip tuntap add dev {0} mode tap user USER` run for vrdmad's user"
    )]
    NotPermitted(String),
    /// Another program uses the interface.
    #[error("the TAP interface `{0}` is in use by another program; choose another name")]
    InUse(String),
    /// It is not a TAP interface, or the address is refused.
    #[error("cannot set up the TAP interface `{name}`: {source}")]
    System {
        /// The interface.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// This process's end of the interface. The interface goes away with it, unless it was made persistent.
#[derive(Debug)]
pub struct Tap {
    device: OwnedFd,
    is_ours: bool,
}

impl Tap {
    /// Makes the interface `name` with these addresses, in a network of 24 bits (IPv6: 64), and sets it up. An
    /// interface that was made for our user keeps its addresses, if we may not change them.
    pub fn open(name: &str, mac: [u8; 6], ip: Option<IpAddr>) -> Result<Self, TapError> {
        let interface = Interface::named(name).ok_or_else(|| TapError::Name(name.to_owned()))?;
        let device = tap::attach(&interface).map_err(|error| refused(name, error))?;
        let is_ours = match tap::configure(&interface, mac, ip) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => false,
            Err(error) => return Err(system(name, error)),
        };
        Ok(Self { device, is_ours })
    }

    /// Makes a TAP of what [`into_parts`](Self::into_parts) returned in a process with the right.
    pub fn from_parts(device: OwnedFd, is_ours: bool) -> Self {
        Self { device, is_ours }
    }

    /// Returns the descriptor, and [`is_ours`](Self::is_ours).
    pub fn into_parts(self) -> (OwnedFd, bool) {
        (self.device, self.is_ours)
    }

    /// Whether its addresses are those that were asked for; else it was made by somebody else, with other addresses.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Receives the next frame, which is cut if there is no room; `None` if none waits.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.device, frame) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes a frame to the host. Returns false if the host takes none now, or the interface is down.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        match rustix::io::write(&self.device, frame) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR | Errno::IO | Errno::INVAL | Errno::NOMEM) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

fn refused(name: &str, error: io::Error) -> TapError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => TapError::NoDevice,
        Some(Errno::PERM | Errno::ACCESS) => TapError::NotPermitted(name.to_owned()),
        Some(Errno::BUSY) => TapError::InUse(name.to_owned()),
        _ => system(name, error),
    }
}

fn system(name: &str, source: io::Error) -> TapError {
    let name = name.to_owned();
    TapError::System { name, source }
}
