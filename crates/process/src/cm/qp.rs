//! The attributes that a connection needs of its queue pair (rdma_init_qp_attr(3)).

use rustix::io::Errno;
use vrdma_cm::Side;
use vrdma_provider::cm::{InitQp, QpInit, qp_type};

use super::handler::Handler;
use super::identifier::Identifier;
use super::multicast::UDP_QKEY;

/// `enum ibv_qp_state`.
mod state {
    pub(super) const INIT: u32 = 1;
    pub(super) const RTR: u32 = 2;
    pub(super) const RTS: u32 = 3;
}

/// `enum ibv_qp_attr_mask`.
mod mask {
    pub(super) const STATE: u32 = 1 << 0;
    pub(super) const ACCESS: u32 = 1 << 3;
    pub(super) const PKEY_INDEX: u32 = 1 << 4;
    pub(super) const PORT: u32 = 1 << 5;
    pub(super) const QKEY: u32 = 1 << 6;
    pub(super) const AV: u32 = 1 << 7;
    pub(super) const MTU: u32 = 1 << 8;
    pub(super) const TIMEOUT: u32 = 1 << 9;
    pub(super) const RETRIES: u32 = 1 << 10;
    pub(super) const RNR_RETRIES: u32 = 1 << 11;
    pub(super) const RQ_PSN: u32 = 1 << 12;
    pub(super) const RD_ATOMIC: u32 = 1 << 13;
    pub(super) const MIN_RNR: u32 = 1 << 15;
    pub(super) const SQ_PSN: u32 = 1 << 16;
    pub(super) const DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(super) const DEST_QPN: u32 = 1 << 20;
}

/// `enum ibv_access_flags`.
mod access {
    pub(super) const REMOTE_WRITE: u32 = 2;
    pub(super) const REMOTE_READ: u32 = 4;
    pub(super) const REMOTE_ATOMIC: u32 = 8;
}

impl Handler<'_> {
    pub(super) fn init_qp(&mut self, init: &InitQp) -> Result<QpInit, Errno> {
        let identifier = self.client.get(init.id)?;
        if identifier.adapter.is_none() {
            return Err(Errno::INVAL);
        }
        let datagram = identifier.is_datagram();
        match (init.state, identifier.remote) {
            (state::INIT, _) if datagram => Ok(QpInit {
                mask: mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::QKEY,
                qkey: UDP_QKEY,
                ..QpInit::default()
            }),
            (state::RTR, _) if datagram => Ok(only(mask::STATE)),
            (state::RTS, _) if datagram => Ok(QpInit {
                sq_psn: identifier.local.psn.get(),
                ..only(mask::STATE | mask::SQ_PSN)
            }),
            (state::INIT, remote) => Ok(first(remote.is_some_and(|peer| peer.initiator_depth > 0))),
            (state::RTR, Some(remote)) => Ok(receive(identifier, &remote)),
            (state::RTS, Some(remote)) => Ok(send(identifier, &remote)),
            _ => Err(Errno::INVAL),
        }
    }
}

fn only(mask: u32) -> QpInit {
    QpInit {
        mask,
        ..QpInit::default()
    }
}

fn first(reads: bool) -> QpInit {
    let more = access::REMOTE_READ | access::REMOTE_ATOMIC;
    QpInit {
        access: access::REMOTE_WRITE | if reads { more } else { 0 },
        ..only(mask::STATE | mask::ACCESS | mask::PKEY_INDEX | mask::PORT)
    }
}

fn receive(identifier: &Identifier, remote: &Side) -> QpInit {
    let reliable = mask::DEST_RD_ATOMIC | mask::MIN_RNR;
    QpInit {
        dest_qp_num: remote.qpn.get(),
        // Each side tells where the peer is to begin (Linux's server tells something else than its client).
        rq_psn: identifier.local.psn.get(),
        flow_label: identifier.link.flow_label.get(),
        dgid: identifier.route.dgid,
        sgid_index: identifier.route.sgid_index,
        hop_limit: identifier.route.hop_limit,
        traffic_class: identifier.link.traffic_class.0,
        mtu: identifier.link.mtu.code() as u8,
        max_dest_rd_atomic: remote.initiator_depth,
        min_rnr_timer: 0,
        ..only(
            mask::STATE
                | mask::AV
                | mask::MTU
                | mask::DEST_QPN
                | mask::RQ_PSN
                | if_reliable(identifier, reliable),
        )
    }
}

fn send(identifier: &Identifier, remote: &Side) -> QpInit {
    let reliable = mask::TIMEOUT | mask::RETRIES | mask::RNR_RETRIES | mask::RD_ATOMIC;
    QpInit {
        sq_psn: remote.psn.get(),
        timeout: identifier.link.ack_timeout.get(),
        retry_count: identifier.link.retry_count.get(),
        rnr_retry: remote.rnr_retry.get(),
        max_rd_atomic: remote.responder_resources,
        ..only(mask::STATE | mask::SQ_PSN | if_reliable(identifier, reliable))
    }
}

fn if_reliable(identifier: &Identifier, mask: u32) -> u32 {
    if identifier.qp_type == qp_type::UC {
        0
    } else {
        mask
    }
}

#[cfg(test)]
mod tests {
    use vrdma_provider::cm::space;
    use vrdma_wire::Psn;

    use super::*;

    #[test]
    fn each_side_begins_where_the_other_said() {
        let mut identifier = Identifier::new(0, space::TCP, qp_type::RC);
        identifier.local.psn = Psn::new(1);
        let remote = Side {
            psn: Psn::new(2),
            ..Side::default()
        };
        assert_eq!(receive(&identifier, &remote).rq_psn, 1);
        assert_eq!(send(&identifier, &remote).sq_psn, 2);
    }
}
