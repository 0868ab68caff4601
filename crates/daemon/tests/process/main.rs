//! Processes and the shard: what works, and how little harm a bad client can do to others.

mod adapters;
mod admission;
mod child;
mod client;
mod enclosed;
mod fast;
mod flushed;
mod host;
mod hostile;
mod hosts;
mod limits;
mod lingering;
mod log;
mod memory;
mod moving;
mod posted;
mod quotas;
mod rules;
mod snapshot;
mod stalling;
mod stopped;
mod survive;
mod survive_connecting;
mod survive_pause;
mod survive_rdma_cm;

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use client::{Client, Host, Memory, QKEY, assert_works, errno, hello, pair, send, write};
use memory::own_memory;
use rustix::io::Errno;
use rustix::net::SendFlags;
use vrdma_api::PollMode;
use vrdma_inventory::ShardOptions;
use vrdma_provider::client::Connection;
use vrdma_provider::layout::{AddressVector, Buffer, SendHeader, opcode, queue_header};
use vrdma_provider::message::{
    AllocPd, AsyncEvent, AttachMcast, DeallocPd, DeregMr, DestroyQp, FindAdapter, Hello,
    ListAdapter, Name, QueryQp, RegMr, element,
};
use vrdma_provider::socket;
use zerocopy::FromBytes;

const LOC_PROT_ERR: u32 = 4;
const WR_FLUSH_ERR: u32 = 5;
const REM_ACCESS_ERR: u32 = 10;
const REM_OP_ERR: u32 = 11;
const RETRY_EXC_ERR: u32 = 12;

/// Receives the next packet from the bare socket.
fn answer_to(client: &Client) -> Result<Option<socket::Packet>, Errno> {
    let flags = rustix::net::RecvFlags::empty();
    socket::receive(client.connection.as_fd(), flags)
}

fn two() -> (Host, Client, Client) {
    let host = Host::with_adapters(2);
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    (host, a, b)
}

#[test]
fn messages_writes_reads_and_atomics_arrive() {
    let (_host, a, b) = two();
    let mut queues = pair(&a, &b);
    assert_works(&a, &b, &mut queues);
    let (from, to) = (Memory::new(&a, 7, 1 << 20), Memory::new(&b, 0, 1 << 20));
    a.post_send(&mut queues.0, write(1, &to), from.buffer());
    assert_eq!((queues.0.wait().status, to.first()), (0, 7));
    let read = SendHeader {
        opcode: opcode::RDMA_READ,
        ..write(
            2,
            &Memory {
                bytes: to.bytes.clone(),
                mr: to.mr,
            },
        )
    };
    let read = SendHeader {
        remote_addr: to.bytes.as_ptr() as u64,
        ..read
    };
    let back = Memory::new(&a, 0, 1 << 20);
    a.post_send(&mut queues.0, read, back.buffer());
    let entry = queues.0.wait();
    assert_eq!(
        (entry.status, entry.opcode, entry.byte_len, back.first()),
        (0, 2, 1 << 20, 7)
    );
    let add = SendHeader {
        opcode: opcode::ATOMIC_FETCH_AND_ADD,
        compare_add: 1,
        ..write(3, &to)
    };
    let old = Memory::new(&a, 0, 8);
    a.post_send(&mut queues.0, add, old.buffer());
    assert_eq!((queues.0.wait().status, old.first(), to.first()), (0, 7, 8));
}

#[test]
fn payload_by_value_needs_no_region() {
    let (_host, a, b) = two();
    let mut queues = pair(&a, &b);
    let to = Memory::new(&b, 0, 64);
    b.post_recv(&mut queues.1, 1, to.buffer());
    let bytes = [9u8; 64];
    let buffer = Buffer {
        addr: bytes.as_ptr() as u64,
        length: 64,
        lkey: 0,
    };
    // SAFETY: the array is alive.
    unsafe { queues.0.send.push_copied(&send(1), &[buffer]) }.unwrap();
    queues.0.send.publish();
    a.ringer.ring(queues.0.reply.doorbell);
    assert_eq!((queues.1.wait().byte_len, to.first()), (64, 9));
}

#[test]
fn a_shard_that_never_sleeps_serves_and_stops() {
    let options = ShardOptions {
        poll: PollMode::Always,
        ..ShardOptions::default()
    };
    let host = Host::with(2, &options);
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut queues = pair(&a, &b);
    let to = Memory::new(&b, 0, 64);
    let from = Memory::new(&a, 5, 64);
    for id in 0..100 {
        a.post_send(&mut queues.0, write(id, &to), from.buffer());
        assert_eq!(queues.0.wait().wr_id, id);
    }
    assert_eq!(to.first(), 5);
}

#[test]
fn a_hello_must_be_right() {
    let host = Host::with_adapters(2);
    let connection = Connection::open(&host.path()).unwrap();
    let memory = own_memory();
    let say = |hello: Hello| errno(connection.call(&hello, &[memory.as_fd()]));
    assert_eq!(
        errno(connection.call(&AllocPd {}, &[])),
        Errno::OPNOTSUPP.raw_os_error()
    );
    let other = Hello {
        version: 99,
        ..hello(0)
    };
    assert_eq!(say(other), Errno::PROTONOSUPPORT.raw_os_error());
    assert_eq!(say(hello(7)), Errno::NODEV.raw_os_error());
    let nameless = Hello {
        adapter: Default::default(),
        ..hello(0)
    };
    assert_eq!(say(nameless), Errno::NODEV.raw_os_error(), "there are two");
    assert_eq!(
        say(Hello {
            nonce: 1,
            ..hello(0)
        }),
        Errno::INVAL.raw_os_error()
    );
    assert_eq!(
        errno(connection.call(&hello(0), &[])),
        Errno::INVAL.raw_os_error()
    );
    let listed = connection
        .call(&ListAdapter { index: 1 }, &[])
        .unwrap()
        .body;
    assert_eq!(
        (
            listed.name.as_str(),
            listed.portgroup.as_str(),
            listed.ip[3]
        ),
        ("c1", "blue", 2)
    );
    assert_eq!(
        errno(connection.call(&ListAdapter { index: 2 }, &[])),
        Errno::NODEV.raw_os_error()
    );
    connection.call(&hello(0), &[memory.as_fd()]).unwrap();
    assert_eq!(say(hello(0)), Errno::ISCONN.raw_os_error());
}

#[test]
fn an_adapter_is_found_by_its_name_among_many() {
    const MANY: u8 = 70;
    let host = Host::with(MANY, &ShardOptions::default());
    let connection = Connection::open(&host.path()).unwrap();
    let find = |name: &str| {
        let name = Name::new(name).unwrap();
        connection.call(&FindAdapter { name }, &[])
    };
    for number in [0, 69] {
        let name = format!("c{number}");
        assert_eq!(find(&name).unwrap().body.name.as_str(), name);
    }
    for name in ["c70", ""] {
        assert_eq!(errno(find(name)), Errno::NODEV.raw_os_error());
    }
}

#[test]
fn rule_p03_garbage_ends_one_connection() {
    let (host, a, b) = two();
    let mut queues = pair(&a, &b);
    let bad = Client::open(&host, 0);
    let raw = |bytes: &[u8]| socket::send(bad.connection.as_fd(), bytes, &[], SendFlags::empty());
    assert_eq!(
        errno(bad.call(&DeallocPd { pd: 0xffff_ffff })),
        Errno::NOENT.raw_os_error()
    );
    raw(&[0xff; 300]).unwrap();
    let answer = answer_to(&bad);
    assert!(answer.unwrap().is_some(), "an unknown code is refused");
    raw(&[1, 2, 3]).unwrap();
    let answer = answer_to(&bad);
    assert!(
        matches!(answer, Ok(None) | Err(Errno::CONNRESET)),
        "no packet at all is"
    );
    assert_works(&a, &b, &mut queues);
}

#[test]
fn rule_p13_objects_of_others_do_not_exist() {
    let (_host, a, b) = two();
    let second = Client::open(&_host, 0);
    let (ours, _) = (a.queues(16), b.queues(16));
    let memory = Memory::new(&a, 0, 64);
    let noent = Errno::NOENT.raw_os_error();
    assert_eq!(errno(second.call(&DestroyQp { qp: ours.reply.qp })), noent);
    assert_eq!(errno(second.call(&QueryQp { qp: ours.reply.qp })), noent);
    assert_eq!(errno(second.call(&DeregMr { mr: memory.mr.mr })), noent);
    assert_eq!(errno(second.call(&DeallocPd { pd: a.pd })), noent);
    let theirs = RegMr {
        pd: a.pd,
        address: 4096,
        length: 1,
        ..RegMr::default()
    };
    assert_eq!(errno(second.call(&theirs)), noent);
}

#[test]
fn rule_p17_a_quota_is_one_client_s() {
    let (host, a, b) = two();
    let greedy = Client::open(&host, 0);
    let refused = (0..1_000_000).find_map(|_| greedy.call(&AllocPd {}).err());
    assert_eq!(refused.unwrap().raw_os_error(), Errno::NOMEM.raw_os_error());
    let mut queues = pair(&a, &b);
    assert_works(&a, &b, &mut queues);
}

#[test]
fn rule_p33_an_impossible_index_fails_its_queue_pair() {
    let (_host, a, b) = two();
    let (mut bad, mut good) = (pair(&a, &b), pair(&a, &b));
    let producer = bad.0.reply.send.header as usize + queue_header::PRODUCER;
    bad.0.area.u32(producer).store(0x8000_0000, Relaxed);
    a.ringer.ring(bad.0.reply.doorbell);
    let mut event = [0; size_of::<AsyncEvent>()];
    rustix::io::read(&a.events, &mut event).unwrap();
    let event = AsyncEvent::read_from_bytes(&event).unwrap();
    assert_eq!(
        (event.event, event.element, event.cookie),
        (1, element::QP, 99)
    );
    // The peer's queue pair is gone.
    let from = Memory::new(&b, 1, 64);
    b.post_send(&mut bad.1, send(1), from.buffer());
    assert_eq!(bad.1.wait().status, RETRY_EXC_ERR);
    assert_works(&a, &b, &mut good);
}

#[test]
fn rule_p34_scribbled_slots_and_doorbells_fail_nobody_else() {
    let (_host, a, b) = two();
    let (mut bad, mut good) = (pair(&a, &b), pair(&a, &b));
    let at = bad.0.reply.send.slots_at as usize;
    bad.0.area.write(at, &[0xff; 4096 - 64]);
    let producer = bad.0.reply.send.header as usize + queue_header::PRODUCER;
    bad.0.area.u32(producer).store(3, Relaxed);
    (0..4096).for_each(|bit| a.ringer.ring(bit));
    let statuses = [bad.0.wait().status, bad.0.wait().status];
    assert!(statuses.iter().all(|status| *status != 0), "{statuses:?}");
    assert_works(&a, &b, &mut good);
}

#[test]
fn rule_p23_a_client_that_goes_takes_its_objects_along() {
    let (host, a, b) = two();
    let third = Client::open(&host, 1);
    let (mut queues, mut good) = (pair(&a, &third), pair(&a, &b));
    let _memory = Memory::new(&third, 0, 64);
    let before = host.objects(1);
    drop(third);
    let from = Memory::new(&a, 1, 64);
    a.post_send(&mut queues.0, send(1), from.buffer());
    assert_eq!(queues.0.wait().status, RETRY_EXC_ERR);
    a.post_send(&mut queues.0, send(2), from.buffer());
    assert_eq!(queues.0.wait().status, WR_FLUSH_ERR);
    assert_works(&a, &b, &mut good);
    let after = host.objects(1);
    assert!(
        after[0] < before[0] && after[3] < before[3],
        "{before:?} {after:?}"
    );
}

#[test]
fn a_multicast_datagram_reaches_every_member() {
    let (_host, a, b) = two();
    let group = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];
    let (mut sender, mut first, mut second) = (a.datagram(), b.datagram(), a.datagram());
    let wrong = AttachMcast {
        qp: first.reply.qp,
        gid: [1; 16],
        lid: 0,
    };
    assert_eq!(errno(b.call(&wrong)), Errno::INVAL.raw_os_error());
    let (at_b, at_a) = (Memory::new(&b, 0, 104), Memory::new(&a, 0, 104));
    for (client, queues, memory) in [(&b, &mut first, &at_b), (&a, &mut second, &at_a)] {
        let request = AttachMcast {
            qp: queues.reply.qp,
            gid: group,
            lid: 0,
        };
        client.call(&request).unwrap();
        client.post_recv(queues, 1, memory.buffer());
    }
    let from = Memory::new(&a, 8, 64);
    let mut header = send(1);
    header.target = 0xff_ffff;
    header.qkey = QKEY;
    header.address = AddressVector {
        dgid: group,
        sgid_index: 1,
        port: 1,
        hop_limit: 1,
        ..AddressVector::default()
    };
    a.post_send(&mut sender, header, from.buffer());
    assert_eq!(sender.wait().status, 0);
    for queues in [&mut first, &mut second] {
        let entry = queues.wait();
        assert_eq!(
            (entry.status, entry.byte_len, entry.src_qp),
            (0, 104, sender.reply.qp_num)
        );
    }
}
