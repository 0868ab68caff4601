//! What was dropped at an uplink, and for a port group, by reason.

use std::collections::BTreeMap;

use vrdma_switch::{GroupId, NoRoute};
use vrdma_wire::Refusal;

use super::ingress::Drop;

/// Counters of one uplink, or of one port group at all of them.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    refused: [u64; Refusal::ALL.len()],
    segment: u64,
    unknown_adapter: u64,
    spoofed: u64,
    other_station: u64,
    own_station: u64,
    other_sender: u64,
    nobody_listens: u64,
    over_limit: u64,
    shard_full: u64,
    /// Not sent: no station has said that it has the address.
    pub(super) unresolved: u64,
}

impl Counts {
    pub(super) fn drop(&mut self, reason: Drop) {
        *match reason {
            Drop::Segment => &mut self.segment,
            Drop::Refused(refusal) => &mut self.refused[refusal.index()],
            Drop::NoRoute(NoRoute::Spoofed) => &mut self.spoofed,
            Drop::NoRoute(_) => &mut self.unknown_adapter,
            Drop::OtherStation => &mut self.other_station,
            Drop::OwnStation => &mut self.own_station,
            Drop::OtherSender => &mut self.other_sender,
            Drop::NobodyListens => &mut self.nobody_listens,
            Drop::OverLimit => &mut self.over_limit,
            Drop::ShardFull => &mut self.shard_full,
        } += 1;
    }

    /// Returns the counters that are not zero, in the words of the control API.
    pub fn by_reason(&self) -> BTreeMap<String, u64> {
        self.all().filter(|(_, count)| *count > 0).collect()
    }

    fn all(&self) -> impl Iterator<Item = (String, u64)> {
        let refused = Refusal::ALL.iter().map(|refusal| {
            let word = refusal.name().replace('_', "-");
            (word, self.refused[refusal.index()])
        });
        let own = [
            ("unknown-segment", self.segment),
            ("unknown-adapter", self.unknown_adapter),
            ("spoofed-gid", self.spoofed),
            ("other-station", self.other_station),
            ("spoofed-station", self.own_station),
            ("spoofed-sender", self.other_sender),
            ("nobody-listens", self.nobody_listens),
            ("over-limit", self.over_limit),
            ("shard-full", self.shard_full),
            ("unresolved", self.unresolved),
        ];
        let own = own.map(|(word, count)| (word.to_owned(), count));
        refused.chain(own)
    }
}

/// Packets that uplinks dropped for each port group and that none of its adapters counts. Only a group with members has
/// an entry, and only once something was dropped for it, so there are no more entries than groups.
#[derive(Default)]
pub(super) struct GroupCounts {
    by_group: BTreeMap<GroupId, Counts>,
}

impl GroupCounts {
    /// Counts something that came for a group and was delivered to nobody.
    pub(super) fn drop(&mut self, group: GroupId, reason: Drop) {
        // The adapter whose limit it was has counted it: the group's sum would have it twice.
        if !matches!(reason, Drop::OverLimit) {
            self.by_group.entry(group).or_default().drop(reason);
        }
    }

    /// Counts a packet of a group that was not sent, since its station is unknown.
    pub(super) fn drop_unresolved(&mut self, group: GroupId) {
        self.by_group.entry(group).or_default().unresolved += 1;
    }

    /// Forgets a group whose last member is gone. Another group may get the number.
    pub(super) fn forget(&mut self, group: GroupId) {
        self.by_group.remove(&group);
    }

    pub(super) fn of(&self, group: GroupId) -> Option<&Counts> {
        self.by_group.get(&group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_row_in_the_guide() {
        let page = include_str!("../../../../docs/troubleshooting.md");
        let (_, table) = page
            .split_once("Uplinks, `vrdma uplink show NAME`")
            .unwrap();
        let table = table.split("\n\n").nth(1).unwrap();
        for (word, _) in Counts::default().all() {
            assert!(table.contains(&format!("`{word}`")), "{word}");
        }
    }
}
