//! Queue pairs.

use super::objects::open;
use super::queues::{create_cq, create_srq};
use super::*;
use crate::abi::qp::QpAttributes;
use crate::abi::request::{CreateQp, ModifyQp, QueryQp, qp_type};
use crate::abi::response::CreatedQp;

/// One page of each ring: 32 sends of one buffer, 128 receives of one.
fn qp(guest: &mut Guest, owner: u32) -> CreateQp {
    let pd = create_pd(guest, owner);
    let cq = create_cq(guest, owner);
    CreateQp {
        pdir_dma: guest.directory(3).0.into(),
        pd_handle: pd.into(),
        send_cq_handle: cq.into(),
        recv_cq_handle: cq.into(),
        max_send_wr: 32.into(),
        max_recv_wr: 128.into(),
        max_send_sge: 1.into(),
        max_recv_sge: 1.into(),
        total_chunks: 3.into(),
        send_chunks: 1.into(),
        qp_type: qp_type::RC,
        ..CreateQp::default()
    }
}

#[test]
fn a_queue_pair_has_a_handle_apart_from_its_number() {
    let mut guest = Guest::active();
    let request = qp(&mut guest, 0);
    let created: CreatedQp = guest.ask(Command::CreateQp, &request);
    assert!((1..5).contains(&created.qp_handle.get()));
    assert_ne!(created.qpn, created.qp_handle);
    assert_eq!(created.sizes.max_send_wr.get(), 32);
    let gsi = CreateQp {
        qp_type: qp_type::GSI,
        ..request
    };
    let gsi: CreatedQp = guest.ask(Command::CreateQp, &gsi);
    assert_eq!(gsi.qpn.get(), 1);
}

#[test]
fn queue_pairs_that_do_not_fit_are_refused() {
    let mut guest = Guest::active();
    let owner = open(&mut guest, 1);
    let (good, other) = (qp(&mut guest, 0), qp(&mut guest, owner));
    let srq = create_srq(&mut guest, good.pd_handle.get());
    let shared = CreateQp {
        srq_handle: srq.into(),
        is_srq: 1,
        max_recv_wr: 0.into(),
        max_recv_sge: 0.into(),
        total_chunks: 2.into(),
        ..good
    };
    let bad = [
        ("UC", CreateQp { qp_type: 3, ..good }, EINVAL),
        (
            "user GSI",
            CreateQp {
                qp_type: qp_type::GSI,
                ..other
            },
            EINVAL,
        ),
        (
            "PD",
            CreateQp {
                pd_handle: 99.into(),
                ..good
            },
            ENOENT,
        ),
        (
            "foreign PD",
            CreateQp {
                pd_handle: other.pd_handle,
                ..good
            },
            EINVAL,
        ),
        (
            "CQ",
            CreateQp {
                send_cq_handle: 99.into(),
                ..good
            },
            ENOENT,
        ),
        (
            "foreign CQ",
            CreateQp {
                recv_cq_handle: other.recv_cq_handle,
                ..good
            },
            EINVAL,
        ),
        (
            "no sends",
            CreateQp {
                max_send_wr: 0.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "no receives",
            CreateQp {
                max_recv_wr: 0.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "odd sends",
            CreateQp {
                max_send_wr: 31.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "many sends",
            CreateQp {
                max_send_wr: 512.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "no buffers",
            CreateQp {
                max_send_sge: 0.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "many buffers",
            CreateQp {
                max_recv_sge: u32::MAX.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "send pages",
            CreateQp {
                max_send_sge: 4.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "recv pages",
            CreateQp {
                max_recv_sge: 2.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "chunks",
            CreateQp {
                send_chunks: 3.into(),
                ..good
            },
            EINVAL,
        ),
        (
            "all chunks",
            CreateQp {
                send_chunks: u16::MAX.into(),
                ..good
            },
            EINVAL,
        ),
        ("is_srq", CreateQp { is_srq: 2, ..good }, EINVAL),
        (
            "SRQ",
            CreateQp {
                srq_handle: 2.into(),
                ..shared
            },
            ENOENT,
        ),
        (
            "foreign SRQ",
            CreateQp {
                srq_handle: srq.into(),
                is_srq: 1,
                ..other
            },
            EINVAL,
        ),
        (
            "directory",
            CreateQp {
                pdir_dma: 0.into(),
                ..good
            },
            EFAULT,
        ),
    ];
    for (what, request, errno) in bad {
        assert_eq!(guest.execute(Command::CreateQp, &request), errno, "{what}");
    }
    assert_eq!(guest.device.snapshot().counts.qps, 0);
    assert_eq!(guest.execute(Command::CreateQp, &shared), 0);
}

#[test]
fn there_is_one_gsi_queue_pair() {
    let mut guest = Guest::active();
    let gsi = CreateQp {
        qp_type: qp_type::GSI,
        ..qp(&mut guest, 0)
    };
    assert_eq!(guest.execute(Command::CreateQp, &gsi), 0);
    assert_eq!(guest.execute(Command::CreateQp, &gsi), EBUSY);
}

fn modify(handle: u32, mask: u32, attrs: QpAttributes) -> ModifyQp {
    ModifyQp {
        qp_handle: handle.into(),
        attr_mask: mask.into(),
        attrs,
    }
}

fn init() -> QpAttributes {
    QpAttributes {
        qp_state: 1.into(),
        qp_access_flags: 7.into(),
        port_num: 1,
        ..QpAttributes::default()
    }
}

#[test]
fn a_queue_pair_goes_where_it_may() {
    let mut guest = Guest::active();
    let request = qp(&mut guest, 0);
    let created: CreatedQp = guest.ask(Command::CreateQp, &request);
    let handle = created.qp_handle.get();
    let bad = [
        ("no such QP", modify(99, 0x39, init()), ENOENT),
        (
            "to RTR",
            modify(
                handle,
                0x39,
                QpAttributes {
                    qp_state: 2.into(),
                    ..init()
                },
            ),
            EINVAL,
        ),
        (
            "no such state",
            modify(
                handle,
                0x39,
                QpAttributes {
                    qp_state: 7.into(),
                    ..init()
                },
            ),
            EINVAL,
        ),
        ("mask incomplete", modify(handle, 0x19, init()), EINVAL),
        (
            "mask too large",
            modify(handle, 0x39 | 1 << 21, init()),
            EINVAL,
        ),
        ("CAP", modify(handle, 0x39 | 1 << 19, init()), EINVAL),
        ("ALT_PATH", modify(handle, 0x39 | 1 << 14, init()), EINVAL),
        (
            "port",
            modify(
                handle,
                0x39,
                QpAttributes {
                    port_num: 2,
                    ..init()
                },
            ),
            EINVAL,
        ),
        (
            "pkey",
            modify(
                handle,
                0x39,
                QpAttributes {
                    pkey_index: 1.into(),
                    ..init()
                },
            ),
            EINVAL,
        ),
    ];
    for (what, request, errno) in bad {
        assert_eq!(guest.execute(Command::ModifyQp, &request), errno, "{what}");
    }
    assert_eq!(
        guest.execute(Command::ModifyQp, &modify(handle, 0x39, init())),
        0
    );
    let query = QueryQp {
        qp_handle: handle.into(),
        ..QueryQp::default()
    };
    let attrs: QpAttributes = guest.ask(Command::QueryQp, &query);
    assert_eq!((attrs.qp_state.get(), attrs.qp_access_flags.get()), (1, 7));
    assert_eq!(attrs.cap.max_recv_wr.get(), 128);
}

#[test]
fn a_destroyed_queue_pair_is_gone() {
    let mut guest = Guest::active();
    let request = qp(&mut guest, 0);
    let created: CreatedQp = guest.ask(Command::CreateQp, &request);
    let qp = created.qp_handle.get();
    assert_eq!(guest.execute(Command::DestroyQp, &handle(qp)), 0);
    assert_eq!(guest.execute(Command::DestroyQp, &handle(qp)), ENOENT);
    assert_eq!(
        guest.execute(Command::ModifyQp, &modify(qp, 0x39, init())),
        ENOENT
    );
    assert_eq!(
        guest.execute(Command::DestroyPd, &handle(request.pd_handle.get())),
        0
    );
    assert_eq!(
        guest.execute(Command::DestroyCq, &handle(request.send_cq_handle.get())),
        0
    );
}

#[test]
fn a_queue_in_use_is_withdrawn_but_not_destroyed() {
    let mut guest = Guest::active();
    let request = qp(&mut guest, 0);
    let created: CreatedQp = guest.ask(Command::CreateQp, &request);
    let cq = request.send_cq_handle.get();
    assert_eq!(guest.execute(Command::DestroyCq, &handle(cq)), EBUSY);
    assert_eq!(
        guest.execute(Command::DestroyPd, &handle(request.pd_handle.get())),
        EBUSY
    );
    assert_eq!(guest.execute(Command::CreateQp, &request), EINVAL);
    assert_eq!(
        guest.execute(Command::DestroyQp, &handle(created.qp_handle.get())),
        0
    );
    assert_eq!(guest.execute(Command::DestroyCq, &handle(cq)), 0);
}
