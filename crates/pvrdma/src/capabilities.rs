//! The capabilities that the driver reads from the shared region (reference section 3.1).

use zerocopy::big_endian;

use crate::abi::region::{Capabilities, device_cap, gid_type};
use crate::abi::version;
use crate::config::{DeviceConfig, DeviceLimits};
use crate::decode::fast_register;

const FIRMWARE: u64 = 1 << 32;
const VENDOR_VMWARE: u32 = 0x15ad;
const PAGE_SIZES: u64 = 0x1000;
/// Number of kernel address handles: the device has no object for them, so it only must not be small.
const ADDRESS_HANDLES: u32 = 65536;
/// 4.096 us * 2^15: the CM adds it to its timeouts for a busy host.
const ACK_DELAY: u8 = 15;
const MODE_ROCE: u8 = 0;
/// Compare-and-swap and fetch-and-add.
const ATOMIC_OPS: u8 = 0b11;
/// Local invalidate, remote invalidate and fast register.
const MEMORY_EXTENSIONS: u8 = 0b111;
pub(crate) const PKEYS: u16 = 1;

/// The GID type for a driver of this version: exactly one is advertised, as the driver refuses both together.
pub(crate) const fn gid_type_for(driver_version: u32) -> u8 {
    match driver_version {
        0..version::ROCE_V2 => gid_type::ROCE_V1,
        _ => gid_type::ROCE_V2,
    }
}

/// The capabilities advertised to a driver of `driver_version`.
pub(crate) fn advertise(config: &DeviceConfig, driver_version: u32) -> Capabilities {
    let guid = big_endian::U64::from_bytes(config.identity.mac.eui64());
    let caps = Capabilities {
        fw_ver: FIRMWARE.into(),
        node_guid: guid,
        sys_image_guid: guid,
        max_mr_size: DeviceLimits::REGION_BYTES.into(),
        page_size_cap: PAGE_SIZES.into(),
        vendor_id: VENDOR_VMWARE.into(),
        hw_ver: version::QP_HANDLE.into(),
        device_cap_flags: device_flags().into(),
        max_ah: ADDRESS_HANDLES.into(),
        max_pkeys: PKEYS.into(),
        local_ca_ack_delay: ACK_DELAY,
        phys_port_cnt: 1,
        mode: MODE_ROCE,
        atomic_ops: ATOMIC_OPS,
        bmme_flags: MEMORY_EXTENSIONS,
        gid_types: gid_type_for(driver_version),
        max_fast_reg_page_list_len: fast_register::PAGES_MAX.into(),
        ..Capabilities::default()
    };
    with_limits(caps, &config.limits)
}

const fn device_flags() -> u32 {
    device_cap::CURR_QP_STATE_MOD
        | device_cap::PORT_ACTIVE_EVENT
        | device_cap::SYS_IMAGE_GUID
        | device_cap::RC_RNR_NAK_GEN
}

fn with_limits(caps: Capabilities, limits: &DeviceLimits) -> Capabilities {
    let rd_atomic = u32::from(limits.rd_atomic);
    Capabilities {
        max_qp: limits.qps.into(),
        max_qp_wr: limits.queue_requests.into(),
        max_sge: limits.sges.into(),
        max_sge_rd: limits.read_sges.into(),
        max_cq: limits.cqs.into(),
        max_cqe: limits.queue_completions.into(),
        max_mr: limits.mrs.into(),
        max_pd: limits.pds.into(),
        max_qp_rd_atom: rd_atomic.into(),
        max_res_rd_atom: (limits.qps * rd_atomic).into(),
        max_qp_init_rd_atom: rd_atomic.into(),
        max_srq: limits.srqs.into(),
        max_srq_wr: limits.queue_requests.into(),
        max_srq_sge: limits.sges.into(),
        max_uar: limits.uar_pages.into(),
        gid_tbl_len: limits.gids.into(),
        ..caps
    }
}
