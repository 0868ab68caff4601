//! State of a network interface of the host (netdevice(7)).

use std::ffi::CString;
use std::io;
use std::mem::zeroed;

use super::socket::{Socket, answer};

/// Longest name, without the terminating zero.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// A checked name of an interface, which may come and go.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    name: CString,
}

impl Interface {
    /// Checks a name. `None` if no interface can have it (dev_valid_name of the kernel).
    pub(crate) fn named(name: &str) -> Option<Self> {
        let odd = |c: char| c == '/' || c == ':' || c.is_whitespace();
        let bad = name.is_empty() || name.len() > NAME_MAX || name == "." || name == "..";
        if bad || name.contains(odd) {
            return None;
        }
        let name = CString::new(name).ok()?;
        Some(Self { name })
    }

    /// Returns its number now. It changes when the interface is removed and made again.
    pub(crate) fn index(&self) -> io::Result<i32> {
        // SAFETY: the name ends in a zero byte and lives through the call.
        match unsafe { libc::if_nametoindex(self.name.as_ptr()) } {
            0 => Err(io::Error::last_os_error()),
            index => Ok(index as i32),
        }
    }

    /// Returns the bytes that fit after the Ethernet header.
    pub(crate) fn mtu(&self, socket: &Socket) -> io::Result<u32> {
        let answer = self.ask(socket, libc::SIOCGIFMTU)?;
        // SAFETY: the kernel filled in the member that this request is about.
        Ok(unsafe { answer.ifr_ifru.ifru_mtu }.max(0) as u32)
    }

    /// Whether it is up and has a carrier.
    pub(crate) fn is_up(&self, socket: &Socket) -> io::Result<bool> {
        let answer = self.ask(socket, libc::SIOCGIFFLAGS)?;
        // SAFETY: the kernel filled in the member that this request is about.
        let flags = unsafe { answer.ifr_ifru.ifru_flags };
        let both = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(i32::from(flags) & both == both)
    }

    /// Whether its frames begin with an Ethernet header.
    pub(crate) fn is_ethernet(&self, socket: &Socket) -> io::Result<bool> {
        let answer = self.ask(socket, libc::SIOCGIFHWADDR)?;
        // SAFETY: the kernel filled in the member that this request is about.
        let kind = unsafe { answer.ifr_ifru.ifru_hwaddr.sa_family };
        Ok(kind == libc::ARPHRD_ETHER)
    }

    /// Returns a structure for requests, with the name filled in.
    pub(super) fn request(&self) -> libc::ifreq {
        // SAFETY: ifreq is plain numbers, for which zero is a value.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(self.name.to_bytes()) {
            *to = *from as libc::c_char;
        }
        request
    }

    fn ask(&self, socket: &Socket, request: libc::c_ulong) -> io::Result<libc::ifreq> {
        let mut question = self.request();
        // SAFETY: the structure is whole, its name ends in a zero byte, and the requests of this
        // module write nothing but this structure.
        answer(unsafe { libc::ioctl(socket.fd(), request as _, &raw mut question) })?;
        Ok(question)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for bad in [
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "a:1",
            "sixteen-bytes-xx",
            "nul\0",
        ] {
            assert!(Interface::named(bad).is_none(), "{bad:?}");
        }
        assert!(Interface::named("fifteen-bytes-x").is_some());
    }
}
