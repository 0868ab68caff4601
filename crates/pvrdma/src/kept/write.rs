//! Writes records as objects are made, changed and destroyed.

use prost::Message;
use vrdma_adapter::{FrontEnd, Intents, Journal};
use vrdma_memory::{Region, View};
use vrdma_verbs::Intent;
use vrdma_verbs::object::{CqId, Owner, QpId, SrqId};
use vrdma_verbs::saved::Piece;
use zerocopy::IntoBytes;

use super::{Kind, Past, record};
use crate::adapter::Adapter;

impl Adapter {
    /// Writes a record. If there is no room for it, no process can go on with this device, and all its records are
    /// given up.
    pub(crate) fn record(&mut self, kind: Kind, id: u32, bytes: &[u8]) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        if !journal.put(kind as u16, id, bytes) {
            tracing::warn!(
                "there is no room to record a guest's adapter: it will not survive the end of the worker"
            );
            self.set_journal(None);
        }
    }

    /// Sets where records are written from now on, and atomics before they are done.
    pub(crate) fn set_journal(&mut self, journal: Option<Box<dyn Journal>>) {
        let beside = journal.as_ref().and_then(|journal| journal.beside());
        self.journal = journal;
        match beside {
            Some(beside) => {
                let intents = Intents::new(beside, Kind::Intent as u16);
                self.core.hca.log_intents(Box::new(intents));
            }
            None => self.core.hca.stop_intents(),
        }
    }

    /// Takes the journal away.
    pub(crate) fn take_journal(&mut self) -> Option<Box<dyn Journal>> {
        self.core.hca.stop_intents();
        self.journal.take()
    }

    /// Makes sure that an atomic that the previous process was about to do is not done twice.
    pub(crate) fn conclude_intent(&mut self, past: &Past<'_>, memory: &View<'_>) {
        let noted = past
            .get(Kind::Intent, 0)
            .and_then(|bytes| bytes.try_into().ok());
        let Some(intent) = noted.map(Intent::from_bytes) else {
            return;
        };
        if self.core.hca.conclude(&intent, memory) {
            self.note_progress(intent.qp);
        }
        if let Some(journal) = &mut self.journal {
            journal.forget_all(Kind::Intent as u16);
            journal.commit();
        }
    }

    pub(crate) fn forget_record(&mut self, kind: Kind, id: u32) {
        if let Some(journal) = &mut self.journal {
            journal.forget(kind as u16, id);
        }
    }

    /// Writes the engine's record of an object, or removes it if the object is gone.
    pub(crate) fn record_piece(&mut self, kind: Kind, id: u32, piece: Piece) {
        if self.journal.is_none() {
            return;
        }
        match self.core.hca.save_piece(piece, name_of) {
            Some(bytes) => self.record(kind, id, &bytes),
            None => self.forget_record(kind, id),
        }
    }

    /// Records the engine without its objects, when addresses or the MTU have changed.
    pub(crate) fn record_frame(&mut self) {
        if self.journal.is_none() {
            return;
        }
        let frame = self.core.hca.save_frame();
        let mut pieces = 0;
        for piece in frame.chunks(record::FRAME_PIECE) {
            self.record(Kind::Frame, pieces, piece);
            pieces += 1;
        }
        for gone in pieces..self.frame_pieces {
            self.forget_record(Kind::Frame, gone);
        }
        self.frame_pieces = pieces;
    }

    pub(crate) fn record_mr(&mut self, id: u32) {
        if self.journal.is_none() {
            return;
        }
        let charge = self.mrs.get(id).map(|mr| mr.charge.as_ref());
        let Some((charge, engine)) = charge.zip(self.core.hca.save_piece(Piece::Mr(id), name_of))
        else {
            return;
        };
        let charged = charge.map_or(0, |charge| charge.pages());
        let record = record::Mr { engine, charged };
        self.record(Kind::Mr, id, &record.encode_to_vec());
    }

    pub(crate) fn record_new_cq(&mut self, id: CqId) {
        if let Some(request) = self.cqs.get(id.0).map(|cq| cq.request) {
            self.record(Kind::CqRequest, id.0, request.as_bytes());
        }
        self.record_piece(Kind::Cq, id.0, Piece::Cq(id));
        self.record_cq_progress(id);
    }

    pub(crate) fn record_cq_progress(&mut self, id: CqId) {
        let Some(cq) = self.cqs.get(id.0).filter(|_| self.journal.is_some()) else {
            return;
        };
        let mut bytes = [0; 5];
        bytes[..4].copy_from_slice(&cq.ring.written().to_le_bytes());
        bytes[4] = cq.dead.into();
        self.record(Kind::CqProgress, id.0, &bytes);
    }

    pub(crate) fn record_new_srq(&mut self, id: SrqId) {
        if let Some(request) = self.srqs.get(id.0).map(|srq| srq.request) {
            self.record(Kind::SrqRequest, id.0, request.as_bytes());
        }
        self.record_srq(id);
    }

    pub(crate) fn record_srq(&mut self, id: SrqId) {
        let Some(srq) = self.srqs.get(id.0).filter(|_| self.journal.is_some()) else {
            return;
        };
        let engine = self.core.hca.save_piece(Piece::Srq(id), name_of);
        let record = record::Srq {
            released: srq.ring.released(),
            limit: srq.limit,
            dead: srq.dead,
            engine: engine.unwrap_or_default(),
        };
        self.record(Kind::SrqProgress, id.0, &record.encode_to_vec());
    }

    pub(crate) fn record_new_qp(&mut self, id: QpId) {
        if let Some(request) = self.qps.get(id.0).map(|qp| qp.request) {
            self.record(Kind::QpRequest, id.0, request.as_bytes());
        }
        self.record_qp(id);
    }

    /// Records a queue pair that was made or changed by its owner.
    pub(crate) fn record_qp(&mut self, id: QpId) {
        self.record_piece(Kind::Qp, id.0, Piece::Qp(id));
        self.record_qp_progress(id);
    }

    pub(crate) fn record_qp_progress(&mut self, id: QpId) {
        let Some(qp) = self.qps.get(id.0).filter(|_| self.journal.is_some()) else {
            return;
        };
        let mut bytes = std::mem::take(&mut self.record_buffer);
        bytes.clear();
        let received = qp.recv.as_ref().map_or(0, |recv| recv.released());
        bytes.extend(qp.send.released().to_le_bytes());
        bytes.extend(received.to_le_bytes());
        bytes.push(qp.dead.into());
        let is_shared = qp.recv.is_none();
        self.core.hca.save_progress(id, &mut bytes);
        self.record(Kind::QpProgress, id.0, &bytes);
        self.record_buffer = bytes;
        if is_shared {
            self.record_shared_receives(id);
        }
    }

    fn record_shared_receives(&mut self, id: QpId) {
        match self.core.hca.save_receive_under_way(id) {
            Some(receive) => self.record(Kind::Receive, id.0, &receive),
            None => self.forget_record(Kind::Receive, id.0),
        }
        if let Some(srq) = self.core.hca.qp_spec(id).and_then(|spec| spec.srq) {
            self.record_srq(srq);
        }
    }

    pub(crate) fn forget_qp_records(&mut self, id: QpId) {
        for kind in [Kind::QpRequest, Kind::Qp, Kind::QpProgress, Kind::Receive] {
            self.forget_record(kind, id.0);
        }
    }

    pub(crate) fn forget_cq_records(&mut self, id: CqId) {
        for kind in [Kind::CqRequest, Kind::Cq, Kind::CqProgress] {
            self.forget_record(kind, id.0);
        }
    }

    pub(crate) fn forget_srq_records(&mut self, id: SrqId) {
        for kind in [Kind::SrqRequest, Kind::SrqProgress] {
            self.forget_record(kind, id.0);
        }
    }

    /// Commits the records written so far.
    pub(crate) fn commit_records(&mut self) {
        if let Some(journal) = &mut self.journal {
            self.core.hca.clear_intents();
            journal.commit();
        }
    }
}

impl Adapter {
    /// Records everything, for an adapter that was not recorded until now.
    pub(crate) fn record_everything(&mut self) {
        self.frame_pieces = 0;
        self.record_frame();
        for page in self.contexts.live().to_vec() {
            if let Some(owner) = self.contexts.at_page(page).map(|context| context.owner) {
                self.record_context(page, owner);
            }
        }
        for pd in self.core.hca.pds().collect::<Vec<_>>() {
            self.record_piece(Kind::Pd, pd.0, Piece::Pd(pd));
        }
        let (mrs, cqs) = (self.mrs.numbers(|_| true), self.cqs.numbers(|_| true));
        let (srqs, qps) = (self.srqs.numbers(|_| true), self.qps.numbers(|_| true));
        mrs.into_iter().for_each(|id| self.record_mr(id));
        cqs.into_iter().for_each(|id| self.record_new_cq(CqId(id)));
        (srqs.into_iter()).for_each(|id| self.record_new_srq(SrqId(id)));
        qps.into_iter().for_each(|id| self.record_new_qp(QpId(id)));
    }

    pub(crate) fn record_context(&mut self, page: u32, owner: Owner) {
        self.record(Kind::Context, page, &owner.0.to_le_bytes());
    }
}

/// The name of a region in records.
fn name_of(region: &Region) -> Vec<u8> {
    let place = match region {
        Region::Pages(list) => record::Backing {
            bus: false,
            directory: list.directory(),
            pages: list.count(),
            first_byte: list.first_byte(),
            few: match list.count() <= record::FEW {
                true => list.pages().to_vec(),
                false => Vec::new(),
            },
        },
        // Guests have no regions besides these two kinds.
        _ => record::Backing {
            bus: true,
            ..record::Backing::default()
        },
    };
    place.encode_to_vec()
}
