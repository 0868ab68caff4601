//! Contexts, protection domains, regions and GIDs.

use super::*;
use crate::abi::request::{CreateBind, CreateMr, CreateUc, DestroyBind, mr_flag};
use crate::abi::response::CreatedMr;
use vrdma_adapter::GidChange;
use vrdma_wire::Gid;

pub(super) fn open(guest: &mut Guest, page: u64) -> u32 {
    let created: Created = guest.ask(Command::CreateUc, &CreateUc { pfn: page.into() });
    created.handle.get()
}

#[test]
fn a_context_takes_the_page_that_its_frame_number_ends_in() {
    let mut guest = Guest::active();
    let bar = 0xfe00_0000_u64 >> 12;
    let owner = open(&mut guest, bar + 3);
    assert_ne!(owner, 0);
    let again = CreateUc {
        pfn: (bar + 3).into(),
    };
    assert_eq!(guest.execute(Command::CreateUc, &again), EBUSY);
    assert_eq!(
        guest.execute(Command::CreateUc, &CreateUc { pfn: bar.into() }),
        EINVAL
    );
    assert_eq!(guest.device.snapshot().contexts, 1);
    assert_eq!(guest.execute(Command::DestroyUc, &context(owner)), 0);
    assert_eq!(guest.execute(Command::DestroyUc, &context(owner)), ENOENT);
    assert_eq!(guest.execute(Command::DestroyUc, &context(0)), ENOENT);
}

#[test]
fn the_end_of_a_context_is_the_end_of_its_objects() {
    let mut guest = Guest::active();
    let owner = open(&mut guest, 1);
    let kept = create_pd(&mut guest, 0);
    let pd = create_pd(&mut guest, owner);
    let region = user_mr(&mut guest, pd, 0x1000, 8);
    guest.ask::<_, CreatedMr>(Command::CreateMr, &region);
    assert_eq!(guest.execute(Command::DestroyUc, &context(owner)), 0);
    guest.run();
    let counts = guest.device.snapshot().counts;
    assert_eq!((counts.pds, counts.mrs), (1, 0));
    assert_eq!(guest.execute(Command::DestroyPd, &handle(pd)), ENOENT);
    assert_eq!(guest.execute(Command::DestroyPd, &handle(kept)), 0);
}

#[test]
fn full_tables_refuse() {
    let mut guest = Guest::active();
    for _ in 0..guest.device.config().limits.pds {
        create_pd(&mut guest, 0);
    }
    assert_eq!(guest.execute(Command::CreatePd, &context(0)), ENOMEM);
}

fn user_mr(guest: &mut Guest, pd: u32, start: u64, length: u64) -> CreateMr {
    let pages = (start % 4096 + length).div_ceil(4096) as u32;
    CreateMr {
        start: start.into(),
        length: length.into(),
        pdir_dma: guest.directory(pages).0.into(),
        pd_handle: pd.into(),
        access_flags: 7.into(),
        flags: 0.into(),
        nchunks: pages.into(),
    }
}

#[test]
fn a_region_has_equal_keys_and_can_be_destroyed_once() {
    let mut guest = Guest::active();
    let pd = create_pd(&mut guest, 0);
    let request = user_mr(&mut guest, pd, 0x7fff_1234, 10_000);
    let mr: CreatedMr = guest.ask(Command::CreateMr, &request);
    assert_eq!(mr.lkey, mr.rkey);
    assert_eq!(guest.execute(Command::DestroyPd, &handle(pd)), EBUSY);
    assert_eq!(
        guest.execute(Command::DestroyMr, &handle(mr.mr_handle.get())),
        0
    );
    assert_eq!(
        guest.execute(Command::DestroyMr, &handle(mr.mr_handle.get())),
        ENOENT
    );
    assert_eq!(guest.execute(Command::DestroyPd, &handle(pd)), 0);
}

/// Faults of a region's domain, range, kind and rights.
const UNFIT_REGIONS: &[Refusal<CreateMr>] = &[
    Refusal {
        what: "no such PD",
        spoil: |mr| mr.pd_handle = 99.into(),
        errno: ENOENT,
    },
    Refusal {
        what: "empty",
        spoil: |mr| mr.length = 0.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "wraps",
        spoil: |mr| mr.start = (u64::MAX - 100).into(),
        errno: EINVAL,
    },
    Refusal {
        what: "too few pages",
        spoil: |mr| mr.length = 4097.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "too many pages",
        spoil: |mr| mr.nchunks = 2.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "too long",
        spoil: |mr| mr.length = ((1 << 30) + 1).into(),
        errno: EINVAL,
    },
    Refusal {
        what: "two kinds",
        spoil: |mr| mr.flags = 3.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "no kind",
        spoil: |mr| mr.flags = 4.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "remote write alone",
        spoil: |mr| mr.access_flags = 2.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "remote atomic alone",
        spoil: |mr| mr.access_flags = 8.into(),
        errno: EINVAL,
    },
    Refusal {
        what: "on demand",
        spoil: |mr| mr.access_flags = 65.into(),
        errno: EINVAL,
    },
];

#[test]
fn regions_that_do_not_fit_together_are_refused() {
    let mut guest = Guest::active();
    let pd = create_pd(&mut guest, 0);
    let good = user_mr(&mut guest, pd, 0x1000, 4096);
    assert_refused(&mut guest, Command::CreateMr, good, UNFIT_REGIONS);
    assert_eq!(guest.device.snapshot().counts.mrs, 0);
    let relaxed = CreateMr {
        access_flags: (7 | 1 << 20 | 128).into(),
        ..good
    };
    assert_eq!(guest.execute(Command::CreateMr, &relaxed), 0);
}

#[test]
fn regions_whose_pages_cannot_be_read_are_refused() {
    let mut guest = Guest::active();
    let pd = create_pd(&mut guest, 0);
    let good = user_mr(&mut guest, pd, 0x1000, 4096);
    let unmapped = guest.page();
    guest.put(unmapped, &0xdead_0000_u64);
    let bad = [
        ("table unmapped", unmapped),
        ("directory unmapped", 0x1000),
        ("directory unaligned", 8),
    ];
    for (what, directory) in bad {
        let request = CreateMr {
            pdir_dma: directory.into(),
            ..good
        };
        assert_eq!(guest.execute(Command::CreateMr, &request), EFAULT, "{what}");
    }
    assert_eq!(guest.device.snapshot().counts.mrs, 0);
}

#[test]
fn dma_and_fast_register_regions_are_the_kernel_s() {
    let mut guest = Guest::active();
    let owner = open(&mut guest, 1);
    let (kernel, user) = (create_pd(&mut guest, 0), create_pd(&mut guest, owner));
    let dma = CreateMr {
        access_flags: 1.into(),
        flags: mr_flag::DMA.into(),
        ..CreateMr::default()
    };
    let fast = CreateMr {
        flags: mr_flag::FAST_REGISTER.into(),
        nchunks: 128.into(),
        ..dma
    };
    for request in [dma, fast] {
        let user = CreateMr {
            pd_handle: user.into(),
            ..request
        };
        assert_eq!(guest.execute(Command::CreateMr, &user), EINVAL);
        let kernel = CreateMr {
            pd_handle: kernel.into(),
            ..request
        };
        assert_eq!(guest.execute(Command::CreateMr, &kernel), 0);
    }
    for pages in [0, 129] {
        let request = CreateMr {
            pd_handle: kernel.into(),
            nchunks: pages.into(),
            ..fast
        };
        assert_eq!(
            guest.execute(Command::CreateMr, &request),
            EINVAL,
            "{pages} pages"
        );
    }
}

#[test]
fn page_lists_are_charged_and_given_back() {
    let mut guest = Guest::active();
    let pd = create_pd(&mut guest, 0);
    let quota = guest.device.config().limits.listed_pages;
    let half = user_mr(&mut guest, pd, 0, 400 * 4096);
    let first: CreatedMr = guest.ask(Command::CreateMr, &half);
    guest.ask::<_, CreatedMr>(Command::CreateMr, &half);
    assert!(quota < 3 * 400);
    assert_eq!(guest.execute(Command::CreateMr, &half), ENOMEM);
    assert_eq!(
        guest.execute(Command::DestroyMr, &handle(first.mr_handle.get())),
        0
    );
    assert_eq!(guest.execute(Command::CreateMr, &half), 0);
}

fn bind(index: u32, gid: [u8; 16]) -> CreateBind {
    CreateBind {
        index: index.into(),
        gid,
        gid_type: 2,
        ..CreateBind::default()
    }
}

#[test]
fn gids_are_bound_replaced_and_unbound() {
    let mut guest = Guest::active();
    let (a, b) = ([0xfe; 16], [0x20; 16]);
    assert_eq!(guest.execute(Command::CreateBind, &bind(0, a)), 0);
    assert_eq!(guest.execute(Command::CreateBind, &bind(0, b)), 0);
    let unbind = DestroyBind {
        index: 0.into(),
        gid: b,
        ..DestroyBind::default()
    };
    assert_eq!(guest.execute(Command::DestroyBind, &unbind), 0);
    let changes: Vec<_> = std::iter::from_fn(|| guest.device.take_gid_change()).collect();
    let (a, b) = (Gid(a), Gid(b));
    let expected = [
        GidChange::Bound(a),
        GidChange::Unbound(a),
        GidChange::Bound(b),
        GidChange::Unbound(b),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn bad_bindings_are_refused() {
    let mut guest = Guest::active();
    let good = bind(0, [0x20; 16]);
    let mut multicast = [0; 16];
    multicast[0] = 0xff;
    let bad = [
        bind(4, good.gid),
        bind(256, good.gid),
        bind(u32::MAX, good.gid),
        bind(0, [0; 16]),
        bind(0, multicast),
        CreateBind {
            gid_type: 1,
            ..good
        },
        CreateBind {
            gid_type: 3,
            ..good
        },
    ];
    for request in bad {
        assert_eq!(
            guest.execute(Command::CreateBind, &request),
            EINVAL,
            "{request:?}"
        );
    }
    let unbind = DestroyBind {
        index: 4.into(),
        ..DestroyBind::default()
    };
    assert_eq!(guest.execute(Command::DestroyBind, &unbind), EINVAL);
    assert_eq!(guest.device.take_gid_change(), None);
}
