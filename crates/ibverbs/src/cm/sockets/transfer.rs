//! Sending and receiving.

use core::ffi::{c_int, c_void};

use super::poll::wait;
use super::table::{Stage, State, find};
use crate::errno::{self, Errno, Result};

fn size(outcome: Result<usize>) -> isize {
    match outcome {
        Ok(count) => count as isize,
        Err(Errno(value)) => {
            errno::set(value);
            -1
        }
    }
}

/// Takes what the queue pair has done; an error is the end of the stream.
fn process(state: &mut State) -> Result<()> {
    if let Stage::Connected(stream) = &mut state.stage
        && stream.process().is_err()
    {
        stream.hang_up();
    }
    state.stream().map(drop)
}

/// Whether a connection is still to come.
fn is_coming(state: &State) -> bool {
    matches!(state.stage, Stage::Waiting(_))
}

/// # Safety
/// `data` has `length` bytes.
unsafe fn send(fd: c_int, data: *const u8, length: usize, flags: c_int) -> Result<usize> {
    let socket = find(fd)?;
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !socket.state.lock().options.non_blocking;
    let mut done = 0;
    let outcome = wait(&socket, may_wait, |state| {
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
unsafe fn receive(fd: c_int, to: *mut u8, length: usize, flags: c_int) -> Result<usize> {
    let socket = find(fd)?;
    let may_wait = flags & libc::MSG_DONTWAIT == 0 && !socket.state.lock().options.non_blocking;
    let peek = flags & libc::MSG_PEEK != 0;
    let all = flags & libc::MSG_WAITALL != 0 && !peek;
    let mut done = 0;
    let outcome = wait(&socket, may_wait, |state| {
        if is_coming(state) {
            return Ok(None);
        }
        process(state)?;
        let stream = state.stream()?;
        // SAFETY: as promised.
        done += unsafe { stream.receive(to.add(done), length - done, peek) };
        if done > 0 {
            // The room that it left is told soon.
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

/// Does the same for each piece until one is not done wholly.
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
/// `pieces` points to that many pieces of the program.
unsafe fn send_pieces(fd: c_int, pieces: *const libc::iovec, count: c_int, flags: c_int) -> isize {
    // SAFETY: as promised.
    size(unsafe {
        each(pieces, count, |piece, _| {
            send(fd, piece.iov_base.cast::<u8>(), piece.iov_len, flags)
        })
    })
}

/// # Safety
/// `pieces` points to that many pieces of the program.
unsafe fn receive_pieces(
    fd: c_int,
    pieces: *const libc::iovec,
    count: c_int,
    flags: c_int,
) -> isize {
    // SAFETY: as promised; only the first piece is waited for.
    size(unsafe {
        each(pieces, count, |piece, is_first| {
            let flags = if is_first {
                flags
            } else {
                flags | libc::MSG_DONTWAIT
            };
            receive(fd, piece.iov_base.cast::<u8>(), piece.iov_len, flags)
        })
    })
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
        size(send(fd, data.cast(), length, flags));
    /// `rsendto`: of a stream, whose peer is known.
    rsendto(fd: c_int, data: *const c_void, length: usize, flags: c_int,
        _to: *const libc::sockaddr, _room: libc::socklen_t) =>
        size(send(fd, data.cast(), length, flags));
    /// `rwrite`.
    rwrite(fd: c_int, data: *const c_void, length: usize) =>
        size(send(fd, data.cast(), length, 0));
    /// `rwritev`.
    rwritev(fd: c_int, pieces: *const libc::iovec, count: c_int) =>
        send_pieces(fd, pieces, count, 0);
    /// `rsendmsg`.
    rsendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) =>
        send_pieces(fd, (*message).msg_iov, (*message).msg_iovlen as c_int, flags);
    /// `rrecv`.
    rrecv(fd: c_int, to: *mut c_void, length: usize, flags: c_int) =>
        size(receive(fd, to.cast(), length, flags));
    /// `rrecvfrom`: of a stream, whose peer is known.
    rrecvfrom(fd: c_int, to: *mut c_void, length: usize, flags: c_int,
        _from: *mut libc::sockaddr, _room: *mut libc::socklen_t) =>
        size(receive(fd, to.cast(), length, flags));
    /// `rread`.
    rread(fd: c_int, to: *mut c_void, length: usize) =>
        size(receive(fd, to.cast(), length, 0));
    /// `rreadv`.
    rreadv(fd: c_int, pieces: *const libc::iovec, count: c_int) =>
        receive_pieces(fd, pieces, count, 0);
    /// `rrecvmsg`.
    rrecvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) =>
        receive_pieces(fd, (*message).msg_iov, (*message).msg_iovlen as c_int, flags);
}

/// `riowrite`: into memory that the peer has mapped. The number of bytes, or -1.
///
/// # Safety
/// `data` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn riowrite(
    fd: c_int,
    data: *const c_void,
    length: usize,
    offset: libc::off_t,
    flags: c_int,
) -> isize {
    let data = data.cast::<u8>();
    let mut done = 0;
    let outcome = find(fd).and_then(|socket| {
        let may_wait = flags & libc::MSG_DONTWAIT == 0 && !socket.state.lock().options.non_blocking;
        wait(&socket, may_wait, |state| {
            if is_coming(state) {
                return Ok(None);
            }
            process(state)?;
            let stream = state.stream()?;
            if !stream.writable {
                return Err(Errno(libc::EPIPE));
            }
            while done < length {
                let at = offset as u64 + done as u64;
                // SAFETY: as the caller promises.
                match unsafe { stream.write_mapped(data.add(done), length - done, at)? } {
                    0 => break,
                    count => done += count,
                }
            }
            Ok((done == length).then_some(done))
        })
    });
    size(match outcome {
        Err(_) if done > 0 => Ok(done),
        other => other,
    })
}
