//! Invariant CRC (IBTA 7.8.1 as changed for IP by annex A17.3.3): CRC-32 over all bytes that no router changes.
//!
//! ```text
//!   8 bytes of ones | IP header | UDP header | BTH | extensions | payload | padding
//!   where LRH was   | ones in the fields that may change on the way
//! ```
//! These fields are masked to ones: IPv4 type of service, time to live and header checksum; IPv6 traffic class, flow
//! label and hop limit; the UDP checksum; the BTH's byte of FECN and BECN. The result is sent least significant byte
//! first.

use crc32fast::Hasher;

use crate::bth::Bth;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::udp::Udp;

const ROUTE_LEN: usize = 8;
const MAX_HEADERS: usize = Ipv6::LEN + Udp::LEN + Bth::LEN;

/// Bytes copied before they are hashed: few enough to be still in the first-level cache, enough for the widest
/// carry-less multiplication to pay.
const BLOCK: usize = 2048;

/// A running CRC: begun with the headers, then fed with everything after the BTH in order.
#[derive(Clone, Debug)]
pub struct Icrc(Hasher);

impl Icrc {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Begins with IP header, UDP header and BTH, as they are in the packet.
    ///
    /// # Panics
    /// If `headers` is not an IPv4 or IPv6 header without options, UDP header and BTH: packets were
    /// checked, and builders write them so.
    pub fn new(headers: &[u8]) -> Self {
        let mut masked = [0xff; ROUTE_LEN + MAX_HEADERS];
        let end = ROUTE_LEN + headers.len();
        masked[ROUTE_LEN..end].copy_from_slice(headers);
        mask(&mut masked[ROUTE_LEN..end]);
        let mut hasher = Hasher::new();
        hasher.update(&masked[..end]);
        Self(hasher)
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes in the next bytes while copying them: each byte is loaded from memory once.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn update_copy(&mut self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "a copy has one length");
        for (from, to) in from.chunks(BLOCK).zip(to.chunks_mut(BLOCK)) {
            to.copy_from_slice(from);
            self.0.update(to);
        }
    }

    /// Returns the bytes for the wire.
    pub fn finish(self) -> [u8; Self::LEN] {
        self.0.finalize().to_le_bytes()
    }
}

fn mask(headers: &mut [u8]) {
    let ip_len = headers.len() - Udp::LEN - Bth::LEN;
    match ip_len {
        Ipv4::LEN => {
            headers[1] = 0xff;
            headers[8] = 0xff;
            headers[10..12].fill(0xff);
        }
        Ipv6::LEN => {
            headers[0] |= 0x0f;
            headers[1..4].fill(0xff);
            headers[7] = 0xff;
        }
        _ => panic!("{ip_len} bytes are no IP header"),
    }
    let udp = &mut headers[ip_len..];
    udp[6..8].fill(0xff);
    udp[Udp::LEN + 4] = 0xff;
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn of(headers: &[u8], rest: &[u8]) -> [u8; 4] {
        let mut icrc = Icrc::new(headers);
        icrc.update(rest);
        icrc.finish()
    }

    /// Every bit is either masked or covered, according to the annex's list.
    #[test]
    fn only_what_routers_change_is_left_out() {
        let v4 = [1..2, 8..9, 10..12, 26..28, 32..33];
        let v6 = [1..4, 7..8, 46..48, 52..53];
        for (len, masked) in [(40, &v4[..]), (60, &v6[..])] {
            let plain: Vec<u8> = (0..len).collect();
            for bit in 0..plain.len() * 8 {
                let (at, mut bent) = (bit / 8, plain.clone());
                bent[at] ^= 1 << (bit % 8);
                let class_of_v6 = len == 60 && at == 0 && bit % 8 < 4;
                let free = class_of_v6 || masked.iter().any(|range| range.contains(&at));
                assert_eq!(of(&plain, &[]) == of(&bent, &[]), free, "{len}: bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_and_copies_make_no_difference(
            bytes in prop::collection::vec(any::<u8>(), 0..5000),
            cut in any::<prop::sample::Index>(),
        ) {
            let headers = [7; 40];
            let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
            let mut copy = std::vec![0; b.len()];
            let mut icrc = Icrc::new(&headers);
            icrc.update(a);
            icrc.update_copy(b, &mut copy);
            prop_assert_eq!(&copy, b);
            prop_assert_eq!(icrc.finish(), of(&headers, &bytes));
        }
    }
}
