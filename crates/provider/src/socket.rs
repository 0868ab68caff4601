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

/// The variable that names the socket.
pub const SOCKET_VARIABLE: &str = "VRDMA_SOCKET";
/// The variable that names the adapter.
pub const ADAPTER_VARIABLE: &str = "VRDMA_ADAPTER";
/// The variable that, when it is `1`, lets this process and peers of its user that say so too reach
/// each other by themselves ([`crate::fast`]).
pub const FAST_LOCAL_VARIABLE: &str = "VRDMA_FAST_LOCAL";
/// File name of the socket in the daemon's run folder.
pub const SOCKET_FILE: &str = "process.sock";
/// Where the socket of a daemon of the machine is.
pub const SYSTEM_PATH: &str = "/run/vrdma/process.sock";

/// The socket's path: what `$VRDMA_SOCKET` says; else, in `$XDG_RUNTIME_DIR/vrdma` if there is a
/// socket there, else the machine's.
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
}

impl Packet {
    /// What came.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Sends one packet. A peer that is gone is an error and no signal.
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

/// What becomes of descriptors that come with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Descriptors {
    /// They are the receiver's.
    Taken,
    /// They never arrive. To close one may take as long as its sender likes, if it is a file of a file
    /// system that the sender serves.
    Left,
}

/// Receives one packet. `Ok(None)`: the peer hung up. A packet that is too long, or brings more than
/// [`FDS_MAX`] descriptors where they are taken, is `EMSGSIZE`.
pub fn receive(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
    fds: Descriptors,
) -> Result<Option<Packet>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let (space, flaws) = match fds {
        Descriptors::Taken => (&mut space[..], ReturnFlags::TRUNC | ReturnFlags::CTRUNC),
        Descriptors::Left => (&mut [][..], ReturnFlags::TRUNC),
    };
    let mut packet = Packet {
        bytes: [0; PACKET_MAX],
        length: 0,
        fds: Vec::new(),
    };
    let received = retry_on_intr(|| {
        let mut control = RecvAncillaryBuffer::new(space);
        let into = &mut [IoSliceMut::new(&mut packet.bytes)];
        let received = recvmsg(socket, into, &mut control, flags | RecvFlags::CMSG_CLOEXEC)?;
        packet.fds = descriptors(&mut control);
        Ok::<_, Errno>(received)
    })?;
    packet.length = received.bytes;
    if received.flags.intersects(flaws) {
        return Err(Errno::MSGSIZE);
    }
    Ok((received.bytes > 0).then_some(packet))
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
