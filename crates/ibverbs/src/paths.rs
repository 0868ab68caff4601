//! Files that programs look for beside the verbs: the device's node and a few facts in sysfs.
//!
//! UCX wants `/dev/infiniband/uverbsN` to be a character device before it opens a device, and reads
//! `gid_attrs/types`, without which it takes every GID for RoCE v1. Where this library is preloaded it
//! stands before libc for the calls that look at files by name; everything but these few paths goes on
//! to the next `open`, `stat` or `access`.
//!
//! ```text
//!   /dev/infiniband/uverbsN                                  -> /dev/null
//!   /sys/class/infiniband/vrdmaN/ports/1/gid_attrs/types/I   -> "RoCE v2"
//! ```

mod place;

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use place::{Place, place};

/// # Safety
/// `path` is null or a C string.
unsafe fn place_of(path: *const c_char) -> Option<Place> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as promised.
    place(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// A descriptor from which the text can be read, or -1.
fn text_file(text: &str, close_on_exec: bool) -> c_int {
    let flags = if close_on_exec { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: a name, and a text of its length; the descriptor is only used here until it is returned.
    unsafe {
        let fd = libc::memfd_create(c"vrdma-fact".as_ptr(), flags);
        if fd >= 0 {
            libc::write(fd, text.as_ptr().cast(), text.len());
            libc::lseek(fd, 0, libc::SEEK_SET);
        }
        fd
    }
}

/// A function behind ours, looked up once.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Null if there is none behind ours: this library is not preloaded, or libc has no such name.
    fn get(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: a C string; the answer is an address or null.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

type Open = unsafe extern "C" fn(*const c_char, c_int, c_uint) -> c_int;
type Access = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
type Stat = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;
type VersionedStat = unsafe extern "C" fn(c_int, *const c_char, *mut c_void) -> c_int;
type StatAt = unsafe extern "C" fn(c_int, *const c_char, *mut c_void, c_int) -> c_int;

/// # Safety
/// The arguments of `open`.
unsafe fn open(next: &Next, path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: as promised.
    let path = match unsafe { place_of(path) } {
        Some(Place::Text(text)) => return text_file(text, flags & libc::O_CLOEXEC != 0),
        Some(Place::Null) => c"/dev/null".as_ptr(),
        None => path,
    };
    let function = next.get();
    if function.is_null() {
        // SAFETY: as promised.
        return (unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) })
            as c_int;
    }
    // SAFETY: `open` takes its third argument where a function without varying arguments does, on all
    // targets of this library; the rest as promised.
    unsafe { core::mem::transmute::<*mut c_void, Open>(function)(path, flags, mode) }
}

/// # Safety
/// The arguments of `open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrdma_path_open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    static NEXT: Next = Next::new(c"open");
    // SAFETY: as the caller promises.
    unsafe { open(&NEXT, path, flags, mode) }
}

/// # Safety
/// The arguments of `open`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrdma_path_open64(
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
) -> c_int {
    static NEXT: Next = Next::new(c"open64");
    // SAFETY: as the caller promises.
    unsafe { open(&NEXT, path, flags, mode) }
}

/// # Safety
/// The arguments of `access`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrdma_path_access(path: *const c_char, mode: c_int) -> c_int {
    static NEXT: Next = Next::new(c"access");
    // SAFETY: as the caller promises.
    match unsafe { place_of(path) } {
        Some(Place::Null) if mode & libc::X_OK == 0 => return 0,
        Some(Place::Text(_)) if mode & (libc::X_OK | libc::W_OK) == 0 => return 0,
        _ => {}
    }
    let function = NEXT.get();
    if function.is_null() {
        // SAFETY: as the caller promises.
        return (unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, mode) })
            as c_int;
    }
    // SAFETY: the function of this name has this type; the rest as the caller promises.
    unsafe { core::mem::transmute::<*mut c_void, Access>(function)(path, mode) }
}

/// What a status call shall look at instead: another path, or a descriptor.
enum Instead {
    Path(*const c_char),
    Descriptor(c_int),
}

/// # Safety
/// `path` is null or a C string.
unsafe fn instead(path: *const c_char) -> Instead {
    // SAFETY: as promised.
    match unsafe { place_of(path) } {
        Some(Place::Null) => Instead::Path(c"/dev/null".as_ptr()),
        Some(Place::Text(text)) => Instead::Descriptor(text_file(text, true)),
        None => Instead::Path(path),
    }
}

/// Status of a descriptor, which is closed.
///
/// # Safety
/// `to` has room for a `struct stat`.
unsafe fn status_of(fd: c_int, to: *mut c_void) -> c_int {
    // SAFETY: as promised; the descriptor is ours.
    unsafe {
        let outcome = libc::syscall(
            libc::SYS_newfstatat,
            fd,
            c"".as_ptr(),
            to,
            libc::AT_EMPTY_PATH,
        );
        libc::close(fd);
        outcome as c_int
    }
}

/// # Safety
/// The arguments of `fstatat`.
unsafe fn kernel_status(
    folder: c_int,
    path: *const c_char,
    to: *mut c_void,
    flags: c_int,
) -> c_int {
    // SAFETY: as promised; 64-bit kernels write what libc calls `struct stat`.
    (unsafe { libc::syscall(libc::SYS_newfstatat, folder, path, to, flags) }) as c_int
}

/// `stat` and `stat64`.
macro_rules! status {
    ($($name:ident = $libc:literal;)*) => {
        $(
            /// # Safety
            /// The arguments of `stat`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(path: *const c_char, to: *mut c_void) -> c_int {
                static NEXT: Next = Next::new($libc);
                // SAFETY: as the caller promises; the function of this name has this type.
                unsafe {
                    match (instead(path), NEXT.get()) {
                        (Instead::Descriptor(fd), _) => status_of(fd, to),
                        (Instead::Path(path), next) if next.is_null() => {
                            kernel_status(libc::AT_FDCWD, path, to, 0)
                        }
                        (Instead::Path(path), next) => {
                            core::mem::transmute::<*mut c_void, Stat>(next)(path, to)
                        }
                    }
                }
            }
        )*
    };
}

status! {
    vrdma_path_stat = c"stat";
    vrdma_path_stat64 = c"stat64";
}

/// `__xstat` and `__xstat64`, which programs built before glibc 2.33 call.
macro_rules! versioned_status {
    ($($name:ident = $libc:literal;)*) => {
        $(
            /// # Safety
            /// The arguments of `__xstat`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(version: c_int, path: *const c_char, to: *mut c_void) -> c_int {
                static NEXT: Next = Next::new($libc);
                // SAFETY: as the caller promises; the function of this name has this type.
                unsafe {
                    match (instead(path), NEXT.get()) {
                        (Instead::Descriptor(fd), _) => status_of(fd, to),
                        (Instead::Path(path), next) if next.is_null() => {
                            kernel_status(libc::AT_FDCWD, path, to, 0)
                        }
                        (Instead::Path(path), next) => {
                            core::mem::transmute::<*mut c_void, VersionedStat>(next)(version, path, to)
                        }
                    }
                }
            }
        )*
    };
}

versioned_status! {
    vrdma_path_xstat = c"__xstat";
    vrdma_path_xstat64 = c"__xstat64";
}

/// # Safety
/// The arguments of `fstatat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrdma_path_fstatat(
    folder: c_int,
    path: *const c_char,
    to: *mut c_void,
    flags: c_int,
) -> c_int {
    static NEXT: Next = Next::new(c"fstatat");
    // SAFETY: as the caller promises; the function of this name has this type.
    unsafe {
        match (instead(path), NEXT.get()) {
            (Instead::Descriptor(fd), _) => status_of(fd, to),
            (Instead::Path(path), next) if next.is_null() => kernel_status(folder, path, to, flags),
            (Instead::Path(path), next) => {
                core::mem::transmute::<*mut c_void, StatAt>(next)(folder, path, to, flags)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_read_and_looked_at_as_a_file() {
        let path = c"/sys/class/infiniband/vrdma0/ports/1/gid_attrs/types/1".as_ptr();
        // SAFETY: a C string, a buffer of the length that is passed, and a status structure.
        unsafe {
            let fd = vrdma_path_open(path, libc::O_RDONLY, 0);
            let mut text = [0u8; 16];
            assert_eq!(libc::read(fd, text.as_mut_ptr().cast(), text.len()), 8);
            libc::close(fd);
            assert_eq!(&text[..8], b"RoCE v2\n");
            let mut status: libc::stat = core::mem::zeroed();
            assert_eq!(vrdma_path_stat(path, (&raw mut status).cast()), 0);
            assert_eq!(status.st_size, 8);
            assert_eq!(vrdma_path_access(path, libc::R_OK), 0);
        }
    }

    #[test]
    fn the_node_is_a_character_device_and_other_files_stay_themselves() {
        // SAFETY: C strings and a status structure.
        unsafe {
            let mut status: libc::stat = core::mem::zeroed();
            let to = (&raw mut status).cast();
            assert_eq!(vrdma_path_stat(c"/dev/infiniband/uverbs0".as_ptr(), to), 0);
            assert_eq!(status.st_mode & libc::S_IFMT, libc::S_IFCHR);
            let to = (&raw mut status).cast();
            assert_eq!(vrdma_path_fstatat(libc::AT_FDCWD, c"/".as_ptr(), to, 0), 0);
            assert_eq!(status.st_mode & libc::S_IFMT, libc::S_IFDIR);
            assert_eq!(vrdma_path_access(c"/nonexistent".as_ptr(), 0), -1);
        }
    }
}
