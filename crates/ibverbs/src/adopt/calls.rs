//! `madvise`, `munmap` and `mremap` of the program and its allocator, where this library is preloaded: adopted memory
//! is shared memory, on which libc's functions act differently.
//!
//! | call | on private memory | on adopted memory |
//! |---|---|---|
//! | `madvise` `DONTNEED`, `FREE` | given back, zeros from now on | the file's pages are given back, zeros |
//! | `madvise` `DOFORK` | | nothing: a child gets its copy |
//! | `munmap` | given back | the file's pages are given back first |
//! | `mremap` | moved, grows by zeros | made private before |
//!
//! Allocators make these calls with their own locks held, so the first two take no lock and allocate nothing. Calls
//! that libc makes inside itself are not seen here; what they leave behind is found later
//! ([`super::State::forget_gone`]).

use core::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::kernel::{self, Range};
use super::tools::Tools;
use super::{PAGE, tools_if_open};
use crate::errno;
use crate::paths::Next;

static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

/// Bounds of all adopted memory: most calls are about other memory, which two loads tell.
pub(super) struct Bounds;

impl Bounds {
    pub(super) fn widen(range: Range) {
        LOWEST.fetch_min(range.start, Ordering::Relaxed);
        HIGHEST.fetch_max(range.end, Ordering::Relaxed);
    }

    pub(super) fn clear() {
        HIGHEST.store(0, Ordering::Relaxed);
        LOWEST.store(usize::MAX, Ordering::Relaxed);
    }

    fn get() -> Range {
        Range {
            start: LOWEST.load(Ordering::Relaxed),
            end: HIGHEST.load(Ordering::Relaxed),
        }
    }
}

static MADVISE: Next = Next::new(c"madvise");
static MUNMAP: Next = Next::new(c"munmap");
static MREMAP: Next = Next::new(c"mremap");

/// Finds libc's functions. Called when the library is loaded, not when they are needed: the dynamic linker has a lock,
/// too.
pub(super) fn find_next() {
    for next in [&MADVISE, &MUNMAP, &MREMAP] {
        next.get();
    }
}

/// Whether programs find our functions before libc's. A library that was loaded at run time stands behind libc.
pub(super) fn are_in_front() -> bool {
    // SAFETY: a C string; the answer is an address or null.
    let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"madvise".as_ptr()) };
    let next = MADVISE.get();
    // A test program exports no names.
    cfg!(test) || (!next.is_null() && first != next)
}

/// Returns the pages of a call's range, and the tools, if some of the pages may be adopted. libc refuses misaligned
/// ranges.
fn concerned(at: *mut c_void, length: usize) -> Option<(&'static Tools, Range)> {
    let start = at as usize;
    let end = start.checked_add(length)?.checked_next_multiple_of(PAGE)?;
    let range = Range { start, end };
    let is_near = start.is_multiple_of(PAGE) && range.overlaps(Bounds::get());
    let tools = tools_if_open().filter(|_| is_near)?;
    tools.is_whole().then_some((tools, range))
}

/// Calls `each` for every part that is adopted as a whole, or not at all, up to the first hole.
fn parts(tools: &Tools, range: Range, mut each: impl FnMut(Range, bool)) {
    let mut rest = range;
    while !rest.is_empty()
        && let Ok((part, is_ours)) = tools.run(rest)
    {
        each(part, is_ours);
        rest.start = part.end;
    }
}

fn give_back(tools: &Tools, part: Range) {
    // It fails if the kernel has no memory for it; these pages then stay what they are.
    let _ = kernel::punch(tools.descriptor(), part);
}

/// Does something, and leaves `errno` as it was.
fn quietly(work: impl FnOnce()) {
    let before = errno::Errno::last();
    work();
    errno::set(before.0);
}

type Madvise = unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;
type Munmap = unsafe extern "C" fn(*mut c_void, usize) -> c_int;
type Mremap = unsafe extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void;

/// # Safety
/// As for libc's.
unsafe fn next_madvise(at: *mut c_void, length: usize, advice: c_int) -> c_int {
    let next = MADVISE.get();
    // SAFETY: as the caller promises; libc's function of that name, or the system call that it makes.
    unsafe {
        if next.is_null() {
            return libc::syscall(libc::SYS_madvise, at, length, advice) as c_int;
        }
        core::mem::transmute::<*mut c_void, Madvise>(next)(at, length, advice)
    }
}

/// `madvise`.
///
/// # Safety
/// The arguments of the function of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrdma_memory_madvise(
    at: *mut c_void,
    length: usize,
    advice: c_int,
) -> c_int {
    let discards = matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE);
    let is_ours_to_do = discards || advice == libc::MADV_DOFORK;
    let Some((tools, range)) = concerned(at, length).filter(|_| is_ours_to_do) else {
        // SAFETY: as the caller promises.
        return unsafe { next_madvise(at, length, advice) };
    };
    let (mut outcome, mut reached) = (0, range.start);
    parts(tools, range, |part, is_ours| {
        reached = part.end;
        if is_ours && discards {
            quietly(|| give_back(tools, part));
        } else if !is_ours {
            // SAFETY: a part of what the caller names.
            outcome |= unsafe { next_madvise(part.start as *mut c_void, part.size(), advice) };
        }
    });
    if reached < range.end {
        // SAFETY: as above: there is a hole, which libc reports.
        outcome |= unsafe { next_madvise(reached as *mut c_void, range.end - reached, advice) };
    }
    outcome
}

/// `munmap`.
///
/// # Safety
/// The arguments of the function of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrdma_memory_munmap(at: *mut c_void, length: usize) -> c_int {
    if let Some((tools, range)) = concerned(at, length) {
        // Before libc's call, not after it: by then somebody else's memory may be there, and be adopted.
        quietly(|| {
            parts(tools, range, |part, is_ours| {
                if is_ours {
                    give_back(tools, part);
                }
            });
        });
    }
    let next = MUNMAP.get();
    // SAFETY: as the caller promises; libc's function of that name, or the system call that it makes.
    unsafe {
        if next.is_null() {
            return libc::syscall(libc::SYS_munmap, at, length) as c_int;
        }
        core::mem::transmute::<*mut c_void, Munmap>(next)(at, length)
    }
}

/// `mremap`. Its last argument is only there with some flags; without them it is any value, as in libc.
///
/// # Safety
/// The arguments of the function of libc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrdma_memory_mremap(
    at: *mut c_void,
    length: usize,
    new_length: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    if let Some((tools, range)) = concerned(at, length)
        && !super::make_private(tools, range)
    {
        errno::set(libc::ENOMEM);
        return libc::MAP_FAILED;
    }
    let next = MREMAP.get();
    // SAFETY: as the caller promises; libc's function of that name, or the system call that it makes.
    unsafe {
        if next.is_null() {
            let moved = libc::syscall(libc::SYS_mremap, at, length, new_length, flags, to);
            return moved as *mut c_void;
        }
        core::mem::transmute::<*mut c_void, Mremap>(next)(at, length, new_length, flags, to)
    }
}
