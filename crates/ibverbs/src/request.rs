//! Work requests of C as slots of a send queue.

use core::ffi::{c_int, c_uint};

use vrdma_provider::layout::{Buffer, SendHeader, opcode, send_flag};
use vrdma_provider::message::qp_type::RC;
pub(crate) use vrdma_provider::message::qp_type::UD;
use vrdma_provider::operation::{Bind, Operation, Remote};

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

/// Whether the payload is sent, so that it may travel by value.
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

/// Returns the slot of a request, without its payload and operation.
#[inline]
pub(crate) fn slot(wr_id: u64, flags: c_uint) -> SendHeader {
    SendHeader {
        wr_id,
        flags: flags & FLAGS,
        ..SendHeader::default()
    }
}

/// Adds the operation that a request of `ibv_post_send` asks for to its slot.
///
/// # Safety
/// The request comes from a program: the member of each union that its operation names is filled, and the objects that
/// it points to are there.
#[inline]
pub(crate) unsafe fn describe(
    slot: &mut SendHeader,
    request: &abi::SendWr,
    service: c_uint,
) -> Result<()> {
    if !allowed(service, request.opcode) {
        return Err(Errno(libc::EINVAL));
    }
    let (imm, key) = (request.imm_data.to_ne_bytes(), request.imm_data);
    // SAFETY: each operation, and each datagram, fills the member that is read for it.
    unsafe {
        match request.opcode {
            opcode::RDMA_WRITE => Operation::Write(remote(&request.wr.rdma)).write(slot),
            opcode::RDMA_WRITE_WITH_IMM => {
                Operation::WriteImm(remote(&request.wr.rdma), imm).write(slot)
            }
            opcode::SEND => Operation::Send.write(slot),
            opcode::SEND_WITH_IMM => Operation::SendImm(imm).write(slot),
            opcode::RDMA_READ => Operation::Read(remote(&request.wr.rdma)).write(slot),
            opcode::ATOMIC_CMP_AND_SWP => compare_swap(&request.wr.atomic).write(slot),
            opcode::ATOMIC_FETCH_AND_ADD => fetch_add(&request.wr.atomic).write(slot),
            opcode::LOCAL_INV => Operation::LocalInvalidate(key).write(slot),
            opcode::BIND_MW => bind(&request.tail.bind_mw)?.write(slot),
            opcode::SEND_WITH_INV => Operation::SendInvalidate(key).write(slot),
            _ => return Err(Errno(libc::EINVAL)),
        }
        if service == UD {
            send_to(slot, &request.wr.ud)?;
        }
    }
    Ok(())
}

fn remote(rdma: &abi::Rdma) -> Remote {
    Remote {
        addr: rdma.remote_addr,
        rkey: rdma.rkey,
    }
}

fn place(atomic: &abi::Atomic) -> Remote {
    Remote {
        addr: atomic.remote_addr,
        rkey: atomic.rkey,
    }
}

fn compare_swap(atomic: &abi::Atomic) -> Operation {
    Operation::CompareSwap {
        remote: place(atomic),
        compare: atomic.compare_add,
        swap: atomic.swap,
    }
}

fn fetch_add(atomic: &abi::Atomic) -> Operation {
    Operation::FetchAdd {
        remote: place(atomic),
        add: atomic.compare_add,
    }
}

/// Adds the destination of a datagram.
///
/// # Safety
/// The address handle is one of this library, or null.
pub(crate) unsafe fn send_to(slot: &mut SendHeader, ud: &abi::Ud) -> Result<()> {
    // SAFETY: as promised.
    let handle = unsafe { ud.ah.cast::<AddressHandle>().as_ref() }.ok_or(Errno(libc::EINVAL))?;
    (slot.target, slot.qkey) = (ud.remote_qpn, ud.remote_qkey);
    slot.address = handle.vector;
    Ok(())
}

/// # Safety
/// Window and region are of this library; the region may be null for an empty range.
pub(crate) unsafe fn bind(bind: &abi::BindMw) -> Result<Operation> {
    // SAFETY: as promised.
    let (window, region) = unsafe { (bind.mw.as_ref(), bind.bind_info.mr.as_ref()) };
    let window = window.ok_or(Errno(libc::EINVAL))?;
    Ok(Operation::BindWindow(Bind {
        window: window.handle,
        rkey: bind.rkey,
        lkey: region.map_or(0, |region| region.lkey),
        addr: bind.bind_info.addr,
        length: bind.bind_info.length,
        access: bind.bind_info.mw_access_flags,
    }))
}

/// What became of a chain of requests.
pub(crate) struct Posted<R> {
    /// The outcome of posting.
    pub(crate) outcome: Result<()>,
    /// The first request that failed; the end of the chain if none did.
    pub(crate) bad_wr: *mut R,
}

impl<R> Posted<R> {
    /// Makes the outcome of a chain whose request `bad_wr` failed.
    #[inline]
    pub(crate) fn failed(error: Errno, bad_wr: *mut R) -> Self {
        Self {
            outcome: Err(error),
            bad_wr,
        }
    }
}

/// Reports the outcome to C.
///
/// # Safety
/// `bad` is good for a write.
#[inline]
pub(crate) unsafe fn report<R>(posted: Posted<R>, bad: *mut *mut R) -> c_int {
    if posted.outcome.is_err() {
        // SAFETY: as promised.
        unsafe { bad.write(posted.bad_wr) };
    }
    errno::number(posted.outcome)
}

/// Returns the buffers of a request.
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
