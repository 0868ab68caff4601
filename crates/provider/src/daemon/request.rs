//! Requests of clients, without blocking.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen as start_listening, socket_with,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::message::{Body, Call, Header, PACKET_MAX, encode, parse, split};
use crate::socket::{Packet, borrowed, receive_all, send};
use crate::version::{self, OtherVersion};

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 64;

/// Supplementary groups of a process that are looked at; few processes have as many.
const GROUPS_MAX: usize = 256;

/// The process at the other end, as the kernel tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process in the daemon's PID namespace; `None` if it is not visible there.
    pub pid: Option<Pid>,
}

/// `SO_PEERPIDFD` (linux/socket.h), since Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// One request.
#[derive(Debug)]
pub struct Request {
    header: Header,
    packet: Packet,
}

impl Request {
    /// Code in the header.
    pub fn code(&self) -> u32 {
        self.header.code.into()
    }

    /// The header, which the answer repeats.
    pub fn header(&self) -> Header {
        self.header
    }

    /// The body, if it has the size that its code asks for.
    pub fn parse<T: Body>(&self) -> Option<T> {
        split(self.packet.bytes()).and_then(|(_, body)| parse(body))
    }

    /// Checks the version that the first request of a connection begins with; `None` if the request is too short to
    /// hold one.
    pub fn check_version(&self) -> Option<Result<(), OtherVersion>> {
        let (_, body) = split(self.packet.bytes())?;
        let said = body.first_chunk()?;
        Some(version::check(u32::from_ne_bytes(*said)))
    }

    /// Takes out the descriptors that came with the request and are not `wanted`.
    pub fn sift_fds(&mut self, wanted: impl Fn(&OwnedFd) -> bool) -> Vec<OwnedFd> {
        let (kept, sifted) = self.take_fds().into_iter().partition(wanted);
        self.packet.fds = kept;
        sifted
    }

    /// Takes the descriptors that came with the request.
    pub fn take_fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.packet.fds)
    }
}

/// Binds the socket. Its file never has more rights than `mode` gives; the process's umask may take some of them away.
/// The path must be free.
pub fn listen(path: &Path, mode: Mode) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    fchmod(&socket, mode)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    start_listening(&socket, BACKLOG)?;
    Ok(socket)
}

/// Accepts a waiting client, if there is one.
pub fn accept(listener: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns who is at the other end.
pub fn peer(socket: BorrowedFd<'_>) -> Result<Peer, Errno> {
    // Not rustix: its type of process numbers cannot hold 0, which the kernel reports for a process that is not visible
    // in our PID namespace.
    let mut told = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `told` and `length` are ours, live through the call, and agree in size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut told).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(Peer {
        uid: told.uid,
        gid: told.gid,
        pid: Pid::from_raw(told.pid),
    })
}

/// Opens the process at the other end, as it connected; [`peer`] told its number. Older kernels give the process that
/// has that number now.
pub fn peer_process(socket: BorrowedFd<'_>, pid: Pid) -> Result<OwnedFd, Errno> {
    let mut told: libc::c_int = -1;
    let mut length = size_of_val(&told) as libc::socklen_t;
    // SAFETY: `told` and `length` are ours, live through the call, and agree in size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PEERPIDFD,
            (&raw mut told).cast(),
            &raw mut length,
        )
    };
    if result == 0 {
        // SAFETY: the kernel has just made that descriptor, and nobody else knows of it.
        return Ok(unsafe { OwnedFd::from_raw_fd(told) });
    }
    match Errno::from_io_error(&io::Error::last_os_error()) {
        Some(Errno::NOPROTOOPT) => pidfd_open(pid, PidfdFlags::empty()),
        other => Err(other.unwrap_or(Errno::IO)),
    }
}

/// Returns the supplementary groups of the process at the other end, as it connected. Empty if the kernel does not tell
/// them, or if there are more than 256.
pub fn peer_groups(socket: BorrowedFd<'_>) -> Vec<u32> {
    let mut groups = vec![0; GROUPS_MAX];
    let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
    // SAFETY: `groups` and `length` are ours, live through the call, and agree in size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let known = if result == 0 { length as usize } else { 0 };
    groups.truncate(known / size_of::<libc::gid_t>());
    groups
}

/// Takes the next request. `Ok(None)`: none waits. `EPIPE`: the client hung up. Any other error is the client's fault
/// and ends the connection. `close` gets the descriptors of packets that are no request: closing them may take as long
/// as the client likes.
pub fn take(
    socket: BorrowedFd<'_>,
    close: impl FnOnce(Vec<OwnedFd>),
) -> Result<Option<Request>, Errno> {
    next(socket, RecvFlags::DONTWAIT, close)
}

/// As [`take`], but the request stays the next one until it is taken: a daemon that ends meanwhile has not lost it.
pub fn peek(
    socket: BorrowedFd<'_>,
    close: impl FnOnce(Vec<OwnedFd>),
) -> Result<Option<Request>, Errno> {
    next(socket, RecvFlags::DONTWAIT | RecvFlags::PEEK, close)
}

fn next(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
    close: impl FnOnce(Vec<OwnedFd>),
) -> Result<Option<Request>, Errno> {
    let packet = match receive_all(socket, flags) {
        Ok(packet) => packet,
        Err(Errno::AGAIN) => return Ok(None),
        Err(errno) => return Err(errno),
    };
    let header = match packet.bytes() {
        [] => Err(Errno::PIPE),
        _ if packet.is_too_long => Err(Errno::MSGSIZE),
        bytes => split(bytes).map(|(header, _)| header).ok_or(Errno::PROTO),
    };
    match header {
        Ok(header) => Ok(Some(Request { header, packet })),
        Err(errno) => {
            close(packet.fds);
            Err(errno)
        }
    }
}

/// A successful answer, ready to be sent.
#[derive(Debug)]
pub struct Answer {
    body: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl Answer {
    /// Makes the answer to a request `T`.
    pub fn new<T: Call>(body: &T::Reply, fds: Vec<OwnedFd>) -> Self {
        let body = body.as_bytes().to_vec();
        Self { body, fds }
    }

    /// Makes an answer that was given before.
    pub fn again(body: Vec<u8>, fds: Vec<OwnedFd>) -> Self {
        Self { body, fds }
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The descriptors that go with it.
    pub fn fds(&self) -> &[OwnedFd] {
        &self.fds
    }
}

/// Answers the request of that header, or refuses it. `EAGAIN`: the client does not take its answers, and is to be
/// disconnected.
pub fn send_answer(
    socket: BorrowedFd<'_>,
    header: Header,
    answer: Result<&Answer, Errno>,
) -> Result<(), Errno> {
    match answer {
        Ok(Answer { body, fds }) => {
            let mut packet = header.as_bytes().to_vec();
            packet.extend(body);
            send(socket, &packet, &borrowed(fds), SendFlags::DONTWAIT)
        }
        Err(errno) => refuse(socket, header, errno),
    }
}

/// Refuses the request of that header.
fn refuse(socket: BorrowedFd<'_>, header: Header, errno: Errno) -> Result<(), Errno> {
    let mut buffer = [0; PACKET_MAX];
    let refused = Header {
        errno: errno.raw_os_error() as u32,
        ..header
    };
    let packet = encode(refused, &crate::message::Done {}, &mut buffer);
    send(socket, packet, &[], SendFlags::DONTWAIT)
}
