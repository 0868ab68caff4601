//! What an adapter has, for people who look for a fault: states and sequence numbers, no keys, no addresses of memory
//! and nothing that was sent.

use alloc::vec::Vec;

use vrdma_wire::{Gid, Mtu, Psn, Qpn};

use crate::attr::{Access, QpState};
use crate::hca::Hca;
use crate::mr::{Kind, Mr};
use crate::object::{CqId, MrKind, Owner, PdId, QpType, SrqId, WindowKind};
use crate::qp::Qp;

/// The first objects of each kind, by slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // the names are the objects
pub struct Outline {
    pub qps: Vec<QpOutline>,
    pub cqs: Vec<CqOutline>,
    pub srqs: Vec<SrqOutline>,
    pub mrs: Vec<MrOutline>,
}

/// A queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpOutline {
    /// Its number on the wire.
    pub qpn: Qpn,
    /// Transport service.
    pub qp_type: QpType,
    /// State.
    pub state: QpState,
    /// Whose it is.
    pub owner: Owner,
    /// Where its sends complete.
    pub send_cq: CqId,
    /// Where its receives complete.
    pub recv_cq: CqId,
    /// Where its receives come from, if not from its own queue.
    pub srq: Option<SrqId>,
    /// Of a connection: the peer's address and number.
    pub peer: Option<(Gid, Qpn)>,
    /// Payload of one packet.
    pub path_mtu: Mtu,
    /// First PSN that the peer is not known to have executed.
    pub unacked: Psn,
    /// PSN of the next packet.
    pub next: Psn,
    /// PSN that the peer's next request has.
    pub expected: Psn,
    /// Messages completed as responder, modulo 2^24.
    pub msn: u32,
    /// Send requests that are not completed.
    pub sends: u32,
    /// Receives that were fetched from its own queue.
    pub receives: u32,
    /// Times gone back since the last progress.
    pub retries: u8,
    /// Unready receivers met since the last progress.
    pub rnr_retries: u8,
}

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqOutline {
    /// Its slot.
    pub id: CqId,
    /// Whose it is.
    pub owner: Owner,
    /// It overflowed or could not be written.
    pub failed: bool,
}

/// A shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqOutline {
    /// Its slot.
    pub id: SrqId,
    /// Whose it is.
    pub owner: Owner,
    /// Its protection domain.
    pub pd: PdId,
    /// When an event is due; 0 for never.
    pub limit: u32,
    /// Its ring could not be read.
    pub failed: bool,
    /// Receives that were fetched from it.
    pub receives: u32,
}

/// A region or window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrOutline {
    /// Its slot, which its keys do not tell.
    pub slot: u32,
    /// Its protection domain.
    pub pd: PdId,
    /// What it is.
    pub kind: MemoryKind,
    /// Bytes.
    pub length: u64,
    /// Rights.
    pub access: Access,
    /// There is memory behind it: always, but for fast-register regions and windows.
    pub is_valid: bool,
}

/// What a key stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum MemoryKind {
    Region(MrKind),
    Window(WindowKind),
}

impl<R: Clone> Hca<R> {
    /// What it has, of each kind no more than so many: whoever shares the thread waits meanwhile.
    pub fn outline(&self, most: usize) -> Outline {
        let shared = &self.shared;
        let qps = self.qps.table.iter().take(most);
        let cqs = shared.cqs.iter().take(most);
        let srqs = shared.srqs.iter().take(most);
        let mrs = shared.mrs.iter().take(most);
        Outline {
            qps: qps.map(|(_, qp)| outline_qp(qp)).collect(),
            cqs: cqs
                .map(|(id, cq)| CqOutline {
                    id: CqId(id),
                    owner: cq.owner,
                    failed: cq.failed,
                })
                .collect(),
            srqs: srqs
                .map(|(id, srq)| SrqOutline {
                    id: SrqId(id),
                    owner: srq.owner,
                    pd: srq.pd,
                    limit: srq.limit,
                    failed: srq.failed,
                    receives: srq.receives.len() as u32,
                })
                .collect(),
            mrs: mrs.map(|(slot, mr)| outline_mr(slot, mr)).collect(),
        }
    }
}

fn outline_qp<R>(qp: &Qp<R>) -> QpOutline {
    let (attr, requester, responder) = (&qp.attr, &qp.requester, &qp.responder);
    let is_connected = qp.is_connected() && !matches!(qp.state(), QpState::Reset | QpState::Init);
    QpOutline {
        qpn: qp.qpn,
        qp_type: qp.spec.qp_type,
        state: qp.state(),
        owner: qp.owner,
        send_cq: qp.spec.send_cq,
        recv_cq: qp.spec.recv_cq,
        srq: qp.spec.srq,
        peer: is_connected.then_some((attr.address.dgid, attr.dest_qpn)),
        path_mtu: attr.path_mtu,
        unacked: requester.unacked,
        next: requester.next,
        expected: responder.expected(),
        msn: responder.msn,
        sends: requester.queue.len() as u32,
        receives: responder.queue.len() as u32,
        retries: requester.retries,
        rnr_retries: requester.rnr_retries,
    }
}

fn outline_mr<R>(slot: u32, mr: &Mr<R>) -> MrOutline {
    MrOutline {
        slot,
        pd: mr.pd,
        kind: match mr.kind {
            Kind::Region { kind, .. } => MemoryKind::Region(kind),
            Kind::Window(window) => MemoryKind::Window(window.kind),
        },
        length: mr.length,
        access: mr.access,
        is_valid: mr.region.is_some(),
    }
}
