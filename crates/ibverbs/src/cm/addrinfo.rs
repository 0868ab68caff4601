//! `rdma_getaddrinfo`: the C library's answer in terms of identifiers.

use core::ffi::{c_char, c_int};

use vrdma_provider::cm::{qp_type, space};

use super::abi::AddrInfo;
use crate::errno;

/// `RAI_PASSIVE`.
pub(super) const PASSIVE: c_int = 1;
/// `RAI_NUMERICHOST`.
const NUMERIC: c_int = 2;
/// `RAI_FAMILY`.
const FAMILY: c_int = 8;

/// Returns a copy made by `malloc`, or null.
///
/// # Safety
/// `address` points to that many bytes.
unsafe fn copy(address: *const libc::sockaddr, length: libc::socklen_t) -> *mut libc::sockaddr {
    // SAFETY: a plain allocation, checked before it is used; as promised.
    unsafe {
        let to = libc::malloc(length as usize);
        if !to.is_null() {
            libc::memcpy(to, address.cast(), length as usize);
        }
        to.cast()
    }
}

fn empty() -> Box<AddrInfo> {
    // SAFETY: numbers and pointers, for which zero is null.
    Box::new(unsafe { core::mem::zeroed() })
}

/// Returns the kind of queue pair and the port space; each follows from the other if the hints have only one.
fn kinds(hints: &AddrInfo, socktype: c_int) -> (c_int, c_int) {
    let datagram = (qp_type::UD as c_int, space::UDP as c_int);
    let stream = (qp_type::RC as c_int, space::TCP as c_int);
    match (hints.ai_qp_type, hints.ai_port_space) {
        (0, 0) if socktype == libc::SOCK_DGRAM => datagram,
        (0, 0) => stream,
        (0, wanted) if wanted == datagram.1 => datagram,
        (0, wanted) => (stream.0, wanted),
        (wanted, 0) if wanted == datagram.0 => datagram,
        (wanted, 0) => (wanted, stream.1),
        both => both,
    }
}

/// Converts one answer of the C library.
///
/// # Safety
/// `found` came from `getaddrinfo`.
unsafe fn convert(found: &libc::addrinfo, hints: &AddrInfo) -> Box<AddrInfo> {
    let mut info = empty();
    (info.ai_qp_type, info.ai_port_space) = kinds(hints, found.ai_socktype);
    (info.ai_family, info.ai_flags) = (found.ai_family, hints.ai_flags);
    // SAFETY: as promised.
    let address = unsafe { copy(found.ai_addr, found.ai_addrlen) };
    if hints.ai_flags & PASSIVE != 0 {
        (info.ai_src_addr, info.ai_src_len) = (address, found.ai_addrlen);
    } else {
        (info.ai_dst_addr, info.ai_dst_len) = (address, found.ai_addrlen);
    }
    info
}

/// Takes addresses from the hints where the answer has none.
///
/// # Safety
/// The hints' addresses are as long as they say.
unsafe fn complete(info: &mut AddrInfo, hints: &AddrInfo) {
    // SAFETY: as promised.
    unsafe {
        if info.ai_src_addr.is_null() && hints.ai_src_len > 0 {
            info.ai_src_addr = copy(hints.ai_src_addr, hints.ai_src_len);
            info.ai_src_len = hints.ai_src_len;
        }
        if info.ai_dst_addr.is_null() && hints.ai_dst_len > 0 {
            info.ai_dst_addr = copy(hints.ai_dst_addr, hints.ai_dst_len);
            info.ai_dst_len = hints.ai_dst_len;
        }
    }
}

/// # Safety
/// `node` and `service` are null or texts of C.
unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    hints: &AddrInfo,
) -> core::result::Result<Box<AddrInfo>, c_int> {
    // SAFETY: numbers and pointers, for which zero is null.
    let mut wanted: libc::addrinfo = unsafe { core::mem::zeroed() };
    if hints.ai_flags & PASSIVE != 0 {
        wanted.ai_flags |= libc::AI_PASSIVE;
    }
    if hints.ai_flags & NUMERIC != 0 {
        wanted.ai_flags |= libc::AI_NUMERICHOST;
    }
    if hints.ai_flags & FAMILY != 0 || hints.ai_family != 0 {
        wanted.ai_family = hints.ai_family;
    }
    let (kind, _) = kinds(hints, 0);
    wanted.ai_socktype = if kind == qp_type::UD as c_int {
        libc::SOCK_DGRAM
    } else {
        libc::SOCK_STREAM
    };
    let mut list = core::ptr::null_mut();
    // SAFETY: as promised, and a place for the answer.
    let error = unsafe { libc::getaddrinfo(node, service, &raw const wanted, &raw mut list) };
    if error != 0 {
        return Err(error);
    }
    // SAFETY: a list with at least one answer, freed after it was copied.
    unsafe {
        let info = convert(&*list, hints);
        libc::freeaddrinfo(list);
        Ok(info)
    }
}

/// # Safety
/// As [`rdma_getaddrinfo`].
unsafe fn resolve(
    node: *const c_char,
    service: *const c_char,
    hints: *const AddrInfo,
) -> core::result::Result<Box<AddrInfo>, c_int> {
    let nothing = empty();
    // SAFETY: as promised.
    let hints = unsafe { hints.as_ref() };
    if hints.is_none() && node.is_null() && service.is_null() {
        errno::set(libc::EINVAL);
        return Err(-1);
    }
    let hints = hints.unwrap_or(&nothing);
    let mut info = if node.is_null() && service.is_null() {
        let mut info = empty();
        (info.ai_qp_type, info.ai_port_space) = kinds(hints, 0);
        (info.ai_family, info.ai_flags) = (hints.ai_family, hints.ai_flags);
        info
    } else {
        // SAFETY: as promised.
        unsafe { look_up(node, service, hints)? }
    };
    // SAFETY: as promised.
    unsafe { complete(&mut info, hints) };
    if info.ai_family == 0 {
        let known = [info.ai_dst_addr, info.ai_src_addr];
        // SAFETY: null or an address.
        let family = known.iter().find_map(|one| unsafe { one.as_ref() });
        info.ai_family = family.map_or(0, |one| one.sa_family.into());
    }
    Ok(info)
}

/// `rdma_getaddrinfo`: 0, or -1 with `errno`, or an error of `getaddrinfo`.
///
/// # Safety
/// `node` and `service` are null or texts of C, `hints` is null or points to addresses, and `to`
/// points to a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const AddrInfo,
    to: *mut *mut AddrInfo,
) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { resolve(node, service, hints) } {
        Ok(info) => {
            // SAFETY: as the caller promises.
            unsafe { to.write(Box::into_raw(info)) };
            0
        }
        Err(error) => error,
    }
}

/// `rdma_freeaddrinfo`.
///
/// # Safety
/// `info` came from `rdma_getaddrinfo` or is null, and is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_freeaddrinfo(info: *mut AddrInfo) {
    let mut next = info;
    while !next.is_null() {
        // SAFETY: made by `rdma_getaddrinfo`; what a program added is by `malloc`, as the manual asks.
        unsafe {
            let info = Box::from_raw(next);
            libc::free(info.ai_src_addr.cast());
            libc::free(info.ai_dst_addr.cast());
            libc::free(info.ai_src_canonname.cast());
            libc::free(info.ai_dst_canonname.cast());
            libc::free(info.ai_route);
            libc::free(info.ai_connect);
            next = info.ai_next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_from_each_other() {
        let mut hints = empty();
        assert_eq!(kinds(&hints, 0), (2, 0x106));
        assert_eq!(kinds(&hints, libc::SOCK_DGRAM), (4, 0x111));
        hints.ai_port_space = 0x111;
        assert_eq!(kinds(&hints, 0), (4, 0x111));
        hints.ai_qp_type = 3;
        assert_eq!(kinds(&hints, 0), (3, 0x111));
    }

    #[test]
    fn a_numeric_address_is_found_and_hints_complete_it() {
        let mut hints = empty();
        (hints.ai_flags, hints.ai_port_space) = (NUMERIC, 0x106);
        let mut found = core::ptr::null_mut();
        let (node, service) = (c"10.1.2.3", c"7174");
        // SAFETY: texts and places.
        unsafe {
            assert_eq!(
                rdma_getaddrinfo(node.as_ptr(), service.as_ptr(), &*hints, &mut found),
                0
            );
            assert_eq!((*found).ai_dst_len, 16);
            hints.ai_dst_addr = (*found).ai_dst_addr;
            hints.ai_dst_len = 16;
            let (mut again, none) = (core::ptr::null_mut(), core::ptr::null());
            assert_eq!(rdma_getaddrinfo(none, none, &*hints, &mut again), 0);
            assert_eq!(
                (*(*again).ai_dst_addr).sa_data,
                (*(*found).ai_dst_addr).sa_data
            );
            assert_eq!((*again).ai_family, libc::AF_INET);
            rdma_freeaddrinfo(again);
            rdma_freeaddrinfo(found);
            assert_eq!(
                rdma_getaddrinfo(none, none, core::ptr::null(), &mut again),
                -1
            );
        }
    }
}
