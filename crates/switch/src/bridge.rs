//! Ethernet between the ports of a group, and between them and other hosts.
//!
//! ```text
//!   frame ─► size ─► source: one station? not another's? ─► learn ─┬─ group address ──► flood
//!                                                                  ├─ known station ──► its port
//!                                                                  └─ unknown station ► flood
//! ```
//!
//! A flood goes to the ports of the group and to the uplinks that it has joined. Frames from an uplink go to ports
//! only: never back, never to another uplink, so hosts joined twice make no loop. A frame for a station that was never
//! heard on this host is not for this host.
//!
//! A learning bridge (IEEE 802.1D) with one table for all VLANs of a group: tags pass unseen. A
//! frame never leaves its group and never returns to its sender.

use alloc::collections::{BTreeMap, BTreeSet};

use vrdma_wire::Mac;

use crate::membership::{Member, Membership};
use crate::stations::{Location, Stations};
use crate::{AttachError, GroupId, PortId, UplinkId};

mod counts;
mod pin;
mod wires;

pub use counts::{DropReason, FrameCounts, PortCounts};
use pin::Pin;
pub use pin::{Claim, Sources};
use wires::Wires;

#[cfg(test)]
mod tests;

/// Bytes of destination, source and type.
pub const MIN_FRAME: usize = 14;

/// The usual bound of jumbo frames: vmxnet3's largest MTU of 9000 with header and tags fits.
pub const MAX_FRAME: usize = 9216;

/// Group addresses that no bridge passes on: spanning tree, pause, LLDP (IEEE 802.1D, table 7-10).
const RESERVED: [u8; 5] = [0x01, 0x80, 0xc2, 0x00, 0x00];

/// The decision about a frame.
#[derive(Debug)]
pub enum Verdict<'b> {
    /// It goes to these ports, possibly none.
    Deliver(Recipients<'b>),
    /// It goes nowhere.
    Dropped(DropReason),
}

/// The ports that get a frame: at most all others of the sender's group. Uplinks that get it are
/// told apart.
#[derive(Clone, Debug)]
pub struct Recipients<'b> {
    ports: core::slice::Iter<'b, PortId>,
    sender: Option<PortId>,
    uplinks: &'b [UplinkId],
}

impl Recipients<'_> {
    /// The uplinks that get the frame.
    pub fn uplinks(&self) -> &[UplinkId] {
        self.uplinks
    }
}

impl Iterator for Recipients<'_> {
    type Item = PortId;

    fn next(&mut self) -> Option<PortId> {
        let sender = self.sender;
        self.ports.find(|&&port| Some(port) != sender).copied()
    }
}

/// The Ethernet side of the switch.
#[derive(Default)]
pub struct Bridge {
    members: Membership,
    stations: Stations,
    /// Counters of attached ports for which something was counted.
    counts: BTreeMap<PortId, PortCounts>,
    wires: Wires,
    /// Ports that may send RoCEv2.
    roce: BTreeSet<PortId>,
    /// Ports that may send only in the name of their addresses.
    pins: BTreeMap<PortId, Pin>,
}

impl Bridge {
    /// Makes a bridge without ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a port. Nobody else in the group can send from `mac` any more.
    pub fn attach(&mut self, port: PortId, group: GroupId, mac: Mac) -> Result<(), AttachError> {
        self.members.attach(port, group, mac)?;
        self.stations.forget(group, mac);
        Ok(())
    }

    /// Removes a port and what was learned behind it; without such a port nothing happens.
    pub fn detach(&mut self, port: PortId) {
        if let Some(member) = self.members.detach(port) {
            self.stations
                .forget_place(Location::Port(port), member.group);
            self.leave_if_empty(member.group);
            self.counts.remove(&port);
            self.roce.remove(&port);
            self.pins.remove(&port);
        }
    }

    /// Notes that the VM of an attached port is on another host: its MAC is treated as any station's, which may be
    /// heard from an uplink, and the port sends nothing. Or that it comes back.
    pub fn set_away(&mut self, port: PortId, is_away: bool) {
        if let Some(Member { group, mac, .. }) = self.members.set_away(port, is_away) {
            self.stations.forget_place(Location::Port(port), group);
            self.stations.forget(group, mac);
        }
    }

    /// Lets an attached port send RoCEv2 frames. Others must not: for them their adapters do it, whose addresses the
    /// switch knows, and peers could not tell the two apart.
    pub fn allow_roce(&mut self, port: PortId) {
        if self.members.get(port).is_some() {
            self.roce.insert(port);
        }
    }

    /// Sets in whose name an attached port may send: frames in the name of others are dropped.
    pub fn pin(&mut self, port: PortId, sources: Sources) {
        self.pins.remove(&port);
        if let Some(Member { mac, .. }) = self.members.get(port)
            && !matches!(sources, Sources::Any)
        {
            self.pins.insert(port, Pin { mac, sources });
        }
    }

    /// Decides about a frame that `from` has sent at `now` (nanoseconds that never go back), learns
    /// from it and counts it. The frame counts as sent to every recipient.
    pub fn forward(&mut self, from: PortId, frame: &[u8], now: u64) -> Verdict<'_> {
        let sender = self.members.get(from).filter(|member| !member.is_away);
        let Some(sender) = sender else {
            return Verdict::Dropped(DropReason::Detached);
        };
        self.count(from, |counts| counts.received.add(frame.len()));
        match self.decide(from, sender, frame, now) {
            Ok(target) => {
                Verdict::Deliver(self.send(Some(from), sender.group, target, frame.len()))
            }
            Err(reason) => {
                self.count(from, |counts| counts.drop(reason));
                Verdict::Dropped(reason)
            }
        }
    }

    /// Takes back the count of a frame of `bytes` bytes that was given up, since the recipient's queue was full.
    pub fn not_taken(&mut self, by: PortId, bytes: usize) {
        self.count(by, |counts| {
            counts.sent.take_back(bytes);
            counts.drop(DropReason::Congested);
        });
    }

    /// Returns a port's counters.
    pub fn counts(&self, port: PortId) -> Option<PortCounts> {
        self.members.get(port)?;
        Some(self.counts.get(&port).copied().unwrap_or_default())
    }

    /// Returns the group of a port.
    pub fn group(&self, port: PortId) -> Option<GroupId> {
        self.members.get(port).map(|member| member.group)
    }

    fn decide(
        &mut self,
        from: PortId,
        sender: Member,
        frame: &[u8],
        now: u64,
    ) -> Result<Target, DropReason> {
        let (destination, source) = addresses(frame)?;
        self.check_source(from, sender, source)?;
        if vrdma_wire::carries_roce(frame) && !self.roce.contains(&from) {
            return Err(DropReason::Roce);
        }
        // Notices of adapters are sent by daemons alone, even where others may send RoCEv2.
        if vrdma_wire::carries_notice(frame) {
            return Err(DropReason::Notice);
        }
        if let Some(pin) = self.pins.get_mut(&from)
            && !pin.admits(frame)
        {
            return Err(DropReason::OtherAddress);
        }
        if source != sender.mac {
            self.stations
                .hear(Location::Port(from), sender.group, source, now);
        }
        self.target(from, sender.group, destination, now)
    }

    fn check_source(&self, from: PortId, sender: Member, source: Mac) -> Result<(), DropReason> {
        if source.is_group() || source == Mac::default() {
            return Err(DropReason::BadSource);
        }
        match self.members.configured(sender.group, source) {
            Some(owner) if owner != from => Err(DropReason::Spoofed),
            _ => Ok(()),
        }
    }

    fn target(
        &self,
        from: PortId,
        group: GroupId,
        destination: Mac,
        now: u64,
    ) -> Result<Target, DropReason> {
        if is_reserved(destination) {
            return Err(DropReason::Reserved);
        }
        if destination.is_group() {
            return Ok(Target::Others);
        }
        match self.place(group, destination, now) {
            Some(Location::Port(port)) if port == from => Err(DropReason::Returning),
            Some(place) => Ok(Target::One(place)),
            None => Ok(Target::Others),
        }
    }

    /// Returns where a station is: as configured, or else where it was heard.
    fn place(&self, group: GroupId, station: Mac, now: u64) -> Option<Location> {
        let configured = self.members.configured(group, station).map(Location::Port);
        configured.or_else(|| self.stations.find(group, station, now))
    }

    fn send(
        &mut self,
        sender: Option<PortId>,
        group: GroupId,
        target: Target,
        bytes: usize,
    ) -> Recipients<'_> {
        let (ports, uplinks) = match target {
            Target::One(Location::Port(port)) => (self.members.alone(group, port), &[][..]),
            Target::One(Location::Wire(uplink)) => (&[][..], self.wires.alone(group, uplink)),
            Target::Others => (self.members.of_group(group), self.wires.of_group(group)),
            Target::Ports => (self.members.of_group(group), &[][..]),
        };
        let ports = ports.iter();
        let recipients = Recipients {
            ports,
            sender,
            uplinks,
        };
        for port in recipients.clone() {
            self.counts.entry(port).or_default().sent.add(bytes);
        }
        recipients
    }

    fn count(&mut self, port: PortId, change: impl FnOnce(&mut PortCounts)) {
        if self.members.get(port).is_some() {
            change(self.counts.entry(port).or_default());
        }
    }
}

enum Target {
    One(Location),
    /// All of the group, uplinks included.
    Others,
    /// All of the group's ports.
    Ports,
}

fn is_reserved(destination: Mac) -> bool {
    destination.0[..5] == RESERVED && destination.0[5] < 16
}

/// Returns destination and source of a frame of legal length.
fn addresses(frame: &[u8]) -> Result<(Mac, Mac), DropReason> {
    if frame.len() > MAX_FRAME {
        return Err(DropReason::Oversize);
    }
    let header = frame.first_chunk::<MIN_FRAME>().ok_or(DropReason::Runt)?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *header;
    Ok((Mac([a, b, c, d, e, f]), Mac([g, h, i, j, k, l])))
}
