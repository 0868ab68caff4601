//! Waiting: `rpoll`, `rselect`, and what blocking calls do.

use core::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::table::{Socket, Stage, State, find};
use crate::errno::{Errno, Result};

/// Looks at a socket before the thread sleeps: a peer on this host answers soon.
const LOOKS: u32 = 16;

/// What a socket can do now, as `poll` says it.
fn ready(state: &mut State, wanted: i16) -> i16 {
    state.advance();
    let both = wanted & (libc::POLLIN | libc::POLLOUT);
    let called = matches!(state.stage, Stage::Listening) && state.has_event();
    match &mut state.stage {
        Stage::New | Stage::Waiting(_) => 0,
        Stage::Listening if called => libc::POLLIN & wanted,
        Stage::Listening => 0,
        Stage::Failed(_) => libc::POLLERR | libc::POLLHUP | both,
        Stage::Connected(stream) => {
            if stream.process().is_err() {
                stream.hang_up();
            }
            let mut found = 0;
            if stream.has_data() || !stream.readable {
                found |= libc::POLLIN;
            }
            if stream.can_send() || !stream.writable {
                found |= libc::POLLOUT;
            }
            let gone = if stream.connected { 0 } else { libc::POLLHUP };
            found & wanted | gone
        }
    }
}

/// Descriptors that become readable when a socket may have changed; its completions are armed.
fn descriptors(state: &mut State) -> Vec<c_int> {
    // SAFETY: the socket's own channels.
    unsafe {
        let mut fds = vec![(*state.channel).fd];
        if let Stage::Connected(stream) = &mut state.stage {
            stream.arm();
            fds.push((*stream.completions.channel).fd);
        }
        fds
    }
}

/// Takes the notification of a descriptor that became readable.
fn woken(state: &mut State, fd: c_int) {
    if let Stage::Connected(stream) = &mut state.stage {
        // SAFETY: the stream's own channel.
        if unsafe { (*stream.completions.channel).fd } == fd {
            stream.notified();
        }
    }
}

/// Waits until `done` gives something. With `may_wait` not set: `EAGAIN` unless it does at once.
pub(super) fn wait<R>(
    socket: &Socket,
    may_wait: bool,
    mut done: impl FnMut(&mut State) -> Result<Option<R>>,
) -> Result<R> {
    loop {
        for look in 0..LOOKS {
            let mut state = socket.state.lock();
            state.advance();
            if let Some(result) = done(&mut state)? {
                return Ok(result);
            }
            if !may_wait {
                return Err(Errno(libc::EAGAIN));
            }
            drop(state);
            if look > 0 {
                std::thread::yield_now();
            }
        }
        let mut state = socket.state.lock();
        let fds = descriptors(&mut state);
        // Between the last look and the arming something may have come.
        if let Some(result) = done(&mut state)? {
            return Ok(result);
        }
        drop(state);
        sleep(socket, &fds)?;
    }
}

fn sleep(socket: &Socket, fds: &[c_int]) -> Result<()> {
    let mut entries: Vec<libc::pollfd> = fds.iter().map(|fd| entry(*fd, libc::POLLIN)).collect();
    // SAFETY: as many entries as said, which are ours.
    if unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, -1) } < 0 {
        return Err(Errno::last());
    }
    let mut state = socket.state.lock();
    for entry in entries.iter().filter(|entry| entry.revents != 0) {
        woken(&mut state, entry.fd);
    }
    Ok(())
}

const fn entry(fd: c_int, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// An entry of a program, and its socket if it is one.
type Asked<'a> = (&'a mut libc::pollfd, Option<Arc<Socket>>);

/// How many entries are ready, without waiting.
fn look(asked: &mut [Asked<'_>]) -> c_int {
    let mut count = 0;
    for (asked, socket) in asked {
        asked.revents = match socket {
            Some(socket) => ready(&mut socket.state.lock(), asked.events),
            None => {
                let mut one = entry(asked.fd, asked.events);
                // SAFETY: one entry, which is ours.
                unsafe { libc::poll(&raw mut one, 1, 0) };
                one.revents
            }
        };
        count += c_int::from(asked.revents != 0);
    }
    count
}

fn poll(fds: &mut [libc::pollfd], timeout: c_int) -> Result<c_int> {
    let deadline = u64::try_from(timeout)
        .ok()
        .map(|limit| Instant::now() + Duration::from_millis(limit));
    let mut asked: Vec<Asked<'_>> = fds
        .iter_mut()
        .map(|fd| {
            let socket = find(fd.fd).ok();
            (fd, socket)
        })
        .collect();
    loop {
        for turn in 0..LOOKS {
            let count = look(&mut asked);
            if count > 0 || timeout == 0 {
                return Ok(count);
            }
            if turn > 0 {
                std::thread::yield_now();
            }
        }
        if !doze(&mut asked, deadline)? {
            return Ok(look(&mut asked));
        }
    }
}

/// Sleeps until something may have changed; `false` at the deadline.
fn doze(asked: &mut [Asked<'_>], deadline: Option<Instant>) -> Result<bool> {
    let mut entries = Vec::new();
    let mut owners: Vec<Option<Arc<Socket>>> = Vec::new();
    for (asked, socket) in asked.iter() {
        let Some(socket) = socket else {
            entries.push(entry(asked.fd, asked.events));
            owners.push(None);
            continue;
        };
        for fd in descriptors(&mut socket.state.lock()) {
            entries.push(entry(fd, libc::POLLIN));
            owners.push(Some(Arc::clone(socket)));
        }
    }
    if look(asked) > 0 {
        return Ok(true);
    }
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let left = left.map_or(-1, |left| left.as_millis().min(i32::MAX as u128) as c_int);
    // SAFETY: as many entries as said, which are ours.
    let count = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, left) };
    if count < 0 {
        return Err(Errno::last());
    }
    for (entry, owner) in entries.iter().zip(&owners) {
        if let (Some(owner), true) = (owner, entry.revents != 0) {
            woken(&mut owner.state.lock(), entry.fd);
        }
    }
    Ok(count > 0)
}

/// `rpoll`.
///
/// # Safety
/// `fds` points to that many entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpoll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: c_int,
) -> c_int {
    let fds = match count {
        0 => &mut [][..],
        // SAFETY: as the caller promises.
        _ => unsafe { std::slice::from_raw_parts_mut(fds, count as usize) },
    };
    poll(fds, timeout).unwrap_or_else(|Errno(value)| {
        crate::errno::set(value);
        -1
    })
}

/// Which events of `poll` stand for the three sets of `select`.
const SETS: [(i16, i16); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// # Safety
/// The sets are null or sets.
unsafe fn select(count: c_int, sets: [*mut libc::fd_set; 3], timeout: c_int) -> Result<c_int> {
    let mut entries = Vec::new();
    for fd in 0..count {
        let mut wanted = 0;
        for (set, (asked, _)) in sets.iter().zip(SETS) {
            // SAFETY: as promised.
            if !set.is_null() && unsafe { libc::FD_ISSET(fd, *set) } {
                wanted |= asked;
            }
        }
        if wanted != 0 {
            entries.push(entry(fd, wanted));
        }
    }
    poll(&mut entries, timeout)?;
    let mut bits = 0;
    for (set, (asked, found)) in sets.iter().zip(SETS) {
        if set.is_null() {
            continue;
        }
        // SAFETY: as promised.
        unsafe { libc::FD_ZERO(*set) };
        for entry in &entries {
            if entry.events & asked != 0 && entry.revents & found != 0 {
                // SAFETY: as promised.
                unsafe { libc::FD_SET(entry.fd, *set) };
                bits += 1;
            }
        }
    }
    Ok(bits)
}

/// `rselect`.
///
/// # Safety
/// The sets and the timeout are null or what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rselect(
    count: c_int,
    reads: *mut libc::fd_set,
    writes: *mut libc::fd_set,
    exceptions: *mut libc::fd_set,
    timeout: *mut libc::timeval,
) -> c_int {
    // SAFETY: as the caller promises.
    let limit = unsafe { timeout.as_ref() }.map_or(-1, |limit| {
        let millis = limit.tv_sec.saturating_mul(1000) + limit.tv_usec / 1000;
        millis.clamp(0, i64::from(i32::MAX)) as c_int
    });
    // SAFETY: as the caller promises.
    let found = unsafe { select(count, [reads, writes, exceptions], limit) };
    found.unwrap_or_else(|Errno(value)| {
        crate::errno::set(value);
        -1
    })
}
