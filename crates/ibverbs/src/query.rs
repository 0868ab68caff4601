//! Capabilities of the device.

use core::ffi::{c_char, c_int, c_uint, c_void};

use crate::abi;
use crate::errno::{self, Errno, Result};
use crate::open::OpenDevice;

/// A locally administered OUI: no vendor's, so that no vendor's shortcut is tried.
const VENDOR: u32 = 0x02_76_72;
/// Page sizes: all from 4 KiB on.
const PAGE_SIZES: u64 = !0xfff;
/// `IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT`: pages are never pinned, so this costs nothing.
const ODP: u64 = 3;
/// SEND, RECV, WRITE, READ, ATOMIC and SRQ receives of `enum ibv_odp_transport_cap_bits`.
const ODP_RC: u32 = 0x3f;
const ODP_UC: u32 = 0x27;
const ODP_UD: u32 = 0x23;
/// Time stamps count nanoseconds: 1 GHz in kHz.
const CLOCK_KHZ: u64 = 1_000_000;
/// `IBV_VALUES_MASK_RAW_CLOCK`.
const RAW_CLOCK: u32 = 1;

/// `major.minor.patch`.
fn version(to: &mut [c_char], firmware: u64) {
    let text = format!(
        "{}.{}.{}",
        firmware >> 32,
        firmware >> 16 & 0xffff,
        firmware & 0xffff
    );
    for (place, byte) in to.iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
    }
}

fn attributes(device: &OpenDevice) -> abi::DeviceAttr {
    let limits = &device.limits;
    let guid = u64::from_ne_bytes(device.listed().adapter().guid);
    // SAFETY: all of it are numbers.
    let mut attr: abi::DeviceAttr = unsafe { core::mem::zeroed() };
    version(&mut attr.fw_ver, limits.firmware);
    attr.node_guid = guid;
    attr.sys_image_guid = guid;
    attr.max_mr_size = limits.max_mr_size;
    attr.page_size_cap = PAGE_SIZES;
    attr.vendor_id = VENDOR;
    attr.vendor_part_id = 1;
    attr.hw_ver = 1;
    attr.max_qp = limits.max_qp as c_int;
    attr.max_qp_wr = limits.max_qp_wr as c_int;
    attr.device_cap_flags = limits.capabilities as c_uint;
    attr.max_sge = limits.max_sge as c_int;
    attr.max_sge_rd = limits.max_sge_rd as c_int;
    attr.max_cq = limits.max_cq as c_int;
    attr.max_cqe = limits.max_cqe as c_int;
    attr.max_mr = limits.max_mr as c_int;
    attr.max_pd = limits.max_pd as c_int;
    attr.max_qp_rd_atom = limits.max_qp_rd_atom as c_int;
    attr.max_res_rd_atom =
        (limits.max_qp_rd_atom.saturating_mul(limits.max_qp)).min(i32::MAX as u32) as c_int;
    attr.max_qp_init_rd_atom = limits.max_qp_init_rd_atom as c_int;
    attr.atomic_cap = limits.atomic_cap;
    attr.max_mw = limits.max_mw as c_int;
    attr.max_mcast_grp = limits.max_mcast_grp as c_int;
    attr.max_mcast_qp_attach = limits.max_mcast_qp_attach as c_int;
    attr.max_total_mcast_qp_attach = limits
        .max_mcast_grp
        .saturating_mul(limits.max_mcast_qp_attach)
        .min(i32::MAX as u32) as c_int;
    attr.max_ah = c_int::MAX;
    attr.max_srq = limits.max_srq as c_int;
    attr.max_srq_wr = limits.max_srq_wr as c_int;
    attr.max_srq_sge = limits.max_srq_sge as c_int;
    attr.max_pkeys = 1;
    // 4.096 us * 2^15 = 134 ms: how long an answer may take when the host is busy.
    attr.local_ca_ack_delay = 15;
    attr.phys_port_cnt = 1;
    attr
}

/// `ibv_query_device`.
///
/// # Safety
/// `context` is open and `to` points to the structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut abi::Context,
    to: *mut abi::DeviceAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    let found = unsafe { OpenDevice::of(context) }.map(attributes);
    // SAFETY: as the caller promises.
    errno::number(found.map(|attributes| unsafe { to.write(attributes) }))
}

fn extended(device: &OpenDevice) -> abi::DeviceAttrEx {
    // SAFETY: all of it are numbers.
    let mut attr: abi::DeviceAttrEx = unsafe { core::mem::zeroed() };
    attr.orig_attr = attributes(device);
    attr.odp_caps = abi::OdpCaps {
        general_caps: ODP,
        rc_odp_caps: ODP_RC,
        uc_odp_caps: ODP_UC,
        ud_odp_caps: ODP_UD,
    };
    attr.completion_timestamp_mask = u64::MAX;
    attr.hca_core_clock = CLOCK_KHZ;
    attr.device_cap_flags_ex = device.limits.capabilities;
    attr.phys_port_cnt_ex = 1;
    attr
}

/// `verbs_context.query_device_ex`: `length` bytes of the structure.
pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut abi::Context,
    _input: *const c_void,
    to: *mut abi::DeviceAttrEx,
    length: usize,
) -> c_int {
    if length < size_of::<abi::DeviceAttr>() {
        return errno::number(Err(Errno(libc::EINVAL)));
    }
    // SAFETY: the header's wrapper passes an open context.
    let found = unsafe { OpenDevice::of(context) }.map(extended);
    let known = length.min(size_of::<abi::DeviceAttrEx>());
    errno::number(found.map(|attributes| {
        // SAFETY: and a structure of that length, of which no more than is known is copied.
        unsafe {
            to.cast::<u8>().write_bytes(0, length);
            to.cast::<u8>()
                .copy_from_nonoverlapping((&raw const attributes).cast(), known);
        }
    }))
}

/// `verbs_context.query_rt_values`: the clock of the completions' time stamps.
pub(crate) unsafe extern "C" fn query_rt_values(
    context: *mut abi::Context,
    values: *mut abi::ValuesEx,
) -> c_int {
    // SAFETY: the header's wrapper passes an open context.
    let open = unsafe { OpenDevice::of(context) };
    // SAFETY: and a structure to read and write.
    errno::number(open.and_then(|_| unsafe { clock(&mut *values) }))
}

fn clock(values: &mut abi::ValuesEx) -> Result<()> {
    let wanted = std::mem::take(&mut values.comp_mask);
    if wanted & RAW_CLOCK != 0 {
        // SAFETY: the structure is writable.
        if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut values.raw_clock) } != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        values.comp_mask = RAW_CLOCK;
    }
    Ok(())
}
