//! The sockets of a tunnel's ports, and the MTU that a path leaves.

use std::io;
use std::net::SocketAddr;

use crate::open_error::OpenError;
use crate::sys::Socket;
use crate::vxlan;

/// Bytes of destination, source and type.
pub(super) const INNER_HEADER_BYTES: u32 = 14;
/// Bytes of IP, UDP and VXLAN headers, and of the inner Ethernet header, which no MTU counts.
const OVERHEAD_V4: u32 = 20 + 8 + vxlan::LEN as u32 + INNER_HEADER_BYTES;
const OVERHEAD_V6: u32 = OVERHEAD_V4 + 20;

pub(super) fn bound(local: SocketAddr, shared: bool) -> Result<Socket, OpenError> {
    let socket = prepare(local, shared).map_err(OpenError::system("opening a UDP socket"))?;
    socket.bind(local).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => OpenError::InUse(local),
        io::ErrorKind::AddrNotAvailable => OpenError::NotLocal(local),
        _ => OpenError::system(format!("listening on UDP {local}"))(error),
    })?;
    Ok(socket)
}

fn prepare(local: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::udp(local)?;
    if shared {
        socket.share_port()?;
        socket.enlarge_buffers();
        socket.join_datagrams();
    }
    socket.forbid_fragments(local)?;
    Ok(socket)
}

pub(super) fn path_mtu(peer: SocketAddr) -> io::Result<u32> {
    let socket = Socket::udp(peer)?;
    socket.connect(peer)?;
    socket.path_mtu(peer)
}

pub(super) fn overhead(local: SocketAddr) -> u32 {
    if local.is_ipv4() {
        OVERHEAD_V4
    } else {
        OVERHEAD_V6
    }
}
