//! Memory windows.

use core::ffi::{c_int, c_uint};

use vrdma_provider::message::{AllocMw, DeallocMw};

use crate::abi;
use crate::errno::{self, Result};
use crate::memory::leak;
use crate::open::OpenDevice;
use crate::send;

/// `IBV_WR_BIND_MW`.
const BIND: c_uint = 8;

fn allocate(device: &OpenDevice, pd: *mut abi::Pd, kind: c_uint) -> Result<*mut abi::Mw> {
    // SAFETY: a domain of this device.
    let handle = unsafe { (*pd).handle };
    let reply = device.call(&AllocMw {
        pd: handle,
        mw_type: kind,
    })?;
    Ok(leak(abi::Mw {
        context: device.context(),
        pd,
        rkey: reply.rkey,
        handle: reply.mw,
        type_: kind,
    }))
}

/// `ops.alloc_mw`.
pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut abi::Pd, kind: c_uint) -> *mut abi::Mw {
    // SAFETY: the header's wrapper passes a domain, whose context is open.
    let device = unsafe { OpenDevice::of((*pd).context) };
    errno::pointer(device.and_then(|device| allocate(device, pd, kind)))
}

/// `ops.dealloc_mw`.
pub(crate) unsafe extern "C" fn dealloc_mw(window: *mut abi::Mw) -> c_int {
    // SAFETY: the header's wrapper passes a window, whose context is open.
    let (device, mw) = unsafe { (OpenDevice::of((*window).context), (*window).handle) };
    let outcome = device.and_then(|device| device.call(&DeallocMw { mw }).map(|_| ()));
    if outcome.is_ok() {
        // SAFETY: made by `leak`, and given up.
        drop(unsafe { Box::from_raw(window) });
    }
    errno::number(outcome)
}

/// `ops.bind_mw`: a window of type 1, by a send request that gives it the next key.
pub(crate) unsafe extern "C" fn bind_mw(
    qp: *mut abi::Qp,
    window: *mut abi::Mw,
    bind: *mut abi::MwBind,
) -> c_int {
    // SAFETY: the header's wrapper passes three valid pointers.
    let (bind, old) = unsafe { (&*bind, (*window).rkey) };
    let rkey = next_key(old);
    // SAFETY: all of it are numbers and pointers.
    let mut request: abi::SendWr = unsafe { core::mem::zeroed() };
    request.wr_id = bind.wr_id;
    request.opcode = BIND;
    request.send_flags = bind.send_flags;
    request.tail.bind_mw = abi::BindMw {
        mw: window,
        rkey,
        bind_info: bind.bind_info,
    };
    let mut bad = core::ptr::null_mut();
    // SAFETY: one request that ends here.
    let failed = unsafe { send::post_send(qp, &raw mut request, &raw mut bad) };
    if failed == 0 {
        // SAFETY: the window is the caller's.
        unsafe { (*window).rkey = rkey };
    }
    failed
}

/// `ibv_inc_rkey`: increments the low 8 bits.
fn next_key(rkey: u32) -> u32 {
    (rkey & !0xff) | (rkey.wrapping_add(1) & 0xff)
}
