//! Frames that leave, and the handling of those that are too long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use vrdma_host::Segments;
use vrdma_switch::{GroupId, Oversize, UplinkId};
use vrdma_threads::uplink::hop_to;
use vrdma_uplink::Hop;

use super::UplinkPort;

/// How often the log reports frames that are too long.
const COMPLAINTS_APART: Duration = Duration::from_secs(60);

/// Bytes of the Ethernet header, which are not part of the MTU.
const ETHERNET_BYTES: usize = 14;

/// Queues a frame of a port group at the uplinks that are to carry it. If it is too long for one of them, the returned
/// frame tells the sender so.
pub(crate) fn send(
    wires: &mut BTreeMap<UplinkId, UplinkPort>,
    segments: &Segments,
    uplinks: &[UplinkId],
    group: GroupId,
    frame: &[u8],
) -> Option<Vec<u8>> {
    let mut told = None;
    for id in uplinks {
        let Some(wire) = wires.get_mut(id) else {
            continue;
        };
        if let Some(segment) = segments.of(group, wire.end.is_tunnel) {
            told = wire.send(hop_to(segment), frame).or(told);
        }
    }
    told
}

impl UplinkPort {
    /// Queues a frame, or its pieces; the port counts a frame that is lost because of its length.
    fn send(&mut self, hop: Hop, frame: &[u8]) -> Option<Vec<u8>> {
        self.touched = true;
        let port = &mut self.end.port;
        let mtu = port.mtu() as usize;
        if frame.len() <= ETHERNET_BYTES + mtu {
            port.send(hop, frame);
            return None;
        }
        let outcome = Oversize::of(frame, mtu);
        if let Oversize::Cut(pieces) = &outcome {
            pieces.iter().for_each(|piece| port.send(hop, piece));
            return None;
        }
        port.send(hop, frame);
        self.complain(frame.len());
        match outcome {
            Oversize::Tell(answer) => Some(answer),
            _ => None,
        }
    }

    fn complain(&mut self, bytes: usize) {
        let lately = |at: Instant| at.elapsed() < COMPLAINTS_APART;
        if self.complained.is_some_and(lately) {
            return;
        }
        self.complained = Some(Instant::now());
        let (name, mtu) = (&self.end.name, self.end.port.mtu());
        tracing::warn!(
            "{name}: packets of {} bytes do not fit its MTU of {mtu}; set {mtu} in the guests (`ip link set DEVICE mtu {mtu}`), or raise the network's",
            bytes - ETHERNET_BYTES
        );
    }
}
