//! Protection domains, parent domains and thread domains.

use core::ffi::c_int;

use vrdma_provider::message::{AllocPd, DeallocPd};

use crate::abi;
use crate::errno::{self, Errno, Result};
use crate::memory::leak;
use crate::open::OpenDevice;

/// A protection domain; a parent domain is another one of these, with the same handle.
#[repr(C)]
pub struct ProtectionDomain {
    abi: abi::Pd,
    is_parent: bool,
}

fn alloc_pd(device: &OpenDevice) -> Result<*mut abi::Pd> {
    let handle = device.call(&AllocPd {})?.pd;
    let abi = abi::Pd {
        context: device.context(),
        handle,
    };
    Ok(leak(ProtectionDomain {
        abi,
        is_parent: false,
    }))
}

/// `ibv_alloc_pd`.
///
/// # Safety
/// `context` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(context: *mut abi::Context) -> *mut abi::Pd {
    // SAFETY: as the caller promises.
    errno::pointer(unsafe { OpenDevice::of(context) }.and_then(alloc_pd))
}

/// `ibv_dealloc_pd`.
///
/// # Safety
/// `pd` came from this library and is given up on success.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut abi::Pd) -> c_int {
    let pd = pd.cast::<ProtectionDomain>();
    // SAFETY: as the caller promises.
    let (abi, is_parent) = unsafe { (&(*pd).abi, (*pd).is_parent) };
    // SAFETY: its context is open as long as it exists.
    let outcome = unsafe { OpenDevice::of(abi.context) }.and_then(|device| {
        if is_parent {
            Ok(())
        } else {
            device.call(&DeallocPd { pd: abi.handle }).map(|_| ())
        }
    });
    if outcome.is_ok() {
        // SAFETY: made by `leak`, and no longer anybody's.
        drop(unsafe { Box::from_raw(pd) });
    }
    errno::number(outcome)
}

/// `verbs_context.alloc_parent_domain`: the same domain under a second pointer. Allocators of the program are accepted
/// and never called, since the queues' memory comes from the daemon.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut abi::Context,
    attr: *mut abi::ParentDomainInitAttr,
) -> *mut abi::Pd {
    const KNOWN: u32 = 3;
    // SAFETY: the header's wrapper passes what its caller gave: valid attributes.
    let (pd, mask) = unsafe { ((*attr).pd, (*attr).comp_mask) };
    if pd.is_null() {
        return errno::pointer(Err(Errno(libc::EINVAL)));
    }
    // Programs take this error for "this attribute is not supported".
    if mask & !KNOWN != 0 {
        return errno::pointer(Err(Errno(libc::EOPNOTSUPP)));
    }
    // SAFETY: a domain of this library.
    let handle = unsafe { (*pd).handle };
    leak(ProtectionDomain {
        abi: abi::Pd { context, handle },
        is_parent: true,
    })
}

/// `verbs_context.alloc_td`: a hint that one thread uses the objects made with it; nothing depends on it.
pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut abi::Context,
    attr: *mut abi::TdInitAttr,
) -> *mut abi::Td {
    // SAFETY: the header's wrapper passes what its caller gave: null or valid attributes.
    if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
        return errno::pointer(Err(Errno(libc::EINVAL)));
    }
    leak(abi::Td { context })
}

/// `verbs_context.dealloc_td`.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut abi::Td) -> c_int {
    // SAFETY: made by `alloc_td`, and given up.
    drop(unsafe { Box::from_raw(td) });
    0
}
