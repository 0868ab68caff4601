//! System calls on a client's socket. None of them waits.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::client_fd::{ClientFd, Closing};
use crate::session::Outgoing;

/// The result of one receive call besides the bytes.
pub(super) struct Received {
    pub(super) length: usize,
    pub(super) fds: Vec<ClientFd>,
    pub(super) lost: bool,
}

/// The bytes found in the socket, which stay there.
pub(super) struct Seen {
    pub(super) length: usize,
    /// Whether there are descriptors. They came with the last of these bytes, unless there was no room for more bytes:
    /// the kernel also looks for descriptors after the bytes that it had room for.
    pub(super) has_fds: bool,
}

/// Most descriptors of one message on a socket (SCM_MAX_FD of Linux).
const SENT_FDS_MAX: usize = 253;

/// Receives bytes, with room for all possible descriptors: the kernel would close those without room in this call.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    space: &mut [u8],
    closing: &Closing,
) -> Result<Received, Errno> {
    receive_with(socket, space, closing, RecvFlags::empty())
}

/// Like `receive`, but everything stays in the socket. The descriptors are new ones, of the same files.
pub(super) fn peek(
    socket: BorrowedFd<'_>,
    space: &mut [u8],
    closing: &Closing,
) -> Result<Received, Errno> {
    receive_with(socket, space, closing, RecvFlags::PEEK)
}

fn receive_with(
    socket: BorrowedFd<'_>,
    space: &mut [u8],
    closing: &Closing,
    flags: RecvFlags,
) -> Result<Received, Errno> {
    let mut control = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT_FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut control);
    let flags = flags | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(space)], &mut control, flags)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights.map(|fd| ClientFd::new(fd, closing.clone())));
        }
    }
    let lost = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Received {
        length: received.bytes,
        fds,
        lost,
    })
}

/// Looks at bytes up to the first descriptors, and leaves the descriptors in the socket: there is no room for them.
pub(super) fn look(socket: BorrowedFd<'_>, space: &mut [IoSliceMut<'_>]) -> Result<Seen, Errno> {
    let mut control = RecvAncillaryBuffer::default();
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let seen = recvmsg(socket, space, &mut control, flags)?;
    Ok(Seen {
        length: seen.bytes,
        has_fds: seen.flags.contains(ReturnFlags::CTRUNC),
    })
}

pub(super) fn send(socket: BorrowedFd<'_>, outgoing: &Outgoing<'_>) -> Result<usize, Errno> {
    let mut control = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut control);
    let fds = outgoing.fd.as_slice();
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        assert!(fits, "the control buffer was made for one descriptor");
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(outgoing.bytes)], &mut control, flags)
}
