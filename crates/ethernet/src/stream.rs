//! The socket of a connected QEMU. A client that sends descriptors by it is hung up on. Closing them, or the socket
//! with others in it, may take as long as the sender likes, so another thread does it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg,
    sendmsg,
};

use vrdma_threads::Disposal;

use super::poller::Poller;

/// Most descriptors in one message of a socket (SCM_MAX_FD of Linux): the kernel would close those without room here.
const SENT_FDS_MAX: usize = 253;

/// The socket of a QEMU; see the module.
#[derive(Debug)]
pub(super) struct Stream {
    socket: Option<UnixStream>,
    poller: Poller,
    disposal: Disposal,
}

impl Stream {
    /// Takes a new connection, which is not watched yet.
    pub(super) fn new(
        socket: UnixStream,
        poller: &Poller,
        disposal: &Disposal,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: Some(socket),
            poller: poller.clone(),
            disposal: disposal.clone(),
        })
    }

    /// Receives with one `recvmsg`.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer, RecvFlags::empty())
    }

    /// Receives with one `recvmsg`, but leaves the bytes in the socket.
    pub(super) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer, RecvFlags::PEEK)
    }

    fn read(&self, buffer: &mut [u8], how: RecvFlags) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT_FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC | how;
        let mut buffers = [IoSliceMut::new(buffer)];
        let received = recvmsg(self, &mut buffers, &mut control, flags)?;
        let mut sent: Vec<OwnedFd> = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                sent.extend(rights);
            }
        }
        if sent.is_empty() {
            return Ok(received.bytes);
        }
        self.disposal.close(sent);
        Err(io::Error::other("it sent descriptors"))
    }

    /// Sends with one `sendmsg`.
    pub(super) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let control = &mut SendAncillaryBuffer::default();
        Ok(sendmsg(self, slices, control, flags)?)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Some(socket) => socket.as_fd(),
            None => unreachable!("only what is being dropped has none"),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            self.poller.remove(&socket);
            self.disposal.close(socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::SendAncillaryMessage;

    use super::*;

    #[test]
    fn who_sends_descriptors_is_hung_up_on_and_another_thread_closes_them() {
        let (theirs, ours) = UnixStream::pair().unwrap();
        let stream = Stream::new(ours, &Poller::new().unwrap(), &Disposal::start().unwrap());
        let stream = stream.unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT_FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = vec![writer.as_fd(); SENT_FDS_MAX];
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        let flags = SendFlags::empty();
        sendmsg(&theirs, &[IoSlice::new(b"frame")], &mut control, flags).unwrap();
        drop(writer);
        let refused = stream.receive(&mut [0; 64]).unwrap_err();
        assert_eq!(refused.to_string(), "it sent descriptors");
        // The pipe has no writer once all copies are closed.
        let mut end = reader;
        assert_eq!(io::Read::read(&mut end, &mut [0; 1]).unwrap(), 0);
    }
}
