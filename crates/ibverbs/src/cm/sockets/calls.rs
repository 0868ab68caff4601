//! The life of sockets: made, bound, listening, connected, closed.

use core::ffi::c_int;
use std::sync::Arc;

use super::datagram::Datagrams;
use super::messages;
use super::options::{Options, copy};
use super::poll::wait;
use super::table::{self, Socket, Stage, State, find};
use super::wire::Control;
use crate::cm::abi;
use crate::cm::channel::Channel;
use crate::cm::identifier::{Identifier, Kind};
use crate::cm::resolve::{rdma_bind_addr, rdma_listen};
use crate::errno::{self, Errno, Result};
use vrdma_provider::cm::space;

fn number(outcome: Result<c_int>) -> c_int {
    outcome.unwrap_or_else(|Errno(value)| {
        errno::set(value);
        -1
    })
}

fn check(outcome: c_int) -> Result<()> {
    if outcome == 0 {
        Ok(())
    } else {
        Err(Errno::last())
    }
}

fn make(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let (is_datagram, space) = match (kind & !flags, protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => (false, space::TCP),
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => (true, space::UDP),
        _ => return Err(Errno(libc::ENOTSUP)),
    };
    let channel = Channel::create()?;
    // SAFETY: a new channel.
    let made = unsafe { Identifier::create(channel, core::ptr::null_mut(), Kind::of_space(space)) };
    let id = made.inspect_err(|_| {
        // SAFETY: just made, and nobody has seen it.
        unsafe { Channel::destroy(channel) }
    })?;
    let options = Options {
        non_blocking: kind & libc::SOCK_NONBLOCK != 0,
        ..Options::default()
    };
    let stage = if is_datagram {
        // SAFETY: the socket's own channel, which goes after them.
        let datagrams = unsafe { Datagrams::new(domain == libc::AF_INET, channel) };
        Stage::Datagram(Box::new(datagrams))
    } else {
        Stage::New
    };
    Ok(table::insert(State {
        id: id.cast::<abi::Id>(),
        channel,
        stage,
        options,
        mapped: Vec::new(),
    }))
}

/// Returns the same socket if it is a stream.
pub(super) fn of_stream(socket: Arc<Socket>) -> Result<Arc<Socket>> {
    if socket.is_datagram {
        Err(Errno(libc::EOPNOTSUPP))
    } else {
        Ok(socket)
    }
}

/// `rsocket`: streams and datagrams.
#[unsafe(no_mangle)]
pub extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if !matches!(domain, libc::AF_INET | libc::AF_INET6) {
        return number(Err(Errno(libc::ENOTSUP)));
    }
    number(make(domain, kind, protocol))
}

/// `rbind`.
///
/// # Safety
/// `address` points to a socket address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rbind(
    fd: c_int,
    address: *const libc::sockaddr,
    _length: libc::socklen_t,
) -> c_int {
    errno::minus_one(find(fd).and_then(|socket| {
        if socket.is_datagram {
            // SAFETY: as the caller promises.
            return unsafe { messages::bind(&socket, address) };
        }
        let state = socket.state.lock();
        // SAFETY: as the caller promises.
        check(unsafe { rdma_bind_addr(state.id, address.cast_mut()) })
    }))
}

/// `rlisten`.
#[unsafe(no_mangle)]
pub extern "C" fn rlisten(fd: c_int, backlog: c_int) -> c_int {
    errno::minus_one(find(fd).and_then(|socket| {
        let socket = of_stream(socket)?;
        let mut state = socket.state.lock();
        // SAFETY: the socket's own identifier.
        check(unsafe { rdma_listen(state.id, backlog) })?;
        state.stage = Stage::Listening;
        Ok(())
    }))
}

/// `raccept`.
///
/// # Safety
/// `to` has as much room as `room` says, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn raccept(
    fd: c_int,
    to: *mut libc::sockaddr,
    room: *mut libc::socklen_t,
) -> c_int {
    number(find(fd).and_then(|socket| {
        let socket = of_stream(socket)?;
        let may_wait = !socket.state.lock().options.non_blocking;
        let called = wait(&socket, may_wait, |state| match state.stage {
            Stage::Listening if state.has_event() => state.answer().map(Some),
            Stage::Listening => Ok(None),
            _ => Err(Errno(libc::EINVAL)),
        })?;
        // SAFETY: the new socket's identifier, and as the caller promises.
        unsafe { copy(&(*called.id).route.addr.dst_storage, to, room) };
        Ok(table::insert(called))
    }))
}

/// `rconnect`.
///
/// # Safety
/// `address` points to a socket address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rconnect(
    fd: c_int,
    address: *const libc::sockaddr,
    _length: libc::socklen_t,
) -> c_int {
    errno::minus_one(find(fd).and_then(|socket| {
        if socket.is_datagram {
            // SAFETY: as the caller promises.
            return unsafe { messages::connect(&socket, address) };
        }
        let may_wait = {
            let mut state = socket.state.lock();
            match state.stage {
                // SAFETY: as the caller promises.
                Stage::New => unsafe { state.call(address)? },
                Stage::Waiting(_) => {}
                Stage::Failed(error) => return Err(Errno(error)),
                Stage::Connected(_) => return Err(Errno(libc::EISCONN)),
                Stage::Listening | Stage::Datagram(_) => return Err(Errno(libc::EINVAL)),
            }
            !state.options.non_blocking
        };
        let connected = wait(&socket, may_wait, |state| match state.stage {
            Stage::Waiting(_) => Ok(None),
            _ => state.stream().map(|_| Some(())),
        });
        connected.map_err(|error| match error {
            Errno(libc::EAGAIN) => Errno(libc::EINPROGRESS),
            other => other,
        })
    }))
}

/// `rshutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn rshutdown(fd: c_int, how: c_int) -> c_int {
    errno::minus_one(find(fd).and_then(|socket| {
        if socket.is_datagram {
            // A datagram socket has no peer to tell.
            messages::finish(&socket);
            return Ok(());
        }
        wait(&socket, true, |state| say_farewell(state, how))?;
        finish(&socket)
    }))
}

/// Tells the peer what this side does not do any more.
fn say_farewell(state: &mut State, how: c_int) -> Result<Option<()>> {
    let stream = match &mut state.stage {
        Stage::Connected(stream) => stream,
        _ => return Err(Errno(libc::ENOTCONN)),
    };
    if !stream.connected {
        return Ok(Some(()));
    }
    let (readable, writable) = match how {
        libc::SHUT_RD => (false, stream.writable),
        libc::SHUT_WR => (stream.readable, false),
        _ => (false, false),
    };
    if writable {
        stream.readable = false;
        return Ok(Some(()));
    }
    let control = if readable {
        Control::Shutdown
    } else {
        Control::Disconnect
    };
    if stream.process().is_err() {
        stream.hang_up();
        return Ok(Some(()));
    }
    match stream.control(control) {
        Ok(()) => {
            (stream.readable, stream.writable) = (readable, writable);
            Ok(Some(()))
        }
        Err(Errno(libc::EAGAIN)) if stream.connected => Ok(None),
        Err(_) => Ok(Some(())),
    }
}

/// Waits until the peer has all that was sent.
fn finish(socket: &table::Socket) -> Result<()> {
    wait(socket, true, |state| {
        let Stage::Connected(stream) = &mut state.stage else {
            return Ok(Some(()));
        };
        if stream.process().is_err() {
            stream.hang_up();
        }
        Ok((!stream.connected || stream.all_sent()).then_some(()))
    })
}

/// `rclose`.
#[unsafe(no_mangle)]
pub extern "C" fn rclose(fd: c_int) -> c_int {
    errno::minus_one(find(fd).and_then(|socket| {
        // A stream that is gone already needs no farewell.
        if socket.is_datagram {
            messages::finish(&socket);
        } else if wait(&socket, true, |state| say_farewell(state, libc::SHUT_RDWR)).is_ok() {
            let _finished = finish(&socket);
        }
        drop(socket);
        table::remove(fd).map(drop)
    }))
}
