//! System calls for a TAP interface (Documentation/networking/tuntap.rst, netdevice(7)).

use std::fs::OpenOptions;
use std::io;
use std::mem::zeroed;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::interface::Interface;
use super::socket::{Socket, answer};

/// `TUNSETIFF` (linux/if_tun.h).
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

/// Network prefix lengths of the addresses that are set here.
const IPV4_PREFIX: u32 = 24;
const IPV6_PREFIX: u32 = 64;

/// An IPv6 address for an interface: `struct in6_ifreq` (linux/ipv6.h).
#[repr(C)]
struct Ipv6Request {
    address: [u8; 16],
    prefix: u32,
    index: i32,
}

/// Makes the interface, or takes one that was made for our user. Frames come without a header of the kernel.
pub(crate) fn attach(interface: &Interface) -> io::Result<OwnedFd> {
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open("/dev/net/tun")?;
    let mut request = interface.request();
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: an open descriptor and a whole structure, which the kernel may change.
    answer(unsafe { libc::ioctl(device.as_raw_fd(), TUNSETIFF as _, &raw mut request) })?;
    Ok(device.into())
}

/// Gives the interface an Ethernet address and an IP address, and sets it up.
pub(crate) fn configure(interface: &Interface, mac: [u8; 6], ip: Option<IpAddr>) -> io::Result<()> {
    let socket = Socket::udp((std::net::Ipv4Addr::UNSPECIFIED, 0).into())?;
    let mut request = interface.request();
    // SAFETY: zero is a value of this plain structure.
    let mut station: libc::sockaddr = unsafe { zeroed() };
    station.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in station.sa_data.iter_mut().zip(mac) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = station;
    order(&socket, libc::SIOCSIFHWADDR, &mut request)?;
    let mut request = interface.request();
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    order(&socket, libc::SIOCSIFFLAGS, &mut request)?;
    match ip {
        Some(IpAddr::V4(ip)) => {
            set_ipv4(&socket, interface, libc::SIOCSIFADDR, ip.to_bits())?;
            let mask = u32::MAX << (u32::BITS - IPV4_PREFIX);
            set_ipv4(&socket, interface, libc::SIOCSIFNETMASK, mask)
        }
        Some(IpAddr::V6(ip)) => {
            let socket = Socket::udp((std::net::Ipv6Addr::UNSPECIFIED, 0).into())?;
            let mut request = Ipv6Request {
                address: ip.octets(),
                prefix: IPV6_PREFIX,
                index: interface.index()?,
            };
            order(&socket, libc::SIOCSIFADDR, &mut request)
        }
        None => Ok(()),
    }
}

fn set_ipv4(
    socket: &Socket,
    interface: &Interface,
    what: libc::c_ulong,
    bits: u32,
) -> io::Result<()> {
    // SAFETY: zero is a value of this plain structure.
    let mut address: libc::sockaddr = unsafe { zeroed() };
    address.sa_family = libc::AF_INET as libc::sa_family_t;
    // After the port, in network byte order: `struct sockaddr_in`.
    for (to, from) in address.sa_data[2..6].iter_mut().zip(bits.to_be_bytes()) {
        *to = from as libc::c_char;
    }
    let mut request = interface.request();
    request.ifr_ifru.ifru_addr = address;
    order(socket, what, &mut request)
}

/// Makes a request. `T` is the structure that the request is documented with.
fn order<T>(socket: &Socket, what: libc::c_ulong, request: &mut T) -> io::Result<()> {
    // SAFETY: an open descriptor, and a whole structure of the kind that this module's requests take.
    answer(unsafe { libc::ioctl(socket.fd(), what as _, request as *mut T) }).map(drop)
}
