//! What was dropped at an uplink, by reason.

use std::collections::BTreeMap;

use vrdma_switch::NoRoute;
use vrdma_wire::Refusal;

use super::ingress::Drop;

/// Counters of one uplink.
#[derive(Debug, Default)]
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
    /// To send: nobody has said which station has the address.
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

    /// Those that are not zero, in the words of the control API.
    pub fn by_reason(&self) -> BTreeMap<String, u64> {
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
        let all = refused.chain(own);
        all.filter(|(_, count)| *count > 0).collect()
    }
}
