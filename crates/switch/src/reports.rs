//! What a kernel would tell multicast routers and snooping switches for adapters that have none: which
//! groups are listened to (IGMPv2, RFC 2236; IGMPv3, RFC 3376; MLDv1, RFC 2710; MLDv2, RFC 3810).
//!
//! ```text
//!   joined ──► report ──► report again after a second        left ──► the same with leaving
//!   query  ──► (some time, at most what the query grants) ──► report of all groups
//!   query of the older version ──► reports of that version for the next 260 s
//! ```
//! Bounded: an adapter answers at most once a second, whoever asks how often.

mod igmp;
mod mld;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use vrdma_wire::{EtherType, EthernetView, Gid, Mac};

use crate::PortId;

const SECOND: u64 = 1_000_000_000;

/// How often a change is told (the robustness variable of both protocols), and how far apart.
const TOLD: u8 = 2;
const TOLD_APART: u64 = SECOND;

/// Answers of one adapter are at least so far apart.
const ANSWERS_APART: u64 = SECOND;

/// How long a querier of the older version counts (RFC 3376 8.12, RFC 3810 9.12 with their defaults).
const OLDER_LASTS: u64 = 260 * SECOND;

/// Which of the two protocols: by the IP version of the groups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Family {
    Igmp,
    Mld,
}

/// What a report says of its groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    Listens,
    Joined,
    Left,
}

/// A question that was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Query {
    family: Family,
    older: bool,
    /// Of one group only.
    group: Option<Gid>,
    /// Time to answer in.
    within: u64,
}

/// Who listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// The adapter's station.
    pub mac: Mac,
    /// Its IPv4 address; reports without one come from 0.0.0.0.
    pub ip: Option<Ipv4Addr>,
}

#[derive(Debug)]
struct Member {
    who: Listener,
    groups: BTreeSet<Gid>,
    /// Groups that came or went, and how often that is still to be told.
    changes: BTreeMap<Gid, u8>,
    tell_at: Option<u64>,
    answers: BTreeMap<Family, Answer>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Answer {
    due: Option<u64>,
    /// The last one.
    given: Option<u64>,
    /// A querier of the older version was heard by then.
    older_until: u64,
}

/// All adapters' listening. Times are nanoseconds of any clock that does not go back.
#[derive(Default, Debug)]
pub struct Reports {
    members: BTreeMap<PortId, Member>,
}

impl Reports {
    /// An adapter listens to these groups from now on, and to no others.
    pub fn listen(&mut self, port: PortId, who: Listener, groups: &[Gid], now: u64) {
        let groups = groups.iter().copied().filter(|group| is_told(*group));
        let groups: BTreeSet<_> = groups.collect();
        let member = self.members.entry(port).or_insert_with(|| Member::new(who));
        member.who = who;
        for group in member.groups.symmetric_difference(&groups) {
            member.changes.insert(*group, TOLD);
            member.tell_at = Some(now);
        }
        member.groups = groups;
    }

    /// An adapter is gone; nobody tells that its groups are left.
    pub fn forget(&mut self, port: PortId) {
        self.members.remove(&port);
    }

    /// The adapters that have listened to something.
    pub fn listeners(&self) -> impl Iterator<Item = PortId> {
        self.members.keys().copied()
    }

    /// Tells everything again, as to a switch that has just been plugged in.
    pub fn tell_again(&mut self, now: u64) {
        for member in self
            .members
            .values_mut()
            .filter(|member| !member.groups.is_empty())
        {
            let groups = member.groups.iter().map(|group| (*group, TOLD));
            member.changes.extend(groups);
            member.tell_at = Some(now);
        }
    }

    /// Whether a frame asks who listens.
    pub fn is_query(frame: &[u8]) -> bool {
        question(frame).is_some()
    }

    /// Hears a frame that came for an adapter; `random` spreads answers over the time that a query
    /// grants. `true` if it was a query.
    pub fn hear(&mut self, port: PortId, frame: &[u8], (now, random): (u64, u32)) -> bool {
        let query = question(frame);
        let member = self.members.get_mut(&port);
        if let (Some(query), Some(member)) = (&query, member) {
            member.hear(query, now, random);
        }
        query.is_some()
    }

    /// When [`Reports::poll`] has something to tell.
    pub fn next_deadline(&self) -> Option<u64> {
        self.members.values().filter_map(Member::deadline).min()
    }

    /// The frames that are due, and whose.
    pub fn poll(&mut self, now: u64) -> Vec<(PortId, Vec<u8>)> {
        let mut frames = Vec::new();
        for (port, member) in &mut self.members {
            let due = member.poll(now);
            frames.extend(due.into_iter().map(|frame| (*port, frame)));
        }
        frames
    }
}

impl Member {
    fn new(who: Listener) -> Self {
        Self {
            who,
            groups: BTreeSet::new(),
            changes: BTreeMap::new(),
            tell_at: None,
            answers: BTreeMap::new(),
        }
    }

    fn hear(&mut self, query: &Query, now: u64, random: u32) {
        let answer = self.answers.entry(query.family).or_default();
        if query.older {
            answer.older_until = now + OLDER_LASTS;
        }
        let concerned = match query.group {
            Some(group) => self.groups.contains(&group),
            None => self
                .groups
                .iter()
                .any(|group| family(*group) == query.family),
        };
        if !concerned {
            return;
        }
        let delay = ((u128::from(query.within) * u128::from(random)) >> 32) as u64;
        let earliest = answer.given.map_or(0, |given| given + ANSWERS_APART);
        let at = (now + delay).max(earliest);
        answer.due = Some(answer.due.map_or(at, |due| due.min(at)));
    }

    fn deadline(&self) -> Option<u64> {
        let answers = self.answers.values().filter_map(|answer| answer.due);
        answers.chain(self.tell_at).min()
    }

    fn poll(&mut self, now: u64) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        if self.tell_at.is_some_and(|at| at <= now) {
            self.tell_changes(&mut frames, now);
        }
        for family in [Family::Igmp, Family::Mld] {
            let Some(answer) = self.answers.get_mut(&family) else {
                continue;
            };
            if answer.due.take_if(|due| *due <= now).is_some() {
                answer.given = Some(now);
                let groups: Vec<_> = self.groups.iter().copied().collect();
                self.report(family, (Says::Listens, &groups), now, &mut frames);
            }
        }
        frames
    }

    fn tell_changes(&mut self, frames: &mut Vec<Vec<u8>>, now: u64) {
        let changed = self.changes.keys().copied();
        let (joined, left): (Vec<_>, Vec<_>) =
            changed.partition(|group| self.groups.contains(group));
        for family in [Family::Igmp, Family::Mld] {
            self.report(family, (Says::Joined, &joined), now, frames);
            self.report(family, (Says::Left, &left), now, frames);
        }
        self.changes.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
        self.tell_at = (!self.changes.is_empty()).then_some(now + TOLD_APART);
    }

    fn report(
        &self,
        of: Family,
        (says, groups): (Says, &[Gid]),
        now: u64,
        frames: &mut Vec<Vec<u8>>,
    ) {
        let older = self
            .answers
            .get(&of)
            .is_some_and(|answer| now < answer.older_until);
        let groups: Vec<_> = groups
            .iter()
            .copied()
            .filter(|group| family(*group) == of)
            .collect();
        frames.extend(match of {
            Family::Igmp => igmp::reports(&self.who, (says, older), &groups),
            Family::Mld => mld::reports(self.who.mac, (says, older), &groups),
        });
    }
}

fn family(group: Gid) -> Family {
    group.to_ipv4().map_or(Family::Mld, |_| Family::Igmp)
}

/// Groups that stay on the link or on the machine are never told (RFC 3376 section 6, RFC 3810
/// section 6: all systems, all nodes; RFC 4541 2.1.2: 224.0.0.0/24 is flooded anyway).
fn is_told(group: Gid) -> bool {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    match group.to_ipv4() {
        Some(ip) => ip.is_multicast() && ip.octets()[..3] != [224, 0, 0],
        None => {
            let scope = group.0[1] & 0xf;
            group.is_multicast() && scope > 1 && group.to_ipv6() != ALL_NODES
        }
    }
}

fn question(frame: &[u8]) -> Option<Query> {
    let ethernet = EthernetView::new(frame).ok()?;
    match ethernet.ether_type() {
        EtherType::IPV4 => igmp::query(ethernet.payload()),
        EtherType::IPV6 => mld::query(ethernet.payload()),
        _ => None,
    }
}

/// How long an answer may take, in the units of the query: a number, or one with a mantissa of
/// `bits` bits and an exponent of three behind a one (RFC 3376 4.1.1, RFC 3810 5.1.3).
fn granted(code: u16, bits: u32) -> u64 {
    let code = u64::from(code);
    let limit = 1 << (bits + 3);
    if code < limit {
        return code;
    }
    let mantissa = code & ((1 << bits) - 1);
    let exponent = code >> bits & 7;
    (mantissa | 1 << bits) << (exponent + 3)
}

#[cfg(test)]
mod tests;
