//! The port, its GIDs and its one partition key.

use core::ffi::c_int;

use vrdma_provider::message::QueryGid;

use crate::abi;
use crate::errno::{self, Errno, Result};
use crate::open::OpenDevice;

/// The only port.
pub(crate) const PORT: u8 = 1;
/// The default partition, full member.
const PKEY: u16 = 0xffff;
/// `IBV_LINK_LAYER_ETHERNET`.
const ETHERNET: u8 = 2;
/// `IBV_QPF_GRH_REQUIRED`: Ethernet has no local identifiers.
const GRH_REQUIRED: u8 = 1;
/// `IBV_GID_TYPE_ROCE_V2` of `enum ibv_gid_type`.
const ROCE_V2: u32 = 2;
/// `IBV_GID_TYPE_SYSFS_ROCE_V2` of the private `ibv_query_gid_type`.
const SYSFS_ROCE_V2: c_int = 1;

fn check(port: u32) -> Result<()> {
    if port == u32::from(PORT) {
        Ok(())
    } else {
        Err(Errno(libc::EINVAL))
    }
}

fn attributes(device: &OpenDevice) -> Result<abi::PortAttr> {
    let port = device.port()?;
    Ok(abi::PortAttr {
        state: port.state,
        max_mtu: port.max_mtu,
        active_mtu: port.active_mtu,
        gid_tbl_len: port.gids as c_int,
        port_cap_flags: port.capabilities,
        max_msg_sz: port.max_msg_size,
        bad_pkey_cntr: port.bad_pkeys.into(),
        qkey_viol_cntr: port.bad_qkeys.into(),
        pkey_tbl_len: 1,
        lid: 0,
        sm_lid: 0,
        lmc: 0,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width: port.active_width,
        active_speed: port.active_speed,
        phys_state: port.phys_state,
        link_layer: ETHERNET,
        flags: GRH_REQUIRED,
        port_cap_flags2: 0,
    })
}

/// Writes the attributes as far as the caller's structure goes, and zeroes the rest of that structure.
///
/// # Safety
/// `to` points to `length` writable bytes.
unsafe fn fill(to: *mut abi::PortAttr, attributes: &abi::PortAttr, length: usize) {
    let known = length.min(size_of::<abi::PortAttr>());
    // SAFETY: the caller's bytes are there, and the source has at least `known`.
    unsafe {
        to.cast::<u8>().write_bytes(0, length);
        to.cast::<u8>()
            .copy_from_nonoverlapping((&raw const *attributes).cast(), known);
    }
}

/// `verbs_context.query_port`: `length` bytes of `struct ibv_port_attr`.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut abi::Context,
    port: u8,
    to: *mut abi::PortAttr,
    length: usize,
) -> c_int {
    // SAFETY: the header's wrapper passes an open context.
    let outcome = check(port.into()).and_then(|()| attributes(unsafe { OpenDevice::of(context) }?));
    // SAFETY: and a structure of that length.
    errno::number(outcome.map(|attributes| unsafe { fill(to, &attributes, length) }))
}

/// `ibv_query_port` as a function: callers know the structure up to its old end, before
/// `port_cap_flags2`.
///
/// # Safety
/// `context` is open, and `to` points to such a structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut abi::Context,
    port: u8,
    to: *mut abi::PortAttr,
) -> c_int {
    let length = core::mem::offset_of!(abi::PortAttr, port_cap_flags2);
    // SAFETY: as the caller promises.
    unsafe { query_port(context, port, to, length) }
}

fn gid(device: &OpenDevice, port: u32, index: u32) -> Result<abi::Gid> {
    check(port)?;
    device
        .call(&QueryGid { index })
        .map(|reply| abi::Gid { raw: reply.gid })
}

/// Returns all entries that are not empty.
pub(crate) fn gids(device: &OpenDevice) -> Result<Vec<(u32, abi::Gid)>> {
    let count = device.port()?.gids;
    let each = (0..count).map(|index| (index, gid(device, PORT.into(), index)));
    Ok(each
        .filter_map(|(index, gid)| Some((index, gid.ok()?)))
        .collect())
}

/// `ibv_query_gid`: an empty entry is a zero GID.
///
/// # Safety
/// `context` is open and `to` points to a GID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut abi::Context,
    port: u8,
    index: c_int,
    to: *mut abi::Gid,
) -> c_int {
    // SAFETY: as the caller promises.
    let found = unsafe { OpenDevice::of(context) }.and_then(|device| {
        match gid(device, port.into(), index as u32) {
            Err(Errno(libc::ENODATA)) => Ok(abi::Gid::default()),
            outcome => outcome,
        }
    });
    // SAFETY: as the caller promises.
    errno::minus_one(found.map(|gid| unsafe { to.write(gid) }))
}

fn entry(gid: abi::Gid, index: u32) -> abi::GidEntry {
    abi::GidEntry {
        gid,
        gid_index: index,
        port_num: PORT.into(),
        gid_type: ROCE_V2,
        ndev_ifindex: 0,
    }
}

/// `ibv_query_gid_ex`.
///
/// # Safety
/// `context` is open and `to` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut abi::Context,
    port: u32,
    index: u32,
    to: *mut abi::GidEntry,
    flags: u32,
    size: usize,
) -> c_int {
    if flags != 0 || size < size_of::<abi::GidEntry>() {
        return errno::number(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: as the caller promises.
    let found = unsafe { OpenDevice::of(context) }.and_then(|device| gid(device, port, index));
    // SAFETY: the structure is at least as long as the one known here.
    errno::number(found.map(|gid| unsafe { to.write(entry(gid, index)) }))
}

/// `ibv_query_gid_table`: returns the number of entries written, or a negative error number.
///
/// # Safety
/// `context` is open and `to` points to `max` entries of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut abi::Context,
    to: *mut abi::GidEntry,
    max: usize,
    flags: u32,
    size: usize,
) -> isize {
    if flags != 0 || size < size_of::<abi::GidEntry>() {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: as the caller promises.
    let gids = match unsafe { OpenDevice::of(context) }.and_then(gids) {
        Ok(gids) => gids,
        Err(Errno(value)) => return -(value as isize),
    };
    if gids.len() > max {
        return -(libc::EINVAL as isize);
    }
    for (place, (index, gid)) in gids.iter().enumerate() {
        // SAFETY: `place` is below `max`, and each entry has at least the size known here.
        unsafe { to.byte_add(place * size).write(entry(*gid, *index)) };
    }
    gids.len() as isize
}

/// `ibv_query_gid_type`, which `ibv_devinfo` uses although it is private.
///
/// # Safety
/// `context` is open and `to` points to an `int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vrdma_query_gid_type(
    context: *mut abi::Context,
    port: u8,
    index: u32,
    to: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let found =
        unsafe { OpenDevice::of(context) }.and_then(|device| gid(device, port.into(), index));
    match found {
        // SAFETY: as the caller promises.
        Ok(_) | Err(Errno(libc::ENODATA)) => unsafe { to.write(SYSFS_ROCE_V2) },
        Err(Errno(value)) => {
            errno::set(value);
            return -1;
        }
    }
    0
}

/// `ibv_query_pkey`: in network order.
///
/// # Safety
/// `to` points to 16 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    _context: *mut abi::Context,
    port: u8,
    index: c_int,
    to: *mut u16,
) -> c_int {
    let is_there = port == PORT && index == 0;
    let found = if is_there {
        Ok(())
    } else {
        Err(Errno(libc::EINVAL))
    };
    // SAFETY: as the caller promises.
    errno::minus_one(found.map(|()| unsafe { to.write(PKEY.to_be()) }))
}

/// `ibv_get_pkey_index`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_pkey_index(_context: *mut abi::Context, port: u8, key: u16) -> c_int {
    if port == PORT && key == PKEY.to_be() {
        0
    } else {
        errno::minus_one(Err(Errno(libc::EINVAL)))
    }
}
