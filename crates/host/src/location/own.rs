//! What this shard's adapters tell their peers: that they stand still, or go on.
//!
//! Each peer is told until it acknowledges, for a bounded time, and nobody waits for that. Time is an argument, and
//! notices to send are values.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::unit::Route;
use vrdma_wire::{Gid, Notice, NoticeKind};

use super::{
    PAUSE_AGAIN, PAUSE_REPEATED, REMINDED_APART, REMINDED_AT_ONCE, RESUME_AGAIN, RESUME_APART,
    RESUME_REPEATED, TOLD_A_TURN, TOLD_MAX, Told,
};

/// A peer that has not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Listener {
    route: Route,
    nonce: u64,
}

/// The notice that one adapter repeats, and to which peers.
#[derive(Debug)]
struct Telling {
    kind: NoticeKind,
    epoch: u64,
    /// The adapter's own addresses that peers know.
    addresses: Vec<Gid>,
    listeners: Vec<Listener>,
    /// The next listener in this round.
    cursor: usize,
    /// When the round begins or continues.
    next: Time,
    /// Time from this round to the next one.
    apart: Duration,
    until: Time,
}

/// The notices of all adapters.
#[derive(Default)]
pub(super) struct Own {
    telling: BTreeMap<PortId, Telling>,
    /// Adapters with a peer that has not acknowledged.
    open: BTreeSet<PortId>,
    /// Adapters that stand still.
    still: BTreeSet<PortId>,
    /// When peers were last reminded that an adapter stands still, and how many since then.
    reminded: Option<(Time, usize)>,
}

impl Own {
    /// Begins to tell that an adapter stands still. `nonce` is a fresh one each time.
    pub(super) fn pause(
        &mut self,
        port: PortId,
        epoch: u64,
        peers: Vec<Route>,
        nonce: impl FnMut() -> u64,
        now: Time,
    ) {
        let telling = Telling {
            kind: NoticeKind::Pause,
            apart: PAUSE_AGAIN,
            until: now + PAUSE_REPEATED,
            ..Telling::new(epoch, peers, nonce, now)
        };
        self.begin(port, telling);
    }

    /// Begins to tell that an adapter goes on.
    pub(super) fn resume(
        &mut self,
        port: PortId,
        epoch: u64,
        peers: Vec<Route>,
        nonce: impl FnMut() -> u64,
        now: Time,
    ) {
        self.begin(port, Telling::new(epoch, peers, nonce, now));
    }

    fn begin(&mut self, port: PortId, telling: Telling) {
        match telling.kind {
            NoticeKind::Pause => self.still.insert(port),
            _ => self.still.remove(&port),
        };
        self.telling.insert(port, telling);
        self.open.insert(port);
    }

    /// Whether any adapter stands still.
    #[inline]
    pub(super) fn has_still(&self) -> bool {
        !self.still.is_empty()
    }

    /// Returns the epoch of an adapter that stands still, for a peer that sends to it nevertheless. If many do, some
    /// get none.
    pub(super) fn remind(&mut self, port: PortId, now: Time) -> Option<u64> {
        let telling = self.telling.get(&port);
        let telling = telling.filter(|_| self.still.contains(&port))?;
        let before = self.reminded.filter(|(at, _)| now < *at + REMINDED_APART);
        let (since, count) = before.unwrap_or((now, 0));
        self.reminded = Some((since, count + 1));
        (count < REMINDED_AT_ONCE).then_some(telling.epoch)
    }

    /// Takes a peer's acknowledgement.
    pub(super) fn acknowledge(&mut self, heard: &Told) {
        let notice = &heard.notice;
        let Some(telling) = self.telling.get_mut(&heard.port) else {
            return;
        };
        let kind = match notice.kind {
            NoticeKind::PauseAck => NoticeKind::Pause,
            NoticeKind::ResumeAck => NoticeKind::Resume,
            _ => return,
        };
        if (telling.kind, telling.epoch) == (kind, notice.epoch) {
            telling.drop_listener(heard);
        }
    }

    /// Forgets an adapter that is gone; returns the epoch of its last notice, and the addresses that peers know.
    pub(super) fn forget(&mut self, port: PortId) -> Option<(u64, Vec<Gid>)> {
        self.open.remove(&port);
        self.still.remove(&port);
        let telling = self.telling.remove(&port)?;
        Some((telling.epoch, telling.addresses))
    }

    /// Tells what is due by now, a bounded number of notices for each adapter so that the others have their turn.
    pub(super) fn poll(&mut self, now: Time, mut tell: impl FnMut(PortId, Route, Notice)) {
        let telling = &mut self.telling;
        self.open.retain(|port| {
            let Some(telling) = telling.get_mut(port) else {
                return false;
            };
            telling.poll(now, |route, notice| tell(*port, route, notice));
            !telling.listeners.is_empty()
        });
    }

    /// When something is due.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        let open = self.open.iter().filter_map(|port| self.telling.get(port));
        open.map(|telling| telling.next).min()
    }
}

impl Telling {
    /// Makes the notice that an adapter goes on.
    fn new(epoch: u64, mut peers: Vec<Route>, mut nonce: impl FnMut() -> u64, now: Time) -> Self {
        peers.truncate(TOLD_MAX);
        let mut addresses: Vec<Gid> = peers.iter().map(|route| route.sgid).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let listeners = peers.into_iter().map(|route| Listener {
            route,
            nonce: nonce(),
        });
        Self {
            kind: NoticeKind::Resume,
            epoch,
            addresses,
            listeners: listeners.collect(),
            cursor: 0,
            next: now,
            apart: RESUME_AGAIN,
            until: now + RESUME_REPEATED,
        }
    }

    fn drop_listener(&mut self, heard: &Told) {
        let ends = (heard.local, heard.remote, heard.notice.nonce);
        let is_it = |it: &Listener| (it.route.sgid, it.route.dgid, it.nonce) == ends;
        if let Some(at) = self.listeners.iter().position(is_it) {
            self.listeners.remove(at);
            self.cursor -= usize::from(at < self.cursor);
        }
    }

    fn poll(&mut self, now: Time, mut tell: impl FnMut(Route, Notice)) {
        if now < self.next || self.listeners.is_empty() {
            return;
        }
        let rest = self.listeners.iter().skip(self.cursor);
        for listener in rest.take(TOLD_A_TURN) {
            let notice = Notice {
                kind: self.kind,
                gid: listener.route.sgid,
                epoch: self.epoch,
                nonce: listener.nonce,
            };
            tell(listener.route, notice);
        }
        self.cursor += TOLD_A_TURN;
        if self.cursor < self.listeners.len() {
            return;
        }
        self.cursor = 0;
        self.next = now + self.apart;
        self.apart = (2 * self.apart).min(RESUME_APART);
        if self.next >= self.until {
            self.listeners = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
