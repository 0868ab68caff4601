//! Base transport header (IBTA 9.2; the congestion bits: annex A17.9).
//!
//! ```text
//!   0        1                      2        4                    5         8             9     12
//!   | opcode | SE M pad:2 version:4 | P_Key  | FECN BECN resv:6   | dest QP | A resv:7    | PSN |
//! ```

use crate::bits::Bits;
use crate::field::{be16, be24, flag, put, put24};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::number::{Pkey, Psn, Qpn};
use crate::opcode::Opcode;

view! {
    /// View of a BTH.
    BthView[12] {
        /// Kind of packet.
        opcode(b) -> Opcode { Opcode(b[0]) }
        /// Whether the receiver shall raise an event (IBTA 9.2).
        solicited(b) -> bool { flag(b, 1, 7) }
        /// Path migration state (IBTA 9.2).
        migrated(b) -> bool { flag(b, 1, 6) }
        /// Padding bytes that make the payload a multiple of four (IBTA 9.2).
        pad(b) -> Bits<2> { Bits::low(b[1] >> 4) }
        /// Version of the transport, which is 0.
        version(b) -> u8 { b[1] & 15 }
        /// Partition.
        pkey(b) -> Pkey { Pkey(be16(b, 2)) }
        /// Whether the packet met congestion on its way.
        fecn(b) -> bool { flag(b, 4, 7) }
        /// Whether packets in the other direction met congestion: a CNP sets it.
        becn(b) -> bool { flag(b, 4, 6) }
        /// Receiver's queue pair.
        destination(b) -> Qpn { Qpn::from_low_bits(be24(b, 5)) }
        /// Whether the requester wants an acknowledgement.
        ack_request(b) -> bool { flag(b, 8, 7) }
        /// Sequence number.
        psn(b) -> Psn { Psn::new(be24(b, 9)) }
    }
}

/// Value of a BTH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// Kind of packet.
    pub opcode: Opcode,
    /// Whether the receiver shall raise an event.
    pub solicited: bool,
    /// Path migration state.
    pub migrated: bool,
    /// Padding bytes that make the payload a multiple of four. [`PacketBuilder`](crate::PacketBuilder) sets it.
    pub pad: Bits<2>,
    /// Partition.
    pub pkey: Pkey,
    /// Whether the packet met congestion on its way.
    pub fecn: bool,
    /// Whether packets in the other direction met congestion.
    pub becn: bool,
    /// Receiver's queue pair.
    pub destination: Qpn,
    /// Whether the requester wants an acknowledgement.
    pub ack_request: bool,
    /// Sequence number.
    pub psn: Psn,
}

impl Bth {
    /// Bytes of the header.
    pub const LEN: usize = BthView::LEN;

    /// Makes a header in the default partition with all marks clear.
    pub const fn new(opcode: Opcode, destination: Qpn, psn: Psn) -> Self {
        Self {
            opcode,
            solicited: false,
            migrated: false,
            pad: Bits::low(0),
            pkey: Pkey::DEFAULT,
            fecn: false,
            becn: false,
            destination,
            ack_request: false,
            psn,
        }
    }
}

impl Format for Bth {
    fixed_format!(BthView, "BTH");

    fn from_view(view: BthView<'_>) -> Result<Self, Malformed> {
        if view.version() != 0 {
            return Err(Malformed::Version);
        }
        Ok(Self {
            opcode: view.opcode(),
            solicited: view.solicited(),
            migrated: view.migrated(),
            pad: view.pad(),
            pkey: view.pkey(),
            fecn: view.fecn(),
            becn: view.becn(),
            destination: view.destination(),
            ack_request: view.ack_request(),
            psn: view.psn(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        buffer[0] = self.opcode.0;
        buffer[1] =
            u8::from(self.solicited) << 7 | u8::from(self.migrated) << 6 | self.pad.get() << 4;
        put(buffer, 2, self.pkey.0.to_be_bytes());
        buffer[4] = u8::from(self.fecn) << 7 | u8::from(self.becn) << 6;
        put24(buffer, 5, self.destination.get());
        buffer[8] = u8::from(self.ack_request) << 7;
        put24(buffer, 9, self.psn.get());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_sit_where_the_specification_puts_them() {
        let bytes = [
            4, 0xf0, 0xff, 0xff, 0xc0, 0, 0, 0x11, 0x80, 0x82, 0x15, 0x28,
        ];
        let bth = Bth::parse(&bytes).unwrap();
        let expected = Bth {
            solicited: true,
            migrated: true,
            pad: Bits::MAX,
            fecn: true,
            becn: true,
            ack_request: true,
            ..Bth::new(
                Opcode::RC_SEND_ONLY,
                Qpn::from_low_bits(0x11),
                Psn::new(0x82_1528),
            )
        };
        assert_eq!(bth, expected);
        let mut again = [0xff; 12];
        bth.emit(&mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn other_versions_are_seen_but_not_parsed() {
        let bytes = [4, 1, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 0];
        assert_eq!(BthView::new(&bytes).unwrap().version(), 1);
        assert_eq!(Bth::parse(&bytes), Err(Malformed::Version));
    }
}
