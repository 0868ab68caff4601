//! Counters of uplinks, for the control plane.

use vrdma_switch::UplinkId;
use vrdma_threads::UplinkSnapshot;
use vrdma_threads::uplink::frame_stats;

use super::UplinkPort;
use crate::exchange::Exchange;
use crate::link::word;

impl Exchange {
    pub(crate) fn uplink_snapshot(&self) -> Vec<UplinkSnapshot> {
        let wires = self.wires.iter();
        let snapshot = |(id, wire): (&UplinkId, &UplinkPort)| {
            let mut frames = frame_stats(wire.end.port.counters());
            let counts = self.bridge.uplink_counts(*id).unwrap_or_default();
            let reasons = vrdma_switch::DropReason::ALL.into_iter();
            let drops = reasons.map(|reason| (word(reason), counts.dropped(reason)));
            for (reason, count) in drops.chain([("unknown-segment", wire.strays)]) {
                if count > 0 {
                    *frames.drops.entry(reason.to_owned()).or_default() += count;
                }
            }
            UplinkSnapshot {
                id: *id,
                mtu: wire.end.port.mtu(),
                frames,
            }
        };
        wires.map(snapshot).collect()
    }
}
