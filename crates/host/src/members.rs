//! The members by port number, and when each is looked at.
//!
//! ```text
//!   a unit came, a client rang, a command ──► wake ──► run queue ──► turn ──► did something ─┐
//!   its time has come ───────► timers ──────────┘          ▲                                 │
//!                                  ▲                       └── or it has to be watched ◄─────┤
//!                                  └──────── nothing: until its deadline, if it has one ◄────┘
//! ```
//! A member to which nothing happens is in neither queue and costs nothing. Each is at most once in each, so both are
//! no longer than the table. [`run_queue`](crate::run_queue) decides whose turn is next.

use std::collections::BTreeSet;
use std::sync::Arc;

use vrdma_adapter::LogLimit;
use vrdma_switch::{GroupId, Policy, PortId};
use vrdma_verbs::Time;
use vrdma_wire::Mtu;

use crate::budget::Moved;
use crate::member::{Doorbells, Member};
use crate::run_queue::RunQueue;
use crate::watch;

/// One member and where it is queued.
pub(crate) struct Slot<M> {
    pub(crate) member: M,
    /// Something happened to the member that its owner was not shown.
    touched: bool,
    /// The member's entry among the timers.
    timer: Option<Time>,
    /// When the member last did something.
    active: Time,
    /// Path MTU of the member's port, once it was measured.
    mtu: Option<Mtu>,
    /// Limit of log lines that the member's owner causes.
    log_limit: LogLimit,
}

impl<M> Slot<M> {
    /// Notes that the owner has to be shown what happened.
    fn mark(&mut self, port: PortId, touched: &mut Vec<PortId>) {
        if !std::mem::replace(&mut self.touched, true) {
            touched.push(port);
        }
    }
}

/// A member that sends units, and the member that they are for.
pub(crate) struct Ends<'a, M> {
    pub(crate) pair: Pair<'a, M>,
    /// The cost of the units is charged here.
    pub(crate) run: &'a mut RunQueue,
}

/// Both ends of units. Programs of one adapter send to each other within the same member.
pub(crate) enum Pair<'a, M> {
    Same(&'a mut M),
    Two { member: &'a mut M, peer: &'a mut M },
}

impl<M> Pair<'_, M> {
    /// Returns the sender.
    #[inline]
    pub(crate) fn member(&mut self) -> &mut M {
        match self {
            Self::Same(member) | Self::Two { member, .. } => member,
        }
    }

    /// Returns the receiver.
    #[inline]
    pub(crate) fn peer(&mut self) -> &mut M {
        match self {
            Self::Same(peer) | Self::Two { peer, .. } => peer,
        }
    }
}

/// The outcome of a member's turn.
#[derive(Clone, Copy)]
pub(crate) struct TurnEnd {
    /// The member did something.
    pub(crate) worked: bool,
    /// The member has, or may have, more to do of which no doorbell, arrival or timer will tell.
    pub(crate) more: bool,
}

/// All members.
pub(crate) struct Members<M> {
    /// By port number; a removed member leaves a gap.
    slots: Vec<Option<Slot<M>>>,
    run: RunQueue,
    touched: Vec<PortId>,
    timers: BTreeSet<(Time, PortId)>,
    /// Members whose doorbells wake nobody and were used lately.
    watched: BTreeSet<PortId>,
}

impl<M: Member> Members<M> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            run: RunQueue::default(),
            touched: Vec::new(),
            timers: BTreeSet::new(),
            watched: BTreeSet::new(),
        }
    }

    pub(crate) fn insert(&mut self, port: PortId, group: GroupId, member: M) {
        self.run.insert(port, group, member.policy().cloned());
        let number = port.0 as usize;
        if self.slots.len() <= number {
            self.slots.resize_with(number + 1, || None);
        }
        self.slots[number] = Some(Slot {
            member,
            touched: false,
            timer: None,
            active: Time(0),
            mtu: None,
            log_limit: LogLimit::new(),
        });
        self.wake(port);
    }

    /// Removes a member. Its entries in queues are skipped later.
    pub(crate) fn remove(&mut self, port: PortId) -> Option<M> {
        let slot = self.slots.get_mut(port.0 as usize)?.take()?;
        if let Some(at) = slot.timer {
            self.timers.remove(&(at, port));
        }
        self.run.remove(port);
        self.watched.remove(&port);
        Some(slot.member)
    }

    pub(crate) fn get(&self, port: PortId) -> Option<&M> {
        let slot = self.slots.get(port.0 as usize)?.as_ref()?;
        Some(&slot.member)
    }

    fn slot(&mut self, port: PortId) -> Option<&mut Slot<M>> {
        self.slots.get_mut(port.0 as usize)?.as_mut()
    }

    /// Returns a member whose turn it is, or to which nothing happens that its owner sees.
    pub(crate) fn get_mut(&mut self, port: PortId) -> Option<&mut M> {
        Some(&mut self.slot(port)?.member)
    }

    /// Returns a member to which something happens: it gets a turn, and its owner is told.
    pub(crate) fn touch(&mut self, port: PortId, now: Time) -> Option<&mut M> {
        self.wake(port);
        self.mark(port);
        let slot = self.slot(port)?;
        slot.active = now;
        Some(&mut slot.member)
    }

    fn mark(&mut self, port: PortId) {
        let slot = self.slots.get_mut(port.0 as usize);
        if let Some(slot) = slot.and_then(Option::as_mut) {
            slot.mark(port, &mut self.touched);
        }
    }

    /// Returns both ends of units; their owners are told. Neither is given a turn.
    pub(crate) fn ends(&mut self, from: PortId, to: PortId, now: Time) -> Option<Ends<'_, M>> {
        let Self {
            slots,
            touched,
            run,
            ..
        } = self;
        let mut show_later = |port, slot: &mut Slot<M>| {
            slot.active = now;
            slot.mark(port, touched);
        };
        let numbers = [from, to].map(|port| port.0 as usize);
        let pair = if from == to {
            let slot = slots.get_mut(numbers[0])?.as_mut()?;
            show_later(from, slot);
            Pair::Same(&mut slot.member)
        } else {
            // Only both together: if one is not here, nothing changes.
            let Ok([Some(a), Some(b)]) = slots.get_disjoint_mut(numbers) else {
                return None;
            };
            show_later(to, b);
            show_later(from, a);
            Pair::Two {
                member: &mut a.member,
                peer: &mut b.member,
            }
        };
        Some(Ends { pair, run })
    }

    /// Notes that a member was sent units. A polled member gets a turn only if they leave it anything to do.
    pub(crate) fn was_sent_to(&mut self, port: PortId) {
        let member = self.get(port);
        let has_to_do = member
            .is_some_and(|member| member.doorbells() != Doorbells::Polled || member.is_runnable());
        if has_to_do {
            self.wake(port);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PortId, &M)> {
        self.iter_from(PortId(0))
    }

    /// Returns members from a port on.
    pub(crate) fn iter_from(&self, first: PortId) -> impl Iterator<Item = (PortId, &M)> {
        let rest = self.slots.get(first.0 as usize..).unwrap_or_default();
        let numbered = (first.0..).map(PortId).zip(rest);
        numbered.filter_map(|(port, slot)| Some((port, &slot.as_ref()?.member)))
    }

    /// Tells a member the path MTU of its port; `false` if it knows.
    pub(crate) fn set_mtu(&mut self, port: PortId, mtu: Mtu) -> bool {
        let slot = self.slot(port).filter(|slot| slot.mtu != Some(mtu));
        let told = slot.map(|slot| {
            slot.mtu = Some(mtu);
            slot.member.set_mtu(mtu);
        });
        told.is_some()
    }

    /// Whether the log may be told of something that a member's owner did.
    pub(crate) fn may_tell(&mut self, port: PortId, now: Time) -> bool {
        self.slot(port)
            .is_some_and(|slot| slot.log_limit.allows(now))
    }

    /// Returns the number of log lines caused by a member's owner that were left out.
    pub(crate) fn log_lines_left_out(&self, port: PortId) -> u64 {
        let slot = self.slots.get(port.0 as usize).and_then(Option::as_ref);
        slot.map_or(0, |slot| slot.log_limit.left_out())
    }

    /// Gives a member a turn.
    pub(crate) fn wake(&mut self, port: PortId) {
        self.run.wake(port);
    }

    /// Begins a turn for the members that wait, and for the polled ones that have rung.
    pub(crate) fn begin_turn(&mut self, now: Time) {
        let slots = &self.slots;
        self.run.begin_turn(now, |port| {
            let slot = slots.get(port.0 as usize).and_then(Option::as_ref);
            slot.is_some_and(|slot| slot.member.has_rung(now))
        });
    }

    /// Gives turns to members whose time has come.
    pub(crate) fn wake_due(&mut self, now: Time) {
        while let Some((at, port)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(slot) = self.slot(port) {
                slot.timer = None;
            }
            self.wake(port);
        }
    }

    /// Returns the next member to get its turn or to be looked at.
    pub(crate) fn next(&mut self) -> Option<PortId> {
        self.run.next()
    }

    /// Whether a member has used up what it may send in this turn.
    pub(crate) fn is_spent(&self, port: PortId) -> bool {
        self.run.is_spent(port)
    }

    /// Charges a member for something moved.
    pub(crate) fn charge(&mut self, port: PortId, moved: Moved) {
        self.run.charge(port, moved);
    }

    /// Charges a member for something moved, and counts it for the receiver's policy if the receiver has a guarantee
    /// for arrivals.
    pub(crate) fn charge_to(&mut self, port: PortId, receiver: Option<&Arc<Policy>>, moved: Moved) {
        self.run.sends_to(port, receiver);
        self.run.charge(port, moved);
        if let Some(receiver) = receiver {
            self.run.arrived(receiver, moved);
        }
    }

    /// Decides, after a member's turn, when its next one is.
    pub(crate) fn had_turn(&mut self, port: PortId, end: TurnEnd, now: Time) {
        let Some(slot) = self.slot(port) else { return };
        if end.worked {
            slot.active = now;
        }
        let (idle, doorbells) = (now.since(slot.active), slot.member.doorbells());
        let looks = match doorbells {
            Doorbells::Wake => false,
            Doorbells::Polled => true,
            Doorbells::Silent => watch::looks_each_turn(idle),
        };
        if doorbells == Doorbells::Silent && watch::is_watched(idle) {
            self.watched.insert(port);
        } else if !self.watched.is_empty() {
            self.watched.remove(&port);
        }
        let again = match doorbells {
            // The next poll tells if there is anything else.
            Doorbells::Polled => end.more,
            Doorbells::Wake | Doorbells::Silent => end.worked,
        };
        self.run.had_turn(port, again, looks);
        self.mark(port);
    }

    /// Lets members that packets came for take in what they have kept.
    pub(crate) fn end_trains(&mut self, now: Time) {
        for at in 0..self.touched.len() {
            let port = self.touched[at];
            if let Some(member) = self.get_mut(port) {
                member.end_train(now);
            }
        }
    }

    /// Shows owners what happened, and notes when members need a turn without being woken.
    pub(crate) fn publish(&mut self, now: Time) {
        for at in 0..self.touched.len() {
            let port = self.touched[at];
            let Some(slot) = self.slot(port) else {
                continue;
            };
            slot.touched = false;
            slot.member.publish(now);
            let idle = now.since(slot.active);
            let look =
                (slot.member.doorbells() == Doorbells::Silent).then(|| watch::next_look(now, idle));
            let due = slot.member.next_deadline().into_iter().chain(look).min();
            if let Some(due) = due {
                self.wake_by(port, due);
            }
        }
        self.touched.clear();
    }

    /// Sets a timer. A deadline that moves later leaves its entry where it is: the entry fires early and costs a look.
    fn wake_by(&mut self, port: PortId, due: Time) {
        let Some(slot) = self.slot(port) else { return };
        let before = slot.timer;
        if before.is_some_and(|at| at <= due) {
            return;
        }
        slot.timer = Some(due);
        if let Some(at) = before {
            self.timers.remove(&(at, port));
        }
        self.timers.insert((due, port));
    }

    /// When a member needs a turn without being woken.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Whether doorbells that wake nobody were used lately.
    pub(crate) fn has_watched(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Does something with each member that waits for a turn. When there is no work, these are the polled members.
    pub(crate) fn each_waiting(&mut self, mut work: impl FnMut(&mut M)) {
        for port in self.run.ports() {
            if let Some(Some(slot)) = self.slots.get_mut(port.0 as usize) {
                work(&mut slot.member);
            }
        }
    }
}
