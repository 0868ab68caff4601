//! Sockets come and go: made, bound, listening, connected, closed; and memory that peers may write.

use core::ffi::{c_int, c_void};

use super::options::{Options, copy};
use super::poll::wait;
use super::table::{self, Mapped, Stage, State, find};
use super::wire::{Control, Place};
use crate::cm::abi;
use crate::cm::channel::Channel;
use crate::cm::identifier::{Identifier, Kind};
use crate::cm::resolve::{rdma_bind_addr, rdma_listen};
use crate::errno::{self, Errno, Result};
use crate::memory::{ibv_dereg_mr, ibv_reg_mr};
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

fn make(kind: c_int, protocol: c_int) -> Result<c_int> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    if kind & !flags != libc::SOCK_STREAM || !matches!(protocol, 0 | libc::IPPROTO_TCP) {
        return Err(Errno(libc::ENOTSUP));
    }
    let channel = Channel::create()?;
    // SAFETY: a new channel.
    let made =
        unsafe { Identifier::create(channel, core::ptr::null_mut(), Kind::of_space(space::TCP)) };
    let id = made.inspect_err(|_| {
        // SAFETY: just made, and nobody has seen it.
        unsafe { Channel::destroy(channel) }
    })?;
    let options = Options {
        non_blocking: kind & libc::SOCK_NONBLOCK != 0,
        ..Options::default()
    };
    Ok(table::insert(State {
        id: id.cast::<abi::Id>(),
        channel,
        stage: Stage::New,
        options,
        mapped: Vec::new(),
    }))
}

/// `rsocket`: streams only.
#[unsafe(no_mangle)]
pub extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if !matches!(domain, libc::AF_INET | libc::AF_INET6) {
        return number(Err(Errno(libc::ENOTSUP)));
    }
    number(make(kind, protocol))
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
        let state = socket.state.lock();
        // SAFETY: as the caller promises.
        check(unsafe { rdma_bind_addr(state.id, address.cast_mut()) })
    }))
}

/// `rlisten`.
#[unsafe(no_mangle)]
pub extern "C" fn rlisten(fd: c_int, backlog: c_int) -> c_int {
    errno::minus_one(find(fd).and_then(|socket| {
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
        let may_wait = {
            let mut state = socket.state.lock();
            match state.stage {
                // SAFETY: as the caller promises.
                Stage::New => unsafe { state.call(address)? },
                Stage::Waiting(_) => {}
                Stage::Failed(error) => return Err(Errno(error)),
                Stage::Connected(_) => return Err(Errno(libc::EISCONN)),
                Stage::Listening => return Err(Errno(libc::EINVAL)),
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
        wait(&socket, true, |state| say_farewell(state, how))?;
        finish(&socket)
    }))
}

/// Tells the peer what will not be done any more.
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
        // A stream that is not there any more needs no farewell.
        if wait(&socket, true, |state| say_farewell(state, libc::SHUT_RDWR)).is_ok() {
            let _finished = finish(&socket);
        }
        drop(socket);
        table::remove(fd).map(drop)
    }))
}

/// `riomap`: lets the peer write to memory, at an offset that it names.
///
/// # Safety
/// `start` has `length` bytes, which stay until they are unmapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn riomap(
    fd: c_int,
    start: *mut c_void,
    length: usize,
    protection: c_int,
    _flags: c_int,
    offset: libc::off_t,
) -> libc::off_t {
    // SAFETY: as the caller promises.
    let mapped = unsafe { map(fd, start, length, protection, offset) };
    mapped.unwrap_or_else(|Errno(value)| {
        errno::set(value);
        -1
    })
}

/// # Safety
/// As [`riomap`].
unsafe fn map(
    fd: c_int,
    start: *mut c_void,
    length: usize,
    protection: c_int,
    offset: libc::off_t,
) -> Result<libc::off_t> {
    /// `IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE`.
    const WRITE: c_int = 3;
    if protection & libc::PROT_WRITE == 0 || u32::try_from(length).is_err() {
        return Err(Errno(libc::EINVAL));
    }
    let offset = if offset == -1 {
        start as libc::off_t
    } else {
        offset
    };
    let socket = find(fd)?;
    wait(&socket, true, |state| {
        if matches!(state.stage, Stage::Waiting(_)) {
            return Ok(None);
        }
        let used: Vec<usize> = state.mapped.iter().map(|mapped| mapped.index).collect();
        let id = state.id;
        let stream = state.stream()?;
        stream.process()?;
        let free = (0..stream.map_entries()).find(|index| !used.contains(index));
        let index = free.ok_or(Errno(libc::ENOBUFS))?;
        // SAFETY: the socket's domain, and as the caller promises.
        let mr = unsafe { ibv_reg_mr((*id).pd, start, length, WRITE) };
        if mr.is_null() {
            return Err(Errno::last());
        }
        let place = Place {
            address: start as u64,
            // SAFETY: just registered.
            key: unsafe { (*mr).rkey },
            length: length as u32,
        };
        match stream.map(index, offset as u64, place) {
            Ok(()) => {
                let address = start as usize;
                state.mapped.push(Mapped { index, address, mr });
                Ok(Some(offset))
            }
            Err(error) => {
                // SAFETY: just registered, and the peer was not told.
                unsafe { ibv_dereg_mr(mr) };
                if error == Errno(libc::EAGAIN) {
                    Ok(None)
                } else {
                    Err(error)
                }
            }
        }
    })
}

/// `riounmap`.
#[unsafe(no_mangle)]
pub extern "C" fn riounmap(fd: c_int, start: *mut c_void, _length: usize) -> c_int {
    errno::minus_one(find(fd).and_then(|socket| {
        let mut state = socket.state.lock();
        let at = state
            .mapped
            .iter()
            .position(|mapped| mapped.address == start as usize);
        let mapped = state.mapped.remove(at.ok_or(Errno(libc::EINVAL))?);
        // SAFETY: registered by `map`, and no longer in the list.
        unsafe { ibv_dereg_mr(mapped.mr) };
        Ok(())
    }))
}
