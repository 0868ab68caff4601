//! Uplinks: RoCEv2 packets that leave the host and packets that arrive.
//!
//! ```text
//!   Request, Reply ──► frame in `buffer` ──► the uplink's batch ──► its port, once a turn
//!                                                 └ full: queue pairs with peers behind uplinks wait
//!
//!   frame ─► segment: whose group? ─► Packet::parse ─► Fabric::arrive: whose GID? ─► its MAC? ─► member
//!               └──────────────────────────┴─ dropped, counted by reason ──────────────┘
//! ```
//! Nothing is answered before the last check, and answers after it are bounded by the member.

mod counts;
mod egress;
mod ingress;
mod misfit;
mod notices;
mod reports;
mod segments;
mod trace;
mod unresolved;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use vrdma_switch::{GroupId, Neighbour, Neighbours, PortId, UplinkId};
use vrdma_verbs::Time;
use vrdma_wire::{Gid, MAX_FRAME};

use crate::event::Event;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;
pub use counts::Counts;
use counts::GroupCounts;
use misfit::Misfit;
use reports::ReportsDue;
pub use segments::Segments;
use trace::Traces;
use unresolved::Unresolved;

/// How often interfaces are looked at: MTU, up or down.
const REFRESH: Duration = Duration::from_secs(1);

/// How long queue pairs wait for an uplink that takes nothing at all. After that, packets that do not fit are lost as
/// on a wire that is cut, and the queue pairs' own timers tell their owners.
const FULL_PATIENCE: Duration = Duration::from_secs(1);

/// Most bytes that wait for the end of the turn before queue pairs wait, too. An uplink keeps twice as many.
const WAITING_MAX: usize = 512 << 10;

/// Payload that is fetched at once: as many packets as the kernel takes in one message.
pub(crate) const TRAIN_BYTES: u32 = 64 << 10;

/// One uplink.
pub struct Uplink<P> {
    id: UplinkId,
    is_tunnel: bool,
    port: P,
    counts: Counts,
    /// Frames were queued since the last flush.
    touched: bool,
    /// When the port was found full, and the frames sent by then; its owner reports when there is room.
    full_since: Option<(Time, u64)>,
    refresh_at: Time,
    /// The sender of the last packet; it need not be noted again.
    last: Option<(GroupId, Gid, Neighbour)>,
    /// Members with units for this uplink that wait for room.
    awaiting: BTreeSet<PortId>,
}

impl<P> Uplink<P> {
    /// Its number.
    pub fn id(&self) -> UplinkId {
        self.id
    }

    /// Its port.
    pub fn port(&self) -> &P {
        &self.port
    }

    /// Returns what was dropped here.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// All uplinks.
pub(crate) struct Uplinks<P> {
    /// By number; a removed uplink leaves a gap.
    all: Vec<Option<Box<Uplink<P>>>>,
    pub(crate) segments: Segments,
    group_counts: GroupCounts,
    neighbours: Neighbours,
    /// Members that send packets that fit no uplink: the last such packet of each.
    misfits: BTreeMap<PortId, Misfit>,
    unresolved: Unresolved,
    pub(crate) reports: ReportsDue,
    traces: Traces,
    buffer: Box<[u8; MAX_FRAME]>,
    /// Bytes of all frames queued so far.
    pub(crate) queued_bytes: u64,
    /// How many times the uplink of a destination has changed.
    changes: u64,
}

impl<P: Port> Uplinks<P> {
    pub(crate) fn new() -> Self {
        Self {
            all: Vec::new(),
            segments: Segments::default(),
            group_counts: GroupCounts::default(),
            neighbours: Neighbours::new(),
            misfits: BTreeMap::new(),
            unresolved: Unresolved::default(),
            reports: ReportsDue::default(),
            traces: Traces::default(),
            buffer: Box::new([0; MAX_FRAME]),
            queued_bytes: 0,
            changes: 0,
        }
    }

    fn get(&mut self, id: UplinkId) -> Option<&mut Uplink<P>> {
        self.all.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Forgets a member that is gone.
    pub(crate) fn forget(&mut self, port: PortId) {
        self.unplug(port);
        self.leave(port);
    }

    /// Forgets a member of any shard that is gone.
    pub(crate) fn unplug(&mut self, port: PortId) {
        if let Some(group) = self.segments.unplug(port) {
            self.group_counts.forget(group);
        }
    }

    /// Forgets a member that has gone to another shard, except for its group.
    pub(crate) fn leave(&mut self, port: PortId) {
        self.misfits.remove(&port);
        self.reports.forget(port);
        self.traces.remove(port);
    }

    /// Returns a number that changes with every answer of [`leads_to`](Self::leads_to), except when entries age out.
    pub(crate) fn epoch(&self) -> u64 {
        self.changes
    }

    /// Returns the uplink behind which an address was heard. There is none for a multicast address.
    pub(crate) fn leads_to(&self, group: GroupId, gid: Gid, now: Time) -> Option<UplinkId> {
        let known = self.neighbours.find(group, gid, now.0);
        let known = known.filter(|_| !gid.is_multicast());
        known.map(|neighbour| neighbour.uplink)
    }

    /// Whether any uplink takes no more for now.
    pub(crate) fn is_any_full(&self, now: Time) -> bool {
        let mut uplinks = self.all.iter().flatten();
        uplinks.any(|uplink| uplink.is_full(now))
    }

    /// Whether the uplink by which a member of a group sends, or one of all its uplinks, takes no more for now. The
    /// member waits until it does.
    pub(crate) fn holds_up(
        &mut self,
        port: PortId,
        group: GroupId,
        by: Option<UplinkId>,
        now: Time,
    ) -> bool {
        let segments = &self.segments;
        let leaves_by = |uplink: &Uplink<P>| {
            by.is_none_or(|id| id == uplink.id) && segments.of(group, uplink.is_tunnel).is_some()
        };
        let uplinks = self.all.iter_mut().flatten();
        let full = uplinks.filter(|uplink| leaves_by(uplink) && uplink.is_full(now));
        full.map(|uplink| uplink.awaiting.insert(port)).count() > 0
    }

    /// Whether frames of a group can leave.
    fn carries(&self, group: GroupId) -> bool {
        let mut uplinks = self.all.iter().flatten();
        uplinks.any(|uplink| self.segments.of(group, uplink.is_tunnel).is_some())
    }

    /// Returns the smallest MTU among the uplinks that a group leaves by.
    pub(crate) fn narrowest(&self, group: GroupId) -> Option<u32> {
        let uplinks = self.all.iter().flatten();
        let carrying = uplinks.filter(|uplink| self.segments.of(group, uplink.is_tunnel).is_some());
        carrying.map(|uplink| uplink.port.mtu()).min()
    }

    /// When an uplink needs a turn.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let uplinks = self.all.iter().flatten();
        let deadlines = uplinks.map(|uplink| {
            let delayed = uplink.port.next_deadline();
            let patience = uplink.full_since.filter(|_| !uplink.awaiting.is_empty());
            let patience = patience.map(|(since, _)| since + FULL_PATIENCE);
            let others = delayed.into_iter().chain(patience);
            others.fold(uplink.refresh_at, Time::min)
        });
        deadlines.chain(self.reports.next_deadline()).min()
    }
}

impl<P: Port> Uplink<P> {
    fn is_full(&self, now: Time) -> bool {
        match self.full_since {
            Some((since, _)) => now < since + FULL_PATIENCE,
            None => self.port.waiting() >= WAITING_MAX,
        }
    }

    /// Returns the members that waited for room, if there is some now.
    fn take_awaiting(&mut self, now: Time) -> BTreeSet<PortId> {
        if self.awaiting.is_empty() || self.is_full(now) {
            return BTreeSet::new();
        }
        std::mem::take(&mut self.awaiting)
    }

    /// Sends delayed frames that are due, and looks at the interface now and then; `true` if its MTU changed.
    fn tend(&mut self, now: Time) -> bool {
        let port = &mut self.port;
        if port.next_deadline().is_some_and(|due| due <= now) {
            port.release();
            self.touched = true;
        }
        if now < self.refresh_at {
            return false;
        }
        let before = port.mtu();
        port.refresh();
        self.refresh_at = now + REFRESH;
        port.mtu() != before
    }

    /// Hands on queued frames; returns what to watch for from now on, if that changed.
    fn flush(&mut self, now: Time) -> Option<Event> {
        if !std::mem::take(&mut self.touched) {
            return None;
        }
        let full = !self.port.flush();
        let changed = full != self.full_since.is_some();
        let sent = self.port.sent_frames();
        let before = self.full_since.filter(|(_, before)| *before == sent);
        self.full_since = full.then(|| before.unwrap_or((now, sent)));
        changed.then_some(Event::Watch {
            uplink: self.id,
            writable: full,
        })
    }
}

impl<M: Member, P: Port> Host<M, P> {
    /// Uses an uplink from now on.
    pub fn add_uplink(&mut self, id: UplinkId, is_tunnel: bool, port: P, now: Time) {
        let slot = id.0 as usize;
        let all = &mut self.uplinks.all;
        if all.len() <= slot {
            all.resize_with(slot + 1, || None);
        }
        all[slot] = Some(Box::new(Uplink {
            id,
            is_tunnel,
            port,
            counts: Counts::default(),
            touched: false,
            full_since: None,
            refresh_at: now + REFRESH,
            last: None,
            awaiting: BTreeSet::new(),
        }));
        self.uplinks.reports.tell_again(now);
        self.rewire();
    }

    /// Closes an uplink and forgets what was queued for it. Unknown numbers are fine.
    pub fn remove_uplink(&mut self, id: UplinkId) {
        let slot = self.uplinks.all.get_mut(id.0 as usize);
        let removed = slot.and_then(Option::take);
        self.uplinks.neighbours.forget_behind(id);
        self.rewire();
        if let Some(uplink) = removed {
            self.make_go_on(uplink.awaiting);
        }
    }

    /// All uplinks.
    pub fn uplinks(&self) -> impl Iterator<Item = &Uplink<P>> {
        self.uplinks.all.iter().flatten().map(|uplink| &**uplink)
    }

    /// Returns what all uplinks dropped for a port group and no adapter counts, if they dropped anything.
    pub fn group_counts(&self, group: GroupId) -> Option<&Counts> {
        self.uplinks.group_counts.of(group)
    }

    /// Returns the port of an uplink, to be changed; call [`measure`](Self::measure) if that may change its MTU.
    pub fn uplink_port(&mut self, id: UplinkId) -> Option<&mut P> {
        Some(&mut self.uplinks.get(id)?.port)
    }

    /// Takes note that uplinks came or went: tells the fabric which groups reach other hosts, and members their path
    /// MTU.
    fn rewire(&mut self) {
        self.uplinks.changes += 1;
        let groups: Vec<_> = self.uplinks.segments.groups().collect();
        groups
            .into_iter()
            .for_each(|group| self.rewire_group(group));
        self.measure();
    }

    /// Does so for one group.
    pub(crate) fn rewire_group(&mut self, group: GroupId) {
        let wired = self.uplinks.carries(group);
        self.shared.change(|fabric| fabric.set_wired(group, wired));
    }

    /// Hands queued frames to the uplinks, sends delayed ones that are due, and looks at interfaces now and then.
    /// `true` if members that waited for room can go on, peers were told something, or members have yet to be told
    /// their path MTU.
    pub fn flush(&mut self, now: Time) -> bool {
        self.send_reports(now);
        let tended = self.tend_locations(now);
        let mut resized = false;
        let mut waited = BTreeSet::new();
        for uplink in self.uplinks.all.iter_mut().flatten() {
            resized |= uplink.tend(now);
            self.events.extend(uplink.flush(now));
            waited.append(&mut uplink.take_awaiting(now));
        }
        if resized {
            self.measure();
        } else {
            self.go_on_measuring();
        }
        self.make_go_on(waited) | tended | self.measuring.is_some()
    }

    /// Lets members that waited for room go on; `true` if there are any.
    pub(crate) fn make_go_on(&mut self, waited: impl IntoIterator<Item = PortId>) -> bool {
        let members = waited.into_iter().filter_map(|port| {
            self.members.wake(port);
            self.members.get_mut(port)?.path_has_room();
            Some(())
        });
        members.count() > 0
    }

    /// Takes note that an uplink is ready: one that was full may have room again.
    pub fn make_room(&mut self, id: UplinkId) {
        if let Some(uplink) = self.uplinks.get(id) {
            uplink.touched |= uplink.full_since.is_some();
        }
    }

    /// Begins the trace of a member's packets, or continues it; returns the number of packets dropped so far as 8
    /// bytes, highest first, then the records of a pcap file since the last call. `clock` is the time of day at the
    /// host's time zero.
    pub fn fetch_trace(&mut self, port: PortId, clock: Duration, now: Time) -> Vec<u8> {
        self.uplinks.traces.fetch(port, clock, now)
    }

    /// Returns what is wrong with the packets of a member, if anything was lately: a sentence.
    pub fn fault(&self, port: PortId, now: Time) -> Option<String> {
        self.uplinks.fault(port, now)
    }
}
