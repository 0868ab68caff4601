//! The list of devices: the adapters that the daemon lets this process use.
//!
//! Without a daemon the list is empty and `errno` says why, so that programs fall back as they do
//! on a host without an adapter. A device that was listed once stays valid until the process ends,
//! as programs keep the pointers and compare them.

use core::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use vrdma_provider::client::{CallError, Connection};
use vrdma_provider::message::{AdapterReply, Call, FindAdapter, ListAdapter, Name};
use vrdma_provider::socket::ADAPTER_VARIABLE;

use crate::abi;
use crate::beginning::begin;
use crate::errno::{self, Errno, Result};
use crate::facts;

/// Most adapters listed, as many as a daemon has; any beyond them are ignored.
const DEVICES_MAX: u32 = 16_384;

/// A device of the list.
#[repr(C)]
pub struct Listed {
    abi: abi::Device,
    /// Vendors' libraries look here, one word behind the public structure, for their own table of functions before they
    /// touch a device: it must stay zero.
    not_a_vendor: usize,
    index: c_int,
    adapter: AdapterReply,
    folder: Option<PathBuf>,
}

// SAFETY: nothing in it changes after it was made; the pointers in it are always null.
unsafe impl Send for Listed {}
// SAFETY: as above.
unsafe impl Sync for Listed {}

static KNOWN: Mutex<Vec<&'static Listed>> = Mutex::new(Vec::new());

impl Listed {
    fn has(&self, index: u32) -> bool {
        self.index == index as c_int
    }

    /// # Safety
    /// `device` came from `ibv_get_device_list`.
    pub(crate) unsafe fn of<'a>(device: *mut abi::Device) -> Result<&'a Self> {
        // SAFETY: such a pointer is to the first field of a leaked `Listed`.
        unsafe { device.cast::<Self>().as_ref() }.ok_or(Errno(libc::EINVAL))
    }

    pub(crate) fn new(index: u32, adapter: AdapterReply) -> Self {
        let mut abi = abi::Device {
            _ops: [0; 2],
            node_type: 1,
            transport_type: 0,
            name: [0; 64],
            dev_name: [0; 64],
            dev_path: [0; 256],
            ibdev_path: [0; 256],
        };
        write(&mut abi.name, &format!("vrdma{index}"));
        write(&mut abi.dev_name, &format!("uverbs{index}"));
        write(
            &mut abi.dev_path,
            &format!("/sys/class/infiniband_verbs/uverbs{index}"),
        );
        let name = format!("vrdma{index}");
        let folder = facts::folder(&adapter, &name);
        let path = folder.clone();
        let path = path.unwrap_or_else(|| Path::new("/sys/class/infiniband").join(name));
        write(&mut abi.ibdev_path, &path.to_string_lossy());
        Self {
            abi,
            folder,
            not_a_vendor: 0,
            index: index as c_int,
            adapter,
        }
    }

    pub(crate) fn adapter(&self) -> &AdapterReply {
        &self.adapter
    }

    pub(crate) fn pointer(&self) -> *mut abi::Device {
        (&raw const self.abi).cast_mut()
    }
}

fn write(field: &mut [c_char], text: &str) {
    for (place, byte) in field.iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
    }
}

/// Returns the adapters that this process may use, in the daemon's order; only one if the environment names it.
pub(crate) fn devices() -> Result<Vec<&'static Listed>> {
    begin(|connection| devices_at(&connection))
}

fn devices_at(connection: &Connection) -> Result<Vec<&'static Listed>> {
    let wanted = std::env::var(ADAPTER_VARIABLE).unwrap_or_default();
    if !wanted.is_empty() {
        let Some(name) = Name::new(&wanted) else {
            return Ok(Vec::new());
        };
        let named = told(connection, &FindAdapter { name })?;
        return Ok(named.map(|adapter| known(0, adapter)).into_iter().collect());
    }
    let mut found = Vec::new();
    for index in 0..DEVICES_MAX {
        match told(connection, &ListAdapter { index })? {
            Some(adapter) => found.push(known(index, adapter)),
            None => break,
        }
    }
    Ok(found)
}

/// Returns the daemon's answer about an adapter; `None` if there is none.
fn told(
    connection: &Connection,
    asked: &impl Call<Reply = AdapterReply>,
) -> Result<Option<AdapterReply>> {
    match connection.call(asked, &[]) {
        Ok(answer) => Ok(Some(answer.body)),
        Err(CallError::Refused(_)) => Ok(None),
        Err(error) => Err(Errno(error.raw_os_error())),
    }
}

/// Returns the same pointer as the last time.
fn known(index: u32, adapter: AdapterReply) -> &'static Listed {
    let mut known = KNOWN.lock();
    let same = |listed: &&&'static Listed| listed.has(index) && listed.adapter == adapter;
    if let Some(listed) = known.iter().find(same) {
        return listed;
    }
    let listed: &'static Listed = Box::leak(Box::new(Listed::new(index, adapter)));
    known.push(listed);
    listed
}

/// Returns the folder of a device. A program that only reads its files, such as `cat`, has asked for no list before.
pub(crate) fn folder(index: u32) -> Option<PathBuf> {
    if !KNOWN.lock().iter().any(|listed| listed.has(index)) {
        devices().ok()?;
    }
    let known = KNOWN.lock();
    let listed = known.iter().find(|listed| listed.has(index))?;
    listed.folder.clone()
}

/// `ibv_get_device_list`: the caller frees the array, the devices stay.
///
/// # Safety
/// `count` is null or points to an `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut abi::Device {
    let devices = devices().unwrap_or_else(|Errno(value)| {
        errno::set(value);
        Vec::new()
    });
    // SAFETY: null or valid, as the caller promises.
    if let Some(count) = unsafe { count.as_mut() } {
        *count = devices.len() as c_int;
    }
    let pointers = devices.iter().map(|device| device.pointer());
    // The end is a null pointer, so the length is found again when the list is freed.
    let list: Box<[_]> = pointers.chain([std::ptr::null_mut()]).collect();
    Box::into_raw(list).cast()
}

/// `ibv_free_device_list`.
///
/// # Safety
/// `list` came from `ibv_get_device_list` and was not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut abi::Device) {
    if list.is_null() {
        return;
    }
    let mut length = 1;
    // SAFETY: the array ends with a null pointer, and nothing behind that is read.
    while unsafe { !(*list.add(length - 1)).is_null() } {
        length += 1;
    }
    // SAFETY: made by `Box::into_raw` of a slice of this length.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, length)) });
}

/// `ibv_get_device_name`.
///
/// # Safety
/// `device` came from `ibv_get_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut abi::Device) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { Listed::of(device) }.map_or(std::ptr::null(), |listed| listed.abi.name.as_ptr())
}

/// `ibv_get_device_index`.
///
/// # Safety
/// `device` came from `ibv_get_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(device: *mut abi::Device) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { Listed::of(device) }.map_or(-1, |listed| listed.index)
}

/// `ibv_get_device_guid`: in network order.
///
/// # Safety
/// `device` came from `ibv_get_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut abi::Device) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { Listed::of(device) }.map_or(0, |listed| u64::from_ne_bytes(listed.adapter.guid))
}
