//! The exchange's ends of uplinks: frames that leave the host and frames that come.
//!
//! A frame that leaves is copied into the uplink's batch, which goes to the kernel when the read that
//! it came with is sorted. A frame that comes is copied behind a length into the exchange's buffer,
//! and from there on is like one that a guest has sent.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use vrdma_switch::{GroupId, Oversize, UplinkId, Verdict};
use vrdma_uplink::{Hop, Received};

use super::client::FRAMES_MAX;
use super::exchange::Exchange;
use super::framing::HEADER_BYTES;
use super::link::word;
use super::poller::Token;
use crate::plane::{UplinkChange, UplinkSnapshot};
use crate::uplink::{Segments, UplinkEnd, frame_stats};

/// How often interfaces are looked at: MTU, up or down.
const REFRESH: Duration = Duration::from_secs(1);

/// How often the log says that frames are too long.
const COMPLAINTS_APART: Duration = Duration::from_secs(60);

/// The Ethernet header, which no MTU counts.
const ETHERNET_BYTES: usize = 14;

/// Batches taken from one uplink before the others have their turn.
const BATCHES: usize = 4;

/// One uplink.
#[derive(Debug)]
pub(super) struct Wire {
    end: UplinkEnd,
    /// Frames were queued since the last flush.
    touched: bool,
    /// The poller reports room.
    room_watched: bool,
    refreshed: Instant,
    /// Frames of a segment that no port group has.
    strays: u64,
    /// When the log last said that frames are too long.
    complained: Option<Instant>,
}

impl Wire {
    fn new(end: UplinkEnd) -> Self {
        Self {
            end,
            touched: false,
            room_watched: false,
            refreshed: Instant::now(),
            strays: 0,
            complained: None,
        }
    }

    /// Queues a frame, or its pieces; one that is lost because of its length is counted by the port.
    fn send(&mut self, hop: Hop, frame: &[u8]) -> Option<Vec<u8>> {
        self.touched = true;
        let port = &mut self.end.port;
        let mtu = port.mtu() as usize;
        if frame.len() <= ETHERNET_BYTES + mtu {
            port.send(hop, frame);
            return None;
        }
        let outcome = Oversize::of(frame, mtu);
        if let Oversize::Cut(pieces) = &outcome {
            pieces.iter().for_each(|piece| port.send(hop, piece));
            return None;
        }
        port.send(hop, frame);
        self.complain(frame.len());
        match outcome {
            Oversize::Tell(answer) => Some(answer),
            _ => None,
        }
    }

    fn complain(&mut self, bytes: usize) {
        let lately = |at: Instant| at.elapsed() < COMPLAINTS_APART;
        if self.complained.is_some_and(lately) {
            return;
        }
        self.complained = Some(Instant::now());
        let (name, mtu) = (&self.end.name, self.end.port.mtu());
        tracing::warn!(
            "{name}: packets of {} bytes do not fit its MTU of {mtu}; set {mtu} in the guests (`ip link set DEVICE mtu {mtu}`), or raise the network's",
            bytes - ETHERNET_BYTES
        );
    }

    /// When it wants a turn without being ready.
    fn deadline(&self) -> Instant {
        let refresh = self.refreshed + REFRESH;
        self.end
            .port
            .next_deadline()
            .map_or(refresh, |due| due.min(refresh))
    }
}

impl Exchange {
    pub(super) fn change_uplink(&mut self, change: UplinkChange) -> Result<(), String> {
        match change {
            UplinkChange::Add(end) => self.add_wire(*end),
            UplinkChange::Remove(id) => {
                self.wires.remove(&id);
                self.bridge.detach_uplink(id);
                Ok(())
            }
            UplinkChange::AddPeer(id, peer) => match self.wires.get_mut(&id) {
                Some(wire) => wire
                    .end
                    .port
                    .add_peer(peer)
                    .map_err(|error| error.to_string()),
                None => Ok(()),
            },
            UplinkChange::RemovePeer(id, peer) => {
                if let Some(wire) = self.wires.get_mut(&id) {
                    wire.end.port.remove_peer(peer);
                }
                Ok(())
            }
        }
    }

    fn add_wire(&mut self, end: UplinkEnd) -> Result<(), String> {
        let id = end.id;
        self.poller
            .add(&end.port, Token::Wire(id))
            .map_err(|error| format!("cannot watch the uplink: {error}"))?;
        self.bridge.attach_uplink(id);
        self.wires.insert(id, Wire::new(end));
        self.join();
        Ok(())
    }

    /// Every group leaves by every uplink that can mark its frames.
    pub(super) fn join(&mut self) {
        for (id, wire) in &self.wires {
            let groups = self.segments.groups();
            groups
                .filter(|group| self.segments.of(*group, wire.end.is_tunnel).is_some())
                .for_each(|group| self.bridge.join(*id, group));
        }
    }

    /// What came, and what waits for room.
    pub(super) fn serve_wire(&mut self, id: UplinkId, room: bool) {
        // Out of its place, so that the rest of the exchange can take what it gives.
        let Some(mut wire) = self.wires.remove(&id) else {
            return;
        };
        for _ in 0..BATCHES {
            let taken = wire.end.port.receive(&mut |received| {
                self.take(id, &mut wire.strays, received);
            });
            match taken {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("{}: cannot receive: {error}", wire.end.name);
                    break;
                }
            }
        }
        // A tunnel that has room again is readable.
        wire.touched |= room || wire.room_watched;
        self.wires.insert(id, wire);
        self.deliver_taken();
        self.answer();
        self.flush_wires();
    }

    fn take(&mut self, id: UplinkId, strays: &mut u64, received: Received<'_>) {
        let Some(group) = self.segments.group(received.segment) else {
            *strays += 1;
            return;
        };
        let end = self.taken.bytes + HEADER_BYTES + received.frame.len();
        if end > self.buffer.len() || self.taken.frames == FRAMES_MAX {
            self.deliver_taken();
        }
        let start = self.taken.bytes;
        let body = start + HEADER_BYTES;
        let end = body + received.frame.len();
        let Some(room) = self.buffer.get_mut(start..end) else {
            return;
        };
        let (header, frame) = room.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&(received.frame.len() as u32).to_be_bytes());
        frame.copy_from_slice(received.frame);
        self.taken.bytes = end;
        self.taken.frames += 1;
        self.hosts.hear(group, id, received.frame);
        let now = self.started.elapsed().as_nanos() as u64;
        let verdict = self.bridge.arrive(id, group, received.frame, now);
        if let Verdict::Deliver(recipients) = verdict {
            for port in recipients {
                self.hosts.ask(port, received.frame);
                super::exchange::queue(&mut self.links, &mut self.touched, port, start..end);
            }
        }
    }

    /// Sends what was taken to the guests it is for.
    fn deliver_taken(&mut self) {
        self.deliver();
        self.taken = Taken::default();
    }

    /// Hands queued frames to the kernel; watches for room where it takes no more.
    pub(super) fn flush_wires(&mut self) {
        for (id, wire) in &mut self.wires {
            if !wire.touched {
                continue;
            }
            wire.touched = false;
            let full = !wire.end.port.flush();
            if full == wire.room_watched {
                continue;
            }
            match self
                .poller
                .watch_room(&wire.end.port, Token::Wire(*id), full)
            {
                Ok(()) => wire.room_watched = full,
                Err(error) => tracing::warn!("{}: cannot watch it: {error}", wire.end.name),
            }
        }
    }

    /// Lets go delayed frames that are due and looks at the interfaces now and then.
    pub(super) fn tend_wires(&mut self) {
        if self.wires.is_empty() {
            return;
        }
        let now = Instant::now();
        for wire in self.wires.values_mut() {
            let port = &mut wire.end.port;
            if port.next_deadline().is_some_and(|due| due <= now) {
                port.release();
                wire.touched = true;
            }
            if now.duration_since(wire.refreshed) >= REFRESH {
                port.refresh();
                wire.refreshed = now;
                if let Some(conflict) = port.take_conflict() {
                    tracing::warn!("{}: {conflict}", wire.end.name);
                }
            }
        }
        self.flush_wires();
    }

    /// How long the thread may sleep for the uplinks' sake.
    pub(super) fn patience(&self) -> Option<Duration> {
        let deadlines = self.wires.values().map(Wire::deadline);
        let first = deadlines.min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    pub(super) fn uplink_snapshot(&self) -> Vec<UplinkSnapshot> {
        let wires = self.wires.iter();
        let snapshot = |(id, wire): (&UplinkId, &Wire)| {
            let mut frames = frame_stats(wire.end.port.counters());
            let counts = self.bridge.uplink_counts(*id).unwrap_or_default();
            let reasons = vrdma_switch::DropReason::ALL.into_iter();
            let drops = reasons.map(|reason| (word(reason), counts.dropped(reason)));
            for (reason, count) in drops.chain([("unknown-segment", wire.strays)]) {
                if count > 0 {
                    *frames.drops.entry(reason.to_owned()).or_default() += count;
                }
            }
            UplinkSnapshot {
                id: *id,
                mtu: wire.end.port.mtu(),
                frames,
            }
        };
        wires.map(snapshot).collect()
    }
}

/// Frames from uplinks that lie in the buffer.
#[derive(Debug, Default)]
pub(super) struct Taken {
    bytes: usize,
    frames: usize,
}

/// Queues a frame at the uplinks that shall carry it. What comes back tells the sender that it was
/// too long for one of them.
pub(super) fn send(
    wires: &mut BTreeMap<UplinkId, Wire>,
    segments: &Segments,
    (uplinks, group): (&[UplinkId], GroupId),
    frame: &[u8],
) -> Option<Vec<u8>> {
    let mut told = None;
    for id in uplinks {
        let Some(wire) = wires.get_mut(id) else {
            continue;
        };
        if let Some(segment) = segments.of(group, wire.end.is_tunnel) {
            told = wire.send(Hop::to(segment), frame).or(told);
        }
    }
    told
}
