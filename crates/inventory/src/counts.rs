//! Counts of earlier workers, so that counters never go back.
//!
//! ```text
//!   record   kind COUNTED: JSON of an adapter's name and its counters, as they were told last
//! ```
//! Counters are written down before they are reported. So when another worker follows, only counts that nobody was told
//! are lost.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};
use vrdma_api::{AdapterStats, Name};
use vrdma_keep::{Capacity, Records, SlotId};

use crate::Inventory;

/// Capacity of the area: a record for each adapter that a daemon may have. Pages that were never written take no
/// memory.
pub const CAPACITY: Capacity = Capacity {
    small: 1 << 14,
    large: 1 << 16,
};

/// Kind of all of the area's records.
const COUNTED: u16 = 1;

/// Counters of an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counters {
    /// In the order of [`numbers`].
    numbers: Vec<u64>,
    rdma_drops: BTreeMap<String, u64>,
    ethernet_drops: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
struct Counted {
    name: Name,
    counters: Counters,
}

/// Counters of earlier workers and those last reported; see the module.
#[derive(Debug, Default)]
pub struct Counts {
    records: Option<Records>,
    /// Counters of each adapter as they were last reported, and the slot of their record.
    told: BTreeMap<Name, (SlotId, Counters)>,
    /// Counters of earlier workers.
    before: BTreeMap<Name, Counters>,
}

impl Counts {
    /// Goes on from the area's counters of adapters that exist.
    ///
    /// # Errors
    /// The descriptor is no such area, or cannot be mapped.
    pub fn open(area: BorrowedFd<'_>) -> io::Result<Self> {
        let (records, found, _) = Records::open(area, |_| 0)?;
        let (mut told, mut before) = (BTreeMap::new(), BTreeMap::new());
        for record in found {
            let Ok(Counted { name, counters }) = serde_json::from_slice(&record.bytes) else {
                records.remove(record.slot);
                continue;
            };
            before.insert(name.clone(), counters.clone());
            told.insert(name, (record.slot, counters));
        }
        records.commit();
        Ok(Self {
            records: Some(records),
            told,
            before,
        })
    }

    /// Forgets adapters that no longer exist.
    pub fn follow(&mut self, inventory: &Inventory) {
        let gone = self
            .told
            .keys()
            .filter(|name| inventory.adapter(name).is_err());
        for name in gone.cloned().collect::<Vec<_>>() {
            self.forget(&name);
        }
    }

    /// Forgets an adapter that is gone: another one with its name begins anew.
    pub fn forget(&mut self, name: &Name) {
        self.before.remove(name);
        let told = self.told.remove(name);
        if let (Some(records), Some((slot, _))) = (&self.records, told) {
            records.remove(slot);
            records.commit();
        }
    }

    /// Adds the counts of earlier workers to those of this one, and writes the sums down. Report them only afterwards.
    pub fn add_before(&mut self, stats: &mut [AdapterStats]) {
        let Some(records) = &self.records else { return };
        for stats in stats {
            if let Some(before) = self.before.get(&stats.name) {
                add(stats, before);
            }
            let counters = Counters::of(stats);
            let known = self.told.get(&stats.name);
            // The counters of a thread that does not answer are reported as zeros.
            if known.is_some_and(|(_, told)| *told == counters || counters.is_behind(told)) {
                continue;
            }
            let slot = known.map(|(slot, _)| *slot);
            if let Some(slot) = write(records, slot, &stats.name, &counters) {
                self.told.insert(stats.name.clone(), (slot, counters));
            }
        }
        records.commit();
    }
}

/// Writes a record and returns its slot; `None` if there is no room.
fn write(
    records: &Records,
    slot: Option<SlotId>,
    name: &Name,
    counters: &Counters,
) -> Option<SlotId> {
    let counted = Counted {
        name: name.clone(),
        counters: counters.clone(),
    };
    let bytes = serde_json::to_vec(&counted).ok()?;
    if let Some(slot) = slot
        && records.put(slot, &bytes).is_ok()
    {
        return Some(slot);
    }
    let fresh = records.insert(COUNTED, 0, &bytes).ok()?;
    slot.into_iter().for_each(|slot| records.remove(slot));
    Some(fresh)
}

/// Returns all counters that are plain numbers.
fn numbers(stats: &mut AdapterStats) -> [&mut u64; 15] {
    let AdapterStats { rdma, ethernet, .. } = stats;
    let counters = &mut rdma.counters;
    [
        &mut rdma.throttled.times,
        &mut rdma.throttled.us,
        &mut rdma.throttled_in.times,
        &mut rdma.throttled_in.us,
        &mut counters.tx_messages,
        &mut counters.tx_bytes,
        &mut counters.rx_messages,
        &mut counters.rx_bytes,
        &mut counters.retries,
        &mut counters.naks_sent,
        &mut counters.naks_received,
        &mut ethernet.tx_frames,
        &mut ethernet.tx_bytes,
        &mut ethernet.rx_frames,
        &mut ethernet.rx_bytes,
    ]
}

impl Counters {
    fn of(stats: &mut AdapterStats) -> Self {
        Self {
            numbers: numbers(stats).map(|number| *number).into(),
            rdma_drops: stats.rdma.counters.drops.clone(),
            ethernet_drops: stats.ethernet.drops.clone(),
        }
    }
}

impl Counters {
    /// Whether a number is less than before.
    fn is_behind(&self, before: &Self) -> bool {
        let mut numbers = self.numbers.iter().zip(&before.numbers);
        numbers.any(|(now, before)| now < before)
    }
}

/// Adds counters. Those of an older worker may have fewer numbers.
fn add(stats: &mut AdapterStats, before: &Counters) {
    for (number, before) in numbers(stats).into_iter().zip(&before.numbers) {
        *number = number.saturating_add(*before);
    }
    let drops = [
        (&mut stats.rdma.counters.drops, &before.rdma_drops),
        (&mut stats.ethernet.drops, &before.ethernet_drops),
    ];
    for (drops, before) in drops {
        for (reason, count) in before {
            let sum = drops.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use vrdma_api::{EthernetStats, RdmaStats};
    use vrdma_keep::Area;

    use super::*;

    fn stats(messages: u64) -> AdapterStats {
        let mut rdma = RdmaStats::default();
        rdma.counters.tx_messages = messages;
        rdma.counters
            .drops
            .insert("unknown-qp".to_owned(), messages);
        let ethernet = EthernetStats {
            rx_bytes: 10 * messages,
            ..EthernetStats::default()
        };
        AdapterStats {
            name: "c1".parse().unwrap(),
            rdma,
            ethernet,
        }
    }

    fn told(counts: &mut Counts, messages: u64) -> [u64; 3] {
        let mut all = [stats(messages)];
        counts.add_before(&mut all);
        let [told] = all;
        let counters = &told.rdma.counters;
        [
            counters.tx_messages,
            counters.drops["unknown-qp"],
            told.ethernet.rx_bytes,
        ]
    }

    fn worker(area: &OwnedFd) -> Counts {
        Counts::open(area.as_fd()).unwrap()
    }

    #[test]
    fn counters_never_go_back() {
        let area = Area::create(CAPACITY).unwrap();
        let mut counts = worker(&area);
        assert_eq!(told(&mut counts, 5), [5, 5, 50]);
        assert_eq!(told(&mut counts, 7), [7, 7, 70]);
        // The next worker has counted nothing yet.
        let mut counts = worker(&area);
        assert_eq!(told(&mut counts, 0), [7, 7, 70]);
        assert_eq!(told(&mut counts, 3), [10, 10, 100]);
        let mut counts = worker(&area);
        assert_eq!(told(&mut counts, 1), [11, 11, 110]);
        assert_eq!(told(&mut counts, 0), [10, 10, 100], "of one that is silent");
        let mut counts = worker(&area);
        assert_eq!(told(&mut counts, 0), [11, 11, 110]);
        counts.forget(&"c1".parse().unwrap());
        assert_eq!(told(&mut counts, 1), [1, 1, 10], "another adapter");
        assert_eq!(told(&mut worker(&area), 0), [1, 1, 10]);
    }
}
