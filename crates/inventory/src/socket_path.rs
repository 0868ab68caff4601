//! The limit on the path of a Unix socket.

use std::path::Path;

/// Longest path of a Unix socket: `sun_path` holds 108 bytes with the final zero (unix(7)).
pub const PATH_BYTES_MAX: usize = 107;

/// Refuses a path that the kernel would truncate or refuse.
pub fn check_length(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().len();
    if bytes <= PATH_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "the socket path {} has {bytes} bytes and Unix sockets allow {PATH_BYTES_MAX}; choose a shorter folder or name",
        path.display()
    ))
}
