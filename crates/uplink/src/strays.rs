//! Frames that the kernel gave to the wrong port of a tunnel.
//!
//! The selector only reads the first of several datagrams that the kernel joined (UDP_GRO), and a sandbox may refuse
//! the selector; the kernel then sorts by addresses. So each port checks what it received and passes the other port's
//! datagrams through a socket pair; one descriptor announces both.
//!
//! ```text
//!   UDP socket ──┬─ own ──► sink                      message: 4 or 6 | address | port | VXLAN | frame
//!                └─ other's ─► socket pair ─► other port's sink
//! ```
//! The top bit of the first byte says that the datagram was sealed, and is now opened: the RoCEv2 port sends some
//! frames that are for the rest.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::announcer::Announcer;

/// Bytes of family, address and port.
const HEAD_BYTES: usize = 1 + 16 + 2;

/// The longest UDP datagram, with the head.
const MESSAGE_BYTES_MAX: usize = HEAD_BYTES + 64 * 1024;

/// Flag in the first byte: the datagram was sealed.
const OPENED: u8 = 0x80;

/// A datagram for the other port.
#[derive(Clone, Copy)]
pub(crate) struct Stray<'a> {
    pub(crate) from: SocketAddr,
    pub(crate) datagram: &'a [u8],
    /// Whether it was sealed, and so is authentic.
    pub(crate) opened: bool,
}

/// One port's end of the socket pair.
#[derive(Debug)]
pub(crate) struct Strays {
    /// None if the port receives nothing.
    pair: Option<OwnedFd>,
    /// Announces the UDP socket and the pair.
    announcer: Announcer,
    message: Vec<u8>,
}

impl Strays {
    /// Makes both ends, each for the port of one UDP socket.
    pub(crate) fn pair(sockets: [BorrowedFd<'_>; 2]) -> io::Result<[Self; 2]> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let [first, second] = sockets;
        Ok([Self::new(a, first)?, Self::new(b, second)?])
    }

    /// Makes the end of a port that receives nothing: it announces room in the UDP socket alone.
    pub(crate) fn none(socket: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            pair: None,
            announcer: Announcer::of_room(socket)?,
            message: Vec::new(),
        })
    }

    fn new(pair: OwnedFd, socket: BorrowedFd<'_>) -> io::Result<Self> {
        let announcer = Announcer::of_input(socket)?;
        announcer.add(pair.as_fd())?;
        Ok(Self {
            pair: Some(pair),
            announcer,
            message: Vec::new(),
        })
    }

    /// See [`Announcer::watch_room`].
    pub(crate) fn watch_room(&mut self, socket: BorrowedFd<'_>, watch: bool) {
        self.announcer.watch_room(socket, watch);
    }

    /// Passes a datagram to the other port. Returns `false` if that port has too many unread or is gone.
    pub(crate) fn give(&mut self, stray: Stray<'_>) -> bool {
        let Some(pair) = &self.pair else {
            return false;
        };
        self.message.clear();
        self.message.extend(head(stray.from, stray.opened));
        self.message.extend_from_slice(stray.datagram);
        rustix::net::send(pair, &self.message, SendFlags::NOSIGNAL).is_ok()
    }

    /// Returns a datagram from the other port.
    pub(crate) fn take(&mut self) -> Option<Stray<'_>> {
        let pair = self.pair.as_ref()?;
        self.message.resize(MESSAGE_BYTES_MAX, 0);
        let (_, len) = rustix::net::recv(pair, &mut self.message[..], RecvFlags::empty()).ok()?;
        let (head, datagram) = self.message[..len].split_first_chunk()?;
        Some(Stray {
            from: sender(head),
            datagram,
            opened: head[0] & OPENED != 0,
        })
    }
}

impl AsFd for Strays {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.announcer.as_fd()
    }
}

fn head(from: SocketAddr, opened: bool) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    match from.ip() {
        IpAddr::V4(ip) => {
            head[0] = 4;
            head[1..5].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            head[0] = 6;
            head[1..17].copy_from_slice(&ip.octets());
        }
    }
    head[0] |= if opened { OPENED } else { 0 };
    head[17..].copy_from_slice(&from.port().to_be_bytes());
    head
}

fn sender(head: &[u8; HEAD_BYTES]) -> SocketAddr {
    let [family, ip @ .., high, low] = *head;
    let ip = match family & !OPENED {
        4 => Ipv4Addr::new(ip[0], ip[1], ip[2], ip[3]).into(),
        _ => IpAddr::from(Ipv6Addr::from(ip)),
    };
    SocketAddr::new(ip, u16::from_be_bytes([high, low]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn senders_come_back(ip: IpAddr, port: u16, opened: bool) {
            let from = SocketAddr::new(ip, port);
            prop_assert_eq!(sender(&head(from, opened)), from);
        }
    }
}
