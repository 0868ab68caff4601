//! Completions as the guest reads them.

use vrdma_verbs::object::Owner;
use vrdma_verbs::work::{Completion, Tail};
use vrdma_wire::Gid;

use crate::abi::completion::{CompletionEntry, header_level, network_header, wc_flag};
use crate::decode::send::SendRules;

const PORT: u8 = 1;

/// The entry for a completion of a queue pair with `rules`. User libraries take some flags (invalidation, network
/// header) for others, so only the kernel's queue pairs get them.
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

/// Adds the kind of header. The kernel is told by a field and a flag. User libraries know neither: those that look
/// (UCX) read it from the service level, where established RoCE adapters put it.
fn add_header(entry: &mut CompletionEntry, dgid: Gid, rules: &SendRules) -> u32 {
    let (network, level) = match dgid.to_ipv4() {
        Some(_) => (network_header::IPV4, header_level::IPV4),
        None => (network_header::IPV6, header_level::IPV6),
    };
    if rules.owner != Owner::KERNEL {
        entry.sl = level;
        return wc_flag::GRH;
    }
    entry.network_hdr_type = network;
    wc_flag::GRH | wc_flag::WITH_NETWORK_HDR_TYPE
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use vrdma_verbs::object::{PdId, QpId, QpType};
    use vrdma_verbs::work::{Status, WcOp};
    use vrdma_wire::Qpn;

    use super::*;

    fn datagram(owner: Owner, dgid: Gid) -> CompletionEntry {
        let rules = SendRules {
            qp_type: QpType::Ud,
            owner,
            pd: PdId(0),
            max_sge: 1,
            max_sge_rd: 1,
        };
        let completion = Completion {
            wr_id: 0,
            qp: QpId(1),
            op: WcOp::Recv,
            status: Status::Success,
            byte_len: 48,
            tail: None,
            src_qp: Qpn::GSI,
            grh: Some((Gid::default(), dgid)),
            solicited: false,
            enclosed: None,
        };
        encode(&completion, &rules)
    }

    #[test]
    fn programs_read_the_kind_of_header_from_the_service_level() {
        let v4 = Gid::from_ipv4(Ipv4Addr::LOCALHOST);
        let entry = datagram(Owner(7), v4);
        assert_eq!(
            (entry.sl, entry.network_hdr_type, entry.wc_flags.get()),
            (10, 0, 1)
        );
        assert_eq!(datagram(Owner(7), Gid([0xfe; 16])).sl, 9);
        let entry = datagram(Owner::KERNEL, v4);
        assert_eq!(
            (entry.sl, entry.network_hdr_type, entry.wc_flags.get()),
            (0, 1, 65)
        );
    }
}
