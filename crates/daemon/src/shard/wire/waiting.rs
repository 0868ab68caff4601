//! Packets whose destination has not said yet which station it is.
//!
//! ```text
//!   no station known ──► keep the packet, ask ──► answer heard ──► fill in the address, send
//!                              └ asked again with the next packet      └ none in time: dropped, counted
//! ```
//! Queue pairs of guests know the station: their kernels asked. Those of processes do not. The ICRC
//! does not cover the Ethernet header, so the frame is made before the address is known.

use std::collections::VecDeque;
use std::time::Duration;

use vrdma_switch::{GroupId, Neighbour, PortId, question};
use vrdma_uplink::Hop;
use vrdma_verbs::Time;
use vrdma_verbs::unit::Route;
use vrdma_wire::{Gid, Mac};

use super::{Shard, Wires};
use crate::plane::Heard;

/// Packets that wait, of all adapters together: 256 KiB at most. Further ones are dropped.
const WAITING_MAX: usize = 64;

/// How long a packet waits. A connection sends it again by then.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often one address is asked for.
const QUESTIONS_APART: Duration = Duration::from_millis(100);

/// One packet.
pub(super) struct Waiting {
    group: GroupId,
    wanted: Gid,
    frame: Vec<u8>,
    since: Time,
}

/// The packets and the last question.
#[derive(Default)]
pub(super) struct Unresolved {
    packets: VecDeque<Waiting>,
    asked: Option<(GroupId, Gid, Time)>,
}

impl Unresolved {
    /// How many of a packet's like were dropped to keep it: 0 or 1.
    fn keep(&mut self, waiting: Waiting) -> u64 {
        let now = waiting.since;
        let before = self.packets.len();
        self.packets.retain(|packet| now < packet.since + PATIENCE);
        let mut dropped = before - self.packets.len();
        if self.packets.len() == WAITING_MAX {
            dropped += 1;
        } else {
            self.packets.push_back(waiting);
        }
        dropped as u64
    }

    fn take(&mut self, group: GroupId, gid: Gid) -> VecDeque<Waiting> {
        let (found, rest) = std::mem::take(&mut self.packets)
            .into_iter()
            .partition(|packet| packet.group == group && packet.wanted == gid);
        self.packets = rest;
        found
    }

    /// Whether an address is to be asked for now.
    fn asks(&mut self, group: GroupId, gid: Gid, now: Time) -> bool {
        let lately = self.asked.is_some_and(|(of, asked, at)| {
            (of, asked) == (group, gid) && now < at + QUESTIONS_APART
        });
        if !lately {
            self.asked = Some((group, gid, now));
        }
        !lately
    }
}

impl Shard {
    /// Keeps the front of the buffer until somebody says which station `route` leads to.
    pub(super) fn wait(&mut self, from: PortId, route: &Route, length: usize, now: Time) {
        let (Some(group), Some(mac)) = (self.fabric.group(from), self.fabric.mac(from)) else {
            return;
        };
        let wires = &mut self.wires;
        let dropped = wires.unresolved.keep(Waiting {
            group,
            wanted: route.dgid,
            frame: wires.buffer[..length].to_vec(),
            since: now,
        });
        wires.count_unresolved(group, dropped);
        wires.ask(group, mac, (route.sgid, route.dgid), now);
    }

    /// Whether somebody on another host has said that an address is his. Asks if not.
    pub(in crate::shard) fn knows_neighbour(
        &mut self,
        from: PortId,
        sgid: Gid,
        dgid: Gid,
        now: Time,
    ) -> bool {
        let (Some(group), Some(mac)) = (self.fabric.group(from), self.fabric.mac(from)) else {
            return false;
        };
        let known = self.wires.neighbours.find(group, dgid, now.0).is_some();
        if !known {
            self.wires.ask(group, mac, (sgid, dgid), now);
        }
        known
    }

    /// Takes what the Ethernet thread has heard, and sends what has waited for it.
    pub(in crate::shard) fn listen(&mut self) {
        self.wires.heard.clear();
        let now = self.clock.now();
        while let Some(heard) = self.wires.heard.take() {
            match heard {
                Heard::Address {
                    group,
                    gid,
                    neighbour,
                } => {
                    let wires = &mut self.wires;
                    wires.neighbours.hear(group, gid, neighbour, now.0);
                    for waiting in wires.unresolved.take(group, gid) {
                        wires.send_late(waiting, neighbour);
                    }
                }
                Heard::Query { group, frame } => self.hear_query(group, &frame),
            }
        }
    }
}

impl Wires {
    /// Asks whose an address is, unless that was done just now.
    fn ask(&mut self, group: GroupId, mac: Mac, (ours, wanted): (Gid, Gid), now: Time) {
        if self.unresolved.asks(group, wanted, now)
            && let Some(frame) = question(mac, ours, wanted)
        {
            self.broadcast(group, &frame);
        }
    }

    fn send_late(&mut self, waiting: Waiting, neighbour: Neighbour) {
        let Waiting {
            group, mut frame, ..
        } = waiting;
        frame[..6].copy_from_slice(&neighbour.mac.0);
        let segments = &self.segments;
        let wire = self.wires.get_mut(neighbour.uplink.0 as usize);
        let Some(Some(wire)) = wire else { return };
        if let Some(segment) = segments.of(group, wire.end.is_tunnel) {
            wire.end.port.send(Hop::to(segment), &frame);
            wire.touched = true;
        }
    }

    /// Sends a frame to everybody in a group on other hosts.
    fn broadcast(&mut self, group: GroupId, frame: &[u8]) {
        for wire in self.wires.iter_mut().flatten() {
            if let Some(segment) = self.segments.of(group, wire.end.is_tunnel) {
                wire.end.port.send(Hop::to(segment), frame);
                wire.touched = true;
            }
        }
    }

    fn count_unresolved(&mut self, group: GroupId, dropped: u64) {
        let segments = &self.segments;
        let mut wires = self.wires.iter_mut().flatten();
        if let Some(wire) = wires.find(|wire| segments.of(group, wire.end.is_tunnel).is_some()) {
            wire.counts.unresolved += dropped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLUE: GroupId = GroupId(1);

    fn waiting(last: u8, since: u64) -> Waiting {
        Waiting {
            group: BLUE,
            wanted: gid(last),
            frame: vec![last],
            since: Time(since),
        }
    }

    fn gid(last: u8) -> Gid {
        Gid::from_ipv4([10, 0, 0, last].into())
    }

    #[test]
    fn packets_wait_in_order_for_their_own_answer() {
        let mut unresolved = Unresolved::default();
        for last in [1, 2, 1] {
            assert_eq!(unresolved.keep(waiting(last, 0)), 0);
        }
        assert_eq!(unresolved.take(BLUE, gid(1)).len(), 2);
        assert_eq!(unresolved.take(BLUE, gid(1)).len(), 0);
        assert_eq!(unresolved.packets.len(), 1);
    }

    #[test]
    fn only_so_many_wait_and_only_so_long() {
        let mut unresolved = Unresolved::default();
        let dropped: u64 = (0..100).map(|_| unresolved.keep(waiting(1, 0))).sum();
        assert_eq!(dropped, 100 - WAITING_MAX as u64);
        let late = PATIENCE.as_nanos() as u64;
        assert_eq!(unresolved.keep(waiting(1, late)), WAITING_MAX as u64);
        assert_eq!(unresolved.packets.len(), 1);
    }

    #[test]
    fn an_address_is_not_asked_for_with_every_packet() {
        let mut unresolved = Unresolved::default();
        let asked =
            [0, 1, 99_999_999, 100_000_000].map(|now| unresolved.asks(BLUE, gid(1), Time(now)));
        assert_eq!(asked, [true, false, false, true]);
        assert!(unresolved.asks(BLUE, gid(2), Time(100_000_001)));
    }
}
