//! Sending and receiving on sockets.

use core::ffi::{c_int, c_void};

use super::datagram::Pieces;
use super::messages;
use super::poll::wait;
use super::table::{Socket, Stage, State, find};
use crate::errno::{self, Errno, Result};

pub(super) fn size(outcome: Result<usize>) -> isize {
    match outcome {
        Ok(count) => count as isize,
        Err(Errno(value)) => {
            errno::set(value);
            -1
        }
    }
}

/// Takes the queue pair's completions; an error is the end of the stream.
pub(super) fn process(state: &mut State) -> Result<()> {
    if let Stage::Connected(stream) = &mut state.stage
        && stream.process().is_err()
    {
        stream.hang_up();
    }
    state.stream().map(drop)
}

/// Whether a connection is still to come.
pub(super) fn is_coming(state: &State) -> bool {
    matches!(state.stage, Stage::Waiting(_))
}

/// # Safety
/// `data` has `length` bytes.
unsafe fn send_stream(
    socket: &Socket,
    data: *const u8,
    length: usize,
    flags: c_int,
) -> Result<usize> {
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !socket.state.lock().options.non_blocking;
    let mut done = 0;
    let outcome = wait(socket, may_wait, |state| {
        if is_coming(state) {
            return Ok(None);
        }
        process(state)?;
        let stream = state.stream()?;
        if !stream.writable {
            return Err(Errno(libc::EPIPE));
        }
        while done < length {
            // SAFETY: as promised.
            match unsafe { stream.send(data.add(done), length - done)? } {
                0 => break,
                count => done += count,
            }
        }
        Ok((done == length).then_some(done))
    });
    match outcome {
        Err(_) if done > 0 => Ok(done),
        other => other,
    }
}

/// # Safety
/// `to` has room for `length` bytes.
unsafe fn receive_stream(
    socket: &Socket,
    to: *mut u8,
    length: usize,
    flags: c_int,
) -> Result<usize> {
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !socket.state.lock().options.non_blocking;
    let peek = flags & libc::MSG_PEEK != 0;
    let all = flags & libc::MSG_WAITALL != 0 && !peek;
    let mut done = 0;
    let outcome = wait(socket, may_wait, |state| {
        if is_coming(state) {
            return Ok(None);
        }
        process(state)?;
        let stream = state.stream()?;
        // SAFETY: as promised.
        done += unsafe { stream.receive(to.add(done), length - done, peek) };
        if done > 0 {
            // The peer is told of this room soon.
            let _told = stream.process();
        }
        let enough = if all {
            done == length
        } else {
            done > 0 || length == 0
        };
        Ok((enough || !stream.readable && !stream.has_data()).then_some(done))
    });
    match outcome {
        Err(_) if done > 0 => Ok(done),
        other => other,
    }
}

/// Does the same for each piece, up to the first that is not done completely.
///
/// # Safety
/// `pieces` points to that many pieces.
unsafe fn each(
    pieces: *const libc::iovec,
    count: c_int,
    mut one: impl FnMut(&libc::iovec, bool) -> Result<usize>,
) -> Result<usize> {
    if count <= 0 {
        return Ok(0);
    }
    // SAFETY: as promised.
    let pieces = unsafe { std::slice::from_raw_parts(pieces, count as usize) };
    let mut done = 0;
    for piece in pieces.iter().filter(|piece| piece.iov_len > 0) {
        match one(piece, done == 0) {
            Ok(moved) => {
                done += moved;
                if moved < piece.iov_len {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// # Safety
/// `data` has `length` bytes; `to` is null or points to a socket address, which streams do not need.
unsafe fn send(
    fd: c_int,
    data: *const c_void,
    length: usize,
    flags: c_int,
    to: *const libc::sockaddr,
) -> Result<usize> {
    let socket = find(fd)?;
    // SAFETY: as promised.
    unsafe {
        if socket.is_datagram {
            let whole = [piece(data, length)];
            return messages::send(&socket, Pieces::new(&whole), flags, to);
        }
        send_stream(&socket, data.cast(), length, flags)
    }
}

/// # Safety
/// `to` has room for `length` bytes; `from` has as much as `room` says, or one of them is null.
unsafe fn receive(
    fd: c_int,
    to: *mut c_void,
    length: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    room: *mut libc::socklen_t,
) -> Result<usize> {
    let socket = find(fd)?;
    // SAFETY: as promised.
    unsafe {
        if socket.is_datagram {
            let whole = [piece(to, length)];
            let taken = messages::receive(&socket, Pieces::new(&whole), flags)?;
            messages::tell_sender(&taken, from, room);
            return Ok(messages::size(&taken, flags));
        }
        receive_stream(&socket, to.cast(), length, flags)
    }
}

fn piece(start: *const c_void, length: usize) -> libc::iovec {
    libc::iovec {
        iov_base: start.cast_mut(),
        iov_len: length,
    }
}

/// # Safety
/// The message is one of the program.
unsafe fn send_message(fd: c_int, message: *const libc::msghdr, flags: c_int) -> Result<usize> {
    let socket = find(fd)?;
    // SAFETY: as promised.
    unsafe {
        if socket.is_datagram {
            return messages::send_message(&socket, message, flags);
        }
        each(
            (*message).msg_iov,
            (*message).msg_iovlen as c_int,
            |piece, _| send_stream(&socket, piece.iov_base.cast(), piece.iov_len, flags),
        )
    }
}

/// # Safety
/// The message is one of the program.
unsafe fn receive_message(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> Result<usize> {
    let socket = find(fd)?;
    // SAFETY: as promised; only the first piece of a stream is waited for.
    unsafe {
        if socket.is_datagram {
            return messages::receive_message(&socket, message, flags);
        }
        each(
            (*message).msg_iov,
            (*message).msg_iovlen as c_int,
            |piece, is_first| {
                let wait = if is_first { 0 } else { libc::MSG_DONTWAIT };
                receive_stream(&socket, piece.iov_base.cast(), piece.iov_len, flags | wait)
            },
        )
    }
}

/// Makes a message of these pieces.
fn message(pieces: *const libc::iovec, count: c_int) -> libc::msghdr {
    // SAFETY: numbers and pointers, for which zero is none.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (pieces.cast_mut(), count.max(0) as usize);
    message
}

macro_rules! entry_points {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) => $call:expr;)*) => {
        $($(#[$doc])*
        ///
        /// # Safety
        /// The pointers are to as much memory as the arguments say.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> isize {
            // SAFETY: as the caller promises.
            unsafe { $call }
        })*
    };
}

entry_points! {
    /// `rsend`.
    rsend(fd: c_int, data: *const c_void, length: usize, flags: c_int) =>
        size(send(fd, data, length, flags, core::ptr::null()));
    /// `rsendto`: a stream does not need the address, since its peer is known.
    rsendto(fd: c_int, data: *const c_void, length: usize, flags: c_int,
        to: *const libc::sockaddr, _room: libc::socklen_t) =>
        size(send(fd, data, length, flags, to));
    /// `rwrite`.
    rwrite(fd: c_int, data: *const c_void, length: usize) =>
        size(send(fd, data, length, 0, core::ptr::null()));
    /// `rwritev`.
    rwritev(fd: c_int, pieces: *const libc::iovec, count: c_int) =>
        size(send_message(fd, &message(pieces, count), 0));
    /// `rsendmsg`.
    rsendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) =>
        size(send_message(fd, message, flags));
    /// `rrecv`.
    rrecv(fd: c_int, to: *mut c_void, length: usize, flags: c_int) =>
        size(receive(fd, to, length, flags, core::ptr::null_mut(), core::ptr::null_mut()));
    /// `rrecvfrom`: a stream does not tell the address, since its peer is known.
    rrecvfrom(fd: c_int, to: *mut c_void, length: usize, flags: c_int,
        from: *mut libc::sockaddr, room: *mut libc::socklen_t) =>
        size(receive(fd, to, length, flags, from, room));
    /// `rread`.
    rread(fd: c_int, to: *mut c_void, length: usize) =>
        size(receive(fd, to, length, 0, core::ptr::null_mut(), core::ptr::null_mut()));
    /// `rreadv`.
    rreadv(fd: c_int, pieces: *const libc::iovec, count: c_int) =>
        size(receive_message(fd, &mut message(pieces, count), 0));
    /// `rrecvmsg`.
    rrecvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) =>
        size(receive_message(fd, message, flags));
}
