//! Rules about rings and work requests.

use std::sync::atomic::Ordering::Relaxed;

use vrdma_provider::layout::{AddressVector, Buffer, SendHeader, queue_header, send_flag};
use vrdma_provider::message::{AsyncEvent, QueryPort, element};
use zerocopy::FromBytes;

use crate::client::{Client, Host, Memory, QKEY, SHORT, assert_works, pair, send, write};
use crate::{LOC_PROT_ERR, REM_ACCESS_ERR, two};

fn event(client: &Client) -> AsyncEvent {
    let mut event = [0; size_of::<AsyncEvent>()];
    rustix::io::read(&client.events, &mut event).unwrap();
    AsyncEvent::read_from_bytes(&event).unwrap()
}

#[test]
fn rule_p35_an_impossible_index_of_receives_fails_its_queue_pair() {
    let (_host, a, b) = two();
    let (mut bad, mut good) = (pair(&a, &b), pair(&a, &b));
    let producer = bad.1.reply.recv.header as usize + queue_header::PRODUCER;
    bad.1.area.u32(producer).store(0x8000_0000, Relaxed);
    let from = Memory::new(&a, 1, 64);
    a.post_send(&mut bad.0, send(1), from.buffer());
    assert_ne!(bad.0.wait().status, 0);
    let told = event(&b);
    assert_eq!((told.event, told.element), (1, element::QP));
    assert_works(&a, &b, &mut good);
}

#[test]
fn rule_p36_a_completion_queue_that_overflows_fails_alone() {
    let (_host, a, b) = two();
    let mut good = pair(&a, &b);
    let mut bad = a.queues(1);
    a.connect(&bad, 0, bad.reply.qp_num, SHORT);
    let (from, to) = (Memory::new(&a, 1, 64), Memory::new(&a, 0, 64));
    for id in 0..16 {
        a.post_send(&mut bad, write(id, &to), from.buffer());
    }
    let told = event(&a);
    assert_eq!((told.event, told.element), (0, element::CQ));
    assert_works(&a, &b, &mut good);
}

/// Returns the status of a send from `a` with that buffer.
fn status_from(a: &Client, b: &Client, buffer: Buffer) -> u32 {
    let mut queues = pair(a, b);
    let to = Memory::new(b, 0, 4096);
    b.post_recv(&mut queues.1, 1, to.buffer());
    a.post_send(&mut queues.0, send(1), buffer);
    queues.0.wait().status
}

#[test]
fn rule_p37_a_local_key_is_good_for_its_own_client_and_region() {
    let (host, a, b) = two();
    let other = Client::open(&host, 0);
    let (own, theirs) = (Memory::new(&a, 1, 64), Memory::new(&other, 2, 64));
    let own = own.buffer();
    let wrong = [
        theirs.buffer(),
        Buffer { length: 65, ..own },
        Buffer {
            addr: own.addr - 1,
            ..own
        },
        Buffer {
            addr: u64::MAX - 3,
            ..own
        },
        Buffer {
            lkey: own.lkey ^ 1,
            ..own
        },
        Buffer {
            lkey: own.lkey ^ 0x100,
            ..own
        },
    ];
    for buffer in wrong {
        assert_eq!(status_from(&a, &b, buffer), LOC_PROT_ERR, "{buffer:?}");
    }
    assert_eq!(status_from(&a, &b, own), 0);
}

#[test]
fn rule_p38_a_remote_key_is_good_for_its_own_client_and_region() {
    let (host, a, b) = two();
    let other = Client::open(&host, 1);
    let (to, theirs) = (Memory::new(&b, 0, 64), Memory::new(&other, 0, 64));
    let from = Memory::new(&a, 9, 64);
    let good = write(1, &to);
    let wrong = [
        write(1, &theirs),
        SendHeader {
            remote_addr: good.remote_addr + 1,
            ..good
        },
        SendHeader {
            remote_addr: good.remote_addr - 1,
            ..good
        },
        SendHeader {
            remote_addr: u64::MAX - 3,
            ..good
        },
        SendHeader {
            rkey: good.rkey ^ 1,
            ..good
        },
        SendHeader {
            rkey: good.rkey ^ 0x100,
            ..good
        },
    ];
    for header in wrong {
        let mut queues = pair(&a, &b);
        a.post_send(&mut queues.0, header, from.buffer());
        assert_eq!(queues.0.wait().status, REM_ACCESS_ERR, "{header:?}");
    }
    assert_eq!((to.first(), theirs.first()), (0, 0));
}

#[test]
fn rule_p39_work_that_cannot_be_fails_its_queue_pair() {
    let (_host, a, b) = two();
    let mut good = pair(&a, &b);
    let from = Memory::new(&a, 1, 64);
    let plain = SendHeader {
        flags: send_flag::SIGNALED,
        ..send(1)
    };
    let data = |data_offset, data_length| SendHeader {
        flags: send_flag::SIGNALED | send_flag::DATA,
        data_offset,
        data_length,
        ..send(1)
    };
    let strange = [
        (
            SendHeader {
                opcode: 10,
                ..plain
            },
            1,
        ),
        (
            SendHeader {
                opcode: u32::MAX,
                ..plain
            },
            1,
        ),
        (plain, 3),
        (plain, 200),
        (data(u32::MAX, 64), 0),
        (data(0, u32::MAX), 0),
        (data(u32::MAX, u32::MAX), 0),
    ];
    for (header, buffers) in strange {
        let mut queues = pair(&a, &b);
        let to = Memory::new(&b, 0, 4096);
        b.post_recv(&mut queues.1, 1, to.buffer());
        let buffers = vec![from.buffer(); buffers];
        queues.0.send.push(&header, &buffers).unwrap();
        queues.0.send.publish();
        a.ringer.ring(queues.0.reply.doorbell);
        assert_ne!(queues.0.wait().status, 0, "{header:?}");
        assert_eq!(to.first(), 0);
    }
    assert_works(&a, &b, &mut good);
}

/// Makes a datagram with that key, to a queue pair of adapter 1.
pub(crate) fn datagram(target: u32, qkey: u32) -> SendHeader {
    let mut dgid = [0; 16];
    dgid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 2]);
    SendHeader {
        target,
        qkey,
        address: AddressVector {
            dgid,
            sgid_index: 1,
            port: 1,
            hop_limit: 1,
            ..AddressVector::default()
        },
        ..send(1)
    }
}

#[test]
fn rule_p40_a_datagram_with_another_key_is_counted_and_not_taken() {
    let host = Host::with_adapters(2);
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let (mut from, mut to) = (a.datagram(), b.datagram());
    let room = Memory::new(&b, 0, 104);
    b.post_recv(&mut to, 1, room.buffer());
    let (wrong, right) = (Memory::new(&a, 7, 32), Memory::new(&a, 8, 64));
    let told = || b.call(&QueryPort {}).unwrap().bad_qkeys;
    let before = told();
    a.post_send(
        &mut from,
        datagram(to.reply.qp_num, QKEY ^ 1),
        wrong.buffer(),
    );
    a.post_send(&mut from, datagram(to.reply.qp_num, QKEY), right.buffer());
    let entry = to.wait();
    assert_eq!(told(), before + 1);
    assert_eq!((entry.status, entry.byte_len), (0, 104), "the second one");
}
