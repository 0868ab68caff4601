//! Options of identifiers, and functions for other kinds of networks.

use core::ffi::{c_int, c_void};

use vrdma_provider::cm::{SetOption, option};

use super::abi;
use super::identifier::Identifier;
use super::session;
use crate::abi::Ece;
use crate::errno::{self, Errno, Result};

/// `RDMA_OPTION_ID`.
const OF_ID: c_int = 0;
/// `RDMA_OPTION_IB`.
const OF_IB: c_int = 1;
/// `RDMA_OPTION_IB_PATH`.
const PATH: c_int = 1;

/// `rdma_set_option`.
///
/// # Safety
/// `id` came from this library, and `value` points to that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_set_option(
    id: *mut abi::Id,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, value) = unsafe { (Identifier::of(id), number(value, length)) };
    errno::minus_one(found.and_then(|identifier| {
        match (level, name) {
            // The path of a RoCE port is known; a path from a subnet manager adds nothing.
            (OF_IB, PATH) => Ok(()),
            (OF_ID, 0..=3) => session::call(&SetOption {
                id: identifier.number,
                option: name as u32,
                value: value?,
            })
            .map(|_| ()),
            _ => Err(Errno(libc::ENOSYS)),
        }
    }))
}

/// # Safety
/// `value` points to `length` bytes.
unsafe fn number(value: *const c_void, length: usize) -> Result<u32> {
    // SAFETY: as promised; it need not be aligned.
    unsafe {
        match length {
            1 => Ok(value.cast::<u8>().read().into()),
            4 => Ok(value.cast::<u32>().read_unaligned()),
            _ => Err(Errno(libc::EINVAL)),
        }
    }
}

const _: () = assert!(option::TYPE_OF_SERVICE == 0 && option::ACK_TIMEOUT == 3);

/// `rdma_set_local_ece`: there are no extras to agree on.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_set_local_ece(_id: *mut abi::Id, _ece: *mut Ece) -> c_int {
    errno::minus_one(Err(Errno(libc::EOPNOTSUPP)))
}

/// `rdma_get_remote_ece`.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_get_remote_ece(_id: *mut abi::Id, _ece: *mut Ece) -> c_int {
    errno::minus_one(Err(Errno(libc::EOPNOTSUPP)))
}
