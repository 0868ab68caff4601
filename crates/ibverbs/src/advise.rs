//! Prefetching registered memory.

use core::ffi::{c_int, c_uint};

use crate::abi;
use crate::errno::{self, Errno, Result};
use crate::open::OpenDevice;
use crate::region::populate;

/// `verbs_context.advise_mr`: prefetches pages; they are only needed when they are used.
pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut abi::Pd,
    advice: c_uint,
    _flags: u32,
    list: *mut abi::Sge,
    count: u32,
) -> c_int {
    const PREFETCH_WRITE: c_uint = 1;
    const PREFETCH_NO_FAULT: c_uint = 2;
    if advice > PREFETCH_NO_FAULT || (list.is_null() && count > 0) {
        return errno::number(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: the header's wrapper passes a domain, and what its caller says is such a list.
    let outcome = unsafe { OpenDevice::of((*pd).context) }.and_then(|device| {
        let list = (0..count as usize).map(|index| {
            // SAFETY: as above.
            unsafe { list.add(index).read() }
        });
        list.into_iter()
            .try_for_each(|sge| prefetch(device, sge, advice == PREFETCH_WRITE))
    });
    errno::number(outcome)
}

fn prefetch(device: &OpenDevice, sge: abi::Sge, write: bool) -> Result<()> {
    let region = device.regions.read().get(&sge.lkey).copied();
    match region {
        Some(region) => region
            .locate(sge.addr, sge.length)
            .map(|_| ())
            .ok_or(Errno(libc::EFAULT)),
        None => populate(sge.addr, sge.length.into(), write),
    }
}
