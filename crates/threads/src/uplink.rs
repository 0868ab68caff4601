//! Uplinks as the daemon opens them: a port for each data path thread.
//!
//! ```text
//!   control plane ── open ──► Ports ──┬─ rest ──► Ethernet thread
//!                                     └─ roce ──► first shard; its senders ──► other shards
//! ```
//! The segments of the room `uplink` are port groups here; [`Segments`](vrdma_host::Segments) translates.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use vrdma_api::{FrameStats, Name};
use vrdma_host::{Marks, Segment};
use vrdma_switch::UplinkId;
use vrdma_uplink::{Counters, FaultSpec, Hop, Port, Ports, TunnelConfig};

use vrdma_inventory::{Medium, UplinkSpec};
use vrdma_sandbox::interfaces::Interfaces;

/// Smallest MTU, which every IPv4 host must accept (RFC 791); with less not even the smallest path MTU fits.
const MTU_MIN: u32 = 576;

/// One thread's end of an uplink.
#[derive(Debug)]
pub struct UplinkEnd {
    /// Number in the switch.
    pub id: UplinkId,
    /// Name for log lines.
    pub name: Name,
    /// Whether segments are VXLAN networks rather than VLANs.
    pub is_tunnel: bool,
    /// The port that sends and receives frames.
    pub port: Port,
    /// Shows other daemons, while it exists, that there is a raw uplink.
    _claim: Option<Arc<OwnedFd>>,
}

/// All ends of an uplink.
#[derive(Debug)]
pub struct UplinkEnds {
    /// Ends for the shards. The first one receives; the others only send.
    pub roce: Vec<UplinkEnd>,
    /// End for the Ethernet thread.
    pub rest: UplinkEnd,
}

/// Opens an uplink for this number of shards. The error is a sentence.
pub fn open(spec: &UplinkSpec, shards: u16, interfaces: &Interfaces) -> Result<UplinkEnds, String> {
    let name = &spec.name;
    let refused = |error: String| format!("cannot open the uplink {:?}: {error}", name.as_str());
    let mut ports = ports(&spec.medium, interfaces).map_err(refused)?;
    if ports.roce.mtu() < MTU_MIN {
        return Err(format!(
            "cannot open the uplink {:?}: its MTU is {} and RDMA needs at least {MTU_MIN}; raise it with `ip link set DEVICE mtu 1500`",
            name.as_str(),
            ports.roce.mtu()
        ));
    }
    if let Some(faults) = spec.faults {
        ports.set_faults(faults);
    }
    let mut roce = Vec::new();
    for shard in 1..shards {
        let sender = ports.roce.sender();
        let mut sender = sender.map_err(|error| refused(error.to_string()))?;
        if let Some(faults) = spec.faults {
            let seed = faults.seed.wrapping_add(shard.into());
            sender.set_faults(FaultSpec { seed, ..faults });
        }
        roce.push(sender);
    }
    roce.insert(0, ports.roce);
    let claim = match &spec.medium {
        Medium::Raw { interface } => claim(interface.as_str()).map(Arc::new),
        Medium::Tunnel { .. } => None,
    };
    let end = |port| UplinkEnd {
        id: spec.id,
        name: name.clone(),
        is_tunnel: matches!(spec.medium, Medium::Tunnel { .. }),
        port,
        _claim: claim.clone(),
    };
    Ok(UplinkEnds {
        roce: roce.into_iter().map(end).collect(),
        rest: end(ports.rest),
    })
}

/// Takes a name in this network namespace, which is free again when its socket is closed. Anybody can take it, so a
/// taken name is only logged, and nothing is refused.
fn claim(interface: &str) -> Option<OwnedFd> {
    let name = format!("vrdmad-raw-{interface}");
    let bound = SocketAddrUnix::new_abstract_name(name.as_bytes()).and_then(|address| {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::bind(&socket, &address)?;
        Ok(socket)
    });
    if matches!(bound, Err(Errno::ADDRINUSE)) {
        tracing::warn!(
            "another vrdmad seems to have a raw uplink on {interface}: both take every frame; stop one of them"
        );
    }
    bound.ok()
}

fn ports(medium: &Medium, interfaces: &Interfaces) -> Result<Ports, String> {
    match medium {
        Medium::Raw { interface } => interfaces.raw(interface.as_str()),
        Medium::Tunnel { listen } => {
            let ports = Ports::tunnel(&TunnelConfig { local: *listen });
            let ports = ports.map_err(|error| error.to_string())?;
            interfaces.enlarge_buffers(&ports.roce);
            interfaces.enlarge_buffers(&ports.rest);
            Ok(ports)
        }
    }
}

/// Converts a port's counters into those of the API; the owner adds its own drops.
pub fn frame_stats(counters: &Counters) -> FrameStats {
    let losses = counters.losses().filter(|(_, count)| *count > 0);
    FrameStats {
        tx_frames: counters.sent_frames,
        tx_bytes: counters.sent_bytes,
        rx_frames: counters.received_frames,
        rx_bytes: counters.received_bytes,
        contested: counters.contested,
        moved: counters.moved,
        drops: losses
            .map(|(reason, count)| (reason.replace('_', "-"), count))
            .collect(),
    }
}

/// Converts the segment of a received frame.
pub fn segment_of(segment: vrdma_uplink::Segment) -> Segment {
    match segment {
        vrdma_uplink::Segment::Untagged => Segment::Untagged,
        vrdma_uplink::Segment::Vlan(vlan) => Segment::Vlan(vlan),
        vrdma_uplink::Segment::Vni(vni) => Segment::Vni(vni),
    }
}

/// Returns the hop to a segment, chosen by the frame's station.
pub fn hop_to(segment: Segment) -> Hop {
    Hop::to(match segment {
        Segment::Untagged => vrdma_uplink::Segment::Untagged,
        Segment::Vlan(vlan) => vrdma_uplink::Segment::Vlan(vlan),
        Segment::Vni(vni) => vrdma_uplink::Segment::Vni(vni),
    })
}

/// Returns the marks of a port group's frames.
pub fn marks_of(segment: vrdma_inventory::Segment) -> Marks {
    Marks {
        vlan: segment.vlan.map(|vlan| vlan.get()),
        vni: segment.vni.map(|vni| vni.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::claim;

    #[test]
    fn an_interface_is_claimed_once_at_a_time() {
        let interface = format!("t{}", std::process::id());
        let first = claim(&interface);
        assert!(first.is_some());
        assert!(claim(&interface).is_none());
        drop(first);
        assert!(claim(&interface).is_some());
    }
}
