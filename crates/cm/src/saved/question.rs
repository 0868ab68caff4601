//! Questions for datagram services as records.

use core::time::Duration;

use vrdma_wire::Gid;
use vrdma_wire::cm::{CmMad, CommId, Message};

use super::{Unusable, byte, datagram, ends, record, save_ends, trimmed};
use crate::machine::Cm;
use crate::sidr::{LINGER, Question, Sidr, Stage, patience};

/// Numbers of the stages in records.
const ASKED: u32 = 0;
const WAITING: u32 = 1;
const ANSWERED: u32 = 2;

impl Sidr {
    pub(super) fn save(&self, id: CommId) -> Option<record::Question> {
        let question = self.get(id)?;
        let (stage, repeats) = match question.stage {
            Stage::Asked { repeats } => (ASKED, repeats),
            Stage::Waiting(_) => (WAITING, 0),
            Stage::Answered => (ANSWERED, 0),
        };
        Some(record::Question {
            id: id.0,
            request: question.request,
            ends: save_ends(&question.ends),
            datagram: trimmed(&CmMad {
                transaction: question.transaction,
                message: question.message,
            }),
            stage,
            repeats: repeats.into(),
        })
    }
}

impl Cm {
    pub(super) fn resume_question(
        &mut self,
        record: &record::Question,
        own: &[Gid],
        now: Duration,
    ) -> Result<CommId, Unusable> {
        let id = CommId(record.id);
        let ends = ends(&record.ends, own)?;
        let mad = datagram(&record.datagram).ok_or(Unusable::Damaged)?;
        let repeats = byte(record.repeats)?;
        if !self.is_free(id) {
            return Err(Unusable::Full);
        }
        let (stage, due) = match (record.stage, &mad.message) {
            (ASKED, Message::SidrReq(asked)) if asked.request == id.0 && record.request == id.0 => {
                (Stage::Asked { repeats }, Some(now + patience()))
            }
            (WAITING, Message::SidrReq(asked)) if asked.request == record.request => {
                // Without its listener there is no answer; the peer asks again.
                let listener = self.listeners.find(asked.service, ends.local);
                let listener = listener.filter(|listener| self.listeners.wait(*listener));
                (Stage::Waiting(listener.ok_or(Unusable::Full)?), None)
            }
            (ANSWERED, Message::SidrRep(answer)) if answer.request == record.request => {
                (Stage::Answered, Some(now + LINGER))
            }
            _ => return Err(Unusable::Damaged),
        };
        let question = Question {
            ends,
            transaction: mad.transaction,
            request: record.request,
            message: mad.message,
            stage,
            deadline: None,
        };
        self.sidr.insert(id, question);
        self.sidr.set_deadline(id, due);
        Ok(id)
    }
}
