//! The kernel's reports to multicast routers and snooping switches, for adapters that have no kernel: which groups are
//! listened to (IGMPv2, RFC 2236; IGMPv3, RFC 3376; MLDv1, RFC 2710; MLDv2, RFC 3810).
//!
//! ```text
//!   joined ──► report ──► report again after a second        left ──► the same with leaving
//!   query  ──► (some time, at most what the query grants) ──► report of all groups
//!   query of the older version ──► reports of that version for the next 260 s
//! ```
//! The work is bounded: an adapter answers at most once a second, however often it is asked. Only adapters that a query
//! concerns, or whose time has come, are looked at, however many others listen.

mod igmp;
mod mld;
mod network;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use vrdma_wire::{EtherType, EthernetView, Gid, Mac};

use crate::{GroupId, PortId};
use network::Network;

const SECOND: u64 = 1_000_000_000;

/// How often a change is reported (the robustness variable of both protocols), and how far apart.
const TOLD: u8 = 2;
const TOLD_APART: u64 = SECOND;

/// Least time between two answers of one adapter.
const ANSWERS_APART: u64 = SECOND;

/// How long a querier of the older version counts (RFC 3376 8.12, RFC 3810 9.12 with their defaults).
const OLDER_LASTS: u64 = 260 * SECOND;

/// The protocol, by the IP version of the groups.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Family {
    Igmp,
    Mld,
}

const FAMILIES: [Family; 2] = [Family::Igmp, Family::Mld];

/// What a report says of its groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    Listens,
    Joined,
    Left,
}

/// A query that was heard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Query {
    family: Family,
    older: bool,
    /// The group, if the query is for one only.
    group: Option<Gid>,
    /// Time in which to answer.
    within: u64,
}

/// An adapter that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    /// Its port group, whose queries it answers.
    pub group: GroupId,
    /// MAC of the adapter's station.
    pub mac: Mac,
    /// Its IPv4 address; without one, reports come from 0.0.0.0.
    pub ip: Option<Ipv4Addr>,
}

#[derive(Debug)]
struct Member {
    who: Listener,
    groups: BTreeSet<Gid>,
    /// Groups that came or went, and how often each change is still to be reported.
    changes: BTreeMap<Gid, u8>,
    tell_at: Option<u64>,
    answers: BTreeMap<Family, Answer>,
    /// The member's entry among the deadlines.
    entry: Option<u64>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Answer {
    due: Option<u64>,
    /// When the last answer was given.
    given: Option<u64>,
}

/// What all adapters listen to. Times are nanoseconds of any clock that does not go back.
#[derive(Default, Debug)]
pub struct Reports {
    members: BTreeMap<PortId, Member>,
    /// The port groups with members.
    networks: BTreeMap<GroupId, Network>,
    /// When members have something to report, so that none is looked at before its time.
    deadlines: BTreeSet<(u64, PortId)>,
    /// Number of members that were looked at.
    #[cfg(test)]
    looks: usize,
}

impl Reports {
    /// Makes an adapter listen to exactly these groups from now on.
    pub fn listen(&mut self, port: PortId, who: Listener, groups: &[Gid], now: u64) {
        let groups = groups.iter().copied().filter(|group| is_told(*group));
        let groups: BTreeSet<_> = groups.collect();
        let known = self.members.get(&port);
        if known.is_some_and(|member| member.who.group != who.group) {
            self.forget(port);
        }
        let network = self.networks.entry(who.group).or_default();
        let member = self.members.entry(port).or_insert_with(|| {
            network.members += 1;
            Member::new(who)
        });
        member.who = who;
        for group in member.groups.symmetric_difference(&groups) {
            member.changes.insert(*group, TOLD);
            member.tell_at = Some(now);
        }
        network.change(port, &member.groups, &groups);
        member.groups = groups;
        self.schedule(port);
    }

    /// Forgets an adapter that is gone; nobody reports that it left its groups.
    pub fn forget(&mut self, port: PortId) {
        let Some(member) = self.members.remove(&port) else {
            return;
        };
        if let Some(at) = member.entry {
            self.deadlines.remove(&(at, port));
        }
        let Some(network) = self.networks.get_mut(&member.who.group) else {
            return;
        };
        network.change(port, &member.groups, &BTreeSet::new());
        network.members -= 1;
        if network.members == 0 {
            self.networks.remove(&member.who.group);
        }
    }

    /// Updates the deadline of a member, which may have changed.
    fn schedule(&mut self, port: PortId) {
        let Some(member) = self.members.get_mut(&port) else {
            return;
        };
        #[cfg(test)]
        {
            self.looks += 1;
        }
        let due = member.deadline();
        if member.entry == due {
            return;
        }
        if let Some(at) = member.entry {
            self.deadlines.remove(&(at, port));
        }
        self.deadlines.extend(due.map(|at| (at, port)));
        member.entry = due;
    }

    /// Reports everything again, as to a switch that has just been plugged in.
    pub fn tell_again(&mut self, now: u64) {
        let mut told = Vec::new();
        let members = self.members.iter_mut();
        for (port, member) in members.filter(|entry| !entry.1.groups.is_empty()) {
            let groups = member.groups.iter().map(|group| (*group, TOLD));
            member.changes.extend(groups);
            member.tell_at = Some(now);
            told.push(*port);
        }
        told.into_iter().for_each(|port| self.schedule(port));
    }

    /// Whether a frame is a membership query.
    pub fn is_query(frame: &[u8]) -> bool {
        question(frame).is_some()
    }

    /// Takes a frame that came for all of a port group; `random` spreads answers over the time that a query grants.
    /// `true` if it was a query.
    pub fn hear(
        &mut self,
        group: GroupId,
        frame: &[u8],
        now: u64,
        mut random: impl FnMut() -> u32,
    ) -> bool {
        let Some(query) = question(frame) else {
            return false;
        };
        let network = self.networks.get_mut(&group);
        let concerned = network.map(|network| network.hear(&query, now));
        for port in concerned.unwrap_or_default() {
            if let Some(member) = self.members.get_mut(&port) {
                member.hear(&query, now, random());
                self.schedule(port);
            }
        }
        true
    }

    /// When [`Reports::poll`] has something to report.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|entry| entry.0)
    }

    /// Returns the frames that are due, each with its port.
    pub fn poll(&mut self, now: u64) -> Vec<(PortId, Vec<u8>)> {
        let mut frames = Vec::new();
        while let Some((at, port)) = self.deadlines.first().copied()
            && at <= now
        {
            self.deadlines.pop_first();
            if let Some(member) = self.members.get_mut(&port) {
                member.entry = None;
                let network = self.networks.get(&member.who.group);
                let is_older = |of| network.is_some_and(|network| network.is_older(of, now));
                let due = member.poll(now, &is_older);
                frames.extend(due.into_iter().map(|frame| (port, frame)));
                self.schedule(port);
            }
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
            entry: None,
        }
    }

    /// Schedules an answer to a query that concerns the member.
    fn hear(&mut self, query: &Query, now: u64, random: u32) {
        let answer = self.answers.entry(query.family).or_default();
        let delay = ((u128::from(query.within) * u128::from(random)) >> 32) as u64;
        let earliest = answer.given.map_or(0, |given| given + ANSWERS_APART);
        let at = (now + delay).max(earliest);
        answer.due = Some(answer.due.map_or(at, |due| due.min(at)));
    }

    fn deadline(&self) -> Option<u64> {
        let answers = self.answers.values().filter_map(|answer| answer.due);
        answers.chain(self.tell_at).min()
    }

    fn poll(&mut self, now: u64, is_older: &impl Fn(Family) -> bool) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        if self.tell_at.is_some_and(|at| at <= now) {
            self.tell_changes(&mut frames, now, is_older);
        }
        for family in FAMILIES {
            let Some(answer) = self.answers.get_mut(&family) else {
                continue;
            };
            if answer.due.take_if(|due| *due <= now).is_some() {
                answer.given = Some(now);
                let groups: Vec<_> = self.groups.iter().copied().collect();
                let older = is_older(family);
                frames.extend(self.report(family, Says::Listens, older, &groups));
            }
        }
        frames
    }

    fn tell_changes(
        &mut self,
        frames: &mut Vec<Vec<u8>>,
        now: u64,
        is_older: &impl Fn(Family) -> bool,
    ) {
        let changed = self.changes.keys().copied();
        let (joined, left): (Vec<_>, Vec<_>) =
            changed.partition(|group| self.groups.contains(group));
        for family in FAMILIES {
            let older = is_older(family);
            frames.extend(self.report(family, Says::Joined, older, &joined));
            frames.extend(self.report(family, Says::Left, older, &left));
        }
        self.changes.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
        self.tell_at = (!self.changes.is_empty()).then_some(now + TOLD_APART);
    }

    /// Returns reports for the groups that are of one family, in the older version if `older`.
    fn report(&self, of: Family, says: Says, older: bool, groups: &[Gid]) -> Vec<Vec<u8>> {
        let groups = groups.iter().copied();
        let groups: Vec<_> = groups.filter(|group| family(*group) == of).collect();
        match of {
            Family::Igmp => igmp::reports(&self.who, says, older, &groups),
            Family::Mld => mld::reports(self.who.mac, says, older, &groups),
        }
    }
}

fn family(group: Gid) -> Family {
    group.to_ipv4().map_or(Family::Mld, |_| Family::Igmp)
}

/// Whether a group is reported: groups that stay on the link or on the machine never are (RFC 3376 section 6, RFC 3810
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

/// Returns how long an answer may take, in the units of the query: a plain number, or one with a mantissa of `bits`
/// bits behind an implied one, and an exponent of three bits (RFC 3376 4.1.1, RFC 3810 5.1.3).
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
