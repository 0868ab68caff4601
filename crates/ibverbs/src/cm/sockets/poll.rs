//! Waiting: `rpoll`, and the waits of blocking calls.

use core::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::table::{Socket, Stage, State, find};
use crate::errno::{Errno, Result};

/// Checks of a socket before the thread sleeps: a peer on this host answers soon.
const LOOKS: u32 = 16;

/// Returns what a socket can do now, as events of `poll`.
fn ready(state: &mut State, wanted: i16) -> i16 {
    state.advance();
    let both = wanted & (libc::POLLIN | libc::POLLOUT);
    let called = matches!(state.stage, Stage::Listening) && state.has_event();
    match &mut state.stage {
        Stage::New | Stage::Waiting(_) => 0,
        Stage::Listening if called => libc::POLLIN & wanted,
        Stage::Listening => 0,
        Stage::Failed(_) => libc::POLLERR | libc::POLLHUP | both,
        Stage::Datagram(datagrams) => {
            datagrams.process();
            let mut found = 0;
            if datagrams.has_data() {
                found |= libc::POLLIN;
            }
            if datagrams.can_send() {
                found |= libc::POLLOUT;
            }
            let wrong = if datagrams.has_error() {
                libc::POLLERR
            } else {
                0
            };
            found & wanted | wrong
        }
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

/// Arms the completions; returns the descriptors that become readable when a socket may have changed.
fn descriptors(state: &mut State) -> Vec<c_int> {
    // SAFETY: the socket's own channels.
    unsafe {
        let mut fds = vec![(*state.channel).fd];
        match &state.stage {
            Stage::Connected(stream) => {
                stream.completions.arm();
                fds.push(stream.completions.fd());
            }
            Stage::Datagram(datagrams) => fds.extend(datagrams.arm()),
            _ => {}
        }
        fds
    }
}

/// Takes the notification of a descriptor that became readable.
fn woken(state: &mut State, fd: c_int) {
    match &mut state.stage {
        Stage::Connected(stream) if stream.completions.fd() == fd => stream.completions.notified(),
        Stage::Datagram(datagrams) => datagrams.woken(fd),
        _ => {}
    }
}

/// How long a call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    None,
    Until(Instant),
    Endless,
}

impl Patience {
    /// Returns the milliseconds for `poll`.
    fn millis(self) -> c_int {
        match self {
            Self::None => 0,
            Self::Until(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                // Rounded up, so that the deadline has passed when the milliseconds have.
                c_int::try_from(left.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
            }
            Self::Endless => -1,
        }
    }
}

/// Waits until `done` gives a result. Without `may_wait`: `EAGAIN` unless it does at once.
pub(super) fn wait<R>(
    socket: &Socket,
    may_wait: bool,
    done: impl FnMut(&mut State) -> Result<Option<R>>,
) -> Result<R> {
    let patience = if may_wait {
        Patience::Endless
    } else {
        Patience::None
    };
    wait_for(socket, patience, done)
}

/// Waits until `done` gives a result; `EAGAIN` if it does not in time.
pub(super) fn wait_for<R>(
    socket: &Socket,
    patience: Patience,
    mut done: impl FnMut(&mut State) -> Result<Option<R>>,
) -> Result<R> {
    loop {
        for look in 0..LOOKS {
            let mut state = socket.state.lock();
            state.advance();
            if let Some(result) = done(&mut state)? {
                return Ok(result);
            }
            if patience.millis() == 0 {
                return Err(Errno(libc::EAGAIN));
            }
            drop(state);
            if look > 0 {
                std::thread::yield_now();
            }
        }
        let mut state = socket.state.lock();
        let fds = descriptors(&mut state);
        // Something may have come between the last look and the arming.
        if let Some(result) = done(&mut state)? {
            return Ok(result);
        }
        drop(state);
        sleep(socket, &fds, patience)?;
    }
}

fn sleep(socket: &Socket, fds: &[c_int], patience: Patience) -> Result<()> {
    let mut entries: Vec<libc::pollfd> = fds.iter().map(|fd| entry(*fd, libc::POLLIN)).collect();
    // SAFETY: as many entries as said, which are ours.
    if unsafe {
        libc::poll(
            entries.as_mut_ptr(),
            entries.len() as u64,
            patience.millis(),
        )
    } < 0
    {
        return Err(Errno::last());
    }
    let mut state = socket.state.lock();
    for entry in entries.iter().filter(|entry| entry.revents != 0) {
        woken(&mut state, entry.fd);
    }
    Ok(())
}

pub(super) const fn entry(fd: c_int, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// An entry of a program, and its socket if it names one.
type Asked<'a> = (&'a mut libc::pollfd, Option<Arc<Socket>>);

/// Returns how many entries are ready, without waiting.
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

pub(super) fn poll(fds: &mut [libc::pollfd], timeout: c_int) -> Result<c_int> {
    let patience = match u64::try_from(timeout) {
        Ok(limit) => Patience::Until(Instant::now() + Duration::from_millis(limit)),
        Err(_) => Patience::Endless,
    };
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
        if !doze(&mut asked, patience)? {
            return Ok(look(&mut asked));
        }
    }
}

/// Sleeps until something may have changed; `false` at the deadline.
fn doze(asked: &mut [Asked<'_>], patience: Patience) -> Result<bool> {
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
    // SAFETY: as many entries as said, which are ours.
    let count = unsafe {
        libc::poll(
            entries.as_mut_ptr(),
            entries.len() as u64,
            patience.millis(),
        )
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_waited_out() {
        let start = Instant::now();
        assert_eq!(poll(&mut [], 1), Ok(0));
        assert!(start.elapsed() >= Duration::from_millis(1));
        let over = Patience::Until(start);
        assert_eq!([over.millis(), Patience::Endless.millis()], [0, -1]);
    }
}
