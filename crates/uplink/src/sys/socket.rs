//! Sockets and their options.

use std::io;
use std::mem::size_of;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void, socklen_t};

use super::address::RawAddress;
use crate::filter::Instruction;

/// Options that the libc crate does not name for every system (linux/udp.h).
const UDP_SEGMENT: c_int = 103;
const UDP_GRO: c_int = 104;
const SOL_UDP: c_int = 17;
/// Place of the drops in the result of SO_MEMINFO (linux/sock_diag.h), and the result's length.
const MEMINFO_DROPS: usize = 8;
const MEMINFO_VARS: usize = 9;

/// Wanted size of a socket's buffers: some milliseconds of a 10 Gbit/s link.
const BUFFER_BYTES: c_int = 8 << 20;

/// A socket that never blocks.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// A packet socket that receives nothing before it is bound.
    pub(crate) fn packet() -> io::Result<Self> {
        Self::new(libc::AF_PACKET, libc::SOCK_RAW)
    }

    pub(crate) fn udp(like: SocketAddr) -> io::Result<Self> {
        let family = if like.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        let socket = Self::new(family, libc::SOCK_DGRAM)?;
        if like.is_ipv6() {
            socket.set(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1)?;
        }
        Ok(socket)
    }

    fn new(family: c_int, kind: c_int) -> io::Result<Self> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: takes numbers, returns a descriptor.
        let fd = answer(unsafe { libc::socket(family, kind | flags, 0) })?;
        // SAFETY: the kernel just made this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Duplicates the socket for another thread.
    pub(crate) fn again(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Binds to every frame of an interface; another call moves it to another interface.
    pub(crate) fn bind_interface(&self, index: i32) -> io::Result<()> {
        self.bind_raw(&RawAddress::packets(index))
    }

    pub(crate) fn bind(&self, local: SocketAddr) -> io::Result<()> {
        self.bind_raw(&RawAddress::new(local))
    }

    fn bind_raw(&self, address: &RawAddress) -> io::Result<()> {
        // SAFETY: the address is whole and lives through the call.
        answer(unsafe { libc::bind(self.fd(), address.as_ptr(), address.len()) }).map(drop)
    }

    pub(crate) fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        let address = RawAddress::new(peer);
        // SAFETY: the address is whole and lives through the call.
        answer(unsafe { libc::connect(self.fd(), address.as_ptr(), address.len()) }).map(drop)
    }

    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        // SAFETY: a duplicate of a descriptor that is ours; the socket type only wraps it.
        let fd = self.0.try_clone()?;
        std::net::UdpSocket::from(fd).local_addr()
    }

    /// Has the kernel add to each frame what it knows of its tag and checksum, and put a `virtio_net_hdr` in front that
    /// says which offloads are still to be done (packet(7)).
    pub(crate) fn ask_packet_details(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)
    }

    /// Leaves out frames that this host sends; older kernels refuse, and the receiver checks each frame.
    pub(crate) fn ignore_outgoing(&self) {
        let _ = self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
    }

    /// Takes frames for every MAC, as long as the socket lives and the interface stays.
    pub(crate) fn promiscuous(&self, index: i32) -> io::Result<()> {
        let member = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)
    }

    pub(crate) fn attach_filter(&self, program: &[Instruction]) -> io::Result<()> {
        self.set_program(libc::SO_ATTACH_FILTER, program)
    }

    /// Attaches a program that chooses among the sockets of one address, in the order in which they were bound.
    pub(crate) fn attach_selector(&self, program: &[Instruction]) -> io::Result<()> {
        self.set_program(libc::SO_ATTACH_REUSEPORT_CBPF, program)
    }

    fn set_program(&self, option: c_int, program: &[Instruction]) -> io::Result<()> {
        let mut code: Vec<libc::sock_filter> = program.iter().map(kernel_instruction).collect();
        let program = libc::sock_fprog {
            len: code.len() as u16,
            filter: code.as_mut_ptr(),
        };
        self.set(libc::SOL_SOCKET, option, &program)
    }

    pub(crate) fn share_port(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_REUSEPORT, &1)
    }

    /// Forbids fragments: a datagram that is too long for the path is refused instead.
    pub(crate) fn forbid_fragments(&self, like: SocketAddr) -> io::Result<()> {
        if like.is_ipv4() {
            self.set(
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                &libc::IP_PMTUDISC_DO,
            )
        } else {
            self.set(
                libc::IPPROTO_IPV6,
                libc::IPV6_MTU_DISCOVER,
                &libc::IP_PMTUDISC_DO,
            )
        }
    }

    /// Returns the MTU of the path to the peer that the socket is connected to.
    pub(crate) fn path_mtu(&self, like: SocketAddr) -> io::Result<u32> {
        let mtu: [u32; 1] = if like.is_ipv4() {
            self.get(libc::IPPROTO_IP, libc::IP_MTU)?
        } else {
            self.get(libc::IPPROTO_IPV6, libc::IPV6_MTU)?
        };
        Ok(mtu[0])
    }

    /// Whether the kernel cuts batches into datagrams (UDP_SEGMENT, since Linux 4.18).
    pub(crate) fn can_segment(&self) -> bool {
        self.get::<1>(SOL_UDP, UDP_SEGMENT).is_ok()
    }

    /// Lets the kernel deliver several datagrams as one; older kernels refuse, and none is joined.
    pub(crate) fn join_datagrams(&self) {
        let _ = self.set(SOL_UDP, UDP_GRO, &1);
    }

    /// Sets large buffers, beyond the system's limit if the process may.
    pub(crate) fn enlarge_buffers(&self) {
        let both = [
            (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
            (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
        ];
        for (force, ask) in both {
            if self.set(libc::SOL_SOCKET, force, &BUFFER_BYTES).is_err() {
                let _ = self.set(libc::SOL_SOCKET, ask, &BUFFER_BYTES);
            }
        }
    }

    /// Number of frames that the kernel dropped because the receive buffer was full, since the socket was made.
    pub(crate) fn overruns(&self) -> u64 {
        self.get::<MEMINFO_VARS>(libc::SOL_SOCKET, libc::SO_MEMINFO)
            .map_or(0, |numbers| u64::from(numbers[MEMINFO_DROPS]))
    }

    /// Sets an option. `T` is a number or a structure of the option's documentation.
    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> io::Result<()> {
        let pointer = (&raw const *value).cast::<c_void>();
        // SAFETY: the value is readable for its own size during the call; the kernel copies it, and
        // what it points at (a filter's instructions) lives in the caller's frame.
        let done = unsafe {
            libc::setsockopt(
                self.fd(),
                level,
                option,
                pointer,
                size_of::<T>() as socklen_t,
            )
        };
        answer(done).map(drop)
    }

    fn get<const N: usize>(&self, level: c_int, option: c_int) -> io::Result<[u32; N]> {
        let mut numbers = [0u32; N];
        let mut len = size_of::<[u32; N]>() as socklen_t;
        // SAFETY: the array is writable for `len` bytes, and the kernel writes at most that many.
        let done = unsafe {
            libc::getsockopt(
                self.fd(),
                level,
                option,
                numbers.as_mut_ptr().cast(),
                &mut len,
            )
        };
        answer(done)?;
        Ok(numbers)
    }

    pub(super) fn fd(&self) -> c_int {
        self.0.as_raw_fd()
    }
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        socket.0
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Gives a socket large buffers, beyond the system's limit if this process may (CAP_NET_ADMIN).
pub fn enlarge_buffers(socket: OwnedFd) {
    Socket::from(socket).enlarge_buffers();
}

fn kernel_instruction(instruction: &Instruction) -> libc::sock_filter {
    libc::sock_filter {
        code: instruction.code,
        jt: instruction.jump_true,
        jf: instruction.jump_false,
        k: instruction.operand,
    }
}

/// Converts a system call's result: -1 means that `errno` has the reason.
pub(super) fn answer(value: c_int) -> io::Result<c_int> {
    if value < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}
