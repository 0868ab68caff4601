//! The network between the hosts: for each direction of each pair, and for each uplink, a link with a rate, a queue, a
//! latency, times when it is down, and injected faults.
//!
//! ```text
//!   host 0 ── faults ── queue, rate, marks ── latency ──► host 1
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use vrdma_host::Segment;
use vrdma_uplink::{FaultSpec, Faults, Hop};
use vrdma_verbs::Time;
use vrdma_wire::{Ecn, EtherType, EthernetView, TrafficClass, carries_notice, internet_checksum};

/// How links behave.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    pub(crate) faults: FaultSpec,
    pub(crate) latency_ns: u64,
    /// Nanoseconds that a thousand bytes take; 0 if they take none.
    pub(crate) ns_per_kilobyte: u64,
    /// How long a frame may wait to leave before the queue is full; marks begin at half of it.
    pub(crate) queue_ns: u64,
    /// Times when the link is down.
    pub(crate) down: Vec<(Time, Time)>,
    /// Faults for notices, if they differ from those of other frames.
    pub(crate) notices: Option<FaultSpec>,
}

/// A direction of a link: from which host to which, and by which of their uplinks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ends {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) uplink: usize,
}

/// A frame on its way, ordered by time of arrival, then by order of sending.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flight {
    at: Time,
    pub(crate) number: u64,
    pub(crate) ends: Ends,
    pub(crate) segment: Segment,
    pub(crate) frame: Vec<u8>,
}

struct Link {
    ends: Ends,
    faults: Faults,
    /// Faults for notices.
    troubles: Option<Faults>,
    free_at: u64,
}

impl Link {
    /// When frames that are held back are due.
    fn deadlines(&self) -> impl Iterator<Item = u64> {
        let all = [Some(&self.faults), self.troubles.as_ref()];
        let all = all.into_iter().flatten();
        all.filter_map(Faults::next_deadline)
    }
}

/// What happened to frames.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Fates {
    pub(crate) sent: u64,
    /// Lost by faults, and while a link was down.
    pub(crate) lost: u64,
    pub(crate) overflowed: u64,
    pub(crate) marked: u64,
    /// Notices among the sent frames.
    pub(crate) notices: u64,
    pub(crate) arrived: u64,
}

/// All links.
pub(crate) struct Network {
    plan: LinkPlan,
    links: Vec<Link>,
    flights: BinaryHeap<Reverse<Flight>>,
    number: u64,
    pub(crate) fates: Fates,
}

impl Network {
    pub(crate) fn new(hosts: usize, uplinks: usize, plan: LinkPlan) -> Self {
        let directions = (0..hosts * hosts * uplinks).map(|number| Ends {
            from: number / hosts % hosts,
            to: number % hosts,
            uplink: number / hosts / hosts,
        });
        let links = directions.filter(|ends| ends.from != ends.to);
        let links = links.map(|ends| {
            let number = (ends.uplink * hosts + ends.from) * hosts + ends.to;
            let faults = |spec: FaultSpec| {
                let seed = spec.seed.wrapping_add(number as u64);
                Faults::new(FaultSpec { seed, ..spec })
            };
            Link {
                ends,
                faults: faults(plan.faults),
                troubles: plan.notices.map(faults),
                free_at: 0,
            }
        });
        Self {
            links: links.collect(),
            plan,
            flights: BinaryHeap::new(),
            number: 0,
            fates: Fates::default(),
        }
    }

    /// Sends a frame to another host. `false` if it is lost at once.
    pub(crate) fn send(&mut self, now: Time, ends: Ends, segment: Segment, frame: &[u8]) -> bool {
        self.fates.sent += 1;
        let is_down = |(from, to): &(Time, Time)| (*from..*to).contains(&now);
        if self.plan.down.iter().any(is_down) {
            self.fates.lost += 1;
            return false;
        }
        let Some(at) = self.links.iter().position(|link| link.ends == ends) else {
            return false;
        };
        let hop = Hop::to(held(segment));
        let is_notice = carries_notice(frame);
        self.fates.notices += u64::from(is_notice);
        let Link {
            faults, troubles, ..
        } = &mut self.links[at];
        let faults = match troubles {
            Some(troubles) if is_notice => troubles,
            _ => faults,
        };
        let lost = faults.lost();
        let mut leaving = Vec::new();
        let out = &mut |_: Hop, frame: &[u8]| leaving.push(frame.to_vec());
        faults.send(now.0, hop, frame, out);
        let lost = faults.lost() - lost;
        self.fates.lost += lost;
        for frame in leaving {
            self.queue(at, now.0, segment, frame);
        }
        lost == 0
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Time> {
        let held = self.links.iter().flat_map(Link::deadlines);
        let flying = self.flights.peek().map(|Reverse(flight)| flight.at.0);
        held.chain(flying).min().map(Time)
    }

    /// Whether nothing is on its way.
    pub(crate) fn is_empty(&self) -> bool {
        self.next().is_none()
    }

    /// Returns the next frame that has arrived by now.
    pub(crate) fn arrive(&mut self, now: Time) -> Option<Flight> {
        self.release(now);
        let due = self
            .flights
            .peek()
            .is_some_and(|Reverse(flight)| flight.at <= now);
        let flight = due.then(|| self.flights.pop()).flatten()?;
        self.fates.arrived += 1;
        Some(flight.0)
    }

    fn release(&mut self, now: Time) {
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            if link.deadlines().all(|due| due > now.0) {
                continue;
            }
            let mut leaving = Vec::new();
            for faults in [Some(&mut link.faults), link.troubles.as_mut()]
                .into_iter()
                .flatten()
            {
                faults.release(now.0, &mut |hop: Hop, frame: &[u8]| {
                    leaving.push((released(hop.segment), frame.to_vec()));
                });
            }
            for (segment, frame) in leaving {
                self.queue(at, now.0, segment, frame);
            }
        }
    }

    /// Puts a frame into the queue of a link: its rate makes frames late, a long queue marks them, a full one drops
    /// them.
    fn queue(&mut self, at: usize, now: u64, segment: Segment, mut frame: Vec<u8>) {
        let plan = &self.plan;
        let link = &mut self.links[at];
        let waits = link.free_at.saturating_sub(now);
        if plan.ns_per_kilobyte > 0 && waits > plan.queue_ns {
            self.fates.overflowed += 1;
            return;
        }
        if plan.ns_per_kilobyte > 0 && waits > plan.queue_ns / 2 && mark(&mut frame) {
            self.fates.marked += 1;
        }
        let takes = frame.len() as u64 * plan.ns_per_kilobyte / 1000;
        link.free_at = now + waits + takes;
        self.number += 1;
        self.flights.push(Reverse(Flight {
            at: Time(link.free_at + plan.latency_ns),
            number: self.number,
            ends: link.ends,
            segment,
            frame,
        }));
    }
}

/// Returns the segment in the type of the faults, which hold frames back.
fn held(segment: Segment) -> vrdma_uplink::Segment {
    match segment {
        Segment::Untagged => vrdma_uplink::Segment::Untagged,
        Segment::Vlan(vlan) => vrdma_uplink::Segment::Vlan(vlan),
        Segment::Vni(vni) => vrdma_uplink::Segment::Vni(vni),
    }
}

/// Returns the segment of a frame that was held back.
fn released(segment: vrdma_uplink::Segment) -> Segment {
    match segment {
        vrdma_uplink::Segment::Untagged => Segment::Untagged,
        vrdma_uplink::Segment::Vlan(vlan) => Segment::Vlan(vlan),
        vrdma_uplink::Segment::Vni(vni) => Segment::Vni(vni),
    }
}

/// Marks a packet whose sender would react, as a router with a long queue does (RFC 3168). The ICRC does not cover
/// these bits.
fn mark(frame: &mut [u8]) -> bool {
    let Ok(ethernet) = EthernetView::new(frame) else {
        return false;
    };
    let (kind, at) = (
        ethernet.ether_type(),
        frame.len() - ethernet.payload().len(),
    );
    let class = match kind {
        EtherType::IPV4 => frame.get(at + 1).copied(),
        EtherType::IPV6 => frame
            .get(at..at + 2)
            .map(|bytes| bytes[0] << 4 | bytes[1] >> 4),
        _ => None,
    };
    let Some(class) = class
        .map(TrafficClass)
        .filter(|class| class.ecn() != Ecn::NotCapable)
    else {
        return false;
    };
    let marked = class.with_ecn(Ecn::Experienced).0;
    if kind == EtherType::IPV6 {
        frame[at] = frame[at] & 0xf0 | marked >> 4;
        frame[at + 1] = frame[at + 1] & 0x0f | marked << 4;
        return true;
    }
    frame[at + 1] = marked;
    frame[at + 10..at + 12].fill(0);
    let sum = internet_checksum(&frame[at..at + 20]);
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    true
}
