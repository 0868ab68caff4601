//! Completions in the library's format.

use vrdma_provider::layout::{Buffer, Completion as Entry, wc_flag};
use vrdma_verbs::Time;
use vrdma_verbs::work::{Completion, Sge, Tail, WcOp};
use vrdma_wire::Qpn;

/// `IBV_WC_LOCAL_INV`, which the kernel's verbs number differently.
const LOCAL_INV: u32 = 6;

/// Service levels that tell the kind of a datagram's header: UCX looks for it there.
const HEADER_IPV6: u32 = 9;
const HEADER_IPV4: u32 = 10;

/// Encodes a completion of queue pair `qpn` as an entry.
pub(super) fn encode(completion: &Completion, qpn: Qpn, now: Time) -> Entry {
    let mut entry = Entry {
        wr_id: completion.wr_id,
        qp_num: qpn.get(),
        opcode: opcode(completion.op),
        status: u32::from(completion.status as u8),
        byte_len: completion.byte_len,
        src_qp: completion.src_qp.get(),
        timestamp: now.0,
        ..Entry::default()
    };
    match completion.tail {
        Some(Tail::Imm(imm)) => {
            entry.imm = imm.0;
            entry.flags |= wc_flag::WITH_IMM;
        }
        Some(Tail::Invalidated(rkey)) => {
            entry.imm = rkey.0.to_ne_bytes();
            entry.flags |= wc_flag::WITH_INV;
        }
        None => {}
    }
    if let Some((_, dgid)) = completion.grh {
        entry.flags |= wc_flag::GRH;
        entry.sl = if dgid.to_ipv4().is_some() {
            HEADER_IPV4
        } else {
            HEADER_IPV6
        };
    }
    entry
}

/// Encodes a buffer of an enclosed message.
pub(super) fn buffer(sge: &Sge) -> Buffer {
    Buffer {
        addr: sge.addr,
        length: sge.length,
        lkey: sge.lkey.0,
    }
}

fn opcode(op: WcOp) -> u32 {
    match op {
        WcOp::LocalInvalidate => LOCAL_INV,
        other => other as u32,
    }
}
