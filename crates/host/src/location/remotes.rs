//! Peers of this shard's adapters that stand still, or did lately.
//!
//! ```text
//!              PAUSE                     guard time over: PROBE
//!      Ok ───────────────► Paused ◄────────────────────────────► Suspect ──┐ asked again
//!       ▲                    │           PAUSE with its nonce       │   ◄──┘
//!       └────────────────────┴───────── RESUME, ALIVE, time ────────┘
//! ```
//! Time is an argument, and the actions to take are values.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_wire::{Gid, Notice, NoticeKind};

use super::{
    GUARD, MOVED_ASK_AGAIN, PAUSE_LONGEST, PAUSE_MAX, PAUSES_APART, REMEMBERED, REMOTES_MAX,
    REMOTES_OF_PORT, Told,
};

/// An adapter of this shard, and a peer of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Pair {
    pub(super) port: PortId,
    pub(super) remote: Gid,
}

/// What connections to a peer have to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// They wait.
    Pause,
    /// They go on, and send again.
    Resume,
}

/// What is known of the peer's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum PeerLocation {
    #[default]
    Unchanged,
    /// At the place that the notice came from.
    There,
    /// Not where it was asked.
    Elsewhere,
}

/// What follows from a notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Verdict {
    pub(super) effect: Option<Effect>,
    /// The answer to send, with the same epoch and nonce.
    pub(super) answer: Option<NoticeKind>,
    pub(super) place: PeerLocation,
}

/// What follows from time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Due {
    /// Ask the peer, from this address.
    Ask {
        pair: Pair,
        local: Gid,
        notice: Notice,
    },
    /// Wait for this peer no longer.
    GiveUp(Pair),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ok,
    /// It has said that it stands still.
    Paused(Span),
    /// It was asked with this nonce.
    Suspect(Span, u64),
}

/// How long a peer is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Span {
    since: Time,
    until: Time,
}

impl Span {
    fn begin(now: Time) -> Self {
        Self {
            since: now,
            until: now + PAUSE_MAX,
        }
    }

    /// Extends the wait, since the peer was heard of.
    fn renewed(self, now: Time) -> Self {
        let longest = self.since + PAUSE_LONGEST;
        Self {
            until: (now + PAUSE_MAX).min(longest),
            ..self
        }
    }
}

#[derive(Debug)]
struct Remote {
    /// Our address that it knows.
    local: Gid,
    /// The newest epoch that it has said.
    epoch: u64,
    state: State,
    /// Before this time it makes nobody wait.
    no_pause_before: Time,
    /// Before this time connections that do not wait for it do not send again what is on its way.
    no_resume_before: Time,
    /// When something has to be done: each peer has one entry among the timers.
    due: Time,
}

/// The peers of all adapters.
#[derive(Default)]
pub(super) struct Remotes {
    of_port: BTreeMap<PortId, BTreeMap<Gid, Remote>>,
    timers: BTreeSet<(Time, Pair)>,
}

impl Remotes {
    /// Takes a notice. `is_connected` says whether the adapter has connections to the sender: no other sender is
    /// remembered.
    pub(super) fn hear(&mut self, heard: &Told, is_connected: bool, now: Time) -> Verdict {
        let pair = Pair {
            port: heard.port,
            remote: heard.remote,
        };
        let is_new = self.get_mut(pair).is_none();
        let opens = matches!(heard.notice.kind, NoticeKind::Pause | NoticeKind::Resume);
        if is_new && opens && is_connected && self.has_room(heard.port) {
            self.add(pair, heard.local, now);
        }
        let Some(remote) = self.get_mut(pair) else {
            return Verdict {
                answer: acknowledgement(heard.notice.kind),
                ..Verdict::default()
            };
        };
        let before = remote.due;
        let verdict = remote.hear(&heard.notice, now);
        let due = remote.due;
        self.move_timer(pair, before, due);
        verdict
    }

    /// Does one thing that is due by now. `nonce` is a fresh one.
    pub(super) fn poll(&mut self, now: Time, mut nonce: impl FnMut() -> u64) -> Option<Due> {
        while let Some((at, pair)) = self.timers.first().copied()
            && at <= now
        {
            let Some(remote) = self.get_mut(pair) else {
                self.timers.pop_first();
                continue;
            };
            let asked = remote.asked();
            let Some(span) = remote.span() else {
                self.forget_one(pair);
                continue;
            };
            if now >= span.until {
                // Its connections' own retries decide now, whatever is said in its name.
                remote.end(now, REMEMBERED);
                let due = remote.due;
                self.move_timer(pair, at, due);
                return Some(Due::GiveUp(pair));
            }
            // The nonce stays the same while nobody has answered: an answer may take longer than the interval between
            // questions.
            let nonce = asked.unwrap_or_else(&mut nonce);
            remote.state = State::Suspect(span, nonce);
            remote.due = (now + GUARD).min(span.until);
            let (local, epoch, due) = (remote.local, remote.epoch, remote.due);
            self.move_timer(pair, at, due);
            let notice = Notice {
                kind: NoticeKind::Probe,
                gid: pair.remote,
                epoch,
                nonce,
            };
            return Some(Due::Ask {
                pair,
                local,
                notice,
            });
        }
        None
    }

    /// When something is due.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Forgets an adapter that leaves; returns the peers that it waits for.
    pub(super) fn forget(&mut self, port: PortId) -> Vec<Gid> {
        let remotes = self.of_port.remove(&port).unwrap_or_default();
        for (gid, it) in &remotes {
            let remote = *gid;
            self.timers.remove(&(it.due, Pair { port, remote }));
        }
        let waiting = remotes.into_iter().filter(|(_, it)| it.state != State::Ok);
        waiting.map(|(gid, _)| gid).collect()
    }

    fn has_room(&self, port: PortId) -> bool {
        let own = self.of_port.get(&port).map_or(0, BTreeMap::len);
        own < REMOTES_OF_PORT && self.timers.len() < REMOTES_MAX
    }

    fn get_mut(&mut self, pair: Pair) -> Option<&mut Remote> {
        self.of_port.get_mut(&pair.port)?.get_mut(&pair.remote)
    }

    fn add(&mut self, pair: Pair, local: Gid, now: Time) {
        let due = now + REMEMBERED;
        let remote = Remote {
            local,
            epoch: 0,
            state: State::Ok,
            no_pause_before: now,
            no_resume_before: now,
            due,
        };
        let of_port = self.of_port.entry(pair.port).or_default();
        of_port.insert(pair.remote, remote);
        self.timers.insert((due, pair));
    }

    fn move_timer(&mut self, pair: Pair, before: Time, due: Time) {
        if before != due {
            self.timers.remove(&(before, pair));
            self.timers.insert((due, pair));
        }
    }

    fn forget_one(&mut self, pair: Pair) {
        let Some(remotes) = self.of_port.get_mut(&pair.port) else {
            return;
        };
        if let Some(remote) = remotes.remove(&pair.remote) {
            self.timers.remove(&(remote.due, pair));
        }
        if remotes.is_empty() {
            self.of_port.remove(&pair.port);
        }
    }
}

impl Remote {
    fn hear(&mut self, notice: &Notice, now: Time) -> Verdict {
        match notice.kind {
            NoticeKind::Pause => self.hear_pause(notice, now),
            NoticeKind::Resume => self.hear_resume(notice, now),
            NoticeKind::Alive if self.asked() == Some(notice.nonce) => self.hear_alive(notice, now),
            NoticeKind::Moved if self.asked() == Some(notice.nonce) => {
                self.hear_moved(notice.nonce, now)
            }
            _ => Verdict::default(),
        }
    }

    fn span(&self) -> Option<Span> {
        match self.state {
            State::Ok => None,
            State::Paused(span) | State::Suspect(span, _) => Some(span),
        }
    }

    /// The nonce of the question that the peer has not answered yet.
    fn asked(&self) -> Option<u64> {
        match self.state {
            State::Suspect(_, nonce) => Some(nonce),
            State::Ok | State::Paused(_) => None,
        }
    }

    fn hear_pause(&mut self, notice: &Notice, now: Time) -> Verdict {
        let is_new = notice.epoch > self.epoch;
        let is_answer = notice.epoch == self.epoch && self.asked() == Some(notice.nonce);
        let is_repeated = notice.epoch == self.epoch && self.state != State::Ok;
        let too_soon = now < self.no_pause_before;
        let span = match self.span() {
            Some(span) if is_new || is_answer => span.renewed(now),
            None if is_new && !too_soon => Span::begin(now),
            _ => {
                return Verdict {
                    answer: is_repeated.then_some(NoticeKind::PauseAck),
                    ..Verdict::default()
                };
            }
        };
        let begins = self.state == State::Ok;
        self.epoch = notice.epoch;
        self.state = State::Paused(span);
        self.due = (now + GUARD).min(span.until);
        Verdict {
            effect: begins.then_some(Effect::Pause),
            answer: Some(NoticeKind::PauseAck),
            place: PeerLocation::Unchanged,
        }
    }

    fn hear_resume(&mut self, notice: &Notice, now: Time) -> Verdict {
        if notice.epoch > self.epoch {
            // If the peer was not waited for, what is on its way is sent again, but not each time that somebody says
            // so.
            let is_heard = self.state != State::Ok || now >= self.no_resume_before;
            self.epoch = notice.epoch;
            self.no_resume_before = now + PAUSES_APART;
            self.end(now, PAUSES_APART);
            return Verdict {
                effect: is_heard.then_some(Effect::Resume),
                answer: Some(NoticeKind::ResumeAck),
                place: PeerLocation::There,
            };
        }
        let is_repeated = notice.epoch == self.epoch && self.state == State::Ok;
        Verdict {
            answer: is_repeated.then_some(NoticeKind::ResumeAck),
            ..Verdict::default()
        }
    }

    fn hear_alive(&mut self, notice: &Notice, now: Time) -> Verdict {
        if notice.epoch < self.epoch {
            return Verdict::default();
        }
        self.epoch = notice.epoch;
        self.end(now, PAUSES_APART);
        Verdict {
            effect: Some(Effect::Resume),
            answer: None,
            place: PeerLocation::There,
        }
    }

    /// The peer is not where it was asked, and nobody said that it goes on: it is asked again where it is found then.
    /// If the question went to all hosts, the answer of another one may be on its way.
    fn hear_moved(&mut self, nonce: u64, now: Time) -> Verdict {
        let Some(span) = self.span() else {
            return Verdict::default();
        };
        let span = span.renewed(now);
        self.state = State::Suspect(span, nonce);
        self.due = (now + MOVED_ASK_AGAIN).min(span.until);
        Verdict {
            place: PeerLocation::Elsewhere,
            ..Verdict::default()
        }
    }

    /// Ends the wait for the peer.
    fn end(&mut self, now: Time, rest: Duration) {
        self.no_pause_before = self.no_pause_before.max(now + rest);
        self.state = State::Ok;
        self.due = now + REMEMBERED;
    }
}

fn acknowledgement(kind: NoticeKind) -> Option<NoticeKind> {
    match kind {
        NoticeKind::Pause => Some(NoticeKind::PauseAck),
        NoticeKind::Resume => Some(NoticeKind::ResumeAck),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
