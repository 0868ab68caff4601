//! The VXLAN header (RFC 7348 section 5).
//!
//! ```text
//!   0        1                  4            7
//!   | 08     | reserved         | VNI        | reserved |
//! ```
//! Reserved bits are sent as zero and ignored when received, as the RFC says.

/// Bytes of the header.
pub(crate) const LEN: usize = 8;

/// The flag that says that the VNI is valid.
const VNI_VALID: u8 = 0x08;

/// A VXLAN network identifier.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Vni(u32);

impl Vni {
    /// Makes a VNI; `None` if the number does not fit 24 bits.
    pub const fn new(number: u32) -> Option<Self> {
        if number >> 24 == 0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Returns the header of a VNI.
pub(crate) fn header(vni: Vni) -> [u8; LEN] {
    let [_, a, b, c] = vni.0.to_be_bytes();
    [VNI_VALID, 0, 0, 0, a, b, c, 0]
}

/// Returns the VNI and the inner frame; `None` without the flag or if the header is incomplete.
pub(crate) fn parse(datagram: &[u8]) -> Option<(Vni, &[u8])> {
    let (&[flags, _, _, _, a, b, c, _], frame) = datagram.split_first_chunk::<LEN>()?;
    let vni = Vni(u32::from_be_bytes([0, a, b, c]));
    (flags & VNI_VALID != 0).then_some((vni, frame))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_as_in_the_rfc() {
        let vni = Vni::new(0x12_3456).unwrap();
        assert_eq!(header(vni), [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
        assert_eq!(parse(&[8, 0, 0, 0, 0, 0, 5]), None);
        assert_eq!(parse(&[0, 0, 0, 0, 0, 0, 5, 0, 1]), None);
        assert_eq!(parse(&[0xff; 9]), Some((Vni(0xff_ffff), &[0xff][..])));
        assert_eq!(Vni::new(1 << 24), None);
    }

    proptest! {
        #[test]
        fn what_was_wrapped_comes_back(number in 0u32..1 << 24, frame in prop::collection::vec(any::<u8>(), 0..50)) {
            let vni = Vni::new(number).unwrap();
            let datagram = [&header(vni)[..], &frame].concat();
            prop_assert_eq!(parse(&datagram), Some((vni, &frame[..])));
        }
    }
}
