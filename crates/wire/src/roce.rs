//! Tells which frames are RoCEv2, or notices beside it, before anything in them is trusted.

use crate::{EtherType, NOTICE_PORT, PROTOCOL_UDP, ROCE_PORT};

use offset::{
    FRAGMENT_OFFSET, IP_AT, PORT_AT, TAG_BYTES, TYPE_AT, V4_FRAGMENT_AT, V4_PROTOCOL_AT,
    V6_NEXT_AT, V6_PAYLOAD_AT,
};

/// Offsets of the fields that tell RoCEv2 from other frames, without an 802.1Q tag, which moves all fields from
/// `TYPE_AT` on.
pub mod offset {
    /// Bytes of an 802.1Q tag.
    pub const TAG_BYTES: usize = 4;
    /// Offset of the type, or of the tag.
    pub const TYPE_AT: usize = 12;
    /// Offset of the IP header.
    pub const IP_AT: usize = 14;
    /// Offset of IPv4's flags and fragment offset.
    pub const V4_FRAGMENT_AT: usize = IP_AT + 6;
    /// Offset of IPv4's protocol.
    pub const V4_PROTOCOL_AT: usize = IP_AT + 9;
    /// Offset of IPv6's next header.
    pub const V6_NEXT_AT: usize = IP_AT + 6;
    /// Offset of the bytes after the IPv6 header.
    pub const V6_PAYLOAD_AT: usize = IP_AT + 40;
    /// Offset of the destination port inside a UDP header.
    pub const PORT_AT: usize = 2;
    /// Bits of the fragment offset.
    pub const FRAGMENT_OFFSET: u16 = 0x1fff;
}

/// Most tags of a frame that are skipped: two are QinQ, and no network uses more than a few.
const TAGS_MAX: usize = 8;

/// Types of tags, which come before the frame's type: 802.1Q, 802.1ad, and its predecessors.
const TAGS: [EtherType; 4] = [
    EtherType::VLAN,
    EtherType(0x88a8),
    EtherType(0x9100),
    EtherType(0x9200),
];

/// Whether the frame is a RoCEv2 packet by its headers up to the UDP port. Fragments are not: no RoCEv2 sender makes
/// them.
pub fn is_roce(frame: &[u8]) -> bool {
    udp_port(frame) == Some(ROCE_PORT)
}

/// Whether the frame is one that adapters send to each other: RoCEv2, or a notice.
pub fn is_for_adapters(frame: &[u8]) -> bool {
    matches!(udp_port(frame), Some(ROCE_PORT | NOTICE_PORT))
}

/// Whether it is RoCEv2 behind any tags, which switches on its way may take off one by one. A frame with more than
/// [`TAGS_MAX`] tags counts as RoCEv2.
pub fn carries_roce(frame: &[u8]) -> bool {
    carries(frame, ROCE_PORT)
}

/// The same for a notice.
pub fn carries_notice(frame: &[u8]) -> bool {
    carries(frame, NOTICE_PORT)
}

fn udp_port(frame: &[u8]) -> Option<u16> {
    let tagged = be16(frame, TYPE_AT) == Some(EtherType::VLAN.0);
    udp_port_behind(frame, usize::from(tagged) * TAG_BYTES)
}

fn carries(frame: &[u8], port: u16) -> bool {
    let is_tag =
        |at: usize| be16(frame, TYPE_AT + at).is_some_and(|it| TAGS.contains(&EtherType(it)));
    let mut starts = (0..=TAGS_MAX).map(|tags| tags * TAG_BYTES);
    let start = starts.find(|at| !is_tag(*at));
    start.is_none_or(|at| udp_port_behind(frame, at) == Some(port))
}

fn be16(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

/// Returns the destination port of UDP, behind `tag` bytes of tags.
fn udp_port_behind(frame: &[u8], tag: usize) -> Option<u16> {
    let be16 = |at: usize| be16(frame, at);
    match EtherType(be16(TYPE_AT + tag)?) {
        EtherType::IPV4 => {
            if frame.get(V4_PROTOCOL_AT + tag)? != &PROTOCOL_UDP
                || be16(V4_FRAGMENT_AT + tag)? & FRAGMENT_OFFSET != 0
            {
                return None;
            }
            let header = usize::from(frame.get(IP_AT + tag)? & 0xf) * 4;
            be16(IP_AT + tag + header + PORT_AT)
        }
        EtherType::IPV6 if frame.get(V6_NEXT_AT + tag)? == &PROTOCOL_UDP => {
            be16(V6_PAYLOAD_AT + tag + PORT_AT)
        }
        _ => None,
    }
}
