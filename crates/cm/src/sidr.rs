//! Questions for datagram services (IBTA 12.11), asked and answered.

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use vrdma_wire::cm::{CommId, Message, PrivateData, SidrRep, SidrReq, SidrStatus};
use vrdma_wire::{Gid, Pkey, Qkey, Qpn};

use crate::changed::Changed;
use crate::connection::{MAX_RETRIES, RESPONSE_TIMEOUT};
use crate::event::{Event, Resolution, ResolveRequest};
use crate::ip;
use crate::listeners::ListenerId;
use crate::machine::Cm;
use crate::store::MAX_CONNECTIONS;
use crate::terms::{Ends, Refused, Resolve, SidrAnswer};

/// Time for which an answer is kept for peers that did not get it.
pub(crate) const LINGER: Duration = Duration::from_secs(4);

/// Stage of a question.
pub(crate) enum Stage {
    /// Asked by this side; it may be repeated this many times.
    Asked { repeats: u8 },
    /// Asked by the peer: the owner has to answer.
    Waiting(ListenerId),
    /// Answered by this side.
    Answered,
}

/// One question.
pub(crate) struct Question {
    pub(crate) ends: Ends,
    pub(crate) transaction: u64,
    /// Its name in messages, given by the side that asked.
    pub(crate) request: u32,
    /// The message that was sent, or the question to be answered.
    pub(crate) message: Message,
    pub(crate) stage: Stage,
    pub(crate) deadline: Option<Duration>,
}

/// All questions of an adapter.
#[derive(Default)]
pub(crate) struct Sidr {
    questions: BTreeMap<CommId, Question>,
    /// Questions that peers asked.
    by_remote: BTreeMap<(Gid, u32), CommId>,
    timers: BTreeSet<(Duration, CommId)>,
    pub(crate) changed: Changed,
}

impl Sidr {
    pub(crate) fn is_full(&self) -> bool {
        self.questions.len() >= MAX_CONNECTIONS
    }

    pub(crate) fn contains(&self, id: CommId) -> bool {
        self.questions.contains_key(&id)
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = CommId> {
        self.questions.keys().copied()
    }

    pub(crate) fn get(&self, id: CommId) -> Option<&Question> {
        self.questions.get(&id)
    }

    pub(crate) fn insert(&mut self, id: CommId, question: Question) {
        self.changed.note(id);
        if !matches!(question.stage, Stage::Asked { .. }) {
            let name = (question.ends.remote, question.request);
            self.by_remote.insert(name, id);
        }
        self.questions.insert(id, question);
        self.assert_counts();
    }

    /// Checks that no entries of removed questions are left.
    fn assert_counts(&self) {
        let questions = self.questions.len();
        debug_assert!(
            questions <= MAX_CONNECTIONS,
            "who inserts has asked for room"
        );
        debug_assert!(
            self.by_remote.len() <= questions,
            "a question has one name of its peer's"
        );
        debug_assert!(self.timers.len() <= questions, "a question has one timer");
    }

    pub(crate) fn set_deadline(&mut self, id: CommId, deadline: Option<Duration>) {
        let Some(question) = self.questions.get_mut(&id) else {
            return;
        };
        self.changed.note(id);
        if let Some(old) = core::mem::replace(&mut question.deadline, deadline) {
            self.timers.remove(&(old, id));
        }
        if let Some(new) = deadline {
            self.timers.insert((new, id));
        }
    }

    fn remove(&mut self, id: CommId) -> Option<Question> {
        self.set_deadline(id, None);
        let question = self.questions.remove(&id)?;
        if !matches!(question.stage, Stage::Asked { .. }) {
            self.by_remote
                .remove(&(question.ends.remote, question.request));
        }
        self.assert_counts();
        Some(question)
    }

    fn pop_due(&mut self, now: Duration) -> Option<CommId> {
        let (at, id) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.set_deadline(id, None);
        Some(id)
    }
}

impl Cm {
    /// Asks for a datagram service. [`Event::Resolved`] or [`Event::Unresolved`] follows.
    ///
    /// # Errors
    /// [`Refused::Full`].
    pub fn resolve(&mut self, resolve: &Resolve, now: Duration) -> Result<CommId, Refused> {
        let id = self.new_name()?;
        let message = Message::SidrReq(SidrReq {
            request: id.0,
            pkey: Pkey::DEFAULT,
            service: resolve.service,
            private_data: resolve.private,
        });
        let question = Question {
            ends: resolve.ends,
            transaction: u64::from(id.0) << 32,
            request: id.0,
            message,
            stage: Stage::Asked {
                repeats: MAX_RETRIES.get(),
            },
            deadline: None,
        };
        self.send(question.ends, question.transaction, message);
        self.sidr.insert(id, question);
        self.sidr.set_deadline(id, Some(now + patience()));
        Ok(id)
    }

    /// Answers a question of a peer.
    ///
    /// # Errors
    /// [`Refused::Unknown`], and [`Refused::State`] if it was answered already.
    pub fn answer(
        &mut self,
        id: CommId,
        answer: &SidrAnswer,
        now: Duration,
    ) -> Result<(), Refused> {
        let question = self.sidr.questions.get_mut(&id).ok_or(Refused::Unknown)?;
        let (Stage::Waiting(listener), Message::SidrReq(asked)) =
            (&question.stage, question.message)
        else {
            return Err(Refused::State);
        };
        self.listeners.answered(*listener);
        question.stage = Stage::Answered;
        question.message = reply(&asked, answer);
        let (ends, transaction, message) = (question.ends, question.transaction, question.message);
        self.send(ends, transaction, message);
        self.sidr.set_deadline(id, Some(now + LINGER));
        Ok(())
    }

    /// Releases a question: an unanswered one of a peer is answered with a refusal, one of this side is dropped.
    pub(crate) fn release_question(&mut self, id: CommId) {
        let Some(question) = self.sidr.questions.get(&id) else {
            return;
        };
        match (&question.stage, question.message) {
            (Stage::Waiting(listener), Message::SidrReq(asked)) => {
                self.listeners.answered(*listener);
                let (ends, transaction) = (question.ends, question.transaction);
                let no = reply(&asked, &refusal(SidrStatus::REJECTED));
                self.send(ends, transaction, no);
            }
            (Stage::Answered, _) => return,
            _ => {}
        }
        self.sidr.remove(id);
    }

    pub(crate) fn expire_questions(&mut self, now: Duration) {
        while let Some(id) = self.sidr.pop_due(now) {
            self.question_overdue(id, now);
        }
    }

    fn question_overdue(&mut self, id: CommId, now: Duration) {
        let Some(question) = self.sidr.questions.get_mut(&id) else {
            return;
        };
        match &mut question.stage {
            Stage::Asked { repeats } if *repeats > 0 => {
                *repeats -= 1;
                let (ends, transaction, message) =
                    (question.ends, question.transaction, question.message);
                self.send(ends, transaction, message);
                self.sidr.set_deadline(id, Some(now + patience()));
            }
            Stage::Asked { .. } => {
                self.sidr.remove(id);
                let event = Event::Unresolved(id, None, PrivateData::EMPTY);
                self.events.push_back(event);
            }
            Stage::Waiting(_) | Stage::Answered => drop(self.sidr.remove(id)),
        }
    }

    pub(crate) fn on_sidr_req(&mut self, ends: Ends, transaction: u64, req: &SidrReq) {
        if let Some(id) = self.sidr.by_remote.get(&(ends.remote, req.request)) {
            return self.asked_again(*id);
        }
        let answer = match self.listeners.find(req.service, ends.local) {
            None => Err(SidrStatus::UNSUPPORTED),
            Some(listener) => self.asked(listener, ends, transaction, req),
        };
        if let Err(status) = answer {
            self.send(ends, transaction, reply(req, &refusal(status)));
        }
    }

    fn asked_again(&mut self, id: CommId) {
        let answered = self.sidr.questions.get(&id);
        let Some(question) = answered.filter(|question| matches!(question.stage, Stage::Answered))
        else {
            return;
        };
        let (ends, transaction, message) = (question.ends, question.transaction, question.message);
        self.send(ends, transaction, message);
    }

    fn asked(
        &mut self,
        listener: ListenerId,
        ends: Ends,
        transaction: u64,
        req: &SidrReq,
    ) -> Result<(), SidrStatus> {
        let split = ip::split(req.service, ends.remote, &req.private_data);
        let (caller, private) = split.map_err(|()| SidrStatus::REJECTED)?;
        let Ok(id) = self.new_name() else {
            return Ok(());
        };
        if !self.listeners.wait(listener) {
            return Ok(());
        }
        let question = Question {
            ends,
            transaction,
            request: req.request,
            message: Message::SidrReq(*req),
            stage: Stage::Waiting(listener),
            deadline: None,
        };
        self.sidr.insert(id, question);
        let request = ResolveRequest {
            ends,
            service: req.service,
            caller,
            private,
        };
        self.events
            .push_back(Event::ResolveRequested(id, listener, request));
        Ok(())
    }

    pub(crate) fn on_sidr_rep(&mut self, ends: Ends, rep: &SidrRep) {
        let id = CommId(rep.request);
        let asked = self.sidr.questions.get(&id).is_some_and(|question| {
            matches!(question.stage, Stage::Asked { .. }) && question.ends.remote == ends.remote
        });
        if !asked {
            return;
        }
        self.sidr.remove(id);
        let event = if rep.status == SidrStatus::OK {
            let resolution = Resolution {
                qpn: rep.qpn,
                qkey: rep.qkey,
                private: rep.private_data,
            };
            Event::Resolved(id, resolution)
        } else {
            Event::Unresolved(id, Some(rep.status), rep.private_data)
        };
        self.events.push_back(event);
    }
}

pub(crate) fn patience() -> Duration {
    vrdma_wire::cm::timeout(RESPONSE_TIMEOUT)
}

fn refusal(status: SidrStatus) -> SidrAnswer {
    SidrAnswer {
        status,
        qpn: Qpn::default(),
        qkey: Qkey::default(),
        private: PrivateData::EMPTY,
    }
}

fn reply(asked: &SidrReq, answer: &SidrAnswer) -> Message {
    Message::SidrRep(SidrRep {
        request: asked.request,
        status: answer.status,
        info_len: 0,
        qpn: answer.qpn,
        service: asked.service,
        qkey: answer.qkey,
        info: PrivateData::EMPTY,
        private_data: answer.private,
    })
}
