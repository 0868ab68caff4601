//! The bridge's uplinks.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Bridge, DropReason, PortCounts, Target, Verdict, addresses, is_reserved};
use crate::stations::Location;
use crate::{GroupId, UplinkId};

/// The uplinks by which each group leaves, and their counters.
#[derive(Default)]
pub(super) struct Wires {
    /// Uplinks of each group: ascending, never empty.
    groups: BTreeMap<GroupId, Vec<UplinkId>>,
    counts: BTreeMap<UplinkId, PortCounts>,
}

impl Wires {
    pub(super) fn of_group(&self, group: GroupId) -> &[UplinkId] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    pub(super) fn alone(&self, group: GroupId, uplink: UplinkId) -> &[UplinkId] {
        let joined = self.of_group(group);
        match joined.binary_search(&uplink) {
            Ok(place) => &joined[place..=place],
            Err(_) => &[],
        }
    }

    fn join(&mut self, uplink: UplinkId, group: GroupId) {
        let joined = self.groups.entry(group).or_default();
        if let Err(place) = joined.binary_search(&uplink) {
            joined.insert(place, uplink);
        }
    }

    /// Removes an uplink from the groups that leave by it; returns those groups.
    fn remove(&mut self, uplink: UplinkId) -> Vec<GroupId> {
        let mut left = Vec::new();
        self.groups.retain(|&group, joined| {
            if let Ok(place) = joined.binary_search(&uplink) {
                joined.remove(place);
                left.push(group);
            }
            !joined.is_empty()
        });
        left
    }
}

impl Bridge {
    /// Adds an uplink that no group uses yet.
    pub fn attach_uplink(&mut self, uplink: UplinkId) {
        self.wires.counts.insert(uplink, PortCounts::default());
    }

    /// Removes an uplink and what was learned behind it.
    pub fn detach_uplink(&mut self, uplink: UplinkId) {
        self.wires.counts.remove(&uplink);
        for group in self.wires.remove(uplink) {
            self.stations.forget_place(Location::Wire(uplink), group);
        }
    }

    /// Makes frames of the group leave by the uplink from now on. Without such an uplink nothing happens.
    pub fn join(&mut self, uplink: UplinkId, group: GroupId) {
        if self.wires.counts.contains_key(&uplink) {
            self.wires.join(uplink, group);
        }
    }

    /// Takes a group without ports off all uplinks: its number may be another group's next time.
    pub(super) fn leave_if_empty(&mut self, group: GroupId) {
        if !self.members.of_group(group).is_empty() {
            return;
        }
        for uplink in self.wires.groups.remove(&group).unwrap_or_default() {
            self.stations.forget_place(Location::Wire(uplink), group);
        }
    }

    /// Decides about a frame of `group` that an uplink has received, as [`Bridge::forward`] does.
    /// It goes to ports of this host only.
    pub fn arrive(
        &mut self,
        uplink: UplinkId,
        group: GroupId,
        frame: &[u8],
        now: u64,
    ) -> Verdict<'_> {
        let Some(counts) = self.wires.counts.get_mut(&uplink) else {
            return Verdict::Dropped(DropReason::Detached);
        };
        counts.received.add(frame.len());
        match self.judge(uplink, group, frame, now) {
            Ok(target) => Verdict::Deliver(self.send(None, group, target, frame.len())),
            Err(reason) => {
                if let Some(counts) = self.wires.counts.get_mut(&uplink) {
                    counts.drop(reason);
                }
                Verdict::Dropped(reason)
            }
        }
    }

    fn judge(
        &mut self,
        uplink: UplinkId,
        group: GroupId,
        frame: &[u8],
        now: u64,
    ) -> Result<Target, DropReason> {
        let (destination, source) = addresses(frame)?;
        if self.wires.alone(group, uplink).is_empty() {
            return Err(DropReason::Elsewhere);
        }
        if source.is_group() || source == Default::default() {
            return Err(DropReason::BadSource);
        }
        if self.members.configured(group, source).is_some() {
            return Err(DropReason::Spoofed);
        }
        self.stations
            .hear(Location::Wire(uplink), group, source, now);
        if is_reserved(destination) {
            return Err(DropReason::Reserved);
        }
        if destination.is_group() {
            return Ok(Target::Ports);
        }
        match self.place(group, destination, now) {
            Some(Location::Port(port)) => Ok(Target::One(Location::Port(port))),
            Some(Location::Wire(_)) | None => Err(DropReason::Elsewhere),
        }
    }

    /// Returns an uplink's counters: frames received, and why some of them were dropped.
    pub fn uplink_counts(&self, uplink: UplinkId) -> Option<PortCounts> {
        self.wires.counts.get(&uplink).copied()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use vrdma_wire::Mac;

    use super::*;
    use crate::PortId;

    const BLUE: GroupId = GroupId(1);
    const GREEN: GroupId = GroupId(2);
    const ANN: PortId = PortId(1);
    const BOB: PortId = PortId(2);
    const EVE: PortId = PortId(4);
    const ETH: UplinkId = UplinkId(0);
    const TUN: UplinkId = UplinkId(1);
    const FAR: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn mac(port: PortId) -> Mac {
        Mac([0x52, 0x54, 0, 0, 0, port.0 as u8])
    }

    /// Ann and Bob in one group, which leaves by both uplinks; Eve in another, which stays.
    fn bridge() -> Bridge {
        let mut bridge = Bridge::new();
        for (port, group) in [(ANN, BLUE), (BOB, BLUE), (EVE, GREEN)] {
            bridge.attach(port, group, mac(port)).unwrap();
        }
        for uplink in [ETH, TUN] {
            bridge.attach_uplink(uplink);
            bridge.join(uplink, BLUE);
        }
        bridge
    }

    fn frame(to: Mac, from: Mac) -> [u8; 60] {
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&to.0);
        frame[6..12].copy_from_slice(&from.0);
        frame
    }

    type Reached = (Vec<PortId>, Vec<UplinkId>);

    fn reached(verdict: Verdict<'_>) -> Result<Reached, DropReason> {
        match verdict {
            Verdict::Deliver(recipients) => {
                let uplinks = recipients.uplinks().to_vec();
                Ok((recipients.collect(), uplinks))
            }
            Verdict::Dropped(reason) => Err(reason),
        }
    }

    fn send(bridge: &mut Bridge, from: PortId, to: Mac, now: u64) -> Result<Reached, DropReason> {
        reached(bridge.forward(from, &frame(to, mac(from)), now))
    }

    fn hear(
        bridge: &mut Bridge,
        group: GroupId,
        to: Mac,
        from: Mac,
    ) -> Result<Reached, DropReason> {
        reached(bridge.arrive(ETH, group, &frame(to, from), 0))
    }

    #[test]
    fn unknown_stations_are_asked_for_everywhere_and_found_on_the_wire() {
        let mut bridge = bridge();
        let flooded = Ok((vec![BOB], vec![ETH, TUN]));
        assert_eq!(send(&mut bridge, ANN, FAR, 0), flooded);
        assert_eq!(send(&mut bridge, ANN, Mac::BROADCAST, 0), flooded);
        let one = Ok((vec![ANN], vec![]));
        assert_eq!(hear(&mut bridge, BLUE, mac(ANN), FAR), one);
        assert_eq!(send(&mut bridge, ANN, FAR, 1), Ok((vec![], vec![ETH])));
        assert_eq!(send(&mut bridge, ANN, mac(BOB), 1), Ok((vec![BOB], vec![])));
        bridge.detach_uplink(ETH);
        assert_eq!(send(&mut bridge, ANN, FAR, 2), Ok((vec![BOB], vec![TUN])));
    }

    #[test]
    fn from_the_wire_nothing_goes_back_to_a_wire() {
        let mut bridge = bridge();
        let both = Ok((vec![ANN, BOB], vec![]));
        assert_eq!(hear(&mut bridge, BLUE, Mac::BROADCAST, FAR), both);
        let other = Mac([2, 0, 0, 0, 0, 8]);
        assert_eq!(
            hear(&mut bridge, BLUE, FAR, other),
            Err(DropReason::Elsewhere)
        );
        let unknown = Mac([2, 0, 0, 0, 0, 7]);
        assert_eq!(
            hear(&mut bridge, BLUE, unknown, FAR),
            Err(DropReason::Elsewhere)
        );
        let counts = bridge.uplink_counts(ETH).unwrap();
        assert_eq!(counts.received.frames, 3);
        assert_eq!(counts.dropped(DropReason::Elsewhere), 2);
    }

    #[test]
    fn the_wire_claims_no_adapter_of_this_host() {
        let mut bridge = bridge();
        let spoofed = hear(&mut bridge, BLUE, mac(ANN), mac(BOB));
        assert_eq!(spoofed, Err(DropReason::Spoofed));
        let group = hear(&mut bridge, BLUE, mac(ANN), Mac::BROADCAST);
        assert_eq!(group, Err(DropReason::BadSource));
    }

    #[test]
    fn a_port_that_is_away_is_heard_from_the_wire() {
        let mut bridge = bridge();
        bridge.set_away(ANN, true);
        hear(&mut bridge, BLUE, mac(BOB), mac(ANN)).unwrap();
        let there = Ok((vec![], vec![ETH]));
        assert_eq!(send(&mut bridge, BOB, mac(ANN), 0), there);
        let own = send(&mut bridge, ANN, mac(BOB), 0);
        assert_eq!(own, Err(DropReason::Detached), "its VM is elsewhere");
        bridge.set_away(ANN, false);
        let spoofed = hear(&mut bridge, BLUE, mac(BOB), mac(ANN));
        assert_eq!(spoofed, Err(DropReason::Spoofed));
        assert_eq!(send(&mut bridge, BOB, mac(ANN), 0), Ok((vec![ANN], vec![])));
    }

    #[test]
    fn groups_that_did_not_join_stay_on_the_host() {
        let mut bridge = bridge();
        assert_eq!(send(&mut bridge, EVE, FAR, 0), Ok((vec![], vec![])));
        let stray = hear(&mut bridge, GREEN, mac(EVE), FAR);
        assert_eq!(stray, Err(DropReason::Elsewhere));
        hear(&mut bridge, BLUE, mac(ANN), FAR).unwrap();
        bridge.detach(ANN);
        bridge.detach(BOB);
        bridge.attach(BOB, BLUE, mac(BOB)).unwrap();
        assert_eq!(
            send(&mut bridge, BOB, FAR, 1),
            Ok((vec![], vec![])),
            "a new group"
        );
        assert_eq!(bridge.stations.learned(), 0);
    }
}
