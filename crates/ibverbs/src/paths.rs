//! Paths that are built into programs: the device's node and its folder in sysfs.
//!
//! UCX wants `/dev/infiniband/uverbsN` to be a character device before it opens a device, and others read files below
//! `/sys/class/infiniband` without asking for `ibdev_path`. Where this library is preloaded, it stands before libc for
//! the calls that look at files by name, and passes on all but these few paths unchanged.
//!
//! ```text
//!   /dev/infiniband/uverbsN             -> /dev/null
//!   /sys/class/infiniband/vrdmaN[/...]  -> the device's folder (crate::facts)
//! ```

mod place;

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::device;
use place::{DevicePath, place};

/// A path to look at, in place of another.
enum Path {
    /// The path as it came.
    Same(*const c_char),
    /// Another path.
    Other(CString),
}

impl Path {
    /// # Safety
    /// `path` is null or a C string, and outlives this.
    unsafe fn of(path: *const c_char) -> Self {
        if path.is_null() {
            return Self::Same(path);
        }
        // SAFETY: as promised.
        let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
        let other = place(bytes).and_then(|place| match place {
            DevicePath::Node => Some(c"/dev/null".to_owned()),
            DevicePath::Fact { index, rest } => {
                let folder = device::folder(index)?;
                CString::new([folder.as_os_str().as_bytes(), rest].concat()).ok()
            }
        });
        other.map_or(Self::Same(path), Self::Other)
    }

    fn pointer(&self) -> *const c_char {
        match self {
            Self::Same(path) => *path,
            Self::Other(path) => path.as_ptr(),
        }
    }
}

/// A function of libc behind ours, looked up once.
pub(crate) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Returns null if libc has no such name, or is searched before this library: a library that is loaded at run time
    /// intercepts nothing.
    pub(crate) fn get(&self) -> *mut c_void {
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

/// The answer of a call that libc does not have.
trait Missing {
    const VALUE: Self;
}

impl Missing for c_int {
    const VALUE: Self = -1;
}

impl Missing for isize {
    const VALUE: Self = -1;
}

impl<T> Missing for *mut T {
    const VALUE: Self = core::ptr::null_mut();
}

/// Defines functions of libc with a path among their arguments: those before it, and those behind it.
macro_rules! calls {
    ($($name:ident = $libc:literal ($($before:ident: $kind:ty)?) path ($($after:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(
            /// # Safety
            /// The arguments of the function of libc.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($before: $kind,)? path: *const c_char, $($after: $type),*) -> $answer {
                type Call = unsafe extern "C" fn($($kind,)? *const c_char, $($type),*) -> $answer;
                static NEXT: Next = Next::new($libc);
                let next = NEXT.get();
                if next.is_null() {
                    crate::errno::set(libc::ENOSYS);
                    return <$answer as Missing>::VALUE;
                }
                // SAFETY: as the caller promises; the function of this name has this type. `open` takes its last
                // argument where a function without varying arguments does, on all targets of this library.
                unsafe {
                    let path = Path::of(path);
                    core::mem::transmute::<*mut c_void, Call>(next)($($before,)? path.pointer(), $($after),*)
                }
            }
        )*
    };
}

calls! {
    vrdma_path_open = c"open" () path (flags: c_int, mode: c_uint) -> c_int;
    vrdma_path_open64 = c"open64" () path (flags: c_int, mode: c_uint) -> c_int;
    vrdma_path_open_2 = c"__open_2" () path (flags: c_int) -> c_int;
    vrdma_path_open64_2 = c"__open64_2" () path (flags: c_int) -> c_int;
    vrdma_path_openat = c"openat" (folder: c_int) path (flags: c_int, mode: c_uint) -> c_int;
    vrdma_path_openat64 = c"openat64" (folder: c_int) path (flags: c_int, mode: c_uint) -> c_int;
    vrdma_path_fopen = c"fopen" () path (mode: *const c_char) -> *mut c_void;
    vrdma_path_fopen64 = c"fopen64" () path (mode: *const c_char) -> *mut c_void;
    vrdma_path_opendir = c"opendir" () path () -> *mut c_void;
    vrdma_path_scandir = c"scandir" () path (list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    vrdma_path_scandir64 = c"scandir64" () path (list: *mut c_void, filter: *mut c_void, order: *mut c_void) -> c_int;
    vrdma_path_realpath = c"realpath" () path (to: *mut c_char) -> *mut c_char;
    vrdma_path_realpath_chk = c"__realpath_chk" () path (to: *mut c_char, size: usize) -> *mut c_char;
    vrdma_path_readlink = c"readlink" () path (to: *mut c_char, size: usize) -> isize;
    vrdma_path_readlink_chk = c"__readlink_chk" () path (to: *mut c_char, size: usize, room: usize) -> isize;
    vrdma_path_access = c"access" () path (mode: c_int) -> c_int;
    vrdma_path_xstat = c"__xstat" (version: c_int) path (to: *mut c_void) -> c_int;
    vrdma_path_xstat64 = c"__xstat64" (version: c_int) path (to: *mut c_void) -> c_int;
    vrdma_path_lxstat = c"__lxstat" (version: c_int) path (to: *mut c_void) -> c_int;
    vrdma_path_lxstat64 = c"__lxstat64" (version: c_int) path (to: *mut c_void) -> c_int;
    vrdma_path_fstatat = c"fstatat" (folder: c_int) path (to: *mut c_void, flags: c_int) -> c_int;
    vrdma_path_statx = c"statx" (folder: c_int) path (flags: c_int, mask: c_uint, to: *mut c_void) -> c_int;
}

/// Defines `stat` and `lstat`, which glibc before 2.33 does not have, but this library's own code may call.
macro_rules! status_calls {
    ($($name:ident = $libc:literal, $flags:expr;)*) => {
        $(
            /// # Safety
            /// The arguments of `stat`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(path: *const c_char, to: *mut c_void) -> c_int {
                type Call = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;
                static NEXT: Next = Next::new($libc);
                // SAFETY: as the caller promises; the function of this name has this type, and 64-bit
                // kernels write what libc calls `struct stat`.
                unsafe {
                    let path = Path::of(path);
                    let next = NEXT.get();
                    if next.is_null() {
                        let (call, here) = (libc::SYS_newfstatat, libc::AT_FDCWD);
                        return libc::syscall(call, here, path.pointer(), to, $flags) as c_int;
                    }
                    core::mem::transmute::<*mut c_void, Call>(next)(path.pointer(), to)
                }
            }
        )*
    };
}

status_calls! {
    vrdma_path_stat = c"stat", 0;
    vrdma_path_stat64 = c"stat64", 0;
    vrdma_path_lstat = c"lstat", libc::AT_SYMLINK_NOFOLLOW;
    vrdma_path_lstat64 = c"lstat64", libc::AT_SYMLINK_NOFOLLOW;
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let root = vrdma_path_opendir(c"/".as_ptr());
            assert!(!root.is_null());
            libc::closedir(root.cast());
        }
    }

    #[test]
    fn a_device_that_nobody_has_has_no_folder() {
        let path = c"/sys/class/infiniband/vrdma999/ports".as_ptr();
        // SAFETY: a C string.
        assert_eq!(unsafe { vrdma_path_access(path, libc::F_OK) }, -1);
    }
}
