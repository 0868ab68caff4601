//! Rules 48 to 51, 54 and 57 to 63: what requests may do.

use std::time::Duration;

use vrdma_driver::object::{QpShape, qp_state, rights};
use vrdma_driver::work::{SendWork, datagram, receive};
use vrdma_driver::{Directory, Pair, PairOptions};
use vrdma_pvrdma::abi::event::EventCode;
use vrdma_pvrdma::abi::work::{DatagramPart, FastRegisterPart, opcode};

use super::objects::queue_pair;
use super::single::Single;

const LOC_LEN: u32 = 1;
const LOC_QP_OP: u32 = 2;
const FLUSH: u32 = 5;
const MEMORY_MANAGEMENT: u32 = 6;
const REM_INV_REQ: u32 = 9;
const WORD: u64 = 8 - 0x123 % 8;
const START: u64 = 0x5000_0000;

/// The first send completion of `a` after posting `entry`.
fn status_of(pair: &mut Pair, entry: &[u8]) -> u32 {
    let (guest, qp) = (pair.a.guest, pair.a.qp.clone());
    pair.fabric[guest].post_send_entry(&qp, entry).unwrap();
    pair.fabric.pump();
    let sent = pair.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(qp.send.outstanding(&pair.fabric[guest].ram.view()), 0);
    sent[0].status
}

fn unbound(pair: &Pair) -> DatagramPart {
    let mut to = datagram(pair.a.pd, pair.fabric[1].gid(), pair.b.qp.qpn, Pair::QKEY);
    to.av.gid_index = 77;
    to
}

#[test]
fn rule_48_a_request_that_fails_is_consumed() {
    let mut pair = Pair::datagrams();
    let to = unbound(&pair);
    let (a, vm) = (pair.a.clone(), &mut pair.fabric[0]);
    for id in 0..64 {
        let request = SendWork::send(id).part(&to).sge(a.sge(0, 8));
        vm.post_send(&a.qp, &request).unwrap();
    }
    pair.fabric.pump();
    let sent = pair.sent();
    assert_eq!(sent.len(), 64);
    assert_eq!(sent[0].status, LOC_QP_OP);
    assert!(
        sent[1..].iter().all(|done| done.status == FLUSH),
        "{sent:?}"
    );
    assert_eq!(a.qp.send.outstanding(&pair.fabric[0].ram.view()), 0);
}

#[test]
fn rule_49_no_more_buffers_than_the_queue_pair_has() {
    for count in [5, 128, 1 << 28, u32::MAX] {
        let mut pair = Pair::new();
        let entry = SendWork::send(1).claim_sges(count);
        assert_eq!(status_of(&mut pair, &entry), LOC_QP_OP, "{count}");
    }
    let shape = QpShape {
        send_sge: 32,
        ..QpShape::RC
    };
    for (count, status) in [(16, 0), (17, LOC_QP_OP), (32, LOC_QP_OP)] {
        let mut pair = Pair::with(PairOptions {
            shape,
            ..PairOptions::default()
        });
        let (addr, rkey) = pair.b.remote(0);
        let mut request = SendWork::read(1, addr, rkey);
        for index in 0..count {
            request = request.sge(pair.a.sge(index * 8, 8));
        }
        assert_eq!(
            status_of(&mut pair, &request.encode()),
            status,
            "{count} for a READ"
        );
    }
}

/// Whether an opcode is permitted, by service and owner (reference section 8.3).
fn is_permitted(opcode: u32, datagrams: bool, kernel: bool) -> bool {
    match opcode {
        2 | 3 => true,
        0..=6 => !datagrams,
        8 | 10 | 11 => !datagrams && kernel,
        _ => false,
    }
}

#[test]
fn rule_50_opcodes_fit_service_and_owner() {
    for kernel in [false, true] {
        for datagrams in [false, true] {
            for code in (0..20).chain([128, 1 << 31, u32::MAX]) {
                let mut pair = Pair::with(PairOptions {
                    shape: if datagrams { QpShape::UD } else { QpShape::RC },
                    kernel,
                    ..PairOptions::default()
                });
                pair.receive(7, 0, 4096);
                let (addr, rkey) = pair.b.remote(WORD);
                let mut request = SendWork::new(1, code).sge(pair.a.sge(0, 8));
                request = match code {
                    _ if datagrams => {
                        let gid = pair.fabric[1].gid();
                        request.part(&datagram(pair.a.pd, gid, pair.b.qp.qpn, Pair::QKEY))
                    }
                    5 | 6 => SendWork::fetch_add(1, addr, rkey, 1).sge(pair.a.sge(0, 8)),
                    _ => request.remote(addr, rkey),
                };
                let status = status_of(&mut pair, &request.encode());
                let refused = status == LOC_QP_OP;
                let expected = !is_permitted(code, datagrams, kernel);
                assert_eq!(refused, expected, "{code} {datagrams} {kernel}: {status}");
            }
        }
    }
}

#[test]
fn rule_51_sends_wait_or_are_ignored_outside_of_rts() {
    let mut single = Single::new();
    let pd = single.pd;
    let vm = single.vm();
    let (cq, qp) = queue_pair(vm, pd, QpShape::RC);
    vm.post_send(&qp, &SendWork::send(1)).unwrap();
    single.fabric.pump();
    assert_eq!(single.vm().drain_cq(&cq), [], "RESET");
    single.vm().reset_qp(&qp).unwrap();
    single.vm().init_qp(&qp, 0, 0).unwrap();
    single.vm().post_send(&qp, &SendWork::send(2)).unwrap();
    single.fabric.pump();
    assert_eq!(single.vm().drain_cq(&cq), [], "INIT");
    single.vm().set_qp_state(&qp, qp_state::ERR).unwrap();
    single.fabric.pump();
    let flushed = single.vm().drain_cq(&cq);
    assert_eq!((flushed[0].id, flushed[0].status), (2, FLUSH));
}

#[test]
fn rule_54_messages_have_a_longest_length() {
    let mut pair = Pair::kernel();
    let pd = pair.a.pd;
    let dma = pair.fabric[0].register_dma(pd).unwrap();
    for lengths in [[u32::MAX; 4], [1 << 30, 1, 0, 0]] {
        let mut pair_request = SendWork::send(1);
        for length in lengths {
            pair_request = pair_request.sge(dma.sge(0, length));
        }
        assert_eq!(status_of(&mut pair, &pair_request.encode()), LOC_LEN);
        pair = Pair::kernel();
        let pd = pair.a.pd;
        assert_eq!(pair.fabric[0].register_dma(pd).unwrap().lkey, dma.lkey);
    }
}

#[test]
fn rule_54_a_datagram_is_one_packet() {
    for (length, status) in [(4096, 0), (4097, LOC_LEN)] {
        let mut pair = Pair::datagrams();
        let to = datagram(pair.a.pd, pair.fabric[1].gid(), pair.b.qp.qpn, Pair::QKEY);
        let request = SendWork::send(1).part(&to).sge(pair.a.sge(0, length));
        assert_eq!(status_of(&mut pair, &request.encode()), status, "{length}");
    }
}

#[test]
fn rule_57_atomics_are_aligned_and_have_room_for_the_answer() {
    for offset in 1..8 {
        let mut pair = Pair::new();
        let (addr, rkey) = pair.b.remote(WORD + offset);
        let request = SendWork::fetch_add(1, addr, rkey, 1);
        let request = request.sge(pair.a.sge(0, 8));
        assert_eq!(
            status_of(&mut pair, &request.encode()),
            REM_INV_REQ,
            "{offset}"
        );
    }
    for length in [0, 7] {
        let mut pair = Pair::new();
        let (addr, rkey) = pair.b.remote(WORD);
        let request = SendWork::compare_swap(1, addr, rkey, 0, 1);
        let request = request.sge(pair.a.sge(0, length));
        assert!([LOC_LEN, LOC_QP_OP].contains(&status_of(&mut pair, &request.encode())));
    }
}

/// Status of FAST_REG in `a`'s kernel with a changed request.
fn fast_register(spoil: impl FnOnce(&mut Pair, &mut FastRegisterPart)) -> u32 {
    let mut pair = Pair::kernel();
    let pd = pair.a.pd;
    let mr = pair.fabric[0].register_empty(pd, 16).unwrap();
    let directory = Directory::with_pages(&mut pair.fabric[0].ram, 16);
    let mut part = FastRegisterPart {
        iova_start: START.into(),
        pl_pdir_dma: directory.address.into(),
        page_shift: 12.into(),
        page_list_len: 16.into(),
        length: 65_536.into(),
        access_flags: rights::ALL.into(),
        rkey: mr.rkey.into(),
        reserved: 0.into(),
    };
    spoil(&mut pair, &mut part);
    let request = SendWork::new(1, opcode::FAST_REG_MR).part(&part);
    status_of(&mut pair, &request.encode())
}

#[test]
fn rule_58_fast_registration_is_checked_whole() {
    type Spoil = fn(&mut Pair, &mut FastRegisterPart);
    let wrong: [Spoil; 12] = [
        |_, part| part.page_shift = 13.into(),
        |_, part| part.page_list_len = 0.into(),
        |_, part| part.page_list_len = 17.into(),
        |_, part| part.page_list_len = u32::MAX.into(),
        |_, part| part.length = 65_537.into(),
        |_, part| part.iova_start = (START + 1).into(),
        |_, part| part.length = u32::MAX.into(),
        |_, part| part.pl_pdir_dma = 0.into(),
        |_, part| part.pl_pdir_dma = (part.pl_pdir_dma.get() + 8).into(),
        |_, part| part.rkey = 0x1234_5600.into(),
        |pair, part| part.rkey = pair.a.mr.rkey.into(),
        |pair, part| {
            let other = pair.fabric[0]
                .create_pd(vrdma_driver::object::Context::KERNEL)
                .unwrap();
            part.rkey = pair.fabric[0]
                .register_empty(other, 16)
                .unwrap()
                .rkey
                .into();
        },
    ];
    for (row, spoil) in wrong.into_iter().enumerate() {
        assert_eq!(fast_register(spoil), MEMORY_MANAGEMENT, "row {row}");
    }
    assert_eq!(fast_register(|_, _| {}), 0);
    let mut user = Pair::new();
    let request = SendWork::new(1, opcode::FAST_REG_MR);
    assert_eq!(status_of(&mut user, &request.encode()), LOC_QP_OP);
}

#[test]
fn rule_59_only_fast_registered_regions_are_invalidated() {
    let mut pair = Pair::kernel();
    let key = pair.a.mr.rkey;
    let request = SendWork::local_invalidate(1, key);
    assert_eq!(status_of(&mut pair, &request.encode()), MEMORY_MANAGEMENT);
    let mut user = Pair::new();
    assert_eq!(status_of(&mut user, &request.encode()), LOC_QP_OP);
    let mut pair = Pair::kernel();
    pair.receive(7, 0, 64);
    let key = pair.b.mr.rkey;
    let request = SendWork::send(1).invalidating(key).sge(pair.a.sge(0, 8));
    assert_ne!(status_of(&mut pair, &request.encode()), 0);
    let (addr, rkey) = pair.b.remote(0);
    let pd = pair.b.pd;
    let buffer = pair.b.buffer.clone();
    pair.fabric[1].register(pd, &buffer, rights::ALL).unwrap();
    assert_eq!(rkey, key, "the region is still there");
    assert_ne!(addr, 0);
}

#[test]
fn rule_60_address_vectors_are_checked() {
    type Spoil = fn(&mut DatagramPart);
    let wrong: [Spoil; 6] = [
        |to| to.av.gid_index = 1,
        |to| to.av.gid_index = 255,
        |to| to.av.port_pd = (to.av.port_pd.get() | 2 << 24).into(),
        |to| to.av.port_pd = (to.av.port_pd.get() & 0xff_ffff).into(),
        |to| to.av.port_pd = (to.av.port_pd.get() + 1).into(),
        |to| to.av.dgid = [0; 16],
    ];
    for (row, spoil) in wrong.into_iter().enumerate() {
        let mut pair = Pair::datagrams();
        let mut to = datagram(pair.a.pd, pair.fabric[1].gid(), pair.b.qp.qpn, Pair::QKEY);
        spoil(&mut to);
        let request = SendWork::send(1).part(&to).sge(pair.a.sge(0, 8));
        assert_eq!(
            status_of(&mut pair, &request.encode()),
            LOC_QP_OP,
            "row {row}"
        );
    }
}

/// The MAC in the address vector is only the guest's claim; the message goes where the GID says.
#[test]
fn rule_60_the_ethernet_address_decides_nothing() {
    let mut pair = Pair::datagrams();
    pair.receive(7, 0, 4096);
    let mut to = datagram(pair.a.pd, pair.fabric[1].gid(), pair.b.qp.qpn, Pair::QKEY);
    to.av.dmac = [0xff; 6];
    pair.send(&SendWork::send(1).part(&to).sge(pair.a.sge(0, 8)));
    assert_eq!(pair.received().len(), 1);
}

#[test]
fn rule_61_queue_pair_numbers_have_24_bits() {
    for qpn in [0, 1 << 24, u32::MAX] {
        let mut pair = Pair::datagrams();
        let to = datagram(pair.a.pd, pair.fabric[1].gid(), qpn, Pair::QKEY);
        let request = SendWork::send(1).part(&to).sge(pair.a.sge(0, 8));
        assert_eq!(
            status_of(&mut pair, &request.encode()),
            LOC_QP_OP,
            "{qpn:#x}"
        );
    }
    let pair = Pair::datagrams();
    assert!(
        pair.a.qp.qpn > 1 && pair.b.qp.qpn > 1,
        "1 is the general services QP's alone"
    );
}

#[test]
fn rule_62_receives_are_checked_when_they_are_used() {
    let mut pair = Pair::new();
    let (b, vm) = (pair.b.clone(), &mut pair.fabric[1]);
    let mut entry = receive(7, &[]);
    entry[8..12].copy_from_slice(&5u32.to_le_bytes());
    let ring = b.qp.recv.as_ref().unwrap();
    ring.push(&vm.ram.view(), &entry).unwrap();
    vm.ring_recv(&b.qp);
    pair.send(&SendWork::send(1).sge(pair.a.sge(0, 8)));
    pair.fabric.pass(Duration::from_secs(10));
    let received = pair.received()[0];
    assert_eq!((received.id, received.status), (7, LOC_QP_OP));
    assert_ne!(pair.sent()[0].status, 0);
}

#[test]
fn rule_63_a_full_cq_is_not_overwritten() {
    let mut pair = Pair::new();
    let a = pair.a.clone();
    let (addr, rkey) = pair.b.remote(0);
    for id in 0..256 {
        pair.send(&SendWork::write(id, addr, rkey).sge(a.sge(0, 8)));
    }
    assert_eq!(pair.fabric[0].take_events(), []);
    pair.send(&SendWork::write(256, addr, rkey).sge(a.sge(0, 8)));
    let events = pair.fabric[0].take_events();
    assert!(
        events.contains(&(EventCode::CqErr, a.send_cq.handle)),
        "{events:?}"
    );
    let ids: Vec<_> = pair.sent().iter().map(|done| done.id).collect();
    assert_eq!(ids, (0..256).collect::<Vec<_>>());
}
