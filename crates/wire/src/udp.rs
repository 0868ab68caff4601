//! UDP (RFC 768), below RoCEv2 on destination port 4791 (annex A17.3.2).
//!
//! RoCEv2 senders leave the checksum out (zero), also over IPv6; the ICRC covers more than it would.

use crate::field::{be16, put};
use crate::format::{Format, Malformed, view};

/// Destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

const LEN: usize = 8;

view! {
    /// View of a datagram whose payload is as long as the header announces.
    UdpView[_] {
        /// Source port, which the sender chooses to spread flows over paths.
        source(b) -> u16 { be16(b, 0) }
        /// Destination port.
        destination(b) -> u16 { be16(b, 2) }
        /// Bytes of header and payload.
        total_len(b) -> usize { usize::from(be16(b, 4)) }
        /// Checksum as sent; zero means none.
        checksum(b) -> u16 { be16(b, 6) }
    }
}

impl<'a> UdpView<'a> {
    /// Wraps a datagram.
    ///
    /// # Errors
    /// The datagram is short, or has a length that does not cover the header.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < LEN {
            return Err(Malformed::Short);
        }
        match Self(bytes).total_len() {
            len if len < LEN => Err(Malformed::Length),
            len if len > bytes.len() => Err(Malformed::Short),
            _ => Ok(Self(bytes)),
        }
    }

    /// Returns the header's bytes.
    pub fn header(self) -> &'a [u8] {
        &self.0[..LEN]
    }

    /// Returns the bytes after the header.
    pub fn payload(self) -> &'a [u8] {
        &self.0[LEN..self.total_len()]
    }
}

/// Value of a UDP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Udp {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Checksum, zero for none.
    pub checksum: u16,
    /// Bytes after the header, at most [`Udp::MAX_PAYLOAD`].
    pub payload_len: u16,
}

impl Udp {
    /// Bytes of the header.
    pub const LEN: usize = LEN;

    /// Most bytes after the header, as the length has 16 bits.
    pub const MAX_PAYLOAD: u16 = u16::MAX - LEN as u16;
}

impl Format for Udp {
    type View<'a> = UdpView<'a>;

    const NAME: &'static str = "UDP";

    fn view(bytes: &[u8]) -> Result<UdpView<'_>, Malformed> {
        UdpView::new(bytes)
    }

    fn from_view(view: UdpView<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            checksum: view.checksum(),
            payload_len: (view.total_len() - LEN) as u16,
        })
    }

    fn buffer_len(&self) -> usize {
        LEN
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, self.source.to_be_bytes());
        put(buffer, 2, self.destination.to_be_bytes());
        put(buffer, 4, (self.payload_len + LEN as u16).to_be_bytes());
        put(buffer, 6, self.checksum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_checked() {
        let datagram = [0xc0, 0, 0x12, 0xb7, 0, 10, 0, 0, 1, 2, 3];
        let view = UdpView::new(&datagram).unwrap();
        assert_eq!(
            (view.destination(), view.payload()),
            (ROCE_PORT, &[1, 2][..])
        );
        for (len, error) in [(7, Malformed::Length), (12, Malformed::Short)] {
            let mut bad = datagram;
            bad[5] = len;
            assert_eq!(UdpView::new(&bad), Err(error));
        }
        assert_eq!(UdpView::new(&datagram[..7]), Err(Malformed::Short));
    }
}
