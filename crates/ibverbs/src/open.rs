//! An opened device: the connection to the daemon and everything that its objects share.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use vrdma_provider::VERSION;
use vrdma_provider::client::{Answer, Connection};
use vrdma_provider::doorbell::Ringer;
use vrdma_provider::fast::Page;
use vrdma_provider::message::{
    Call, DeviceReply, Hello, PortReply, QueryDevice, QueryPort, hello_flag,
};

use vrdma_provider::socket::FAST_LOCAL_VARIABLE;

use crate::adopt::Reached;
use crate::beginning::begin;
use crate::device::Listed;
use crate::errno::{self, Errno, Result};
use crate::lookup::Lookup;
use crate::lost::{self, Lost};
use crate::region::Regions;
use crate::{abi, advise, channel, cq, cq_ex, domain, fork, port, qp_ex, query, send, srq, window};

/// The structure that `ibv_open_device` returns a pointer into.
#[repr(C)]
pub struct OpenDevice {
    verbs: UnsafeCell<abi::VerbsContext>,
    connection: Mutex<Connection>,
    events: OwnedFd,
    pub(crate) lost: Lost,
    generation: u32,
    listed: &'static Listed,
    pub(crate) ringer: Ringer,
    pub(crate) lookup: Lookup,
    /// Registered memory by lkey.
    pub(crate) regions: Arc<Regions>,
    /// Parts of regions that the daemon reaches, by lkey, if this process adopts memory.
    reached: Mutex<BTreeMap<u32, Vec<Reached>>>,
    pub(crate) limits: DeviceReply,
    /// Grants to reach peers' memory, if that is wanted.
    pub(crate) grants: Option<Page>,
}

// SAFETY: the public part does not change after it was made, except for fields that this library
// does not use; the rest is behind locks or made for sharing.
unsafe impl Sync for OpenDevice {}

impl OpenDevice {
    /// Returns the device of a context; `EIO` in a child of the process that opened it.
    ///
    /// # Safety
    /// `context` came from `ibv_open_device` and is not closed yet, or is null.
    #[inline]
    pub(crate) unsafe fn of<'a>(context: *mut abi::Context) -> Result<&'a Self> {
        if context.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        let back = offset_of!(abi::VerbsContext, context);
        // SAFETY: every context that this library hands out is this field of an `OpenDevice`.
        let device = unsafe { &*context.byte_sub(back).cast::<Self>() };
        if device.generation == fork::generation() {
            Ok(device)
        } else {
            Err(Errno(libc::EIO))
        }
    }

    pub(crate) fn context(&self) -> *mut abi::Context {
        // SAFETY: the field of a structure that is there; no reference is made.
        unsafe { &raw mut (*self.verbs.get()).context }
    }

    /// Asks the daemon.
    pub(crate) fn call<T: Call>(&self, request: &T) -> Result<T::Reply> {
        Ok(self.call_with(request, &[])?.body)
    }

    /// Asks the daemon; descriptors may go along, and come back.
    pub(crate) fn call_with<T: Call>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Answer<T::Reply>> {
        let connection = self.connection.lock();
        connection
            .call(request, fds)
            .map_err(|error| Errno(error.raw_os_error()))
    }

    /// Notes what the daemon reaches under a key from now on, if anything.
    pub(crate) fn note_reached(&self, lkey: u32, reached: Vec<Reached>) {
        let mut all = self.reached.lock();
        if reached.is_empty() {
            all.remove(&lkey);
        } else {
            all.insert(lkey, reached);
        }
    }

    pub(crate) fn port(&self) -> Result<PortReply> {
        self.call(&QueryPort {})
    }

    /// Hangs up, as if the daemon had ended.
    #[cfg(test)]
    pub(crate) fn hang_up(&self) {
        let connection = self.connection.lock();
        let hung_up = rustix::net::shutdown(connection.as_fd(), rustix::net::Shutdown::Both);
        hung_up.expect("it is connected");
    }

    /// Whether the daemon is gone, checked now.
    #[cold]
    pub(crate) fn is_lost(&self) -> bool {
        self.look_after_daemon();
        self.lost.is_known()
    }

    /// Checks whether the daemon is gone.
    #[cold]
    pub(crate) fn look_after_daemon(&self) {
        if lost::has_hung_up(self.connection.lock().as_fd(), 0) {
            self.lost.note();
        }
    }

    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    pub(crate) fn listed(&self) -> &'static Listed {
        self.listed
    }

    fn open(listed: &'static Listed) -> Result<Box<Self>> {
        fork::watch();
        begin(|connection| Self::over(connection, listed))
    }

    /// Opens a device over a connection on which nothing was said yet.
    pub(crate) fn over(connection: Connection, listed: &'static Listed) -> Result<Box<Self>> {
        let (ringer, events, grants) = hello(&connection, listed)?;
        let limits = connection
            .call(&QueryDevice {}, &[])
            .map_err(|error| Errno(error.raw_os_error()))?
            .body;
        let command_fd = connection.as_fd().as_raw_fd();
        Ok(Box::new(Self {
            verbs: UnsafeCell::new(table(listed.pointer(), command_fd, events.as_raw_fd())),
            connection: Mutex::new(connection),
            events,
            lost: Lost::default(),
            generation: fork::generation(),
            listed,
            ringer,
            lookup: Lookup::new(),
            regions: Arc::default(),
            reached: Mutex::new(BTreeMap::new()),
            limits,
            grants,
        }))
    }
}

/// Introduces this process. The daemon reaches its memory by the file that it passes, and reads a number in that memory
/// to check that the file is of the process at the other end of the socket.
fn hello(connection: &Connection, listed: &Listed) -> Result<(Ringer, OwnedFd, Option<Page>)> {
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/proc/self/mem")?;
    let nonce = Box::new(nonce());
    let is_fast = std::env::var_os(FAST_LOCAL_VARIABLE).is_some_and(|value| value == "1");
    let request = Hello {
        version: VERSION,
        adapter: listed.adapter().name,
        nonce_address: (&raw const *nonce) as u64,
        nonce: *nonce,
        flags: hello_flag::ENCLOSED | if is_fast { hello_flag::FAST_LOCAL } else { 0 },
    };
    let answer = connection
        .call(&request, &[memory.as_fd()])
        .map_err(|error| Errno(error.raw_os_error()))?;
    drop(nonce);
    let mut fds = answer.fds.into_iter();
    let (Some(page), Some(wake), Some(events)) = (fds.next(), fds.next(), fds.next()) else {
        return Err(Errno(libc::EPROTO));
    };
    let grants = fds.next().map(|fd| Page::map(fd.as_fd())).transpose()?;
    Ok((Ringer::new(page.as_fd(), wake)?, events, grants))
}

/// Returns a number that another process does not guess; 0 if the kernel has none.
fn nonce() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: writes at most the length of the array.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}

/// Returns the functions that the header's inline wrappers call.
fn table(device: *mut abi::Device, cmd_fd: c_int, async_fd: c_int) -> abi::VerbsContext {
    // SAFETY: all of it are integers, pointers and optional functions, for which zero is null or
    // none, and a mutex that zero initialises on Linux.
    let mut verbs: abi::VerbsContext = unsafe { core::mem::zeroed() };
    verbs.sz = size_of::<abi::VerbsContext>();
    verbs.query_port = Some(port::query_port);
    verbs.query_device_ex = Some(query::query_device_ex);
    verbs.query_rt_values = Some(query::query_rt_values);
    verbs.create_cq_ex = Some(cq_ex::create_cq_ex);
    verbs.modify_cq = Some(cq::modify_cq);
    verbs.create_qp_ex = Some(qp_ex::create_qp_ex);
    verbs.create_srq_ex = Some(srq::create_srq_ex);
    verbs.get_srq_num = Some(srq::get_srq_num);
    verbs.advise_mr = Some(advise::advise_mr);
    verbs.alloc_td = Some(domain::alloc_td);
    verbs.dealloc_td = Some(domain::dealloc_td);
    verbs.alloc_parent_domain = Some(domain::alloc_parent_domain);
    let context = &mut verbs.context;
    context.device = device;
    context.cmd_fd = cmd_fd;
    context.async_fd = async_fd;
    context.num_comp_vectors = channel::VECTORS;
    context.abi_compat = usize::MAX as *mut _;
    let ops = &mut context.ops;
    ops.query_device = Some(query::ibv_query_device);
    ops.query_port = Some(port::ibv_query_port);
    ops.alloc_mw = Some(window::alloc_mw);
    ops.bind_mw = Some(window::bind_mw);
    ops.dealloc_mw = Some(window::dealloc_mw);
    ops.poll_cq = Some(cq::poll_cq);
    ops.req_notify_cq = Some(cq::req_notify_cq);
    ops.post_srq_recv = Some(srq::post_srq_recv);
    ops.post_send = Some(send::post_send);
    ops.post_recv = Some(crate::recv::post_recv);
    verbs
}

/// `ibv_open_device`.
///
/// # Safety
/// `device` came from `ibv_get_device_list`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut abi::Device) -> *mut abi::Context {
    // SAFETY: as the caller promises.
    let opened = unsafe { Listed::of(device) }.and_then(OpenDevice::open);
    errno::pointer(opened.map(|device| {
        let context = device.context();
        // Owned by the context from here on.
        let _ = Box::into_raw(device);
        context
    }))
}

/// `ibv_close_device`: ending the connection ends all objects that are left.
///
/// # Safety
/// `context` came from `ibv_open_device`, and nothing of it is in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut abi::Context) -> c_int {
    if context.is_null() {
        return errno::minus_one(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: as the caller promises.
    if unsafe { OpenDevice::of(context) }.is_err() {
        // In a child of the process that opened it, its mappings do not exist, and what is at their addresses now is
        // somebody else's.
        return 0;
    }
    let back = offset_of!(abi::VerbsContext, context);
    // SAFETY: this field of an `OpenDevice` that `ibv_open_device` let go; the caller gives it up.
    drop(unsafe { Box::from_raw(context.byte_sub(back).cast::<OpenDevice>()) });
    0
}
