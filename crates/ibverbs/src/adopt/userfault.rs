//! userfaultfd: a thread that touches a watched page waits until it is there again (ioctl_userfaultfd(2),
//! linux/userfaultfd.h).

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{c_int, c_ulong};

use super::kernel::Range;

const DEVICE: &CStr = c"/dev/userfaultfd";
/// Request that makes a userfaultfd from the device, since Linux 6.1.
const NEW: c_ulong = 0xaa00;
/// Flag: only accesses of programs wait; those of the kernel fail with `EFAULT`.
const USER_MODE_ONLY: c_int = 1;

const API: c_ulong = read_write::<Api>(0x3f);
const REGISTER: c_ulong = read_write::<Register>(0x00);
const UNREGISTER: c_ulong = read::<Stretch>(0x01);
const WAKE: c_ulong = read::<Stretch>(0x02);
const MOVE: c_ulong = read_write::<Move>(0x05);
const PROTECT: c_ulong = read_write::<Protect>(0x06);

/// Write-protection of files in memory, and `UFFDIO_MOVE` (Linux 6.8).
const FEATURES: u64 = 1 << 12 | 1 << 16;

/// A thread that unmaps watched memory waits until the event of it was read.
const UNMAP_EVENTS: u64 = 1 << 6;
const UNMAPPED: u8 = 0x16;

const fn code(direction: c_ulong, size: usize, number: c_ulong) -> c_ulong {
    direction << 30 | (size as c_ulong) << 16 | 0xaa << 8 | number
}

const fn read<T>(number: c_ulong) -> c_ulong {
    code(2, size_of::<T>(), number)
}

const fn read_write<T>(number: c_ulong) -> c_ulong {
    code(3, size_of::<T>(), number)
}

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Stretch {
    start: u64,
    size: u64,
}

impl From<Range> for Stretch {
    fn from(range: Range) -> Self {
        Self {
            start: range.start as u64,
            size: range.size() as u64,
        }
    }
}

#[repr(C)]
struct Register {
    range: Stretch,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Move {
    to: u64,
    from: u64,
    size: u64,
    mode: u64,
    moved: i64,
}

#[repr(C)]
struct Protect {
    range: Stretch,
    mode: u64,
}

/// `struct uffd_msg` of an event about a stretch of addresses.
#[repr(C)]
#[derive(Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    start: u64,
    end: u64,
    unused: u64,
}

/// The accesses that wait.
#[derive(Clone, Copy)]
pub(super) enum Watch {
    /// All accesses to pages that are not there.
    Missing = 1,
    /// Writes to pages that are protected.
    Writes = 2,
}

/// An open userfaultfd of this process.
pub(super) struct Userfault {
    fd: OwnedFd,
    is_full: bool,
}

impl Userfault {
    /// Opens the best userfaultfd that this process may have, if need be by the device that `lent` gives. Fails if this
    /// kernel has none that moves pages, or a filter of system calls forbids it.
    pub(super) fn open(lent: impl FnOnce() -> Option<OwnedFd>) -> io::Result<Self> {
        Self::with(FEATURES, lent)
    }

    /// Opens a userfaultfd that tells which of the memory that it watches is unmapped.
    pub(super) fn of_events(lent: impl FnOnce() -> Option<OwnedFd>) -> io::Result<Self> {
        Self::with(FEATURES | UNMAP_EVENTS, lent)
    }

    fn with(features: u64, lent: impl FnOnce() -> Option<OwnedFd>) -> io::Result<Self> {
        let own = device().and_then(|device| from_device(&device));
        let full = own.or_else(|_| by_call(0)).or_else(|error| match lent() {
            Some(device) => from_device(&device),
            None => Err(error),
        });
        let (fd, is_full) = match full {
            Ok(fd) => (fd, true),
            Err(_) => (by_call(USER_MODE_ONLY)?, false),
        };
        let userfault = Self { fd, is_full };
        let mut api = Api {
            api: 0xaa,
            features,
            ioctls: 0,
        };
        userfault.ask(API, &mut api)?;
        Ok(userfault)
    }

    /// Whether the kernel's own accesses wait, too.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Waits for an event, calls `is_coming`, and reads the event, upon which the unmapping thread goes on. Returns the
    /// range that was unmapped, if that is what the event tells.
    pub(super) fn next_unmapped(&self, is_coming: impl FnOnce()) -> io::Result<Option<Range>> {
        let fd = self.fd.as_raw_fd();
        let mut wanted = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure.
        succeeded(unsafe { libc::poll(&raw mut wanted, 1, -1) })?;
        is_coming();
        let mut message = Message::default();
        let size = size_of::<Message>();
        // SAFETY: room for one message, which is any bytes.
        let read = unsafe { libc::read(fd, (&raw mut message).cast(), size) };
        if read < 0 {
            return Err(io::Error::last_os_error());
        }
        let is_whole = read as usize == size && message.event == UNMAPPED;
        Ok(is_whole.then_some(Range {
            start: message.start as usize,
            end: message.end as usize,
        }))
    }

    pub(super) fn descriptor(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    /// Closes it in a child, which must not use it.
    pub(super) fn close(&self) {
        // SAFETY: it is of the parent, where it stays open; nothing uses it in a child.
        unsafe { libc::close(self.fd.as_raw_fd()) };
    }

    /// Watches a range: from here on accesses wait. Fails where the program watches its memory itself.
    pub(super) fn watch(&self, range: Range, what: Watch) -> io::Result<()> {
        let mut register = Register {
            range: range.into(),
            mode: what as u64,
            ioctls: 0,
        };
        self.ask(REGISTER, &mut register)
    }

    /// Ends the watch of a range, and wakes all that wait there.
    pub(super) fn unwatch(&self, range: Range) {
        // The range was watched by this userfaultfd, or there is nothing to end.
        let _ = self.ask(UNREGISTER, &mut Stretch::from(range));
    }

    /// Wakes all that wait in a range, whatever is mapped there by now.
    pub(super) fn wake(&self, range: Range) {
        let woken = self.ask(WAKE, &mut Stretch::from(range));
        debug_assert!(woken.is_ok(), "a range of addresses");
    }

    /// Makes writes wait in a range that is watched for them.
    pub(super) fn protect(&self, range: Range) -> io::Result<()> {
        let mut protect = Protect {
            range: range.into(),
            mode: 1,
        };
        self.ask(PROTECT, &mut protect)
    }

    /// Moves the pages of `from` to `to`, all or none; pages that are not there are left out. `EBUSY`: a page is
    /// pinned, or shared with a child.
    pub(super) fn take(&self, to: usize, from: Range) -> io::Result<()> {
        let size = from.size();
        let mut done = 0;
        while done < size {
            let rest = Range::of(from.start + done, size - done);
            match self.move_some(to + done, rest) {
                Ok(moved) => done += moved,
                Err(error) => {
                    if done > 0 {
                        // Pages that were moved can go back: only this thread knows the place.
                        let back = self.take(from.start, Range::of(to, done));
                        back.expect("pages that were moved can be moved");
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn move_some(&self, to: usize, from: Range) -> io::Result<usize> {
        const HOLES_ARE_FINE: u64 = 2;
        let mut request = Move {
            to: to as u64,
            from: from.start as u64,
            size: from.size() as u64,
            mode: HOLES_ARE_FINE,
            moved: 0,
        };
        let outcome = self.ask(MOVE, &mut request);
        match (usize::try_from(request.moved), outcome) {
            (Ok(moved), _) if moved > 0 => Ok(moved),
            (_, Err(error)) if error.raw_os_error() != Some(libc::EAGAIN) => Err(error),
            _ => Ok(0),
        }
    }

    fn ask<T>(&self, request: c_ulong, with: &mut T) -> io::Result<()> {
        // SAFETY: each request reads and writes one structure of the type that its code has the size of.
        let failed = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, with) };
        succeeded(failed).map(drop)
    }
}

fn succeeded(returned: c_int) -> io::Result<c_int> {
    if returned < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(returned)
}

fn device() -> io::Result<OwnedFd> {
    // SAFETY: a C string.
    let device = succeeded(unsafe { libc::open(DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })?;
    // SAFETY: just opened, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(device) })
}

/// Makes a userfaultfd of this process's memory, whichever process has opened the device.
fn from_device(device: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: takes a number.
    let made = succeeded(unsafe { libc::ioctl(device.as_raw_fd(), NEW, flags) })?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// Whether the process may be ended for a system call that it was not expected to make (seccomp(2), proc(5)).
pub(super) fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line == "Seccomp:\t2")
}

fn by_call(flags: c_int) -> io::Result<OwnedFd> {
    if is_filtered() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let flags = flags | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: takes a number.
    let made = succeeded(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) } as c_int)?;
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}
