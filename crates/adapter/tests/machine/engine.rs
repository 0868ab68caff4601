//! The engine that the tests use, a region, and the connection of a queue pair to itself.

use vrdma_verbs::Hca;
use vrdma_verbs::attr::{Access, Address, AttrMask, QpAttr, QpState};
use vrdma_verbs::object::{Identity, Limits, MrKind, MrSpec, QpId};
use vrdma_wire::{Gid, Mac, Mtu};

pub(crate) const LIMITS: Limits = Limits {
    pds: 16,
    mrs: 1 << 16,
    cqs: 16,
    qps: 16,
    srqs: 16,
    gids: 4,
    rd_atomic: 16,
    message_bytes: 1 << 30,
    port_mtu: Mtu::B4096,
};

pub(crate) fn identity() -> Identity {
    Identity {
        mac: Mac([2, 0, 0, 0, 0, 1]),
        seed: 5,
    }
}

pub(crate) fn region() -> MrSpec<()> {
    MrSpec {
        kind: MrKind::User,
        start: 0,
        length: 4096,
        access: Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_ATOMIC
            | Access::BIND_WINDOW,
        region: Some(()),
    }
}

pub(crate) fn connect(hca: &mut Hca<()>, qp: QpId, gid: Gid) {
    let attr = |state| QpAttr {
        state,
        access: Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
        port: 1,
        path_mtu: Mtu::B1024,
        dest_qpn: hca.qpn(qp).unwrap(),
        address: Address {
            dgid: gid,
            port: 1,
            hop_limit: 64,
            ..Address::default()
        },
        timeout: 14,
        retry_count: 7,
        rnr_retry: 7,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        ..QpAttr::default()
    };
    let steps = [
        (
            attr(QpState::Init),
            AttrMask::STATE | AttrMask::ACCESS_FLAGS | AttrMask::PKEY_INDEX | AttrMask::PORT,
        ),
        (
            attr(QpState::Rtr),
            AttrMask::STATE
                | AttrMask::AV
                | AttrMask::PATH_MTU
                | AttrMask::DEST_QPN
                | AttrMask::RQ_PSN
                | AttrMask::MAX_DEST_RD_ATOMIC
                | AttrMask::MIN_RNR_TIMER,
        ),
        (
            attr(QpState::Rts),
            AttrMask::STATE
                | AttrMask::SQ_PSN
                | AttrMask::TIMEOUT
                | AttrMask::RETRY_CNT
                | AttrMask::RNR_RETRY
                | AttrMask::MAX_QP_RD_ATOMIC,
        ),
    ];
    for (attr, mask) in steps {
        hca.modify_qp(qp, &attr, mask).unwrap();
    }
}
