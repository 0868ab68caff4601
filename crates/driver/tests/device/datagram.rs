//! Datagrams: UD between programs, and QP1 between kernels.

use vrdma_driver::object::{Context, QpShape};
use vrdma_driver::work::{SendWork, datagram};
use vrdma_driver::{End, Fabric, Pair, PairOptions};
use vrdma_pvrdma::abi::completion::{CompletionEntry, wc_flag};
use vrdma_pvrdma::abi::request::qp_type;
use vrdma_wire::Gid;

const GRH_BYTES: u64 = 40;

/// Sends 100 bytes of `a`'s buffer to `b`, which has a receive at the start of its own.
fn send(pair: &mut Pair, qkey: u32) {
    let gid = pair.fabric[pair.b.guest].gid();
    let to = datagram(pair.a.pd, gid, pair.b.qp.qpn, qkey);
    let request = SendWork::send(1).part(&to).sge(pair.a.sge(0, 100));
    pair.send(&request);
}

fn entry(pair: &mut Pair) -> Option<CompletionEntry> {
    let (guest, cq) = (pair.b.guest, pair.b.recv_cq.clone());
    pair.fabric[guest].poll_entry(&cq)
}

#[test]
fn payload_comes_behind_the_header_area() {
    for loopback in [false, true] {
        let mut pair = Pair::with(PairOptions {
            shape: QpShape::UD,
            loopback,
            ..PairOptions::default()
        });
        pair.receive(7, 0, 4096);
        send(&mut pair, Pair::QKEY);
        assert_eq!(pair.sent()[0].status, 0);
        let entry = entry(&mut pair).unwrap();
        assert_eq!(
            (entry.wr_id.get(), entry.opcode.get(), entry.status.get()),
            (7, 128, 0)
        );
        assert_eq!(entry.byte_len.get(), 140);
        assert_eq!(entry.src_qp.get(), pair.a.qp.qpn);
        assert_eq!(
            entry.wc_flags.get(),
            wc_flag::GRH,
            "a program's library takes bit 6 for another"
        );
        assert_eq!(pair.bytes_of_b(GRH_BYTES, 100), pair.bytes_of_a(0, 100));
    }
}

#[test]
fn the_header_area_is_an_ipv6_header() {
    let mut pair = Pair::datagrams();
    pair.receive(7, 0, 4096);
    send(&mut pair, Pair::QKEY);
    let header = pair.bytes_of_b(0, 40);
    assert_eq!(header[0] >> 4, 6);
    assert_eq!(header[6], 17, "UDP: RoCE v2");
    assert_eq!(header[8..24], pair.fabric[0].gid().0);
    assert_eq!(header[24..40], pair.fabric[1].gid().0);
}

#[test]
fn the_header_area_is_an_ipv4_header_behind_zeros() {
    let mut pair = Pair::datagrams();
    let gids = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|address| Gid::from_ipv4(address.into()));
    for (guest, gid) in gids.into_iter().enumerate() {
        pair.fabric[guest].bind_gid(1, gid).unwrap();
    }
    pair.receive(7, 0, 4096);
    let mut to = datagram(pair.a.pd, gids[1], pair.b.qp.qpn, Pair::QKEY);
    to.av.gid_index = 1;
    let request = SendWork::send(1).part(&to).sge(pair.a.sge(0, 100));
    pair.send(&request);
    let header = pair.bytes_of_b(0, 40);
    assert_eq!(header[..20], [0; 20]);
    assert_eq!(header[20], 0x45);
    assert_eq!(header[29], 17);
    assert_eq!(header[32..36], [10, 0, 0, 1]);
    assert_eq!(header[36..40], [10, 0, 0, 2]);
    let words = header[20..40].chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    assert_eq!(
        (sum & 0xffff) + (sum >> 16),
        0xffff,
        "libibverbs knows IPv4 by its checksum"
    );
}

#[test]
fn immediate_data_of_a_datagram() {
    let mut pair = Pair::datagrams();
    pair.receive(7, 0, 4096);
    let gid = pair.fabric[1].gid();
    let to = datagram(pair.a.pd, gid, pair.b.qp.qpn, Pair::QKEY);
    pair.send(&SendWork::send(1).imm([4, 3, 2, 1]).part(&to));
    let entry = entry(&mut pair).unwrap();
    assert_eq!(entry.imm, [4, 3, 2, 1]);
    assert_eq!(entry.wc_flags.get(), wc_flag::GRH | wc_flag::WITH_IMM);
    assert_eq!(entry.byte_len.get(), 40);
}

#[test]
fn a_wrong_key_is_dropped_in_silence() {
    let mut pair = Pair::datagrams();
    pair.receive(7, 0, 4096);
    send(&mut pair, Pair::QKEY + 1);
    assert_eq!(pair.sent()[0].status, 0, "the sender cannot know");
    assert!(entry(&mut pair).is_none());
    assert_eq!(
        pair.fabric[1].device.snapshot().counters.drops.wrong_qkey,
        1
    );
    let port = pair.fabric[1].query_port(1).unwrap();
    assert_eq!(
        (port.bad_pkey_cntr.get(), port.qkey_viol_cntr.get()),
        (0, 1)
    );
}

#[test]
fn bit_31_of_the_key_means_the_queue_pair_s_own() {
    let mut pair = Pair::datagrams();
    pair.receive(7, 0, 4096);
    send(&mut pair, 0x8000_0000);
    assert_eq!(entry(&mut pair).unwrap().status.get(), 0);
}

#[test]
fn without_a_receive_a_datagram_is_lost() {
    let mut pair = Pair::datagrams();
    send(&mut pair, Pair::QKEY);
    assert_eq!(pair.sent()[0].status, 0);
    assert_eq!(
        pair.fabric[1].device.snapshot().counters.drops.no_receive,
        1
    );
}

#[test]
fn to_nobody_s_address_a_datagram_is_lost() {
    let mut pair = Pair::datagrams();
    let nobody = Gid::from_ipv4([1, 2, 3, 4].into());
    let to = datagram(pair.a.pd, nobody, 9, Pair::QKEY);
    pair.send(&SendWork::send(1).part(&to));
    assert_eq!(pair.sent()[0].status, 0);
}

fn gsi(fabric: &mut Fabric, guest: usize) -> End {
    fabric.end(
        guest,
        PairOptions {
            shape: QpShape::GSI,
            kernel: true,
            ..PairOptions::default()
        },
    )
}

/// A management datagram of the CM between two kernels.
#[test]
fn management_datagrams_between_kernels() {
    let mut fabric = Fabric::new();
    let guests = (fabric.add(), fabric.add());
    let a = gsi(&mut fabric, guests.0);
    let b = gsi(&mut fabric, guests.1);
    assert_eq!((a.qp.qpn, b.qp.qpn, a.context), (1, 1, Context::KERNEL));
    fabric[guests.0]
        .start_datagrams(&a.qp, 0x8001_0000)
        .unwrap();
    fabric[guests.1]
        .start_datagrams(&b.qp, 0x8001_0000)
        .unwrap();
    fabric[guests.1]
        .post_recv(&b.qp, 7, &[b.sge(0, 296)])
        .unwrap();
    let to = datagram(a.pd, fabric[guests.1].gid(), 1, 0x8001_0000);
    let request = SendWork::send(1).part(&to).sge(a.sge(0, 256));
    fabric[guests.0].post_send(&a.qp, &request).unwrap();
    fabric.pump();
    let entry = fabric[guests.1].poll_entry(&b.recv_cq).unwrap();
    assert_eq!((entry.byte_len.get(), entry.src_qp.get()), (296, 1));
    assert_eq!(
        entry.wc_flags.get(),
        wc_flag::GRH | wc_flag::WITH_NETWORK_HDR_TYPE
    );
    assert_eq!(entry.network_hdr_type, 2);
    assert_eq!(a.qp.qp_type, qp_type::GSI);
}

#[test]
fn a_short_receive_of_a_datagram_completes_with_an_error() {
    let mut pair = Pair::datagrams();
    pair.receive(7, 0, 100);
    send(&mut pair, Pair::QKEY);
    assert_eq!(pair.sent()[0].status, 0);
    assert_eq!(entry(&mut pair).unwrap().status.get(), 1, "LOC_LEN");
}
