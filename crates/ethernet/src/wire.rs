//! The exchange's ends of uplinks: frames that leave the host and frames that arrive.
//!
//! A frame that leaves is copied into the uplink's batch, which goes to the kernel once the read that it came with is
//! sorted. A frame that arrives is copied into the exchange's buffer, behind a length, and is from there on like one
//! that a guest has sent.

mod egress;
mod snapshot;

use std::time::{Duration, Instant};

use vrdma_switch::{GroupId, UplinkId, Verdict};
use vrdma_uplink::Received;
use vrdma_wire::qemu_stream::HEADER_BYTES;

use super::client::FRAMES_MAX;
use super::exchange::Exchange;
use super::poller::{Token, Watched};
pub(super) use egress::send;
use vrdma_threads::UplinkChange;
use vrdma_threads::uplink::{UplinkEnd, segment_of};

/// How often interfaces are checked: MTU, up or down.
const REFRESH: Duration = Duration::from_secs(1);

/// Batches taken from one uplink before the others have their turn.
const BATCHES: usize = 4;

/// One uplink.
#[derive(Debug)]
pub(super) struct UplinkPort {
    end: UplinkEnd,
    /// Whether frames were queued since the last flush.
    touched: bool,
    /// Whether the poller reports room.
    room_watched: bool,
    refreshed: Instant,
    /// Number of frames of a segment that no port group has.
    strays: u64,
    /// When the log last reported frames that are too long.
    complained: Option<Instant>,
}

impl UplinkPort {
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

    /// Returns when it needs a turn without being ready.
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
                    .add_peer(*peer)
                    .map_err(|error| error.to_string()),
                None => Ok(()),
            },
            UplinkChange::Measure(_) => Ok(()),
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
            .add(&end.port, Token::UplinkPort(id))
            .map_err(|error| format!("cannot watch the uplink: {error}"))?;
        self.bridge.attach_uplink(id);
        self.wires.insert(id, UplinkPort::new(end));
        let groups: Vec<_> = self.segments.groups().collect();
        groups.into_iter().for_each(|group| self.join(group));
        Ok(())
    }

    /// Lets a group leave by every uplink that can mark its frames.
    pub(super) fn join(&mut self, group: GroupId) {
        for (id, wire) in &self.wires {
            if self.segments.of(group, wire.end.is_tunnel).is_some() {
                self.bridge.join(*id, group);
            }
        }
    }

    /// Takes received frames, and sends those that wait for room.
    pub(super) fn serve_wire(&mut self, id: UplinkId, room: bool) {
        // Removed for now, so that the rest of the exchange can take its frames.
        let Some(mut wire) = self.wires.remove(&id) else {
            return;
        };
        for _ in 0..BATCHES {
            let taken = wire.end.port.receive(&mut |received| {
                let ours = self.take(id, received);
                wire.strays += u64::from(!ours);
                ours
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
        // A tunnel is readable once it has room again.
        wire.touched |= room || wire.room_watched;
        self.wires.insert(id, wire);
        self.deliver_taken();
        self.answer();
        self.flush_wires();
    }

    /// Passes a frame on; `false` if no port group has its segment.
    fn take(&mut self, id: UplinkId, received: Received<'_>) -> bool {
        let Some(group) = self.segments.group(segment_of(received.segment)) else {
            return false;
        };
        let end = self.taken.bytes + HEADER_BYTES + received.frame.len();
        if end > self.buffer.len() || self.taken.frames == FRAMES_MAX {
            self.deliver_taken();
        }
        let start = self.taken.bytes;
        let body = start + HEADER_BYTES;
        let end = body + received.frame.len();
        let Some(room) = self.buffer.get_mut(start..end) else {
            return true;
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
        true
    }

    /// Sends the taken frames to their guests.
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
            let watched = Watched {
                room: full,
                ..Watched::default()
            };
            match self
                .poller
                .watch_as(&wire.end.port, Token::UplinkPort(*id), watched)
            {
                Ok(()) => wire.room_watched = full,
                Err(error) => tracing::warn!("{}: cannot watch it: {error}", wire.end.name),
            }
        }
    }

    /// Sends delayed frames that are due, and checks the interfaces now and then.
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
                if let Some(complaint) = port.take_complaint() {
                    tracing::warn!("{}: {complaint}", wire.end.name);
                }
            }
        }
        self.flush_wires();
    }

    /// Returns how long the thread may sleep as far as uplinks go.
    pub(super) fn patience(&self) -> Option<Duration> {
        let deadlines = self.wires.values().map(UplinkPort::deadline);
        let first = deadlines.min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }
}

/// Frames from uplinks in the buffer.
#[derive(Debug, Default)]
pub(super) struct Taken {
    bytes: usize,
    frames: usize,
}
