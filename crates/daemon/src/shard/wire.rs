//! The shard's ends of uplinks: RoCEv2 packets that leave the host and packets that come.
//!
//! ```text
//!   Request, Reply ──► frame in `buffer` ──► the uplink's batch ──► kernel, once a turn
//!                                                 └ full: queue pairs with peers behind wires wait
//!
//!   frame ─► segment: whose group? ─► Packet::parse ─► Fabric::arrive: whose GID? ─► his MAC? ─► adapter
//!               └──────────────────────────┴─ dropped, counted by reason ──────────────┘
//! ```
//! Nothing is answered before the last check, and what is answered then is bounded by the adapter.

mod arrive;
mod counts;
mod leave;
mod misfit;
mod reports;
mod trace;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use vrdma_switch::{GroupId, Neighbour, Neighbours, PortId, Reports, UplinkId};
use vrdma_verbs::Time;
use vrdma_wire::{Gid, MAX_FRAME};

use super::Shard;
use super::adapter::Adapter;
use super::clock::Clock;
use super::poller::Key;
use crate::plane::{Heard, Inbox, UplinkChange};
use crate::uplink::{Segments, UplinkEnd};
use counts::Counts;
pub(super) use counts::snapshot;
use misfit::Misfit;
use trace::Traces;
use waiting::Unresolved;

/// How often interfaces are looked at: MTU, up or down.
const REFRESH: Duration = Duration::from_secs(1);

/// How long queue pairs wait for an uplink of which the kernel takes nothing at all. After that, what
/// does not fit is lost as on a wire that is cut, and the queue pairs' own timers tell their owners.
const FULL_PATIENCE: Duration = Duration::from_secs(1);

/// Bytes that wait for the end of the turn before queue pairs wait, too. An uplink keeps twice as many.
const WAITING_MAX: usize = 512 << 10;

/// Payload that is fetched at once: packets that the kernel takes as one message.
pub(super) const TRAIN_BYTES: u32 = 64 << 10;

/// One uplink.
pub(super) struct Wire {
    end: UplinkEnd,
    counts: Counts,
    /// Frames were queued since the last flush.
    touched: bool,
    /// The kernel takes no more since then; the poller reports room. With the frames sent by then.
    full_since: Option<(Time, u64)>,
    refresh_at: Time,
    /// The sender of the last packet, which need not be noted again.
    last: Option<(GroupId, Gid, Neighbour)>,
}

/// All of them.
pub(super) struct Wires {
    /// By number; a removed uplink leaves a gap.
    pub(super) wires: Vec<Option<Box<Wire>>>,
    pub(super) segments: Segments,
    neighbours: Neighbours,
    /// Who sends packets that fit no uplink: the last of them.
    misfits: BTreeMap<PortId, Misfit>,
    unresolved: Unresolved,
    reports: Reports,
    pub(super) traces: Traces,
    /// What the Ethernet thread hears.
    heard: Inbox<Heard>,
    buffer: Box<[u8; MAX_FRAME]>,
    /// Bytes of all frames so far.
    pub(super) queued_bytes: u64,
    /// Somebody waits for room.
    awaited: bool,
}

impl Wires {
    pub(super) fn new(heard: Inbox<Heard>) -> Self {
        Self {
            wires: Vec::new(),
            segments: Segments::default(),
            neighbours: Neighbours::new(),
            misfits: BTreeMap::new(),
            unresolved: Unresolved::default(),
            reports: Reports::default(),
            traces: Traces::default(),
            heard,
            buffer: Box::new([0; MAX_FRAME]),
            queued_bytes: 0,
            awaited: false,
        }
    }

    fn get(&mut self, id: UplinkId) -> Option<&mut Wire> {
        self.wires.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// An adapter is gone.
    pub(super) fn forget(&mut self, port: PortId) {
        self.segments.unplug(port);
        self.misfits.remove(&port);
        self.reports.forget(port);
        self.traces.remove(port);
    }

    /// Whether an uplink takes no more for now. Who asks waits until it does.
    pub(super) fn holds_up(&mut self, now: Time) -> bool {
        let full = self.is_full(now);
        self.awaited |= full;
        full
    }

    fn is_full(&self, now: Time) -> bool {
        let mut wires = self.wires.iter().flatten();
        wires.any(|wire| match wire.full_since {
            Some((since, _)) => now < since + FULL_PATIENCE,
            None => wire.end.port.waiting() >= WAITING_MAX,
        })
    }

    /// Whether frames of a group can leave.
    fn carries(&self, group: GroupId) -> bool {
        let mut wires = self.wires.iter().flatten();
        wires.any(|wire| self.segments.of(group, wire.end.is_tunnel).is_some())
    }

    /// The smallest MTU among the uplinks that a group leaves by.
    pub(super) fn narrowest(&self, group: GroupId) -> Option<u32> {
        let wires = self.wires.iter().flatten();
        let carrying = wires.filter(|wire| self.segments.of(group, wire.end.is_tunnel).is_some());
        carrying.map(|wire| wire.end.port.mtu()).min()
    }

    /// When an uplink wants a turn.
    pub(super) fn next_deadline(&self, clock: &Clock) -> Option<Time> {
        let wires = self.wires.iter().flatten();
        let deadlines = wires.map(|wire| {
            let delayed = wire.end.port.next_deadline();
            let delayed = delayed.map(|due| clock.at(due));
            let patience = wire.full_since.filter(|_| self.awaited);
            let patience = patience.map(|(since, _)| since + FULL_PATIENCE);
            let others = delayed.into_iter().chain(patience);
            others.fold(wire.refresh_at, Time::min)
        });
        let reports = self.reports.next_deadline().map(Time);
        deadlines.chain(reports).min()
    }
}

impl Shard {
    pub(super) fn change_uplink(&mut self, change: UplinkChange) -> Result<(), String> {
        match change {
            UplinkChange::Add(end) => self.add_wire(*end),
            UplinkChange::Remove(id) => {
                if let Some(slot) = self.wires.wires.get_mut(id.0 as usize) {
                    *slot = None;
                }
                self.rewire();
            }
            UplinkChange::AddPeer(id, peer, stations) => {
                if let Some(wire) = self.wires.get(id) {
                    let added = wire.end.port.add_peer_of(peer, &stations);
                    added.map_err(|error| error.to_string())?;
                    self.measure();
                }
            }
            UplinkChange::RemovePeer(id, peer) => {
                if let Some(wire) = self.wires.get(id) {
                    wire.end.port.remove_peer(peer);
                }
            }
        }
        Ok(())
    }

    fn add_wire(&mut self, end: UplinkEnd) {
        let (id, now) = (end.id, self.clock.now());
        let slot = id.0 as usize;
        if self.wires.wires.len() <= slot {
            self.wires.wires.resize_with(slot + 1, || None);
        }
        self.poller.watch(&end.port, Key::Wire(id));
        self.wires.wires[slot] = Some(Box::new(Wire {
            end,
            counts: Counts::default(),
            touched: false,
            full_since: None,
            refresh_at: now + REFRESH,
            last: None,
        }));
        self.wires.reports.tell_again(now.0);
        self.rewire();
    }

    /// Tells the fabric which groups reach other hosts, and adapters how large packets may be.
    pub(super) fn rewire(&mut self) {
        for group in self.wires.segments.groups() {
            let wired = self.wires.carries(group);
            self.fabric.set_wired(group, wired);
        }
        self.measure();
    }

    /// Hands queued frames to the kernel, lets go delayed ones, and looks at interfaces now and then.
    /// `true` if those who waited for room can go on.
    pub(super) fn tend_wires(&mut self, now: Time) -> bool {
        self.send_reports(now);
        let mut resized = false;
        let wires = self.wires.wires.iter_mut().flatten();
        for wire in wires {
            let port = &mut wire.end.port;
            if port
                .next_deadline()
                .is_some_and(|due| self.clock.at(due) <= now)
            {
                port.release();
                wire.touched = true;
            }
            if wire.refresh_at <= now {
                let before = port.mtu();
                port.refresh();
                if let Some(conflict) = port.take_conflict() {
                    tracing::warn!("{}: {conflict}", wire.end.name);
                }
                resized |= port.mtu() != before;
                wire.refresh_at = now + REFRESH;
            }
            if !std::mem::take(&mut wire.touched) {
                continue;
            }
            let full = !port.flush();
            if full != wire.full_since.is_some() {
                self.poller.rewatch(&*port, Key::Wire(wire.end.id), full);
            }
            let sent = port.counters().sent_frames;
            let before = wire.full_since.filter(|(_, before)| *before == sent);
            wire.full_since = full.then(|| before.unwrap_or((now, sent)));
        }
        if resized {
            self.measure();
        }
        let room = self.wires.awaited && !self.wires.is_full(now);
        if room {
            self.wires.awaited = false;
            let adapters = self.adapters.iter_mut().flatten();
            adapters.for_each(Adapter::wire_has_room);
        }
        room
    }

    /// An uplink is ready. One that was full may have room again: a tunnel says so by being readable.
    pub(super) fn make_room(&mut self, id: UplinkId) {
        if let Some(wire) = self.wires.get(id) {
            wire.touched |= wire.full_since.is_some();
        }
    }
}

#[cfg(test)]
mod tests;
