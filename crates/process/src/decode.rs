//! Work requests from their slots: each part is copied once, and only the copy is looked at.

use vrdma_memory::Region;
use vrdma_provider::daemon::{RingError, Slot};
use vrdma_provider::layout::{AddressVector, Buffer, RecvHeader, SendHeader, opcode, send_flag};
use vrdma_provider::message::access;
use vrdma_provider::operation::{self, Bind, Operation};
use vrdma_verbs::attr::{Access, Address};
use vrdma_verbs::object::QpType;
use vrdma_verbs::work::{
    BindWindow, Datagram, Imm, RecvWr, Remote, SendOp, SendWr, Sge, SgeList, Status,
};
use vrdma_wire::{Gid, Lkey, Qkey, Qpn, Rkey};

use super::objects::{Qp, Srq};

/// The 20 bits of a flow label.
const FLOW_LABEL: u32 = 0x000f_ffff;

impl Qp {
    /// Fetches the next send request, if there is one.
    pub(super) fn fetch_send(&mut self) -> Result<Option<SendWr<Region>>, RingError> {
        if !self.has_sends()? {
            return Ok(None);
        }
        let (most, data, qp_type) = (self.capacity.max_send_sge, self.data.1, self.qp_type);
        let slot = self.send.fetch()?;
        Ok(slot.map(|slot| send(&slot, most, data, qp_type)))
    }

    /// Fetches the next receive from the queue pair's own ring, if there is one.
    pub(super) fn fetch_recv(&mut self) -> Result<Option<RecvWr>, RingError> {
        let most = self.capacity.max_recv_sge;
        let Some(recv) = self.recv.as_mut().filter(|_| !self.dead) else {
            return Ok(None);
        };
        let slot = recv.fetch()?;
        Ok(slot.map(|slot| receive(&slot, most)))
    }
}

impl Srq {
    /// Fetches the next receive, if there is one. Its slot is free at once: receives leave a shared queue in any order.
    pub(super) fn fetch(&mut self) -> Result<Option<RecvWr>, RingError> {
        if self.dead {
            return Ok(None);
        }
        let slot = self.ring.fetch()?;
        let request = slot.map(|slot| receive(&slot, self.max_sge));
        if request.is_some() {
            self.ring.release();
            self.ring.show_released();
        }
        Ok(request)
    }
}

pub(crate) fn receive(slot: &Slot<'_>, most: u32) -> RecvWr {
    let header: RecvHeader = slot.header();
    RecvWr {
        id: header.wr_id,
        sges: buffers::<RecvHeader>(slot, header.buffers, most).ok_or(Status::LocQpOp),
    }
}

pub(crate) fn sge(buffer: &Buffer) -> Sge {
    Sge {
        addr: buffer.addr,
        length: buffer.length,
        lkey: Lkey(buffer.lkey),
    }
}

/// Reads the buffers; `None` if there are more than the queue was made for.
fn buffers<T>(slot: &Slot<'_>, count: u32, most: u32) -> Option<SgeList> {
    let count = (count <= most).then_some(count as usize)?;
    let buffer = |index| slot.buffer::<T>(index).map(|buffer| sge(&buffer));
    (0..count).map(buffer).collect()
}

fn send(slot: &Slot<'_>, most: u32, data: Lkey, qp_type: QpType) -> SendWr<Region> {
    let header: SendHeader = slot.header();
    let sges = if header.flags & send_flag::DATA != 0 {
        by_value(&header, data)
    } else {
        buffers::<SendHeader>(slot, header.buffers, most)
    };
    let (op, sges) = match sges {
        Some(sges) => {
            let op = operation(&header);
            (op.unwrap_or(SendOp::Refused(Status::LocQpOp)), sges)
        }
        None => (SendOp::Refused(Status::LocQpOp), SgeList::new()),
    };
    let datagram = (!qp_type.is_connected()).then(|| datagram(&header));
    let op = if let Some(None) = datagram {
        SendOp::Refused(Status::LocQpOp)
    } else {
        op
    };
    SendWr {
        fence: header.flags & send_flag::FENCE != 0,
        signaled: header.flags & send_flag::SIGNALED != 0,
        solicited: header.flags & send_flag::SOLICITED != 0,
        sges,
        datagram: datagram.flatten(),
        ..SendWr::new(header.wr_id, op)
    }
}

/// The payload in the data area; `None` for operations that write into their buffers.
fn by_value(header: &SendHeader, data: Lkey) -> Option<SgeList> {
    let writes = matches!(
        header.opcode,
        opcode::RDMA_READ | opcode::ATOMIC_CMP_AND_SWP | opcode::ATOMIC_FETCH_AND_ADD
    );
    let piece = Sge {
        addr: header.data_offset.into(),
        length: header.data_length,
        lkey: data,
    };
    (!writes).then(|| SgeList::from_slice(&[piece]))
}

fn operation(header: &SendHeader) -> Option<SendOp<Region>> {
    Some(match Operation::of(header)? {
        Operation::Write(to) => SendOp::Write(remote(to)),
        Operation::WriteImm(to, imm) => SendOp::WriteImm(remote(to), Imm(imm)),
        Operation::Send => SendOp::Send,
        Operation::SendImm(imm) => SendOp::SendImm(Imm(imm)),
        Operation::Read(from) => SendOp::Read(remote(from)),
        Operation::CompareSwap {
            remote: at,
            compare,
            swap,
        } => SendOp::CompareSwap {
            remote: remote(at),
            compare,
            swap,
        },
        Operation::FetchAdd { remote: at, add } => SendOp::FetchAdd {
            remote: remote(at),
            add,
        },
        Operation::LocalInvalidate(key) => SendOp::LocalInvalidate(Rkey(key)),
        Operation::SendInvalidate(key) => SendOp::SendInvalidate(Rkey(key)),
        Operation::BindWindow(wanted) => SendOp::BindWindow(bind(&wanted)),
    })
}

fn remote(place: operation::Remote) -> Remote {
    Remote {
        addr: place.addr,
        rkey: Rkey(place.rkey),
    }
}

fn bind(wanted: &Bind) -> BindWindow {
    BindWindow {
        window: Rkey(wanted.rkey),
        region: Lkey(wanted.lkey),
        start: wanted.addr,
        length: wanted.length,
        // Programs ask for local writing as well, but it is not a right that a window grants.
        access: Access::from_bits_truncate(wanted.access) - Access::LOCAL_WRITE,
        zero_based: wanted.access & access::ZERO_BASED != 0,
    }
}

fn datagram(header: &SendHeader) -> Option<Datagram> {
    Some(Datagram {
        qpn: Qpn::new(header.target)?,
        qkey: Qkey(header.qkey),
        address: address(&header.address),
    })
}

/// Decodes a path; the engine checks ports, addresses and the source GID.
pub(super) fn address(vector: &AddressVector) -> Address {
    Address {
        dgid: Gid(vector.dgid),
        sgid_index: vector.sgid_index,
        hop_limit: vector.hop_limit,
        traffic_class: vector.traffic_class,
        flow_label: vector.flow_label & FLOW_LABEL,
        sl: vector.sl,
        port: vector.port,
        dmac: vector.dmac,
    }
}
