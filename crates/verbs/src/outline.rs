//! What an adapter has, for people who look for a fault: states and sequence numbers, but no keys, no addresses of
//! memory and no payload.

use alloc::vec::Vec;

use vrdma_wire::{Gid, Mtu, Psn, Qpn};

use crate::attr::{Access, QpState};
use crate::hca::Hca;
use crate::mr::{Kind, Mr};
use crate::object::{CqId, MrKind, Owner, PdId, QpType, SrqId, WindowKind};
use crate::qp::Qp;

/// The first objects of each kind, by slot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the names are the objects")]
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
    /// Its owner.
    pub owner: Owner,
    /// Queue of its send completions.
    pub send_cq: CqId,
    /// Queue of its receive completions.
    pub recv_cq: CqId,
    /// Shared queue of its receives, if it has no own one.
    pub srq: Option<SrqId>,
    /// GID and number of the peer, for a connection.
    pub peer: Option<(Gid, Qpn)>,
    /// Payload of one packet.
    pub path_mtu: Mtu,
    /// First PSN that the peer is not known to have executed.
    pub unacked: Psn,
    /// PSN of the next packet.
    pub next: Psn,
    /// PSN of the next request that the peer sends.
    pub expected: Psn,
    /// Messages completed as responder, modulo 2^24.
    pub msn: u32,
    /// Send requests that have not completed.
    pub sends: u32,
    /// Receives that were fetched from its own queue.
    pub receives: u32,
    /// Retries since the last progress.
    pub retries: u8,
    /// RNR refusals since the last progress.
    pub rnr_retries: u8,
}

/// A completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CqOutline {
    /// Its slot.
    pub id: CqId,
    /// Its owner.
    pub owner: Owner,
    /// Whether it overflowed or could not be written.
    pub failed: bool,
}

/// A shared receive queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrqOutline {
    /// Its slot.
    pub id: SrqId,
    /// Its owner.
    pub owner: Owner,
    /// Its protection domain.
    pub pd: PdId,
    /// Number of receives below which an event is due; 0 for never.
    pub limit: u32,
    /// Whether its ring could not be read.
    pub failed: bool,
    /// Receives that were fetched from it.
    pub receives: u32,
}

/// A region or window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrOutline {
    /// Its slot, which cannot be derived from its keys.
    pub slot: u32,
    /// Its protection domain.
    pub pd: PdId,
    /// Its kind.
    pub kind: MemoryKind,
    /// Bytes.
    pub length: u64,
    /// Rights.
    pub access: Access,
    /// Whether there is memory behind it: always, except for fast-register regions and windows.
    pub is_valid: bool,
}

/// Kind of object that a key stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are the kinds")]
pub enum MemoryKind {
    Region(MrKind),
    Window(WindowKind),
}

impl<R: Clone> Hca<R> {
    /// Returns the outline, with at most `most` objects of each kind: others on this thread wait meanwhile.
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
