//! Why a frame is refused: one reason each, for counters and logs.

macro_rules! refusals {
    ($($(#[$doc:meta])* $reason:ident $name:literal $text:literal;)*) => {
        /// Why a frame is neither a RoCEv2 packet nor a notice that may be acted on.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
        pub enum Refusal {
            $($(#[$doc])* #[error($text)] $reason,)*
        }

        impl Refusal {
            /// Every reason, in the order of [`Refusal::index`].
            pub const ALL: &[Self] = &[$(Self::$reason),*];

            /// Returns the name for counters and metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name),*
                }
            }
        }
    };
}

refusals! {
    /// Another Ethernet type, protocol or port: other traffic, not an error.
    OtherTraffic "other_traffic" "the frame is not RoCEv2";
    /// The frame ends inside a header or before the length that a header announces.
    Truncated "truncated" "the frame is cut short";
    /// IP version or lengths contradict each other.
    IpHeader "ip_header" "the IP header contradicts itself";
    /// The IPv4 header checksum is wrong.
    IpChecksum "ip_checksum" "the IPv4 header checksum is wrong";
    /// The packet has IPv4 options, or is a fragment (annex A17.3.1).
    IpFeature "ip_feature" "RoCEv2 packets have no IP options and are not fragmented";
    /// The source names no host, or a group: an answer would go to many (RFC 1122 3.2.1.3).
    SpoofedSource "spoofed_source" "the source address is no host's";
    /// The UDP length is not the one that IP announced.
    UdpLength "udp_length" "the UDP length contradicts the IP header";
    /// The UDP checksum of a notice is missing or wrong; RoCEv2 has none.
    UdpChecksum "udp_checksum" "the UDP checksum is missing or wrong";
    /// A notice of another version, or of an unknown kind.
    Notice "notice" "the notice is of an unknown version or kind";
    /// The transport version is not 0 (IBTA 9.6.1).
    BthVersion "bth_version" "the transport version is unknown";
    /// The opcode is not in the table (IBTA 9.6.1).
    Opcode "opcode" "the opcode is unknown";
    /// The length is not a multiple of four bytes, or there is more padding than payload.
    Padding "padding" "the padding contradicts the length";
    /// Payload after an opcode that has none.
    UnexpectedPayload "unexpected_payload" "the opcode carries no payload";
    /// More payload than the largest path MTU.
    Oversized "oversized" "the payload is larger than 4096 bytes";
    /// Bits changed on the way (IBTA 7.8.1).
    Icrc "icrc" "the ICRC is wrong";
}

impl Refusal {
    /// Returns the index in [`Refusal::ALL`], for a table of counters.
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_index_their_table() {
        for (index, reason) in Refusal::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }
}
