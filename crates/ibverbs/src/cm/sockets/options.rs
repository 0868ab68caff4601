//! Options of sockets. Most options that programs set have no meaning on a queue pair and are kept or ignored.

use core::ffi::{c_int, c_long, c_void};

use super::stream::Sizes;
use super::table::{Stage, find};
use crate::cm::option::rdma_set_option;
use crate::cm::socket_address::{length, to_c};
use crate::errno::{self, Errno, Result};

/// `SOL_RDMA` and its options (rsocket.h).
const SOL_RDMA: c_int = 0x10000;
const SQ_SIZE: c_int = 0;
const RQ_SIZE: c_int = 1;
const INLINE: c_int = 2;
const MAP_SIZE: c_int = 3;

/// Bounds of the buffers, queues and maps that a program may ask for.
const BYTES: std::ops::RangeInclusive<i32> = 1 << 14..=1 << 28;
const REQUESTS: std::ops::RangeInclusive<i32> = 16..=1 << 14;
const ENTRIES: std::ops::RangeInclusive<i32> = 0..=1 << 12;

/// The options that were set.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) sizes: Sizes,
    pub(super) non_blocking: bool,
    pub(super) reuse: c_int,
    pub(super) no_delay: c_int,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sizes: Sizes {
                send_bytes: 1 << 17,
                receive_bytes: 1 << 17,
                sends: 384,
                receives: 384,
                map: 0,
            },
            non_blocking: false,
            reuse: 0,
            no_delay: 0,
        }
    }
}

fn within(value: c_int, bounds: &std::ops::RangeInclusive<i32>) -> i32 {
    value.clamp(*bounds.start(), *bounds.end())
}

/// # Safety
/// `value` points to that many bytes.
unsafe fn number(value: *const c_void, length: libc::socklen_t) -> Result<c_int> {
    if value.is_null() || (length as usize) < size_of::<c_int>() {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: as promised; it need not be aligned.
    Ok(unsafe { value.cast::<c_int>().read_unaligned() })
}

/// # Safety
/// As [`rsetsockopt`].
unsafe fn set(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> Result<()> {
    let socket = find(fd)?;
    let mut state = socket.state.lock();
    if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
        return Ok(());
    }
    // SAFETY: as promised.
    let mut value = unsafe { number(value, length)? };
    let id = state.id;
    let options = &mut state.options;
    let sizes = &mut options.sizes;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => {
            options.reuse = value;
            // SAFETY: the socket's own identifier. An identifier that is bound keeps its setting.
            unsafe { rdma_set_option(id, 0, 1, (&raw mut value).cast(), size_of::<c_int>()) };
        }
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => {
            sizes.receive_bytes = (within(value, &BYTES) as usize).next_multiple_of(2);
        }
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => sizes.send_bytes = within(value, &BYTES) as usize,
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay = value,
        (SOL_RDMA, SQ_SIZE) => sizes.sends = within(value, &REQUESTS) as u32,
        (SOL_RDMA, RQ_SIZE) => sizes.receives = within(value, &REQUESTS) as u32,
        (SOL_RDMA, MAP_SIZE) => sizes.map = within(value, &ENTRIES) as usize,
        (libc::SOL_SOCKET | libc::IPPROTO_TCP | libc::IPPROTO_IPV6, _) | (SOL_RDMA, INLINE) => {}
        _ => return Err(Errno(libc::ENOTSUP)),
    }
    Ok(())
}

/// `rsetsockopt`.
///
/// # Safety
/// `value` points to that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rsetsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: libc::socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { set(fd, level, name, value, length) })
}

fn get(fd: c_int, level: c_int, name: c_int) -> Result<c_int> {
    let socket = find(fd)?;
    let mut state = socket.state.lock();
    let (options, sizes) = (state.options, state.options.sizes);
    Ok(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => match &mut state.stage {
            Stage::Failed(error) => std::mem::take(error),
            Stage::Datagram(datagrams) => datagrams.take_error().map_or(0, |error| error.0),
            _ => 0,
        },
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => options.reuse,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => sizes.receive_bytes as c_int,
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => sizes.send_bytes as c_int,
        (libc::SOL_SOCKET, libc::SO_TYPE) if socket.is_datagram => libc::SOCK_DGRAM,
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay,
        (SOL_RDMA, SQ_SIZE) => sizes.sends as c_int,
        (SOL_RDMA, RQ_SIZE) => sizes.receives as c_int,
        (SOL_RDMA, INLINE) => 64,
        (SOL_RDMA, MAP_SIZE) => sizes.map as c_int,
        _ => return Err(Errno(libc::ENOTSUP)),
    })
}

/// `rgetsockopt`.
///
/// # Safety
/// `value` points to as many bytes as `length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut libc::socklen_t,
) -> c_int {
    errno::minus_one(get(fd, level, name).and_then(|found| {
        // SAFETY: as the caller promises.
        unsafe {
            if (*length as usize) < size_of::<c_int>() {
                return Err(Errno(libc::EINVAL));
            }
            value.cast::<c_int>().write_unaligned(found);
            *length = size_of::<c_int>() as libc::socklen_t;
        }
        Ok(())
    }))
}

fn control(fd: c_int, command: c_int, argument: c_long) -> Result<c_int> {
    let socket = find(fd)?;
    let mut state = socket.state.lock();
    match command {
        libc::F_GETFL => {
            let flag = if state.options.non_blocking {
                libc::O_NONBLOCK
            } else {
                0
            };
            Ok(libc::O_RDWR | flag)
        }
        libc::F_SETFL => {
            state.options.non_blocking = argument as c_int & libc::O_NONBLOCK != 0;
            Ok(0)
        }
        libc::F_GETFD => Ok(libc::FD_CLOEXEC),
        libc::F_SETFD => Ok(0),
        _ => Err(Errno(libc::ENOTSUP)),
    }
}

/// `rfcntl`: its third argument, if a command has one, is an `int`.
#[unsafe(no_mangle)]
pub extern "C" fn rfcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    control(fd, command, argument).unwrap_or_else(|Errno(value)| {
        errno::set(value);
        -1
    })
}

/// # Safety
/// As [`rgetsockname`].
unsafe fn tell(
    fd: c_int,
    is_peer: bool,
    to: *mut libc::sockaddr,
    room: *mut libc::socklen_t,
) -> Result<()> {
    let socket = find(fd)?;
    let state = socket.state.lock();
    if let Stage::Datagram(datagrams) = &state.stage {
        let told = if is_peer {
            datagrams.peer_name().ok_or(Errno(libc::ENOTCONN))?
        } else {
            datagrams.name()
        };
        // SAFETY: as promised.
        unsafe { copy(&to_c(&told), to, room) };
        return Ok(());
    }
    // SAFETY: the socket's own identifier, and as promised.
    unsafe {
        let address = &(*state.id).route.addr;
        let storage = if is_peer {
            address.dst_storage
        } else {
            address.src_storage
        };
        copy(&storage, to, room);
    }
    Ok(())
}

/// # Safety
/// `to` has as much room as `room` says, or one of them is null.
pub(super) unsafe fn copy(
    storage: &libc::sockaddr_storage,
    to: *mut libc::sockaddr,
    room: *mut libc::socklen_t,
) {
    if to.is_null() || room.is_null() {
        return;
    }
    let whole = length(storage);
    // SAFETY: as promised.
    unsafe {
        let count = whole.min(*room) as usize;
        libc::memcpy(to.cast(), (&raw const *storage).cast(), count);
        *room = whole;
    }
}

/// `rgetsockname`.
///
/// # Safety
/// `to` has as much room as `room` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetsockname(
    fd: c_int,
    to: *mut libc::sockaddr,
    room: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { tell(fd, false, to, room) })
}

/// `rgetpeername`.
///
/// # Safety
/// `to` has as much room as `room` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rgetpeername(
    fd: c_int,
    to: *mut libc::sockaddr,
    room: *mut libc::socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    errno::minus_one(unsafe { tell(fd, true, to, room) })
}
