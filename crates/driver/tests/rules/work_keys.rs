//! Rules 52, 53, 55 and 56: keys and ranges, on both sides.

use vrdma_driver::object::{Buffer, Context, Mr, rights};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, PairOptions, RAM_BASE};
use vrdma_pvrdma::abi::work::SgeEntry;

const LOC_PROT: u32 = 4;
const REM_INV_REQ: u32 = 9;
const REM_ACCESS: u32 = 10;

fn sge(addr: u64, length: u32, lkey: u32) -> SgeEntry {
    SgeEntry {
        addr: addr.into(),
        length: length.into(),
        lkey: lkey.into(),
    }
}

/// Status of a WRITE from `sge`, of a READ into it, and of a SEND into it.
fn local_statuses(make: impl Fn(&mut Pair) -> SgeEntry, options: PairOptions) -> [u32; 3] {
    let mut pair = Pair::with(options);
    let entry = make(&mut pair);
    let (addr, rkey) = pair.b.remote(0);
    pair.send(&SendWork::write(1, addr, rkey).sge(entry));
    let write = pair.sent()[0].status;
    let mut pair = Pair::with(options);
    let entry = make(&mut pair);
    pair.send(&SendWork::read(1, addr, rkey).sge(entry));
    let read = pair.sent()[0].status;
    let mut pair = Pair::with(options);
    let entry = make(&mut pair);
    let (a, b) = (pair.a.clone(), pair.b.clone());
    pair.fabric[0].post_recv(&a.qp, 7, &[entry]).unwrap();
    let request = SendWork::send(2).sge(b.sge(0, entry.length.get().min(8)));
    pair.fabric[1].post_send(&b.qp, &request).unwrap();
    pair.fabric.pump();
    let received = pair.fabric[0].poll_cq(&a.recv_cq).unwrap().status;
    [write, read, received]
}

#[test]
fn rule_52_local_keys_are_valid_and_of_the_domain() {
    type Make = fn(&mut Pair) -> SgeEntry;
    let wrong: [Make; 6] = [
        |pair| sge(pair.a.buffer.address, 8, 0),
        |pair| sge(pair.a.buffer.address, 8, u32::MAX),
        |pair| sge(pair.a.buffer.address, 8, pair.a.mr.lkey + 1),
        |pair| sge(pair.a.buffer.address, 8, pair.a.mr.lkey + 256),
        |pair| {
            let (context, buffer) = (pair.a.context, pair.a.buffer.clone());
            let other = pair.fabric[0].create_pd(context).unwrap();
            let mr = pair.fabric[0]
                .register(other, &buffer, rights::ALL)
                .unwrap();
            mr.sge(buffer.address, 8)
        },
        |pair| {
            let mr = pair.a.mr.clone();
            pair.fabric[0].deregister(mr.clone()).unwrap();
            mr.sge(pair.a.buffer.address, 8)
        },
    ];
    for (row, make) in wrong.into_iter().enumerate() {
        let statuses = local_statuses(make, PairOptions::default());
        assert_eq!(statuses, [LOC_PROT; 3], "row {row}");
    }
}

#[test]
fn rule_52_programs_cannot_use_the_kernel_s_key_for_all_memory() {
    let make = |pair: &mut Pair| {
        let pd = pair.fabric[0].create_pd(Context::KERNEL).unwrap();
        let dma = pair.fabric[0].register_dma(pd).unwrap();
        dma.sge(pair.a.buffer.pages[0], 8)
    };
    assert_eq!(local_statuses(make, PairOptions::default()), [LOC_PROT; 3]);
}

#[test]
fn rule_53_local_ranges_lie_in_their_region() {
    type Make = fn(&mut Pair) -> SgeEntry;
    let wrong: [Make; 5] = [
        |pair| pair.a.mr.sge(pair.a.buffer.address - 1, 8),
        |pair| {
            pair.a
                .mr
                .sge(pair.a.buffer.address + pair.a.buffer.length - 7, 8)
        },
        |pair| pair.a.mr.sge(0, 8),
        |pair| pair.a.mr.sge(u64::MAX - 3, 8),
        |pair| pair.a.mr.sge(pair.a.buffer.address, 65_537),
    ];
    for (row, make) in wrong.into_iter().enumerate() {
        let statuses = local_statuses(make, PairOptions::default());
        assert_eq!(statuses[..2], [LOC_PROT; 2], "row {row}");
    }
}

#[test]
fn rule_53_all_memory_is_only_what_is_mapped() {
    let kernel = PairOptions {
        kernel: true,
        ..PairOptions::default()
    };
    for nowhere in [0, 0x1000, RAM_BASE - 4, u64::MAX - 3, 0xfee0_0000] {
        let make = |pair: &mut Pair| {
            let pd = pair.a.pd;
            pair.fabric[0].register_dma(pd).unwrap().sge(nowhere, 8)
        };
        let statuses = local_statuses(make, kernel);
        assert!(
            statuses.iter().all(|status| *status != 0),
            "{nowhere:#x}: {statuses:?}"
        );
    }
    let make = |pair: &mut Pair| {
        let (pd, page) = (pair.a.pd, pair.a.buffer.pages[3]);
        pair.fabric[0].register_dma(pd).unwrap().sge(page, 8)
    };
    assert_eq!(local_statuses(make, kernel), [0; 3]);
}

#[test]
fn rule_55_what_is_written_locally_needs_the_right() {
    let make = |pair: &mut Pair| {
        let (pd, buffer) = (pair.a.pd, pair.a.buffer.clone());
        let mr = pair.fabric[0]
            .register(pd, &buffer, rights::REMOTE_READ)
            .unwrap();
        mr.sge(buffer.address, 8)
    };
    assert_eq!(
        local_statuses(make, PairOptions::default()),
        [0, LOC_PROT, LOC_PROT]
    );
}

/// Statuses of a WRITE, a READ and an atomic of `a` in memory of `b`.
fn remote_statuses(make: impl Fn(&mut Pair) -> (u64, u32), options: PairOptions) -> [u32; 3] {
    let asks: [fn(u64, u64, u32) -> SendWork; 3] =
        [SendWork::write, SendWork::read, |id, addr, rkey| {
            SendWork::fetch_add(id, addr, rkey, 1)
        }];
    asks.map(|ask| {
        let mut pair = Pair::with(options);
        let (addr, rkey) = make(&mut pair);
        let before = pair.bytes_of_b(0, 4096);
        pair.send(&ask(1, addr, rkey).sge(pair.a.sge(0, 8)));
        let status = pair.sent()[0].status;
        assert!(status == 0 || pair.bytes_of_b(0, 4096) == before);
        status
    })
}

fn registered(pair: &mut Pair, access: u32) -> (Buffer, Mr) {
    let (pd, buffer) = (pair.b.pd, pair.b.buffer.clone());
    let mr = pair.fabric[1].register(pd, &buffer, access).unwrap();
    (buffer, mr)
}

/// The buffers begin at an odd address; atomics need an even one.
const ALIGNED: u64 = 8 - 0x123 % 8;

#[test]
fn rule_56_remote_keys_and_ranges_are_checked_against_the_peer() {
    type Make = fn(&mut Pair) -> (u64, u32);
    let wrong: [Make; 6] = [
        |pair| (pair.b.remote(ALIGNED).0, 0),
        |pair| (pair.b.remote(ALIGNED).0, pair.b.mr.rkey + 1),
        |pair| (pair.b.buffer.address - 3, pair.b.mr.rkey),
        |pair| (pair.b.buffer.address + 65_536 - 3, pair.b.mr.rkey),
        |pair| (u64::MAX - 7, pair.b.mr.rkey),
        |pair| {
            let (context, buffer) = (pair.b.context, pair.b.buffer.clone());
            let other = pair.fabric[1].create_pd(context).unwrap();
            let mr = pair.fabric[1]
                .register(other, &buffer, rights::ALL)
                .unwrap();
            (pair.b.remote(ALIGNED).0, mr.rkey)
        },
    ];
    for (row, make) in wrong.into_iter().enumerate() {
        let statuses = remote_statuses(make, PairOptions::default());
        assert_eq!(statuses[..2], [REM_ACCESS; 2], "row {row}");
        assert_ne!(statuses[2], 0, "row {row}");
    }
}

#[test]
fn rule_56_each_remote_right_is_its_own() {
    let local = rights::LOCAL_WRITE;
    let rows = [
        (local | rights::REMOTE_WRITE, [0, REM_ACCESS, REM_ACCESS]),
        (local | rights::REMOTE_READ, [REM_ACCESS, 0, REM_ACCESS]),
        (local | rights::REMOTE_ATOMIC, [REM_ACCESS, REM_ACCESS, 0]),
        (local, [REM_ACCESS; 3]),
    ];
    for (access, expected) in rows {
        let make = |pair: &mut Pair| {
            let (buffer, mr) = registered(pair, access);
            (buffer.address + ALIGNED, mr.rkey)
        };
        assert_eq!(
            remote_statuses(make, PairOptions::default()),
            expected,
            "region {access}"
        );
        let options = PairOptions {
            access,
            ..PairOptions::default()
        };
        let expected = expected.map(|status| if status == 0 { 0 } else { REM_INV_REQ });
        let make = |pair: &mut Pair| pair.b.remote(ALIGNED);
        assert_eq!(
            remote_statuses(make, options),
            expected,
            "queue pair {access}"
        );
    }
}

#[test]
fn rule_56_the_key_for_all_memory_is_for_nobody_else() {
    let make = |pair: &mut Pair| {
        let pd = pair.b.pd;
        let dma = pair.fabric[1].register_dma(pd).unwrap();
        (pair.b.buffer.pages[0], dma.rkey)
    };
    let kernel = PairOptions {
        kernel: true,
        ..PairOptions::default()
    };
    assert_eq!(remote_statuses(make, kernel), [REM_ACCESS; 3]);
}
