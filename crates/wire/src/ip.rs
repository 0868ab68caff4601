//! Common parts of IPv4 and IPv6: the traffic class with its congestion marks, protocol numbers, and the Internet
//! checksum.

/// DSCP and ECN: the type of service of IPv4, the traffic class of IPv6 (RFC 2474, RFC 3168).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TrafficClass(pub u8);

impl TrafficClass {
    /// Returns the differentiated services code point, 6 bits.
    pub const fn dscp(self) -> u8 {
        self.0 >> 2
    }

    /// Returns the congestion mark.
    pub const fn ecn(self) -> Ecn {
        match self.0 & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::Experienced,
        }
    }

    /// Returns the same class with another mark.
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self(self.0 & !3 | ecn as u8)
    }
}

/// Explicit congestion notification (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not react to marks.
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0), which RoCEv2 senders use.
    Capable0 = 2,
    /// CE: a queue on the path is filling; the receiver answers with a CNP (annex A17.9).
    Experienced = 3,
}

/// Protocol number of UDP in both IP versions.
pub const PROTOCOL_UDP: u8 = 17;

/// Returns the one's complement of the one's complement sum (RFC 1071); over a header with its checksum in place the
/// result is 0.
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let mut sum: u64 = words
        .iter()
        .map(|&word| u64::from(u16::from_be_bytes(word)))
        .sum();
    if let [last] = rest {
        sum += u64::from(*last) << 8;
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_leave_the_class_alone() {
        let class = TrafficClass(0x42);
        assert_eq!((class.dscp(), class.ecn()), (0x10, Ecn::Capable0));
        assert_eq!(class.with_ecn(Ecn::Experienced), TrafficClass(0x43));
        for mark in 0..4 {
            assert_eq!(TrafficClass(mark).ecn() as u8, mark);
        }
    }

    /// The worked example of RFC 1071 section 3.
    #[test]
    fn checksum_of_the_rfc() {
        let bytes = [0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(internet_checksum(&bytes), !0xddf2);
        assert_eq!(internet_checksum(&[0xff]), 0x00ff);
    }
}
