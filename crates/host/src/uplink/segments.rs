//! Which port group a frame of an uplink belongs to, and the other way round.

use std::collections::BTreeMap;

use vrdma_switch::{GroupId, PortId};

use crate::port::{Marks, Segment};

/// The port groups that have members. A group without members takes nothing from an uplink.
#[derive(Debug, Default)]
pub struct Segments {
    ports: BTreeMap<PortId, GroupId>,
    groups: BTreeMap<GroupId, Marked>,
    by_segment: BTreeMap<Segment, GroupId>,
}

/// A group with members.
#[derive(Debug)]
struct Marked {
    marks: Marks,
    members: usize,
}

impl Segments {
    /// Plugs a member into a group that has these marks.
    pub fn plug(&mut self, port: PortId, group: GroupId, marks: Marks) {
        self.unplug(port);
        self.ports.insert(port, group);
        let known = self.groups.entry(group);
        let known = known.or_insert(Marked { marks, members: 0 });
        known.members += 1;
        if known.members == 1 {
            self.mark(group, marks);
        }
    }

    fn mark(&mut self, group: GroupId, marks: Marks) {
        let segments = [marks.on(false), marks.on(true)];
        for segment in segments.into_iter().flatten() {
            self.by_segment.insert(segment, group);
        }
    }

    /// Unplugs a member; returns its group if it was the last one.
    pub fn unplug(&mut self, port: PortId) -> Option<GroupId> {
        let group = self.ports.remove(&port)?;
        let marked = self.groups.get_mut(&group)?;
        marked.members -= 1;
        if marked.members > 0 {
            return None;
        }
        self.groups.remove(&group);
        self.by_segment.retain(|_, of| *of != group);
        Some(group)
    }

    /// Returns the group of a frame that arrived.
    pub fn group(&self, segment: Segment) -> Option<GroupId> {
        self.by_segment.get(&segment).copied()
    }

    /// Returns the segment of a group's frames on an uplink; `None` if they must not leave by it.
    pub fn of(&self, group: GroupId, is_tunnel: bool) -> Option<Segment> {
        self.groups.get(&group)?.marks.on(is_tunnel)
    }

    /// Returns all groups with members.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.groups.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_marked_and_found_by_their_marks() {
        let (blue, red) = (GroupId(0), GroupId(1));
        let mut segments = Segments::default();
        let marks = Marks {
            vlan: Some(10),
            vni: Some(5000),
        };
        segments.plug(PortId(1), blue, marks);
        segments.plug(PortId(2), red, Marks::default());
        segments.plug(PortId(3), red, Marks::default());
        assert_eq!(segments.of(blue, false), Some(Segment::Vlan(10)));
        assert_eq!(segments.of(blue, true), Some(Segment::Vni(5000)));
        assert_eq!(segments.of(red, false), Some(Segment::Untagged));
        assert_eq!(segments.of(red, true), None, "stays on its host");
        assert_eq!(segments.group(Segment::Vni(5000)), Some(blue));
        assert_eq!(segments.group(Segment::Vlan(11)), None);
        assert_eq!(segments.unplug(PortId(1)), Some(blue));
        assert_eq!(segments.unplug(PortId(1)), None);
        assert_eq!(segments.unplug(PortId(3)), None, "another one is left");
        assert_eq!(segments.group(Segment::Vni(5000)), None);
        assert_eq!(segments.group(Segment::Untagged), Some(red));
        assert_eq!(segments.unplug(PortId(2)), Some(red));
        assert_eq!(segments.group(Segment::Untagged), None);
    }
}
