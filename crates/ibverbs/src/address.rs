//! Address handles. They exist in this process only: a datagram carries the path itself.

use core::ffi::c_int;

use vrdma_provider::layout::AddressVector;

use crate::abi;
use crate::errno::{self, Errno, Result};
use crate::memory::leak;
use crate::open::OpenDevice;
use crate::port::{PORT, gids};

/// The structure that `ibv_create_ah` returns a pointer to.
#[repr(C)]
pub struct AddressHandle {
    abi: abi::Ah,
    pub(crate) vector: AddressVector,
}

/// `IBV_WC_GRH`.
const WITH_GRH: u32 = 1;

/// Converts C's attributes to a path.
pub(crate) fn vector(attr: &abi::AhAttr) -> AddressVector {
    AddressVector {
        dgid: attr.grh.dgid.raw,
        flow_label: attr.grh.flow_label,
        sgid_index: attr.grh.sgid_index,
        hop_limit: attr.grh.hop_limit,
        traffic_class: attr.grh.traffic_class,
        sl: attr.sl,
        dmac: [0; 6],
        port: attr.port_num,
        reserved: 0,
    }
}

/// Converts a path to C's attributes.
pub(crate) fn attributes(vector: &AddressVector) -> abi::AhAttr {
    abi::AhAttr {
        grh: abi::GlobalRoute {
            dgid: abi::Gid { raw: vector.dgid },
            flow_label: vector.flow_label,
            sgid_index: vector.sgid_index,
            hop_limit: vector.hop_limit,
            traffic_class: vector.traffic_class,
        },
        sl: vector.sl,
        is_global: 1,
        port_num: vector.port,
        ..abi::AhAttr::default()
    }
}

fn create(device: &OpenDevice, pd: *mut abi::Pd, attr: &abi::AhAttr) -> Result<*mut abi::Ah> {
    // Ethernet has no local identifiers: without a GID there is no destination.
    if attr.is_global == 0 || attr.port_num != PORT {
        return Err(Errno(libc::EINVAL));
    }
    let abi = abi::Ah {
        context: device.context(),
        pd,
        handle: 0,
    };
    Ok(leak(AddressHandle {
        abi,
        vector: vector(attr),
    }))
}

/// `ibv_create_ah`.
///
/// # Safety
/// `pd` came from this library, and `attr` points to attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah(pd: *mut abi::Pd, attr: *mut abi::AhAttr) -> *mut abi::Ah {
    // SAFETY: as the caller promises; the domain's context is open as long as it exists.
    let (device, attr) = unsafe { (OpenDevice::of((*pd).context), &*attr) };
    errno::pointer(device.and_then(|device| create(device, pd, attr)))
}

/// `ibv_destroy_ah`.
///
/// # Safety
/// `ah` came from this library and is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_ah(ah: *mut abi::Ah) -> c_int {
    // SAFETY: made by `leak`, and no longer anybody's.
    drop(unsafe { Box::from_raw(ah.cast::<AddressHandle>()) });
    0
}

/// The sender of a datagram, and which of our addresses it was sent to: from the 40 bytes in front of it.
struct Headers {
    source: [u8; 16],
    destination: [u8; 16],
    flow_label: u32,
    traffic_class: u8,
    hop_limit: u8,
}

/// Returns an IPv4 address as a GID.
fn mapped(address: &[u8]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid[10..12].fill(0xff);
    gid[12..].copy_from_slice(&address[..4]);
    gid
}

/// Reads the IP header that RoCE v2 puts there (annex A17): IPv6 over all 40 bytes, or IPv4 in the last 20 of them.
/// Only the IPv4 header's own checksum tells which.
fn headers(bytes: &[u8; 40]) -> Headers {
    let last = &bytes[20..];
    let sum: u32 = last
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    if last[0] == 0x45 && (folded & 0xffff) + (folded >> 16) == 0xffff {
        return Headers {
            source: mapped(&last[12..16]),
            destination: mapped(&last[16..20]),
            flow_label: 0,
            traffic_class: last[1],
            hop_limit: 0xff,
        };
    }
    let first = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let gid = |at: usize| std::array::from_fn(|index| bytes[at + index]);
    Headers {
        source: gid(8),
        destination: gid(24),
        flow_label: first & 0xf_ffff,
        traffic_class: (first >> 20) as u8,
        hop_limit: 0xff,
    }
}

/// Returns the GID that a datagram came from, by the 40 bytes in front of it.
pub(crate) fn source(bytes: &[u8; 40]) -> [u8; 16] {
    headers(bytes).source
}

/// Returns the path of an answer to a datagram.
fn answer(device: &OpenDevice, wc: &abi::Wc, grh: &[u8; 40]) -> Result<abi::AhAttr> {
    let headers = headers(grh);
    let ours = gids(device)?
        .into_iter()
        .find(|(_, gid)| gid.raw == headers.destination);
    // A multicast group is no adapter's address: any of ours of the same kind will do.
    let is_v4 = |gid: &[u8; 16]| gid[..10] == [0; 10];
    let like = || {
        let all = gids(device).ok()?;
        all.into_iter()
            .find(|(_, gid)| is_v4(&gid.raw) == is_v4(&headers.destination))
    };
    let (index, _) = ours.or_else(like).ok_or(Errno(libc::ENOENT))?;
    Ok(abi::AhAttr {
        grh: abi::GlobalRoute {
            dgid: abi::Gid {
                raw: headers.source,
            },
            flow_label: headers.flow_label,
            sgid_index: index as u8,
            hop_limit: headers.hop_limit,
            traffic_class: headers.traffic_class,
        },
        dlid: wc.slid,
        sl: wc.sl,
        src_path_bits: wc.dlid_path_bits,
        is_global: 1,
        port_num: PORT,
        ..abi::AhAttr::default()
    })
}

/// `ibv_init_ah_from_wc`.
///
/// # Safety
/// `context` is open, and the other pointers are to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut abi::Context,
    _port: u8,
    wc: *mut abi::Wc,
    grh: *mut abi::Grh,
    attr: *mut abi::AhAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    let (device, wc) = unsafe { (OpenDevice::of(context), &*wc) };
    let outcome = device.and_then(|device| {
        if wc.wc_flags & WITH_GRH == 0 {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: as the caller promises, the 40 bytes are there.
        answer(device, wc, &unsafe {
            grh.cast::<[u8; 40]>().read_unaligned()
        })
    });
    // SAFETY: as the caller promises.
    errno::minus_one(outcome.map(|found| unsafe { attr.write(found) }))
}

/// `ibv_create_ah_from_wc`.
///
/// # Safety
/// `pd` came from this library, and the other pointers are to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut abi::Pd,
    wc: *mut abi::Wc,
    grh: *mut abi::Grh,
    port: u8,
) -> *mut abi::Ah {
    let mut attr = abi::AhAttr::default();
    // SAFETY: as the caller promises.
    if unsafe { ibv_init_ah_from_wc((*pd).context, port, wc, grh, &raw mut attr) } != 0 {
        return core::ptr::null_mut();
    }
    // SAFETY: as the caller promises.
    unsafe { ibv_create_ah(pd, &raw mut attr) }
}

/// `ibv_resolve_eth_l2_from_gid`: returns only what the GID itself says; the daemon resolves the rest.
///
/// # Safety
/// The pointers are to what their types say; `mac` to 6 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resolve_eth_l2_from_gid(
    _context: *mut abi::Context,
    attr: *mut abi::AhAttr,
    mac: *mut u8,
    vid: *mut u16,
) -> c_int {
    // SAFETY: as the caller promises.
    let gid = unsafe { (*attr).grh.dgid.raw };
    let is_link_local = gid[..8] == [0xfe, 0x80, 0, 0, 0, 0, 0, 0] && gid[11..13] == [0xff, 0xfe];
    if !is_link_local {
        return errno::number(Err(Errno(libc::EOPNOTSUPP)));
    }
    let bytes = [gid[8] ^ 2, gid[9], gid[10], gid[13], gid[14], gid[15]];
    // SAFETY: as the caller promises.
    unsafe {
        mac.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        // No VLAN.
        vid.write(0xffff);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_header_is_known_by_its_checksum() {
        let mut bytes = [0xaa; 40];
        let header = [
            0x45, 0, 0, 0x54, 0, 0, 0x40, 0, 0x40, 0x11, 0xb9, 0x45, 192, 168, 0, 1, 192, 168, 0, 2,
        ];
        bytes[20..].copy_from_slice(&header);
        let found = headers(&bytes);
        let sum: u32 = header
            .chunks(2)
            .map(|p| u32::from(p[0]) << 8 | u32::from(p[1]))
            .sum();
        assert_eq!(
            (sum & 0xffff) + (sum >> 16),
            0xffff,
            "the example itself is right"
        );
        assert_eq!(found.source, mapped(&[192, 168, 0, 1]));
        assert_eq!(found.destination, mapped(&[192, 168, 0, 2]));
        bytes[39] ^= 1;
        assert_ne!(headers(&bytes).source, mapped(&[192, 168, 0, 1]));
    }

    #[test]
    fn an_ipv6_header_is_read_as_it_stands() {
        let mut bytes = [0; 40];
        bytes[..4].copy_from_slice(&0x6ab1_2345u32.to_be_bytes());
        bytes[8..24].fill(1);
        bytes[24..].fill(2);
        let found = headers(&bytes);
        assert_eq!((found.source, found.destination), ([1; 16], [2; 16]));
        assert_eq!((found.traffic_class, found.flow_label), (0xab, 0x1_2345));
    }
}
