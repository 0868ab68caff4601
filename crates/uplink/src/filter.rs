//! Tells which frames are for the shard: RoCEv2 and notices over IPv4 and IPv6, also behind one 802.1Q tag.
//!
//! The test exists twice: as [`is_for_adapters`], for bytes at hand, and as a classic BPF program that the kernel runs
//! before it queues (socket filters of linux/filter.h). A property test checks that the two agree.
//!
//! The kernel ends a program with 0 at a load past the end of the packet. A selector of tunnel sockets then chooses
//! socket 0, which takes the rest; a socket filter drops the frame, so an IP packet whose own headers are cut off
//! reaches nobody.

pub use vrdma_wire::is_for_adapters;
use vrdma_wire::offset::{
    FRAGMENT_OFFSET, IP_AT, PORT_AT, TAG_BYTES, TYPE_AT, V4_FRAGMENT_AT, V4_PROTOCOL_AT,
    V6_NEXT_AT, V6_PAYLOAD_AT,
};
use vrdma_wire::{EtherType, NOTICE_PORT, PROTOCOL_UDP, ROCE_PORT};

use crate::seal;

mod assembler;

pub(crate) use assembler::Instruction;
use assembler::{Assembler, Label};

/// Part of an uplink's traffic that a port receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Select {
    /// RoCEv2 and notices: UDP to ports 4791 and 4797.
    Roce,
    /// Everything else.
    Rest,
    /// Nothing: the port only sends.
    Nothing,
}

/// Returns the program for a socket whose packets begin with the Ethernet header: it takes all of a frame, or nothing.
pub(crate) fn frame_filter(select: Select) -> Vec<Instruction> {
    match select {
        Select::Roce => program(0, u32::MAX, 0),
        Select::Rest => program(0, 0, u32::MAX),
        Select::Nothing => program(0, 0, 0),
    }
}

/// Place of the socket for RoCEv2 in a tunnel's group of sockets; the socket for the rest has place 0.
pub(crate) const ROCE_PLACE: u32 = 1;

/// Returns the program that chooses among a tunnel's sockets: datagrams begin with the VXLAN header, or, if they are
/// sealed, name their port in their own header.
pub(crate) fn tunnel_selector() -> Vec<Instruction> {
    let mut code = Assembler::default();
    let [yes, no, clear] = [(); 3].map(|()| code.label());
    code.load_byte(0);
    code.jump_unless_equal(u32::from(seal::MARK), clear);
    code.load_byte(1);
    code.jump_if_any(u32::from(seal::FOR_ROCE), yes);
    code.jump(no);
    code.place(clear);
    by_frame(&mut code, crate::vxlan::LEN, yes, no);
    finish(code, [(yes, ROCE_PLACE), (no, 0)])
}

/// Returns a program for frames at `base` that returns one of two values.
fn program(base: usize, roce: u32, rest: u32) -> Vec<Instruction> {
    let mut code = Assembler::default();
    let [yes, no] = [(); 2].map(|()| code.label());
    by_frame(&mut code, base, yes, no);
    finish(code, [(yes, roce), (no, rest)])
}

fn by_frame(code: &mut Assembler, base: usize, yes: Label, no: Label) {
    code.load_half(base + TYPE_AT);
    let tagged = code.label();
    code.jump_if_equal(u32::from(EtherType::VLAN.0), tagged);
    by_type(code, base, yes, no);
    code.place(tagged);
    code.load_half(base + TYPE_AT + TAG_BYTES);
    by_type(code, base + TAG_BYTES, yes, no);
}

/// Ends a program with its result at each label.
fn finish(mut code: Assembler, answers: [(Label, u32); 2]) -> Vec<Instruction> {
    for (label, value) in answers {
        code.place(label);
        code.answer(value);
    }
    code.finish()
}

/// Branches by the EtherType in the accumulator.
fn by_type(code: &mut Assembler, base: usize, yes: Label, no: Label) {
    let [v4, v6] = [(); 2].map(|()| code.label());
    code.jump_if_equal(u32::from(EtherType::IPV4.0), v4);
    code.jump_if_equal(u32::from(EtherType::IPV6.0), v6);
    code.jump(no);

    code.place(v4);
    code.load_byte(base + V4_PROTOCOL_AT);
    code.jump_unless_equal(u32::from(PROTOCOL_UDP), no);
    code.load_half(base + V4_FRAGMENT_AT);
    code.jump_if_any(u32::from(FRAGMENT_OFFSET), no);
    code.load_index_of_header(base + IP_AT);
    code.load_half_indexed(base + IP_AT + PORT_AT);
    by_port(code, yes, no);

    code.place(v6);
    code.load_byte(base + V6_NEXT_AT);
    code.jump_unless_equal(u32::from(PROTOCOL_UDP), no);
    code.load_half(base + V6_PAYLOAD_AT + PORT_AT);
    by_port(code, yes, no);
}

/// Branches by the UDP port in the accumulator.
fn by_port(code: &mut Assembler, yes: Label, no: Label) {
    code.jump_if_equal(u32::from(ROCE_PORT), yes);
    code.jump_if_equal(u32::from(NOTICE_PORT), yes);
    code.jump(no);
}

#[cfg(test)]
mod tests;
