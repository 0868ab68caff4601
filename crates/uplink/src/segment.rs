//! Segments of frames, and where frames go.

use std::net::SocketAddr;

/// The broadcast domain that a frame belongs to, as the uplink tells it apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Segment {
    /// Raw: no 802.1Q tag, or one that states a priority only.
    Untagged,
    /// Raw: the VLAN of the outer 802.1Q tag, 1 to 4094. The frame itself comes and goes without it.
    Vlan(u16),
    /// Tunnel: the VXLAN network identifier, 24 bits (RFC 7348 section 5).
    Vni(u32),
}

/// Where a frame is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Segment to send into. An uplink of the other kind counts the frame as [`Loss::Segment`](crate::Loss::Segment).
    pub segment: Segment,
    /// Tunnel: the only peer to send to. If none, the frame goes to the peer that the destination MAC was learned from,
    /// else to all. Raw uplinks ignore it.
    pub peer: Option<SocketAddr>,
}

impl Hop {
    /// Into a segment, by the destination MAC.
    pub const fn to(segment: Segment) -> Self {
        Self {
            segment,
            peer: None,
        }
    }
}

/// A frame that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received<'a> {
    /// Destination MAC to payload, without the tag that `segment` states and without checksum (FCS).
    pub frame: &'a [u8],
    /// Segment that it belongs to.
    pub segment: Segment,
    /// The tunnel peer it came from, as it was added.
    pub from: Option<SocketAddr>,
}
