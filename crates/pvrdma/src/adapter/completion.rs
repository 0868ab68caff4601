//! Completions as the guest reads them.

use vrdma_verbs::object::{Owner, QpType};
use vrdma_verbs::work::{Completion, Tail};
use vrdma_wire::Gid;

use crate::abi::completion::{CompletionEntry, network_header, wc_flag};
use crate::decode::send::SendRules;

const PORT: u8 = 1;

/// The entry of a completion of a queue pair with `rules`. Flags that user libraries take for
/// others (invalidation, network header) are only set for the kernel's queue pairs.
pub(super) fn encode(completion: &Completion, rules: &SendRules) -> CompletionEntry {
    let mut entry = CompletionEntry {
        wr_id: completion.wr_id.into(),
        qp: u64::from(completion.qp.0).into(),
        opcode: (completion.op as u32).into(),
        status: u32::from(completion.status as u8).into(),
        byte_len: completion.byte_len.into(),
        src_qp: completion.src_qp.get().into(),
        port_num: PORT,
        ..CompletionEntry::default()
    };
    let mut flags = 0;
    if let Some(tail) = completion.tail {
        flags |= add_tail(&mut entry, tail, rules.owner);
    }
    if let Some((_, dgid)) = completion.grh {
        flags |= add_header(&mut entry, dgid, rules);
    }
    entry.wc_flags = flags.into();
    entry
}

fn add_tail(entry: &mut CompletionEntry, tail: Tail, owner: Owner) -> u32 {
    match tail {
        Tail::Imm(imm) => {
            entry.imm = imm.0;
            wc_flag::WITH_IMM
        }
        Tail::Invalidated(rkey) if owner == Owner::KERNEL => {
            entry.imm = rkey.0.to_le_bytes();
            wc_flag::WITH_INVALIDATE
        }
        Tail::Invalidated(_) => 0,
    }
}

fn add_header(entry: &mut CompletionEntry, dgid: Gid, rules: &SendRules) -> u32 {
    if rules.owner != Owner::KERNEL || rules.qp_type == QpType::Rc {
        return wc_flag::GRH;
    }
    entry.network_hdr_type = match dgid.to_ipv4() {
        Some(_) => network_header::IPV4,
        None => network_header::IPV6,
    };
    wc_flag::GRH | wc_flag::WITH_NETWORK_HDR_TYPE
}
