//! Uplinks as the carrier sees them, and the control plane's changes to them.

use std::time::Instant;

use vrdma_api::Name;
use vrdma_host::{Batch, Port, Received, Segment, Train, Uplink};
use vrdma_threads::uplink::{UplinkEnd, frame_stats, hop_to, segment_of};
use vrdma_threads::{UplinkChange, UplinkSnapshot};
use vrdma_verbs::Time;

use super::Shard;
use super::clock::Clock;
use super::poller::Key;

/// The shard's end of an uplink, with the shard's clock.
pub(super) struct UplinkPort {
    /// Its name for log lines.
    name: Name,
    port: vrdma_uplink::Port,
    clock: Clock,
}

impl UplinkPort {
    pub(super) fn port(&mut self) -> &mut vrdma_uplink::Port {
        &mut self.port
    }
}

impl Port for UplinkPort {
    fn mtu(&self) -> u32 {
        self.port.mtu()
    }

    fn send(&mut self, segment: Segment, frame: &[u8]) {
        self.port.send(hop_to(segment), frame);
    }

    fn send_in_place(
        &mut self,
        train: Train<'_>,
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let hop = hop_to(train.segment);
        self.port.send_in_place(hop, train.to, train.lengths, fill)
    }

    fn waiting(&self) -> usize {
        self.port.waiting()
    }

    fn flush(&mut self) -> bool {
        self.port.flush()
    }

    fn sent_frames(&self) -> u64 {
        self.port.counters().sent_frames
    }

    fn receive(&mut self, take: &mut impl FnMut(Received<'_>) -> bool) -> Batch {
        let taken = self.port.receive(&mut |received| {
            take(Received {
                segment: segment_of(received.segment),
                frame: received.frame,
            })
        });
        let arrivals = taken.unwrap_or_else(|error| {
            tracing::warn!("{}: cannot receive: {error}", self.name);
            0
        });
        Batch::of(arrivals, self.port.has_more())
    }

    fn next_deadline(&self) -> Option<Time> {
        let due: Option<Instant> = self.port.next_deadline();
        due.map(|due| self.clock.at(due))
    }

    fn release(&mut self) {
        self.port.release();
    }

    fn refresh(&mut self) {
        self.port.refresh();
        if let Some(complaint) = self.port.take_complaint() {
            tracing::warn!("{}: {complaint}", self.name);
        }
    }
}

pub(super) fn snapshot(uplink: &Uplink<UplinkPort>) -> UplinkSnapshot {
    let port = &uplink.port().port;
    let mut frames = frame_stats(port.counters());
    for (reason, count) in uplink.counts().by_reason() {
        *frames.drops.entry(reason).or_default() += count;
    }
    UplinkSnapshot {
        id: uplink.id(),
        mtu: port.mtu(),
        frames,
    }
}

impl Shard {
    pub(super) fn change_uplink(&mut self, change: UplinkChange) -> Result<(), String> {
        match change {
            UplinkChange::Add(end) => self.add_uplink(*end),
            UplinkChange::Remove(id) => self.host.remove_uplink(id),
            UplinkChange::AddPeer(id, peer) => {
                if let Some(port) = self.host.uplink_port(id) {
                    let added = port.port().add_peer(*peer);
                    added.map_err(|error| error.to_string())?;
                    self.host.measure();
                }
            }
            UplinkChange::RemovePeer(id, peer) => {
                if let Some(port) = self.host.uplink_port(id) {
                    port.port().remove_peer(peer);
                }
            }
            UplinkChange::Measure(id) => {
                if let Some(port) = self.host.uplink_port(id) {
                    port.port().refresh();
                    self.host.measure();
                }
            }
        }
        self.take_events();
        Ok(())
    }

    fn add_uplink(&mut self, end: UplinkEnd) {
        self.poller.watch(&end.port, Key::Wire(end.id));
        let port = UplinkPort {
            name: end.name,
            port: end.port,
            clock: self.clock,
        };
        let now = self.clock.now();
        self.host.add_uplink(end.id, end.is_tunnel, port, now);
    }
}
