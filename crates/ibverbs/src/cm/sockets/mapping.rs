//! Memory that peers may write (`riomap`), and writing to the peer's (`riowrite`).

use core::ffi::{c_int, c_void};

use super::calls::of_stream;
use super::poll::wait;
use super::table::{Mapped, Stage, find};
use super::transfer::{is_coming, process, size};
use super::wire::RemoteBuffer;
use crate::errno::{self, Errno, Result};
use crate::memory::{ibv_dereg_mr, ibv_reg_mr};

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
    let socket = of_stream(find(fd)?)?;
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
        let place = RemoteBuffer {
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

/// `riowrite`: writes to memory that the peer has mapped. Returns the number of bytes, or -1.
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
