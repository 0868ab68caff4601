//! Send entries.
//!
//! User libraries put their own opcode numbers into the ring. These agree with the device's only up to 6, so a user's
//! queue pair may use no higher ones: see [`permits`].

use vrdma_memory::{Region, View};
use vrdma_verbs::object::{Owner, PdId, QpType};
use vrdma_verbs::work::{Datagram, Imm, Remote, SendOp, SendWr, SgeList, Status};
use vrdma_wire::Rkey;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::{Entry, FIRST_PIECE, datagram, fast_register};
use crate::abi::work::{
    AtomicPart, RdmaPart, SEND_HEADER_BYTES, SendHeader, opcode as op, send_flag,
};
use crate::queue::RingError;

/// Limits and identity of a queue pair, for checking its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SendRules {
    /// Service type.
    pub(crate) qp_type: QpType,
    /// Context that owns the queue pair.
    pub(crate) owner: Owner,
    /// Protection domain.
    pub(crate) pd: PdId,
    /// Most buffers of one request.
    pub(crate) max_sge: u32,
    /// Most buffers of one READ.
    pub(crate) max_sge_rd: u32,
}

/// Copies and decodes the entry of `stride` bytes at `address`.
#[inline]
pub(crate) fn decode(
    memory: &View<'_>,
    address: u64,
    stride: u32,
    rules: &SendRules,
) -> Result<SendWr<Region>, RingError> {
    let mut bytes = [0; FIRST_PIECE];
    let entry = Entry::copy(memory, address, stride, &mut bytes)?;
    let header: &SendHeader = entry.header();
    let flags = header.send_flags.get();
    let (sges, op, datagram) = match check(header, rules) {
        Ok(()) => {
            let sges = entry.sges(SEND_HEADER_BYTES, header.num_sge.get())?;
            let (op, datagram) = work(memory, header, rules);
            (sges, op, datagram)
        }
        Err(status) => (SgeList::new(), SendOp::Refused(status), None),
    };
    Ok(SendWr {
        id: header.wr_id.get(),
        op,
        fence: flags & send_flag::FENCE != 0,
        signaled: flags & send_flag::SIGNALED != 0,
        solicited: flags & send_flag::SOLICITED != 0,
        sges,
        inline: None,
        datagram,
    })
}

fn check(header: &SendHeader, rules: &SendRules) -> Result<(), Status> {
    let opcode = header.opcode.get();
    let most = match opcode {
        op::RDMA_READ => rules.max_sge_rd.min(rules.max_sge),
        _ => rules.max_sge,
    };
    (permits(rules, opcode) && header.num_sge.get() <= most)
        .then_some(())
        .ok_or(Status::LocQpOp)
}

/// Whether a queue pair may use an opcode (reference section 8.3).
fn permits(rules: &SendRules, opcode: u32) -> bool {
    match rules.qp_type {
        QpType::Gsi => opcode == op::SEND,
        QpType::Ud => matches!(opcode, op::SEND | op::SEND_WITH_IMM),
        // CREATE_QP refuses UC, as the stock driver does.
        QpType::Uc => false,
        QpType::Rc => match opcode {
            0..=op::ATOMIC_FETCH_AND_ADD => true,
            op::SEND_WITH_INV | op::LOCAL_INV | op::FAST_REG_MR => rules.owner == Owner::KERNEL,
            _ => false,
        },
    }
}

/// Decodes the operation, and the destination if it is a datagram.
#[inline]
fn work(
    memory: &View<'_>,
    header: &SendHeader,
    rules: &SendRules,
) -> (SendOp<Region>, Option<Datagram>) {
    let op = operation(memory, header).unwrap_or_else(SendOp::Refused);
    if rules.qp_type == QpType::Rc {
        return (op, None);
    }
    match datagram::decode(header, rules.pd) {
        Ok(datagram) => (op, Some(datagram)),
        Err(status) => (SendOp::Refused(status), None),
    }
}

fn operation(memory: &View<'_>, header: &SendHeader) -> Result<SendOp<Region>, Status> {
    let imm = Imm(header.ex);
    let key = Rkey(u32::from_le_bytes(header.ex));
    Ok(match header.opcode.get() {
        op::RDMA_WRITE => SendOp::Write(remote(header)),
        op::RDMA_WRITE_WITH_IMM => SendOp::WriteImm(remote(header), imm),
        op::SEND => SendOp::Send,
        op::SEND_WITH_IMM => SendOp::SendImm(imm),
        op::RDMA_READ => SendOp::Read(remote(header)),
        op::ATOMIC_CMP_AND_SWP => compare_swap(header),
        op::ATOMIC_FETCH_AND_ADD => fetch_add(header),
        op::SEND_WITH_INV => SendOp::SendInvalidate(key),
        op::LOCAL_INV => SendOp::LocalInvalidate(key),
        op::FAST_REG_MR => SendOp::FastRegister(fast_register::decode(memory, header)?.into()),
        _ => return Err(Status::LocQpOp),
    })
}

/// The union of an entry, as the type for its opcode.
pub(super) fn part<T: FromBytes + KnownLayout + Immutable>(header: &SendHeader) -> T {
    let (part, _) = T::read_from_prefix(&header.part).expect("every variant fits the union");
    part
}

fn remote(header: &SendHeader) -> Remote {
    let part: RdmaPart = part(header);
    Remote {
        addr: part.remote_addr.get(),
        rkey: Rkey(part.rkey.get()),
    }
}

fn atomic(part: &AtomicPart) -> Remote {
    Remote {
        addr: part.remote_addr.get(),
        rkey: Rkey(part.rkey.get()),
    }
}

fn compare_swap(header: &SendHeader) -> SendOp<Region> {
    let part: AtomicPart = part(header);
    SendOp::CompareSwap {
        remote: atomic(&part),
        compare: part.compare_add.get(),
        swap: part.swap.get(),
    }
}

fn fetch_add(header: &SendHeader) -> SendOp<Region> {
    let part: AtomicPart = part(header);
    SendOp::FetchAdd {
        remote: atomic(&part),
        add: part.compare_add.get(),
    }
}
