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

/// Faults of a queue pair's type, objects, sizes and pages.
const UNFIT_QUEUE_PAIRS: &[Refusal<CreateQp>] = &[
    Refusal {
        what: "UC",
        spoil: |qp| qp.qp_type = 3,
        errno: EINVAL,
    },
    Refusal {
        what: "PD",
        spoil: |qp| qp.pd_handle = 99.into(),
        errno: ENOENT,
    },
    Refusal {
        what: "CQ",
        spoil: |qp| qp.send_cq_handle = 99.into(),
        errno: ENOENT,
    },
    Refusal {
        what: "no sends",
        spoil: |qp| qp.max_send_wr = 0.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "no receives",
        spoil: |qp| qp.max_recv_wr = 0.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "odd sends",
        spoil: |qp| qp.max_send_wr = 31.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "many sends",
        spoil: |qp| qp.max_send_wr = 512.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "no buffers",
        spoil: |qp| qp.max_send_sge = 0.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "many buffers",
        spoil: |qp| qp.max_recv_sge = u32::MAX.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "send pages",
        spoil: |qp| qp.max_send_sge = 4.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "recv pages",
        spoil: |qp| qp.max_recv_sge = 2.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "chunks",
        spoil: |qp| qp.send_chunks = 3.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "all chunks",
        spoil: |qp| qp.send_chunks = u16::MAX.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "is_srq",
        spoil: |qp| qp.is_srq = 2,
        errno: EINVAL,
    },
    Refusal {
        what: "directory",
        spoil: |qp| qp.pdir_dma = 0.into(),
        errno: EFAULT,
    },
];

#[test]
fn queue_pairs_that_do_not_fit_are_refused() {
    let mut guest = Guest::active();
    let good = qp(&mut guest, 0);
    assert_refused(&mut guest, Command::CreateQp, good, UNFIT_QUEUE_PAIRS);
    assert_eq!(guest.device.snapshot().counts.qps, 0);
}

#[test]
fn a_user_cannot_have_a_gsi_queue_pair() {
    let mut guest = Guest::active();
    let owner = open(&mut guest, 1);
    let gsi = CreateQp {
        qp_type: qp_type::GSI,
        ..qp(&mut guest, owner)
    };
    assert_eq!(guest.execute(Command::CreateQp, &gsi), EINVAL);
    assert_eq!(guest.device.snapshot().counts.qps, 0);
}

#[test]
fn a_queue_pair_does_not_take_what_another_context_owns() {
    let mut guest = Guest::active();
    let owner = open(&mut guest, 1);
    let (kernel, user) = (qp(&mut guest, 0), qp(&mut guest, owner));
    let srq = create_srq(&mut guest, kernel.pd_handle.get());
    let foreign_pd = CreateQp {
        pd_handle: user.pd_handle,
        ..kernel
    };
    let foreign_cq = CreateQp {
        recv_cq_handle: user.recv_cq_handle,
        ..kernel
    };
    let foreign_srq = CreateQp {
        srq_handle: srq.into(),
        is_srq: 1,
        ..user
    };
    let bad = [("PD", foreign_pd), ("CQ", foreign_cq), ("SRQ", foreign_srq)];
    for (what, request) in bad {
        let errno = guest.execute(Command::CreateQp, &request);
        assert_eq!(errno, EINVAL, "foreign {what}");
    }
    assert_eq!(guest.device.snapshot().counts.qps, 0);
}

#[test]
fn a_queue_pair_takes_only_a_shared_queue_that_exists() {
    let mut guest = Guest::active();
    let request = qp(&mut guest, 0);
    let srq = create_srq(&mut guest, request.pd_handle.get());
    let shared = CreateQp {
        srq_handle: srq.into(),
        is_srq: 1,
        max_recv_wr: 0.into(),
        max_recv_sge: 0.into(),
        total_chunks: 2.into(),
        ..request
    };
    let no_srq = CreateQp {
        srq_handle: 2.into(),
        ..shared
    };
    assert_eq!(guest.execute(Command::CreateQp, &no_srq), ENOENT);
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

/// Mask of the attributes from RESET to INIT: state, access flags, P_Key index and port.
const TO_INIT: u32 = 0x39;

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

/// Faults of a change from RESET to INIT.
const UNFIT_CHANGES: &[Refusal<ModifyQp>] = &[
    Refusal {
        what: "no such QP",
        spoil: |request| request.qp_handle = 99.into(),
        errno: ENOENT,
    },
    Refusal {
        what: "to RTR",
        spoil: |request| request.attrs.qp_state = 2.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "no such state",
        spoil: |request| request.attrs.qp_state = 7.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "mask incomplete",
        spoil: |request| request.attr_mask = 0x19.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "mask too large",
        spoil: |request| request.attr_mask = (TO_INIT | 1 << 21).into(),
        errno: EINVAL,
    },
    Refusal {
        what: "CAP",
        spoil: |request| request.attr_mask = (TO_INIT | 1 << 19).into(),
        errno: EINVAL,
    },
    Refusal {
        what: "ALT_PATH",
        spoil: |request| request.attr_mask = (TO_INIT | 1 << 14).into(),
        errno: EINVAL,
    },
    Refusal {
        what: "port",
        spoil: |request| request.attrs.port_num = 2,
        errno: EINVAL,
    },
    Refusal {
        what: "pkey",
        spoil: |request| request.attrs.pkey_index = 1.into(),
        errno: EINVAL,
    },
];

#[test]
fn a_queue_pair_goes_where_it_may() {
    let mut guest = Guest::active();
    let request = qp(&mut guest, 0);
    let created: CreatedQp = guest.ask(Command::CreateQp, &request);
    let handle = created.qp_handle.get();
    let to_init = modify(handle, TO_INIT, init());
    assert_refused(&mut guest, Command::ModifyQp, to_init, UNFIT_CHANGES);
    assert_eq!(guest.execute(Command::ModifyQp, &to_init), 0);
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
        guest.execute(Command::ModifyQp, &modify(qp, TO_INIT, init())),
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
