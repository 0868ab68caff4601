//! Sending and receiving of datagrams.

use core::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use super::datagram::{Address, Datagrams, Pieces, Sent, Taken};
use super::options::copy;
use super::poll::{Patience, wait, wait_for};
use super::table::{Socket, Stage, State};
use crate::cm::abi;
use crate::cm::socket_address::to_c;
use crate::errno::{Errno, Result};

/// How long a call that may wait does so for a peer that was never sent to. After that the datagram waits alone, and
/// goes with a later call.
const FIRST: Duration = Duration::from_millis(100);
/// The same for a call that may not wait: a peer that is there is found in a fraction of this time.
const FIRST_AT_ONCE: Duration = Duration::from_millis(20);
/// How long `rclose` waits for datagrams that have not left.
const LINGER: Duration = Duration::from_secs(1);

/// Returns the datagrams of a datagram socket.
fn of(state: &mut State) -> Result<(&mut Datagrams, *mut abi::Id)> {
    let id = state.id;
    match &mut state.stage {
        Stage::Datagram(datagrams) => Ok((datagrams, id)),
        _ => Err(Errno(libc::EOPNOTSUPP)),
    }
}

fn may_wait(socket: &Socket, flags: c_int) -> bool {
    flags & libc::MSG_DONTWAIT == 0 && !socket.state.lock().options.non_blocking
}

/// # Safety
/// `address` points to a socket address.
pub(super) unsafe fn bind(socket: &Socket, address: *const libc::sockaddr) -> Result<()> {
    let mut state = socket.state.lock();
    let sizes = state.options.sizes;
    let (datagrams, id) = of(&mut state)?;
    // SAFETY: as promised.
    unsafe { datagrams.bind(id, address, &sizes) }
}

/// Sets the peer; an address without a family unsets it.
///
/// # Safety
/// `address` points to a socket address.
pub(super) unsafe fn connect(socket: &Socket, address: *const libc::sockaddr) -> Result<()> {
    let is_blocking = may_wait(socket, 0);
    // SAFETY: as promised.
    let is_none = unsafe { address.as_ref() }
        .is_none_or(|address| i32::from(address.sa_family) == libc::AF_UNSPEC);
    let to = {
        let mut state = socket.state.lock();
        let sizes = state.options.sizes;
        let (datagrams, id) = of(&mut state)?;
        if is_none {
            return datagrams.connect(None);
        }
        // SAFETY: as promised.
        let to = unsafe { datagrams.address(address)? };
        datagrams.ensure_bound(id, &sizes)?;
        datagrams.connect(Some(to))?;
        to
    };
    wait_for_peer(socket, to, is_blocking)
}

/// Waits a little until a peer is found, or known not to be there.
fn wait_for_peer(socket: &Socket, to: Address, is_blocking: bool) -> Result<()> {
    let limit = if is_blocking { FIRST } else { FIRST_AT_ONCE };
    let patience = Patience::Until(Instant::now() + limit);
    let settled = wait_for(socket, patience, |state| {
        let (datagrams, _) = of(state)?;
        datagrams.process();
        Ok(datagrams.is_settled(to).then_some(()))
    });
    match settled {
        // An answer that did not come in time may still come.
        Err(Errno(libc::EAGAIN)) => Ok(()),
        other => other,
    }
}

/// # Safety
/// The pieces are the program's, and `to` is null or points to a socket address.
pub(super) unsafe fn send(
    socket: &Socket,
    data: Pieces<'_>,
    flags: c_int,
    to: *const libc::sockaddr,
) -> Result<usize> {
    let is_blocking = may_wait(socket, flags);
    let (sent, to) = wait(socket, is_blocking, |state| {
        let sizes = state.options.sizes;
        let (datagrams, id) = of(state)?;
        let to = match datagrams.connected {
            // SAFETY: as promised.
            _ if !to.is_null() => unsafe { datagrams.address(to)? },
            Some(peer) => peer,
            None => return Err(Errno(libc::EDESTADDRREQ)),
        };
        datagrams.ensure_bound(id, &sizes)?;
        datagrams.process();
        if let Some(error) = datagrams.take_error() {
            return Err(error);
        }
        let sent = datagrams.send(to, &data)?;
        Ok((sent != Sent::Full).then_some((sent, to)))
    })?;
    if sent == Sent::Waits {
        wait_for_peer(socket, to, is_blocking)?;
    }
    Ok(data.length())
}

/// # Safety
/// The pieces are the program's.
pub(super) unsafe fn receive(socket: &Socket, to: Pieces<'_>, flags: c_int) -> Result<Taken> {
    let peek = flags & libc::MSG_PEEK != 0;
    wait(socket, may_wait(socket, flags), |state| {
        let (datagrams, _) = of(state)?;
        datagrams.process();
        if let Some(error) = datagrams.take_error() {
            return Err(error);
        }
        datagrams.take(&to, peek)
    })
}

/// Returns the size that a receiving call tells.
pub(super) fn size(taken: &Taken, flags: c_int) -> usize {
    if flags & libc::MSG_TRUNC != 0 {
        taken.length
    } else {
        taken.count
    }
}

/// # Safety
/// `to` has as much room as `room` says, or one of them is null.
pub(super) unsafe fn tell_sender(
    taken: &Taken,
    to: *mut libc::sockaddr,
    room: *mut libc::socklen_t,
) {
    // SAFETY: as promised.
    unsafe { copy(&to_c(&taken.from), to, room) }
}

/// # Safety
/// `message` points to a message of the program.
pub(super) unsafe fn send_message(
    socket: &Socket,
    message: *const libc::msghdr,
    flags: c_int,
) -> Result<usize> {
    // SAFETY: as promised.
    unsafe {
        let data = Pieces::of_call((*message).msg_iov, (*message).msg_iovlen)?;
        send(socket, data, flags, (*message).msg_name.cast())
    }
}

/// # Safety
/// As [`send_message`].
pub(super) unsafe fn receive_message(
    socket: &Socket,
    message: *mut libc::msghdr,
    flags: c_int,
) -> Result<usize> {
    // SAFETY: as promised.
    unsafe {
        let to = Pieces::of_call((*message).msg_iov, (*message).msg_iovlen)?;
        let taken = receive(socket, to, flags)?;
        let name: *mut c_void = (*message).msg_name;
        tell_sender(&taken, name.cast(), &raw mut (*message).msg_namelen);
        (*message).msg_controllen = 0;
        (*message).msg_flags = if taken.count < taken.length {
            libc::MSG_TRUNC
        } else {
            0
        };
        Ok(size(&taken, flags))
    }
}

/// Waits a short time until all that was sent has left.
pub(super) fn finish(socket: &Socket) {
    let patience = Patience::Until(Instant::now() + LINGER);
    // Datagrams that have not left by then are lost, as datagrams may be.
    let _left = wait_for(socket, patience, |state| {
        let (datagrams, _) = of(state)?;
        datagrams.process();
        Ok(datagrams.all_sent().then_some(()))
    });
}
