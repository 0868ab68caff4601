//! The two helpers that read sysfs for programs.

use core::ffi::{CStr, c_char, c_int};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::errno::{self, Result};

/// `ibv_get_sysfs_path`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

fn read(path: &Path, buffer: &mut [u8]) -> Result<usize> {
    let mut file = std::fs::File::open(path)?;
    Ok(file.read(buffer)?)
}

/// `ibv_read_sysfs_file`: reads the first line of a file, without its end; returns the number of bytes, or -1.
///
/// # Safety
/// The names are C strings, and `buffer` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let (folder, file) = unsafe { (CStr::from_ptr(folder), CStr::from_ptr(file)) };
    let path =
        Path::new(OsStr::from_bytes(folder.to_bytes())).join(OsStr::from_bytes(file.to_bytes()));
    if size == 0 {
        return errno::minus_one(Err(errno::Errno(libc::EINVAL)));
    }
    // SAFETY: as the caller promises; zeroed, so that all of it may be read.
    let buffer = unsafe {
        buffer.write_bytes(0, size);
        core::slice::from_raw_parts_mut(buffer.cast::<u8>(), size)
    };
    match read(&path, buffer) {
        Ok(length) => {
            let has_end = length > 0 && buffer[length - 1] == b'\n';
            let shown = if has_end {
                length - 1
            } else {
                length.min(size - 1)
            };
            buffer[shown] = 0;
            shown as c_int
        }
        Err(error) => errno::minus_one(Err(error)),
    }
}
