//! Every format by name with its fuzz body, for `fuzz/` and for tests.
//!
//! A format is added here by one line; a test compares the list with the sources. The bodies take any bytes and assert
//! properties that hold for all of them.

use core::fmt::{self, Write};

use crate::builder::{MAX_FRAME, PacketBuilder};
use crate::cm::{CmMad, Drep, Dreq, IpCm, Mra, Rej, Rep, Req, ReqPath, Rtu, SidrRep, SidrReq};
use crate::format::Format;
use crate::mad::MAD_LEN;
use crate::packet::Packet;
use crate::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Deth, Ethernet, Ieth, ImmDt, Ipv4, Ipv6, Mad, Notice,
    NoticePacket, Reth, Udp,
};

/// A format and the body that exercises it.
#[derive(Clone, Copy)]
pub struct Entry {
    /// [`Format::NAME`].
    pub name: &'static str,
    /// Panics if the bytes reveal a bug.
    pub exercise: fn(&[u8]),
}

/// The longest header that announces payload, with the longest payload that it can announce.
const ROOM: usize = Ipv6::LEN + u16::MAX as usize;

macro_rules! registry {
    ($($format:ident),* $(,)?) => {
        /// All formats, and both kinds of whole packets.
        pub const FORMATS: &[Entry] = &[
            $(Entry {
                name: <$format as Format>::NAME,
                exercise: |bytes| exercise_format::<$format>(bytes),
            },)*
            Entry { name: "packet", exercise: exercise_packet },
            Entry { name: "notice packet", exercise: exercise_notice },
        ];
    };
}

registry! {
    Ethernet, Ipv4, Ipv6, Udp,
    Bth, Reth, AtomicEth, Aeth, AtomicAckEth, Deth, ImmDt, Ieth, Cnp,
    Mad, CmMad, Req, ReqPath, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, IpCm, Notice,
}

/// Runs a fuzz input: the first byte chooses a format, the others are for it.
pub fn exercise(input: &[u8]) {
    if let Some((&choice, bytes)) = input.split_first() {
        (FORMATS[usize::from(choice) % FORMATS.len()].exercise)(bytes);
    }
}

fn exercise_format<F: Format>(bytes: &[u8]) {
    let Ok(view) = F::view(bytes) else { return };
    show(&view);
    let Ok(value) = F::from_view(view) else {
        return;
    };
    assert_survives(&value);
}

/// Asserts that `parse(emit(value)) == value`, and that emitting leaves no earlier byte in the buffer. The payload that
/// a header announces is there, as zeros.
fn assert_survives<F: Format>(value: &F) {
    let (mut clean, mut dirty) = ([0; ROOM], [0xa5; MAD_LEN]);
    let header = value.buffer_len();
    value.emit(&mut clean);
    value.emit(&mut dirty);
    assert_eq!(
        clean[..header],
        dirty[..header],
        "{} keeps old bytes",
        F::NAME
    );
    assert_eq!(F::parse(&clean).as_ref(), Ok(value));
}

/// Asserts that a packet that dissects can be built again and is then the same, with a right ICRC.
fn exercise_packet(frame: &[u8]) {
    let Ok(packet) = Packet::dissect(frame) else {
        assert!(Packet::parse(frame).is_err());
        return;
    };
    show(&packet);
    let mut buffer = [0; MAX_FRAME];
    let again = rebuild(&packet, &mut buffer);
    let parsed = Packet::parse(again).expect("what the builder makes is a packet");
    assert_eq!(parsed.path(), packet.path());
    assert_eq!(parsed.transport(), packet.transport());
    assert_eq!(parsed.payload(), packet.payload());
}

/// Asserts that a notice that parses is the same after it was written again.
fn exercise_notice(frame: &[u8]) {
    let Ok(packet) = NoticePacket::parse(frame) else {
        return;
    };
    show(&packet);
    let mut buffer = [0xa5; NoticePacket::FRAME_MAX];
    let length = packet.emit(&mut buffer);
    assert_eq!(NoticePacket::parse(&buffer[..length]), Ok(packet));
}

/// Builds the packet that `packet` is a view of.
pub fn rebuild<'b>(packet: &Packet<'_>, buffer: &'b mut [u8; MAX_FRAME]) -> &'b [u8] {
    let payload = packet.payload();
    let mut builder = PacketBuilder::new(&packet.path(), packet.transport(), payload.len(), buffer)
        .expect("no packet is larger than the largest");
    builder.push(payload);
    builder.finish()
}

/// Reads every field of a view.
fn show(view: &impl fmt::Debug) {
    struct Nowhere;
    impl Write for Nowhere {
        fn write_str(&mut self, _text: &str) -> fmt::Result {
            Ok(())
        }
    }
    write!(Nowhere, "{view:?}").expect("nowhere takes everything");
}
