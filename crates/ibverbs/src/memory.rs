//! Memory regions.

#[cfg(test)]
mod tests;

use core::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vrdma_provider::message::{Adoption, DeregMr, FileRange, RegMr, ReregMr, access};

use crate::abi;
use crate::adopt::{Reached, Registering};
use crate::errno::{self, Errno, Result};
use crate::open::OpenDevice;
use crate::region::{Region, populate};
use crate::shared::SharedFile;

/// Access rights that let the device write.
const WRITES: u32 = access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_ATOMIC;

/// Gives a new object to C.
pub(crate) fn leak<T, A>(object: T) -> *mut A {
    Box::into_raw(Box::new(object)).cast()
}

/// The region that the caller of a registering function asks for.
struct Wanted {
    address: u64,
    length: u64,
    iova: u64,
    access: u32,
}

impl Wanted {
    /// Addresses begin at `iova`, or at 0 in a zero-based region.
    fn new(address: u64, length: u64, iova: u64, access: u32) -> Self {
        Self {
            address,
            length,
            iova: if access & access::ZERO_BASED != 0 {
                0
            } else {
                iova
            },
            access,
        }
    }

    fn is_on_demand(&self) -> bool {
        self.access & access::ON_DEMAND != 0
    }
}

/// The structure that the registering functions return a pointer to.
#[repr(C)]
pub struct MemoryRegion {
    abi: abi::Mr,
    iova: u64,
    access: u32,
}

/// A request to the daemon, and what goes along with it.
struct Request {
    body: RegMr,
    /// The file behind the region, if there is one.
    file: Option<OwnedFd>,
    /// Parts of the region that the daemon reaches, and how, if this process adopts memory.
    reached: Vec<Reached>,
}

impl Request {
    /// Prepares the request. An on-demand region is named by its addresses alone, whatever is mapped there.
    fn new(pd: u32, wanted: &Wanted, registering: Option<&Registering<'_>>) -> Result<Self> {
        let &Wanted {
            address, length, ..
        } = wanted;
        let is_there = !wanted.is_on_demand() && length > 0;
        let Found { file, adoption } = if is_there {
            find_file(wanted, registering)?
        } else {
            Found::nothing(registering.map_or(Adoption::NotAsked, |_| Adoption::OnDemand))
        };
        let (file, range) = file.unzip();
        let is_adopted = adoption == Adoption::Adopted;
        let reached =
            registering.map(|registering| registering.reached(address, length, range, is_adopted));
        let body = RegMr {
            address,
            length,
            iova: wanted.iova,
            pd,
            access: wanted.access,
            file: range.unwrap_or_default(),
            adoption: adoption as u32,
            reserved: 0,
        };
        Ok(Self {
            body,
            file,
            reached: reached.unwrap_or_default(),
        })
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.file.iter().map(AsFd::as_fd).collect()
    }
}

/// What is known of the memory of a region.
struct Found {
    /// The file behind it, or behind a part of it.
    file: Option<(OwnedFd, FileRange)>,
    /// Whether this library has moved the memory there, or why not.
    adoption: Adoption,
}

impl Found {
    fn nothing(adoption: Adoption) -> Self {
        Self {
            file: None,
            adoption,
        }
    }
}

/// Finds the file, after which all pages are there, as with an adapter. Fails with `EFAULT` if they cannot be.
fn find_file(wanted: &Wanted, registering: Option<&Registering<'_>>) -> Result<Found> {
    let (address, length, writes) = (wanted.address, wanted.length, wanted.access & WRITES != 0);
    // Adopt before the pages are there: pages that never were need not be copied.
    let adoption = registering.map_or(Adoption::NotAsked, |registering| {
        registering.adopt(address, length)
    });
    let is_adopted = adoption == Adoption::Adopted;
    let adopted = registering
        .filter(|_| is_adopted)
        .and_then(|registering| registering.file(address, length));
    if let Some(adopted) = adopted {
        populate(address, length, writes)?;
        adopted.watch();
        return Ok(Found {
            file: Some((adopted.file, adopted.range)),
            adoption,
        });
    }
    // Only a page that is there tells which file it belongs to.
    populate(address, length.min(1), writes)?;
    let shared = SharedFile::find(address, length, writes);
    // A file that has all its pages needs none mapped here: the daemon has a mapping of its own.
    if !shared.as_ref().is_some_and(SharedFile::has_all_pages) {
        // Reading is enough for a file: it makes the pages, and the kernel maps many at a time.
        populate(address, length, writes && shared.is_none())?;
    }
    Ok(Found {
        file: shared.map(SharedFile::into_parts),
        // The memory is adopted, but its file cannot be opened again.
        adoption: if is_adopted {
            Adoption::Kernel
        } else {
            adoption
        },
    })
}

/// Notes the memory that the key names. On-demand memory may vanish while it is registered: only the daemon's accesses
/// survive that.
fn remember(device: &OpenDevice, lkey: u32, pd: u32, wanted: &Wanted) {
    let mut regions = device.regions.write();
    regions.remove(&lkey);
    if !wanted.is_on_demand() {
        let region = Region {
            address: wanted.address,
            length: wanted.length,
            iova: wanted.iova,
            pd,
            is_writable: wanted.access & access::LOCAL_WRITE != 0,
        };
        regions.insert(lkey, region);
    }
}

fn register(device: &OpenDevice, pd: *mut abi::Pd, wanted: &Wanted) -> Result<MemoryRegion> {
    // SAFETY: a domain of this device.
    let handle = unsafe { (*pd).handle };
    let registering = Registering::begin(device);
    let request = Request::new(handle, wanted, registering.as_ref())?;
    let reply = device.call_with(&request.body, &request.fds())?.body;
    remember(device, reply.lkey, handle, wanted);
    device.note_reached(reply.lkey, request.reached);
    let abi = abi::Mr {
        context: device.context(),
        pd,
        addr: wanted.address as *mut c_void,
        length: wanted.length as usize,
        handle: reply.mr,
        lkey: reply.lkey,
        rkey: reply.rkey,
    };
    Ok(MemoryRegion {
        abi,
        iova: wanted.iova,
        access: wanted.access,
    })
}

/// # Safety
/// `pd` came from this library.
unsafe fn register_in(pd: *mut abi::Pd, wanted: Wanted) -> *mut abi::Mr {
    if pd.is_null() {
        return errno::pointer(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: as the caller promises; its context is open as long as it exists.
    let device = unsafe { OpenDevice::of((*pd).context) };
    errno::pointer(
        device
            .and_then(|device| register(device, pd, &wanted))
            .map(leak),
    )
}

/// `ibv_reg_mr`.
///
/// # Safety
/// `pd` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut abi::Mr {
    // SAFETY: as the caller promises.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, addr as u64, access as c_uint) }
}

/// `ibv_reg_mr_iova`.
///
/// # Safety
/// `pd` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut abi::Mr {
    // SAFETY: as the caller promises.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access as c_uint) }
}

/// `ibv_reg_mr_iova2`.
///
/// # Safety
/// `pd` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut abi::Mr {
    let wanted = Wanted::new(addr as u64, length as u64, iova, access);
    // SAFETY: as the caller promises.
    unsafe { register_in(pd, wanted) }
}

/// Repeats a request that the daemon puts off while a peer is in the middle of a copy of its own, or a page of this
/// process is late: for a second at most, or three.
pub(crate) fn patiently<T>(mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match ask() {
            Err(Errno(libc::EAGAIN)) => std::thread::yield_now(),
            answer => return answer,
        }
    }
}

/// `ibv_dereg_mr`: when it returns, nothing reaches the memory any more.
///
/// # Safety
/// `mr` came from this library and is given up on success.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut abi::Mr) -> c_int {
    // SAFETY: as the caller promises.
    let (context, handle, lkey) = unsafe { ((*mr).context, (*mr).handle, (*mr).lkey) };
    // SAFETY: its context is open as long as it exists.
    let outcome = unsafe { OpenDevice::of(context) }.and_then(|device| {
        let gone = patiently(|| device.call(&DeregMr { mr: handle }));
        // This library does not reach it any more either, even if no daemon is left to ask.
        if gone.is_ok() || device.is_lost() {
            device.regions.write().remove(&lkey);
        }
        gone?;
        device.note_reached(lkey, Vec::new());
        Ok(())
    });
    if outcome.is_ok() {
        // SAFETY: made by `leak`, and no longer anybody's.
        drop(unsafe { Box::from_raw(mr.cast::<MemoryRegion>()) });
    }
    errno::number(outcome)
}

/// Flags of `ibv_rereg_mr`, and its answer if it fails: the old region is still good.
const CHANGE_MEMORY: c_int = 1;
const CHANGE_DOMAIN: c_int = 2;
const CHANGE_ACCESS: c_int = 4;
const STILL_GOOD: c_int = -1;

impl MemoryRegion {
    /// Returns what the region becomes when the attributes that the flags name are replaced.
    fn changed(&self, flags: c_int, addr: u64, length: u64, access: u32) -> Wanted {
        let access = if flags & CHANGE_ACCESS != 0 {
            access
        } else {
            self.access
        };
        if flags & CHANGE_MEMORY != 0 {
            return Wanted::new(addr, length, addr, access);
        }
        let (address, length) = (self.abi.addr as u64, self.abi.length as u64);
        // Without the right that made the addresses begin at 0, they are the program's own.
        let was_zero_based = self.access & access::ZERO_BASED != 0;
        let iova = if was_zero_based { address } else { self.iova };
        Wanted::new(address, length, iova, access)
    }

    /// Replaces the region by the wanted one, in a domain of its device.
    fn replace(&mut self, pd: *mut abi::Pd, wanted: &Wanted) -> Result<()> {
        // SAFETY: the context of a region is open; a domain of the same device.
        let (device, domain) = unsafe { (OpenDevice::of(self.abi.context)?, (*pd).handle) };
        let registering = Registering::begin(device);
        let request = Request::new(domain, wanted, registering.as_ref())?;
        let message = ReregMr {
            wanted: request.body,
            mr: self.abi.handle,
            reserved: 0,
        };
        patiently(|| device.call_with(&message, &request.fds()))?;
        remember(device, self.abi.lkey, domain, wanted);
        device.note_reached(self.abi.lkey, request.reached);
        (self.abi.pd, self.abi.addr) = (pd, wanted.address as *mut c_void);
        self.abi.length = wanted.length as usize;
        (self.iova, self.access) = (wanted.iova, wanted.access);
        Ok(())
    }
}

/// `ibv_rereg_mr`: makes another region under the same pointer and keys.
///
/// # Safety
/// `mr` and `pd` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut abi::Mr,
    flags: c_int,
    pd: *mut abi::Pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let known = CHANGE_MEMORY | CHANGE_DOMAIN | CHANGE_ACCESS;
    // SAFETY: as the caller promises.
    let registered = unsafe { mr.cast::<MemoryRegion>().as_mut() };
    let registered = registered.filter(|_| flags != 0 && flags & !known == 0);
    let outcome = registered.ok_or(Errno(libc::EINVAL)).and_then(|region| {
        let wanted = region.changed(flags, addr as u64, length as u64, access as u32);
        let moves = flags & CHANGE_DOMAIN != 0;
        region.replace(if moves { pd } else { region.abi.pd }, &wanted)
    });
    match outcome {
        Ok(()) => 0,
        Err(Errno(value)) => {
            errno::set(value);
            STILL_GOOD
        }
    }
}
