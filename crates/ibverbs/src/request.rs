//! Work requests of C as slots of a send queue.

use core::ffi::{c_int, c_uint};

use vrdma_provider::layout::{Buffer, SendHeader, opcode, send_flag};

use vrdma_provider::message::qp_type::RC;
pub(crate) use vrdma_provider::message::qp_type::UD;

use crate::abi;
use crate::address::AddressHandle;
use crate::errno::{self, Errno, Result};

/// `IBV_SEND_INLINE`.
pub(crate) const INLINE: c_uint = 8;
/// Flags that the daemon knows.
const FLAGS: c_uint = send_flag::FENCE | send_flag::SIGNALED | send_flag::SOLICITED;

const _: () = assert!(size_of::<abi::Sge>() == size_of::<Buffer>());

/// Whether a service has an operation (IBTA 9.4).
pub(crate) fn allowed(service: c_uint, operation: c_uint) -> bool {
    match operation {
        opcode::SEND | opcode::SEND_WITH_IMM => true,
        opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM | opcode::BIND_MW | opcode::LOCAL_INV => {
            service != UD
        }
        opcode::RDMA_READ..=opcode::ATOMIC_FETCH_AND_ADD | opcode::SEND_WITH_INV => service == RC,
        _ => false,
    }
}

/// Whether the payload goes out, so that it may travel by value.
pub(crate) fn sends_payload(operation: c_uint) -> bool {
    matches!(
        operation,
        opcode::SEND
            | opcode::SEND_WITH_IMM
            | opcode::SEND_WITH_INV
            | opcode::RDMA_WRITE
            | opcode::RDMA_WRITE_WITH_IMM
    )
}

/// The slot of a request, without its payload.
///
/// # Safety
/// The request is of a program: the member of each union that its operation names is filled, and the
/// objects that it points to are there.
#[inline]
pub(crate) unsafe fn header(request: &abi::SendWr, service: c_uint) -> Result<SendHeader> {
    if !allowed(service, request.opcode) {
        return Err(Errno(libc::EINVAL));
    }
    let header = SendHeader {
        wr_id: request.wr_id,
        opcode: request.opcode,
        flags: request.send_flags & FLAGS,
        imm: request.imm_data.to_ne_bytes(),
        ..SendHeader::default()
    };
    // SAFETY: each operation fills the member that is read for it.
    unsafe {
        match request.opcode {
            _ if service == UD => datagram(header, &request.wr.ud),
            opcode::RDMA_WRITE | opcode::RDMA_WRITE_WITH_IMM | opcode::RDMA_READ => {
                let rdma = request.wr.rdma;
                Ok(SendHeader {
                    remote_addr: rdma.remote_addr,
                    rkey: rdma.rkey,
                    ..header
                })
            }
            opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD => {
                Ok(atomic(header, &request.wr.atomic))
            }
            opcode::BIND_MW => bind(header, &request.tail.bind_mw),
            opcode::LOCAL_INV => Ok(SendHeader {
                rkey: request.imm_data,
                ..header
            }),
            _ => Ok(header),
        }
    }
}

/// # Safety
/// The address handle is one of this library, or null.
unsafe fn datagram(header: SendHeader, ud: &abi::Ud) -> Result<SendHeader> {
    // SAFETY: as promised.
    let handle = unsafe { ud.ah.cast::<AddressHandle>().as_ref() }.ok_or(Errno(libc::EINVAL))?;
    Ok(SendHeader {
        target: ud.remote_qpn,
        qkey: ud.remote_qkey,
        address: handle.vector,
        ..header
    })
}

fn atomic(header: SendHeader, atomic: &abi::Atomic) -> SendHeader {
    SendHeader {
        remote_addr: atomic.remote_addr,
        rkey: atomic.rkey,
        compare_add: atomic.compare_add,
        swap: atomic.swap,
        ..header
    }
}

/// # Safety
/// Window and region are of this library; the region may be null for an empty range.
pub(crate) unsafe fn bind(header: SendHeader, bind: &abi::BindMw) -> Result<SendHeader> {
    // SAFETY: as promised.
    let (window, region) = unsafe { (bind.mw.as_ref(), bind.bind_info.mr.as_ref()) };
    let window = window.ok_or(Errno(libc::EINVAL))?;
    Ok(SendHeader {
        rkey: bind.rkey,
        target: window.handle,
        compare_add: bind.bind_info.addr,
        swap: bind.bind_info.length,
        qkey: bind.bind_info.mw_access_flags,
        bind_lkey: region.map_or(0, |region| region.lkey),
        ..header
    })
}

/// What posting a chain comes to, and the first request of it that failed.
pub(crate) type Posted<R> = (Result<()>, *mut R);

/// Tells C of it.
///
/// # Safety
/// `bad` is good for a write.
#[inline]
pub(crate) unsafe fn report<R>((outcome, failed): Posted<R>, bad: *mut *mut R) -> c_int {
    if outcome.is_err() {
        // SAFETY: as promised.
        unsafe { bad.write(failed) };
    }
    errno::number(outcome)
}

/// The buffers of a request.
///
/// # Safety
/// `list` points to `count` buffers, or `count` is 0 or less.
#[inline]
pub(crate) unsafe fn buffers<'a>(list: *mut abi::Sge, count: i32) -> &'a [Buffer] {
    match usize::try_from(count) {
        // SAFETY: as promised; both are an address, a length and a key, in this order.
        Ok(count) if count > 0 => unsafe { core::slice::from_raw_parts(list.cast(), count) },
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use vrdma_provider::message::qp_type::UC;

    use super::*;

    #[test]
    fn a_service_has_the_operations_of_the_specification() {
        for (service, operations) in [
            (RC, 0b11_1111_1111),
            (UC, 0b01_1000_1111),
            (UD, 0b00_0000_1100),
        ] {
            for operation in 0..16 {
                let wanted = operations >> operation & 1 == 1;
                assert_eq!(allowed(service, operation), wanted, "{service} {operation}");
            }
        }
    }
}
