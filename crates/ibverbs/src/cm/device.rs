//! Devices that identifiers are bound to: opened once, with a domain of their own, never closed.

use core::ffi::c_int;

use parking_lot::Mutex;

use crate::abi;
use crate::device::devices;
use crate::domain::ibv_alloc_pd;
use crate::errno::{self, Errno, Result};
use crate::fork;
use crate::open::{OpenDevice, ibv_open_device};

/// An open device.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    generation: u32,
    device: *mut abi::Device,
    pub(super) context: *mut abi::Context,
    pub(super) pd: *mut abi::Pd,
    /// READs and atomics that a queue pair may have outstanding.
    pub(super) initiator_depth: u8,
    /// READs and atomics that a queue pair answers at a time.
    pub(super) responder_resources: u8,
}

// SAFETY: contexts and domains may be used from any thread, and these are never freed.
unsafe impl Send for Opened {}

static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

/// Returns the device of an adapter.
pub(super) fn of_adapter(name: &str) -> Result<Opened> {
    let listed = devices()?;
    let found = listed
        .into_iter()
        .find(|listed| listed.adapter().name.as_str() == name);
    of_device(found.ok_or(Errno(libc::ENODEV))?.pointer())
}

/// Returns the device of a context that this module opened.
pub(super) fn of_context(context: *mut abi::Context) -> Result<Opened> {
    let opened = OPENED.lock();
    let found = opened.iter().find(|opened| opened.context == context);
    found.copied().ok_or(Errno(libc::EINVAL))
}

fn of_device(device: *mut abi::Device) -> Result<Opened> {
    let mut all = OPENED.lock();
    let same =
        |opened: &&Opened| opened.device == device && opened.generation == fork::generation();
    if let Some(opened) = all.iter().find(same) {
        return Ok(*opened);
    }
    let opened = open(device)?;
    all.push(opened);
    Ok(opened)
}

fn open(device: *mut abi::Device) -> Result<Opened> {
    // SAFETY: `device` is one of the list's, which stay.
    let context = unsafe { ibv_open_device(device) };
    if context.is_null() {
        return Err(Errno::last());
    }
    // SAFETY: just opened.
    let (pd, found) = unsafe { (ibv_alloc_pd(context), OpenDevice::of(context)?) };
    if pd.is_null() {
        return Err(Errno::last());
    }
    let most = |count: u32| count.min(u32::from(u8::MAX)) as u8;
    Ok(Opened {
        generation: fork::generation(),
        device,
        context,
        pd,
        initiator_depth: most(found.limits.max_qp_init_rd_atom),
        responder_resources: most(found.limits.max_qp_rd_atom),
    })
}

/// Returns the devices of all adapters.
pub(super) fn all() -> Result<Vec<Opened>> {
    let listed = devices()?.into_iter();
    listed.map(|listed| of_device(listed.pointer())).collect()
}

/// `rdma_get_devices`: returns the contexts that identifiers are bound to, with a null pointer behind them.
///
/// # Safety
/// `count` is null or points to an `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut abi::Context {
    let contexts = all().and_then(|opened| {
        let contexts: Vec<_> = opened.iter().map(|one| one.context).collect();
        if contexts.is_empty() {
            return Err(Errno(libc::ENODEV));
        }
        Ok(contexts)
    });
    let list = contexts.map(|contexts| {
        // SAFETY: null or valid, as the caller promises.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = contexts.len() as c_int;
        }
        let bytes = (contexts.len() + 1) * size_of::<*mut abi::Context>();
        // SAFETY: a plain allocation, checked before it is used.
        let list: *mut *mut abi::Context = unsafe { libc::calloc(1, bytes) }.cast();
        if !list.is_null() {
            // SAFETY: there is room for all and a null pointer, and they do not overlap.
            unsafe { list.copy_from_nonoverlapping(contexts.as_ptr(), contexts.len()) };
        }
        list
    });
    errno::pointer(list)
}

/// `rdma_free_devices`: frees the list; the devices stay open.
///
/// # Safety
/// `list` came from `rdma_get_devices`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_free_devices(list: *mut *mut abi::Context) {
    // SAFETY: allocated by `calloc`, or null.
    unsafe { libc::free(list.cast()) };
}
