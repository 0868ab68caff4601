//! A network interface of this host whose cable ends in this process: what the host's IP stack sends
//! is received here, and what is sent here it receives.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::sys::{Interface, tap};

/// Why there is no such interface. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// Not a name at all.
    #[error("`{0}` is no interface name: 1 to 15 bytes, without `/`, `:`, blanks and zero bytes")]
    Name(String),
    /// The kernel has no TAP, or the container lacks its device.
    #[error(
        "TAP interfaces need /dev/net/tun, which is not here; load the module `tun`, or pass the \
         device into the container"
    )]
    NoDevice,
    /// CAP_NET_ADMIN is missing, and nobody has made the interface for us.
    #[error(
        "making the TAP interface `{0}` needs the capability CAP_NET_ADMIN; without it have \
         `ip tuntap add dev {0} mode tap user USER` run for vrdmad's user"
    )]
    NotPermitted(String),
    /// Another program has it.
    #[error("the TAP interface `{0}` is in use by another program; choose another name")]
    InUse(String),
    /// It is something else, or the address is refused.
    #[error("cannot set up the TAP interface `{name}`: {source}")]
    System {
        /// The interface.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// One end of the cable. The interface goes away with it, unless somebody made it to stay.
#[derive(Debug)]
pub struct Tap {
    device: OwnedFd,
    is_ours: bool,
}

impl Tap {
    /// Makes the interface `name` with these addresses, in a network of 24 bits (IPv6: 64), and sets
    /// it up. One that was made for our user keeps what it has, if we may not change that.
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

    /// Goes on with what [`into_parts`](Self::into_parts) gave somebody with the right.
    pub fn from_parts(device: OwnedFd, is_ours: bool) -> Self {
        Self { device, is_ours }
    }

    /// The descriptor, and [`is_ours`](Self::is_ours).
    pub fn into_parts(self) -> (OwnedFd, bool) {
        (self.device, self.is_ours)
    }

    /// Whether its addresses are those that were asked for; else somebody made it, and gave it its own.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// The next frame, which is cut if there is no room; `None` if none waits.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.device, frame) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the host a frame; false if it takes none now, or is down.
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
