//! Packets whose destination has not said yet which station it has.
//!
//! ```text
//!   no station known ──► keep the packet, ask ──► answer heard ──► fill in the address, send
//!                              └ asked again with the next packet      └ none in time: dropped, counted
//! ```
//! Queue pairs of guests know the station: their kernels asked. Those of processes do not. The ICRC does not cover the
//! Ethernet header, so the frame is made before the station is known.

use std::collections::VecDeque;
use std::time::Duration;

use vrdma_switch::{GroupId, Neighbour, PortId, question};
use vrdma_verbs::Time;
use vrdma_wire::{Gid, Mac};

use super::Uplinks;
use super::egress::Hop;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;

/// Most packets that wait, of all adapters together: 256 KiB at most. Further ones are dropped.
const WAITING_MAX: usize = 64;

/// How long a packet waits. By then a connection has sent it again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Least time between two questions for one address.
const QUESTIONS_APART: Duration = Duration::from_millis(100);

/// One packet.
struct Waiting {
    group: GroupId,
    wanted: Gid,
    frame: Vec<u8>,
    since: Time,
}

/// The waiting packets and the last question.
#[derive(Default)]
pub(super) struct Unresolved {
    packets: VecDeque<Waiting>,
    asked: Option<(GroupId, Gid, Time)>,
}

impl Unresolved {
    /// Keeps a packet. Returns the groups of the packets that are dropped: of those that waited too long, and of this
    /// one if there is no room for it.
    fn keep(&mut self, waiting: Waiting) -> Vec<GroupId> {
        let now = waiting.since;
        let mut dropped = Vec::new();
        self.packets.retain(|packet| {
            let waits = now < packet.since + PATIENCE;
            if !waits {
                dropped.push(packet.group);
            }
            waits
        });
        if self.packets.len() == WAITING_MAX {
            dropped.push(waiting.group);
        } else {
            self.packets.push_back(waiting);
        }
        dropped
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

/// A question for the owner of an address.
#[derive(Clone, Copy)]
struct Question {
    group: GroupId,
    /// The station that asks.
    mac: Mac,
    /// Address of the station that asks.
    ours: Gid,
    wanted: Gid,
    now: Time,
}

impl<M: Member, P: Port> Host<M, P> {
    /// Keeps the first bytes of the buffer until the station of `hop` is known.
    pub(super) fn wait(&mut self, hop: Hop<'_>, length: usize) {
        let uplinks = &mut self.uplinks;
        let dropped = uplinks.unresolved.keep(Waiting {
            group: hop.group,
            wanted: hop.route.dgid,
            frame: uplinks.buffer[..length].to_vec(),
            since: hop.now,
        });
        for group in dropped {
            uplinks.count_unresolved(group);
        }
        uplinks.ask(Question {
            group: hop.group,
            mac: hop.source,
            ours: hop.route.sgid,
            wanted: hop.route.dgid,
            now: hop.now,
        });
    }

    /// Whether somebody on another host has said that an address is its own. Asks if not.
    pub(crate) fn knows_neighbour(
        &mut self,
        from: PortId,
        ours: Gid,
        wanted: Gid,
        now: Time,
    ) -> bool {
        let fabric = self.shared.read();
        let (Some(group), Some(mac)) = (fabric.group(from), fabric.mac(from)) else {
            return false;
        };
        drop(fabric);
        let known = self.uplinks.neighbours.find(group, wanted, now.0).is_some();
        if !known {
            self.uplinks.ask(Question {
                group,
                mac,
                ours,
                wanted,
                now,
            });
        }
        known
    }

    /// Notes where an address of another host is, and sends what has waited for it.
    pub fn learn(&mut self, group: GroupId, gid: Gid, neighbour: Neighbour, now: Time) {
        let uplinks = &mut self.uplinks;
        if uplinks.neighbours.hear(group, gid, neighbour, now.0) {
            uplinks.changes += 1;
        }
        for waiting in uplinks.unresolved.take(group, gid) {
            uplinks.send_late(waiting, neighbour);
        }
    }
}

impl<P: Port> Uplinks<P> {
    /// Asks who has an address, unless that was done just now.
    fn ask(&mut self, asked: Question) {
        let Question { group, wanted, .. } = asked;
        if self.unresolved.asks(group, wanted, asked.now)
            && let Some(frame) = question(asked.mac, asked.ours, wanted)
        {
            self.broadcast(group, &frame);
        }
    }

    fn send_late(&mut self, waiting: Waiting, neighbour: Neighbour) {
        let Waiting {
            group, mut frame, ..
        } = waiting;
        frame[..6].copy_from_slice(&neighbour.mac.0);
        let Some(Some(uplink)) = self.all.get_mut(neighbour.uplink.0 as usize) else {
            return;
        };
        if let Some(segment) = self.segments.of(group, uplink.is_tunnel) {
            uplink.send(segment, &frame);
        }
    }

    /// Sends a frame to all stations of a group on other hosts.
    fn broadcast(&mut self, group: GroupId, frame: &[u8]) {
        for uplink in self.all.iter_mut().flatten() {
            if let Some(segment) = self.segments.of(group, uplink.is_tunnel) {
                uplink.send(segment, frame);
            }
        }
    }

    fn count_unresolved(&mut self, group: GroupId) {
        let segments = &self.segments;
        let mut uplinks = self.all.iter_mut().flatten();
        let carries =
            |uplink: &&mut Box<super::Uplink<P>>| segments.of(group, uplink.is_tunnel).is_some();
        if let Some(uplink) = uplinks.find(carries) {
            uplink.counts.unresolved += 1;
            self.group_counts.drop_unresolved(group);
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
            assert_eq!(unresolved.keep(waiting(last, 0)), []);
        }
        assert_eq!(unresolved.take(BLUE, gid(1)).len(), 2);
        assert_eq!(unresolved.take(BLUE, gid(1)).len(), 0);
        assert_eq!(unresolved.packets.len(), 1);
    }

    #[test]
    fn only_so_many_wait_and_only_so_long() {
        let mut unresolved = Unresolved::default();
        let dropped: usize = (0..100).map(|_| unresolved.keep(waiting(1, 0)).len()).sum();
        assert_eq!(dropped, 100 - WAITING_MAX);
        let late = PATIENCE.as_nanos() as u64;
        let dropped = unresolved.keep(waiting(1, late));
        assert_eq!(dropped, [BLUE; WAITING_MAX]);
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
