//! Rules about handles, sizes, states, and regions.

use rustix::io::Errno;
use vrdma_provider::message::{
    AllocPd, AttachMcast, Call, CreateCq, CreateQp, CreateSrq, DeallocMw, DeallocPd, DeregMr,
    DestroyChannel, DestroyCq, DestroyQp, DestroySrq, DetachMcast, ModifyQp, NO_CHANNEL,
    QpAttributes, QpCapacity, QueryQp, QuerySrq, RegMr, ResizeCq, access, qp_type,
};

use crate::client::{Client, Host, Memory, SHORT, errno};

const BUSY: i32 = Errno::BUSY.raw_os_error();
const INVAL: i32 = Errno::INVAL.raw_os_error();
const NOENT: i32 = Errno::NOENT.raw_os_error();

/// A multicast group.
const GROUP: [u8; 16] = [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3];

fn client() -> (Host, Client) {
    let host = Host::with_adapters(1);
    let client = Client::open(&host, 0);
    (host, client)
}

fn refusal<T: Call>(client: &Client, request: &T) -> i32
where
    T::Reply: std::fmt::Debug,
{
    errno(
        client
            .connection
            .call(request, &[])
            .map(|answer| answer.body),
    )
}

fn cq(entries: u32) -> CreateCq {
    CreateCq {
        cookie: 1,
        entries,
        channel: NO_CHANNEL,
    }
}

fn capacity(count: u32) -> QpCapacity {
    QpCapacity {
        max_send_wr: count,
        max_recv_wr: count,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: 0,
    }
}

fn queue_pair(client: &Client, cq: u32) -> CreateQp {
    CreateQp {
        cookie: 1,
        pd: client.pd,
        qp_type: qp_type::RC,
        send_cq: cq,
        recv_cq: cq,
        capacity: capacity(1),
        ..CreateQp::default()
    }
}

#[test]
fn rule_p14_handles_that_never_were_are_refused() {
    let (_host, client) = client();
    for number in [77, 0x00ff_ffff, 0x7fff_ffff, u32::MAX] {
        let client = &client;
        let refusals = [
            refusal(client, &DeallocPd { pd: number }),
            refusal(client, &DeregMr { mr: number }),
            refusal(client, &DeallocMw { mw: number }),
            refusal(client, &DestroyChannel { channel: number }),
            refusal(client, &DestroyCq { cq: number }),
            refusal(
                client,
                &ResizeCq {
                    cq: number,
                    entries: 8,
                },
            ),
            refusal(client, &DestroySrq { srq: number }),
            refusal(client, &QuerySrq { srq: number }),
            refusal(client, &DestroyQp { qp: number }),
            refusal(client, &QueryQp { qp: number }),
        ];
        assert_eq!(refusals, [NOENT; 10], "{number}");
        let in_no_domain = RegMr {
            pd: number,
            address: 4096,
            length: 1,
            ..RegMr::default()
        };
        assert_eq!(refusal(client, &in_no_domain), NOENT);
        assert_ne!(refusal(client, &queue_pair(client, number)), 0);
    }
}

#[test]
fn rule_p15_what_is_destroyed_is_gone() {
    let (_host, client) = client();
    let pd = client.call(&AllocPd {}).unwrap().pd;
    client.call(&DeallocPd { pd }).unwrap();
    assert_eq!(refusal(&client, &DeallocPd { pd }), NOENT);
    let mr = client.register(4096, 1).mr;
    client.call(&DeregMr { mr }).unwrap();
    assert_eq!(refusal(&client, &DeregMr { mr }), NOENT);
    let qp = client.queues(1).reply.qp;
    client.call(&DestroyQp { qp }).unwrap();
    assert_eq!(refusal(&client, &DestroyQp { qp }), NOENT);
    assert_eq!(refusal(&client, &QueryQp { qp }), NOENT);
}

#[test]
fn rule_p16_what_is_in_use_stays() {
    let (_host, client) = client();
    let cq = client.connection.call(&cq(4), &[]).unwrap().body.cq;
    let made = client
        .connection
        .call(&queue_pair(&client, cq), &[])
        .unwrap();
    let pd = client.pd;
    assert_eq!(refusal(&client, &DestroyCq { cq }), BUSY);
    assert_eq!(refusal(&client, &DeallocPd { pd }), BUSY);
    client.call(&DestroyQp { qp: made.body.qp }).unwrap();
    let mr = client.register(4096, 1).mr;
    assert_eq!(refusal(&client, &DeallocPd { pd }), BUSY);
    client.call(&DeregMr { mr }).unwrap();
    client.call(&DestroyCq { cq }).unwrap();
    client.call(&DeallocPd { pd }).unwrap();
}

#[test]
fn rule_p20_queues_beyond_the_limits_are_refused() {
    let (host, client) = client();
    let before = host.objects(0);
    for entries in [0, 1 << 30, u32::MAX] {
        assert_eq!(refusal(&client, &cq(entries)), INVAL, "{entries}");
    }
    let made = client.connection.call(&cq(4), &[]).unwrap().body.cq;
    let sizes: [fn(&mut QpCapacity) -> &mut u32; 5] = [
        |of| &mut of.max_send_wr,
        |of| &mut of.max_recv_wr,
        |of| &mut of.max_send_sge,
        |of| &mut of.max_recv_sge,
        |of| &mut of.max_inline,
    ];
    for size in sizes {
        for count in [1 << 20, u32::MAX] {
            let mut request = queue_pair(&client, made);
            *size(&mut request.capacity) = count;
            assert_eq!(refusal(&client, &request), INVAL, "{count}");
        }
    }
    for (max_wr, max_sge) in [(u32::MAX, 1), (1, u32::MAX)] {
        let request = CreateSrq {
            cookie: 1,
            pd: client.pd,
            max_wr,
            max_sge,
            limit: 0,
        };
        assert_eq!(refusal(&client, &request), INVAL);
    }
    client.call(&DestroyCq { cq: made }).unwrap();
    assert_eq!(host.objects(0), before);
}

#[test]
fn rule_p21_queue_pairs_of_kinds_that_there_are_not_are_refused() {
    let (_host, client) = client();
    let cq = client.connection.call(&cq(4), &[]).unwrap().body.cq;
    let known = [qp_type::RC, qp_type::UC, qp_type::UD];
    for kind in (0..256)
        .chain([u32::MAX])
        .filter(|kind| !known.contains(kind))
    {
        let request = CreateQp {
            qp_type: kind,
            ..queue_pair(&client, cq)
        };
        assert_eq!(refusal(&client, &request), Errno::OPNOTSUPP.raw_os_error());
    }
}

#[test]
fn rule_p22_states_have_their_order_and_attributes_their_ranges() {
    let (_host, client) = client();
    let queues = client.queues(4);
    let modify = |mask, attributes| ModifyQp {
        qp: queues.reply.qp,
        mask,
        attributes,
    };
    let to = |state| QpAttributes {
        state,
        port: 1,
        ..QpAttributes::default()
    };
    for state in [2, 3, 4, 5, 7, 77, u32::MAX] {
        assert_eq!(refusal(&client, &modify(1, to(state))), INVAL, "{state}");
    }
    let wrong_port = QpAttributes { port: 2, ..to(1) };
    assert_eq!(
        refusal(&client, &modify(1 | 8 | 16 | 32, wrong_port)),
        INVAL
    );
    // A connected queue pair does not begin anew.
    client.connect(&queues, 0, queues.reply.qp_num, SHORT);
    for state in [1, 2] {
        assert_eq!(refusal(&client, &modify(1, to(state))), INVAL, "{state}");
    }
}

#[test]
fn rule_p24_only_datagram_queue_pairs_join_and_only_groups() {
    let (_host, client) = client();
    let (connected, datagram) = (client.queues(4).reply.qp, client.datagram().reply.qp);
    let join = |qp, gid| AttachMcast { qp, gid, lid: 0 };
    assert_eq!(refusal(&client, &join(connected, GROUP)), INVAL);
    for gid in [[0; 16], [1; 16], [0xfe; 16]] {
        assert_eq!(refusal(&client, &join(datagram, gid)), INVAL);
    }
    let leave = DetachMcast {
        qp: datagram,
        gid: GROUP,
        lid: 0,
    };
    assert_ne!(refusal(&client, &leave), 0, "it has not joined");
    client.call(&join(datagram, GROUP)).unwrap();
    client.call(&leave).unwrap();
}

#[test]
fn rule_p25_a_region_does_not_go_beyond_the_end_of_the_address_space() {
    let (_host, client) = client();
    for (address, length) in [(u64::MAX, 2), (u64::MAX - 10, 100), (4096, u64::MAX)] {
        let request = RegMr {
            pd: client.pd,
            address,
            length,
            access: access::LOCAL_WRITE,
            ..RegMr::default()
        };
        assert_eq!(refusal(&client, &request), INVAL, "{address:#x} {length}");
    }
}

#[test]
fn rule_p26_rights_of_a_region_go_together() {
    let (_host, client) = client();
    let memory = Memory::new(&client, 0, 64);
    let unknown = 1 << 18;
    for rights in [access::REMOTE_WRITE, access::REMOTE_ATOMIC, unknown] {
        let request = RegMr {
            pd: client.pd,
            address: memory.bytes.as_ptr() as u64,
            length: 64,
            access: rights,
            ..RegMr::default()
        };
        assert_eq!(refusal(&client, &request), INVAL, "{rights:#x}");
    }
}
