//! Packets and descriptors over the Unix socket, for both ends.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::message::{FDS_MAX, PACKET_MAX};

/// The environment variable for the path of the socket.
pub const SOCKET_VARIABLE: &str = "VRDMA_SOCKET";
/// The environment variable for the name of the adapter.
pub const ADAPTER_VARIABLE: &str = "VRDMA_ADAPTER";
/// The environment variable that, set to `1`, lets this process and peers of its user with the same setting reach each
/// other's memory directly ([`crate::fast`]).
pub const FAST_LOCAL_VARIABLE: &str = "VRDMA_FAST_LOCAL";
/// The environment variable that, set to `0`, keeps the library from moving registered memory of this process into a
/// file that the daemon maps.
pub const ADOPT_VARIABLE: &str = "VRDMA_ADOPT";
/// File name of the socket in the daemon's run folder.
pub const SOCKET_FILE: &str = "process.sock";
/// Path of the socket of the system-wide daemon.
pub const SYSTEM_PATH: &str = "/run/vrdma/process.sock";

/// Returns the socket's path: `$VRDMA_SOCKET`; without it, the socket in `$XDG_RUNTIME_DIR/vrdma` if there is one;
/// without that, the system-wide one.
pub fn path(named: Option<&Path>, runtime_dir: Option<&Path>) -> PathBuf {
    if let Some(path) = named {
        return path.to_owned();
    }
    let own = runtime_dir.map(|dir| dir.join("vrdma").join(SOCKET_FILE));
    own.filter(|path| path.exists())
        .unwrap_or_else(|| SYSTEM_PATH.into())
}

/// One packet with its descriptors.
#[derive(Debug)]
pub struct Packet {
    bytes: [u8; PACKET_MAX],
    length: usize,
    /// Descriptors, in order.
    pub fds: Vec<OwnedFd>,
    /// Whether the packet is too long, or brings too many descriptors.
    pub(crate) is_too_long: bool,
}

impl Packet {
    /// The bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Sends one packet. If the peer is gone, that is an error and no signal.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let sent = retry_on_intr(|| {
        sendmsg(
            socket,
            &[IoSlice::new(bytes)],
            &mut control,
            flags | SendFlags::NOSIGNAL,
        )
    })?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(Errno::MSGSIZE)
    }
}

/// Most descriptors that one packet can bring (`SCM_MAX_FD` of Linux). With room for fewer, the kernel would close the
/// others before it returns, and that takes as long as their sender likes.
const FDS_SENT_MAX: usize = 253;

/// Receives one packet. `Ok(None)`: the peer hung up. `EMSGSIZE`: the packet is too long, or brings more than
/// [`FDS_MAX`] descriptors.
pub fn receive(socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<Option<Packet>, Errno> {
    let packet = receive_all(socket, flags)?;
    if packet.is_too_long {
        return Err(Errno::MSGSIZE);
    }
    Ok((packet.length > 0).then_some(packet))
}

/// Receives one packet, whatever it is, with all of its descriptors, and closes none of them.
pub(crate) fn receive_all(socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<Packet, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_SENT_MAX))];
    let mut packet = Packet {
        bytes: [0; PACKET_MAX],
        length: 0,
        fds: Vec::new(),
        is_too_long: false,
    };
    let received = retry_on_intr(|| {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut packet.bytes)];
        let received = recvmsg(socket, into, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
        packet.fds = descriptors(&mut control);
        Ok::<_, Errno>(received)
    })?;
    packet.length = received.bytes;
    let cut = received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    packet.is_too_long = cut || packet.fds.len() > FDS_MAX;
    Ok(packet)
}

fn descriptors(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    rights.flatten().collect()
}

/// Borrows descriptors for sending.
pub(crate) fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_wins_then_the_person_s_then_the_machine_s() {
        let named = Path::new("/a/b");
        assert_eq!(path(Some(named), None), named);
        let nowhere = Path::new("/nonexistent");
        assert_eq!(path(None, Some(nowhere)), Path::new(SYSTEM_PATH));
    }
}
