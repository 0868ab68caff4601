//! Which port group a frame of an uplink belongs to, and the other way round.

use std::collections::HashMap;

use vrdma_switch::{GroupId, PortId};
use vrdma_uplink as uplink;

use crate::plane::Segment;

/// The port groups that have adapters. A group without any takes nothing from a wire.
#[derive(Default)]
pub(crate) struct Segments {
    ports: HashMap<PortId, (GroupId, Segment)>,
    groups: HashMap<GroupId, Segment>,
    by_segment: HashMap<uplink::Segment, GroupId>,
}

impl Segments {
    /// An adapter was plugged into a group.
    pub(crate) fn plug(&mut self, port: PortId, group: GroupId, segment: Segment) {
        self.ports.insert(port, (group, segment));
        self.rebuild();
    }

    /// An adapter is gone.
    pub(crate) fn unplug(&mut self, port: PortId) {
        self.ports.remove(&port);
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.groups = self.ports.values().copied().collect();
        let groups = self.groups.iter();
        let marks = groups.flat_map(|(group, segment)| {
            let marks = [on(*segment, false), on(*segment, true)];
            marks.into_iter().flatten().map(|mark| (mark, *group))
        });
        self.by_segment = marks.collect();
    }

    /// The group of a frame that came.
    pub(crate) fn group(&self, segment: uplink::Segment) -> Option<GroupId> {
        self.by_segment.get(&segment).copied()
    }

    /// What marks a group's frames on an uplink; `None` if they must not leave by it.
    pub(crate) fn of(&self, group: GroupId, is_tunnel: bool) -> Option<uplink::Segment> {
        on(*self.groups.get(&group)?, is_tunnel)
    }

    /// All groups with adapters.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.keys().copied()
    }
}

fn on(segment: Segment, is_tunnel: bool) -> Option<uplink::Segment> {
    if is_tunnel {
        let vni = segment.vni?;
        return Some(uplink::Segment::Vni(vni.get()));
    }
    let tagged = segment.vlan.map(|vlan| uplink::Segment::Vlan(vlan.get()));
    Some(tagged.unwrap_or(uplink::Segment::Untagged))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(vlan: Option<i64>, vni: Option<i64>) -> Segment {
        Segment {
            vlan: vlan.map(|vlan| vlan.try_into().unwrap()),
            vni: vni.map(|vni| vni.try_into().unwrap()),
        }
    }

    #[test]
    fn groups_are_marked_and_found_by_their_marks() {
        let (blue, red) = (GroupId(0), GroupId(1));
        let mut segments = Segments::default();
        segments.plug(PortId(1), blue, segment(Some(10), Some(5000)));
        segments.plug(PortId(2), red, segment(None, None));
        assert_eq!(segments.of(blue, false), Some(uplink::Segment::Vlan(10)));
        assert_eq!(segments.of(blue, true), Some(uplink::Segment::Vni(5000)));
        assert_eq!(segments.of(red, false), Some(uplink::Segment::Untagged));
        assert_eq!(segments.of(red, true), None, "stays on its host");
        assert_eq!(segments.group(uplink::Segment::Vni(5000)), Some(blue));
        assert_eq!(segments.group(uplink::Segment::Vlan(11)), None);
        segments.unplug(PortId(1));
        assert_eq!(segments.group(uplink::Segment::Vni(5000)), None);
        assert_eq!(segments.group(uplink::Segment::Untagged), Some(red));
    }
}
