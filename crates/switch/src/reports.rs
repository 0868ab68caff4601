//! What a kernel would tell multicast routers and snooping switches for adapters that have none: which
//! groups are listened to (IGMPv2, RFC 2236; IGMPv3, RFC 3376; MLDv1, RFC 2710; MLDv2, RFC 3810).
//!
//! ```text
//!   joined ──► report ──► report again after a second        left ──► the same with leaving
//!   query  ──► (some time, at most what the query grants) ──► report of all groups
//!   query of the older version ──► reports of that version for the next 260 s
//! ```
//! Bounded: an adapter answers at most once a second, whoever asks how often. Only those are looked at that a question
//! concerns or whose time has come, however many others listen.

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

const FAMILIES: [Family; 2] = [Family::Igmp, Family::Mld];

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
    /// Its port group, whose questions it answers.
    pub group: GroupId,
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
    /// Its entry among the deadlines.
    entry: Option<u64>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Answer {
    due: Option<u64>,
    /// The last one.
    given: Option<u64>,
}

/// All adapters' listening. Times are nanoseconds of any clock that does not go back.
#[derive(Default, Debug)]
pub struct Reports {
    members: BTreeMap<PortId, Member>,
    /// Those with members.
    networks: BTreeMap<GroupId, Network>,
    /// When each has something to tell, if it has: no look at those whose time has not come.
    deadlines: BTreeSet<(u64, PortId)>,
    /// Members that were looked at.
    #[cfg(test)]
    looks: usize,
}

impl Reports {
    /// An adapter listens to these groups from now on, and to no others.
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

    /// An adapter is gone; nobody tells that its groups are left.
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

    /// Something about a member may have changed when it has something to tell.
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

    /// Tells everything again, as to a switch that has just been plugged in.
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

    /// Whether a frame asks who listens.
    pub fn is_query(frame: &[u8]) -> bool {
        question(frame).is_some()
    }

    /// Hears a frame that came for all of a port group; `random` spreads answers over the time that a query
    /// grants. `true` if it was a query.
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

    /// When [`Reports::poll`] has something to tell.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|entry| entry.0)
    }

    /// The frames that are due, and whose.
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

    /// It listens to what is asked for.
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
                let says = (Says::Listens, is_older(family));
                frames.extend(self.report(family, says, &groups));
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
            frames.extend(self.report(family, (Says::Joined, older), &joined));
            frames.extend(self.report(family, (Says::Left, older), &left));
        }
        self.changes.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
        self.tell_at = (!self.changes.is_empty()).then_some(now + TOLD_APART);
    }

    /// Of those groups that are of one family; whether it `says` so in the older version comes with what.
    fn report(&self, of: Family, says: (Says, bool), groups: &[Gid]) -> Vec<Vec<u8>> {
        let groups = groups.iter().copied();
        let groups: Vec<_> = groups.filter(|group| family(*group) == of).collect();
        match of {
            Family::Igmp => igmp::reports(&self.who, says, &groups),
            Family::Mld => mld::reports(self.who.mac, says, &groups),
        }
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
