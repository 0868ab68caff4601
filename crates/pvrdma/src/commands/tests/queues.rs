//! Completion queues and shared receive queues.

use super::objects::open;
use super::*;
use crate::abi::request::{CreateCq, CreateSrq, ModifySrq, SRQ_LIMIT, SrqAttributes};
use crate::abi::response::CreatedCq;

pub(super) fn cq(guest: &mut Guest, owner: u32, entries: u32) -> CreateCq {
    let pages = 1 + (entries * 64).div_ceil(4096);
    CreateCq {
        pdir_dma: guest.directory(pages).0.into(),
        ctx_handle: owner.into(),
        cqe: entries.into(),
        nchunks: pages.into(),
        ..CreateCq::default()
    }
}

pub(super) fn create_cq(guest: &mut Guest, owner: u32) -> u32 {
    let request = cq(guest, owner, 64);
    guest
        .ask::<_, CreatedCq>(Command::CreateCq, &request)
        .cq_handle
        .get()
}

pub(super) fn srq(guest: &mut Guest, pd: u32) -> CreateSrq {
    CreateSrq {
        pdir_dma: guest.directory(2).0.into(),
        pd_handle: pd.into(),
        nchunks: 2.into(),
        attrs: SrqAttributes {
            max_wr: 128.into(),
            max_sge: 1.into(),
            ..SrqAttributes::default()
        },
        ..CreateSrq::default()
    }
}

pub(super) fn create_srq(guest: &mut Guest, pd: u32) -> u32 {
    let request = srq(guest, pd);
    guest
        .ask::<_, Created>(Command::CreateSrq, &request)
        .handle
        .get()
}

#[test]
fn a_completion_queue_has_exactly_the_size_asked_for() {
    let mut guest = Guest::active();
    for entries in [1, 64, 1024] {
        let request = cq(&mut guest, 0, entries);
        let created: CreatedCq = guest.ask(Command::CreateCq, &request);
        assert_eq!(created.cqe.get(), entries);
        assert!(created.cq_handle.get() < guest.device.config().limits.cqs);
    }
}

/// Faults of a completion queue's owner, size and pages.
const UNFIT_COMPLETION_QUEUES: &[Refusal<CreateCq>] = &[
    Refusal {
        what: "no context",
        spoil: |cq| cq.ctx_handle = 5.into(),
        errno: ENOENT,
    },
    Refusal {
        what: "empty",
        spoil: |cq| cq.cqe = 0.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "no power of two",
        spoil: |cq| cq.cqe = 100.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "too large",
        spoil: |cq| {
            cq.cqe = 2048.into();
            cq.nchunks = 40.into();
        },
        errno: EINVAL,
    },
    Refusal {
        what: "huge",
        spoil: |cq| cq.cqe = (1 << 31).into(),
        errno: EINVAL,
    },
    Refusal {
        what: "too few pages",
        spoil: |cq| cq.nchunks = 2.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "no pages",
        spoil: |cq| cq.nchunks = 0.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "too many pages",
        spoil: |cq| cq.nchunks = u32::MAX.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "pages missing",
        spoil: |cq| cq.nchunks = 4.into(),
        errno: EFAULT,
    },
    Refusal {
        what: "no directory",
        spoil: |cq| cq.pdir_dma = 0.into(),
        errno: EFAULT,
    },
];

#[test]
fn completion_queues_that_do_not_fit_are_refused() {
    let mut guest = Guest::active();
    let good = cq(&mut guest, 0, 128);
    assert_refused(&mut guest, Command::CreateCq, good, UNFIT_COMPLETION_QUEUES);
    assert_eq!(guest.device.snapshot().counts.cqs, 0);
}

#[test]
fn a_full_table_of_completion_queues_refuses_and_recovers() {
    let mut guest = Guest::active();
    let owner = open(&mut guest, 2);
    let cqs: Vec<u32> = (0..4).map(|_| create_cq(&mut guest, owner)).collect();
    let one_more = cq(&mut guest, owner, 1);
    assert_eq!(guest.execute(Command::CreateCq, &one_more), ENOMEM);
    assert_eq!(guest.execute(Command::DestroyCq, &handle(cqs[1])), 0);
    assert_eq!(guest.execute(Command::DestroyCq, &handle(cqs[1])), ENOENT);
    assert_eq!(guest.execute(Command::CreateCq, &one_more), 0);
}

#[test]
fn a_shared_queue_keeps_its_attributes() {
    let mut guest = Guest::active();
    let pd = create_pd(&mut guest, 0);
    let srq = create_srq(&mut guest, pd);
    let limit = ModifySrq {
        srq_handle: srq.into(),
        attr_mask: SRQ_LIMIT.into(),
        attrs: SrqAttributes {
            srq_limit: 0.into(),
            ..SrqAttributes::default()
        },
    };
    assert_eq!(guest.execute(Command::ModifySrq, &limit), 0);
    let attrs: SrqAttributes = guest.ask(Command::QuerySrq, &handle(srq));
    assert_eq!((attrs.max_wr.get(), attrs.max_sge.get()), (128, 1));
    assert_eq!(guest.execute(Command::DestroySrq, &handle(srq)), 0);
    assert_eq!(guest.execute(Command::QuerySrq, &handle(srq)), ENOENT);
    assert_eq!(guest.execute(Command::ModifySrq, &limit), ENOENT);
    assert_eq!(guest.execute(Command::DestroySrq, &handle(srq)), ENOENT);
}

/// Faults of a shared receive queue's domain, type, size and pages.
const UNFIT_SHARED_QUEUES: &[Refusal<CreateSrq>] = &[
    Refusal {
        what: "no PD",
        spoil: |srq| srq.pd_handle = 9.into(),
        errno: ENOENT,
    },
    Refusal {
        what: "type",
        spoil: |srq| srq.srq_type = 1,
        errno: EINVAL,
    },
    Refusal {
        what: "no requests",
        spoil: |srq| srq.attrs.max_wr = 0.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "no power of two",
        spoil: |srq| srq.attrs.max_wr = 3.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "too long",
        spoil: |srq| srq.attrs.max_wr = 512.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "no buffers",
        spoil: |srq| srq.attrs.max_sge = 0.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "too many buffers",
        spoil: |srq| srq.attrs.max_sge = 33.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "limit",
        spoil: |srq| srq.attrs.srq_limit = 129.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "stride",
        spoil: |srq| srq.attrs.max_sge = 2.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "pages",
        spoil: |srq| srq.nchunks = 1.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "directory",
        spoil: |srq| srq.pdir_dma = 0.into(),
        errno: EFAULT,
    },
];

#[test]
fn shared_queues_that_do_not_fit_are_refused() {
    let mut guest = Guest::active();
    let pd = create_pd(&mut guest, 0);
    let good = srq(&mut guest, pd);
    assert_refused(&mut guest, Command::CreateSrq, good, UNFIT_SHARED_QUEUES);
    assert_eq!(guest.device.snapshot().counts.srqs, 0);
}

#[test]
fn a_shared_queue_cannot_be_resized() {
    let mut guest = Guest::active();
    let pd = create_pd(&mut guest, 0);
    let srq = create_srq(&mut guest, pd);
    for (mask, limit) in [(0, 0), (1, 0), (3, 0), (SRQ_LIMIT, 129)] {
        let request = ModifySrq {
            srq_handle: srq.into(),
            attr_mask: mask.into(),
            attrs: SrqAttributes {
                srq_limit: u32::into(limit),
                ..SrqAttributes::default()
            },
        };
        assert_eq!(
            guest.execute(Command::ModifySrq, &request),
            EINVAL,
            "{mask} {limit}"
        );
    }
}
