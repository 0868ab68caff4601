//! Records of the progress of queues, written with each message.
//!
//! The request that makes a queue writes its first progress, and is refused without room. Later progress fits into the
//! same place, except receives under way; if one finds no room, all records of the adapter are removed.

use rustix::io::Errno;
use vrdma_adapter::Journal;
use vrdma_verbs::object::{CqId, QpId, SrqId};
use vrdma_verbs::saved::Piece;

use super::write::recorded;
use super::{Kind, record};
use crate::Process;

impl Process {
    /// Ends the records if one was not written. With an old record, another process would repeat what was done: better
    /// that no process goes on for this adapter.
    pub(super) fn give_up_unless(&mut self, written: Result<(), Errno>) {
        if written == Err(Errno::NOMEM) {
            tracing::warn!(
                adapter = %self.spec.name,
                "there is no room to record an adapter of processes: it will not survive the end of the worker"
            );
            self.end_records();
        }
    }

    /// Records the progress of a completion queue; without room the records end.
    pub(crate) fn write_cq_progress(&mut self, id: CqId) {
        let written = self.put_cq_progress(id);
        self.give_up_unless(written);
    }

    /// As [`write_cq_progress`](Self::write_cq_progress), but returns `ENOMEM` without room.
    pub(super) fn put_cq_progress(&mut self, id: CqId) -> Result<(), Errno> {
        let Self { recorder, cqs, .. } = self;
        let (Some(recorder), Some(cq)) = (recorder, cqs.get(id.0)) else {
            return Ok(());
        };
        let mut bytes = [0; 5];
        bytes[..4].copy_from_slice(&cq.ring.written().to_le_bytes());
        bytes[4] = cq.dead.into();
        recorded(recorder.put(Kind::CqProgress as u16, id.0, &bytes))
    }

    /// Records the progress of a shared receive queue; without room the records end.
    pub(crate) fn write_srq_progress(&mut self, id: SrqId) {
        let written = self.put_srq_progress(id);
        self.give_up_unless(written);
    }

    /// As [`write_srq_progress`](Self::write_srq_progress), but returns `ENOMEM` without room.
    pub(super) fn put_srq_progress(&mut self, id: SrqId) -> Result<(), Errno> {
        if self.recorder.is_none() {
            return Ok(());
        }
        let engine = self.core.hca.save_piece(Piece::Srq(id), |_| Vec::new());
        let Some((srq, engine)) = self.srqs.get(id.0).zip(engine) else {
            return Ok(());
        };
        let record = record::SrqProgress {
            released: srq.ring.released(),
            limit: srq.limit,
            dead: srq.dead,
            engine,
        };
        self.record(Kind::SrqProgress, id.0, &record)
    }

    /// Records the progress of a queue pair; without room the records end.
    pub(crate) fn write_qp_progress(&mut self, id: QpId) {
        let written = self.put_qp_progress(id);
        self.give_up_unless(written);
    }

    /// As [`write_qp_progress`](Self::write_qp_progress), but returns `ENOMEM` without room.
    pub(super) fn put_qp_progress(&mut self, id: QpId) -> Result<(), Errno> {
        let Self {
            recorder,
            core,
            qps,
            ..
        } = self;
        let (Some(recorder), Some(qp)) = (recorder, qps.get(id.0)) else {
            return Ok(());
        };
        let mut buffer = std::mem::take(&mut recorder.buffer);
        buffer.clear();
        let received = qp.recv.as_ref().map_or(0, |recv| recv.released());
        buffer.extend(qp.send.released().to_le_bytes());
        buffer.extend(received.to_le_bytes());
        buffer.push(qp.dead.into());
        core.hca.save_progress(id, &mut buffer);
        let has_room = recorder.put(Kind::QpProgress as u16, id.0, &buffer);
        recorder.buffer = buffer;
        recorded(has_room)?;
        if qp.recv.is_some() {
            return Ok(());
        }
        match core.hca.save_receive_under_way(id) {
            Some(receive) => recorded(recorder.put(Kind::Receive as u16, id.0, &receive))?,
            None => recorder.forget(Kind::Receive as u16, id.0),
        }
        match core.hca.qp_spec(id).and_then(|spec| spec.srq) {
            Some(srq) => self.put_srq_progress(srq),
            None => Ok(()),
        }
    }
}
