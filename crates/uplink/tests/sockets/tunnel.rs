//! Tunnels over loopback, without any right.

use std::net::SocketAddr;
use std::time::Instant;

use crate::world::{PATIENCE, overrun, plain, receive, roce};
use vrdma_uplink::{
    Complaint, Hop, Loss, OpenError, PeerSpec, Port, Ports, Received, Segment, TunnelConfig,
};
use vrdma_wire::Mac;

const RED: Segment = Segment::Vni(10);

/// Opens a tunnel at an address. The kernel names a free port; another test may take it before both sockets have it.
fn tunnel(text: &str) -> Ports {
    let local: SocketAddr = text.parse().unwrap();
    loop {
        match Ports::tunnel(&TunnelConfig { local }) {
            Err(OpenError::InUse(_)) if local.port() == 0 => {}
            opened => break opened.unwrap(),
        }
    }
}

fn local(port: &Port) -> SocketAddr {
    port.local().unwrap()
}

/// Makes two tunnels that are peers of each other.
fn pair(any: &str) -> (Ports, Ports) {
    let (mut a, mut b) = (tunnel(any), tunnel(any));
    a.add_peer(local(&b.roce)).unwrap();
    b.add_peer(local(&a.roce)).unwrap();
    (a, b)
}

#[test]
fn frames_are_sorted_between_the_ports() {
    for any in ["127.0.0.1:0", "[::1]:0"] {
        let (mut a, mut b) = pair(any);
        for number in 0..100 {
            a.roce.send(Hop::to(RED), &roce(1, 2, number, 200));
            a.rest.send(Hop::to(RED), &plain(1, 2, number));
        }
        assert!(a.roce.flush() && a.rest.flush());
        let frames = receive(&mut b.roce, 100);
        for (number, frame) in frames.into_iter().enumerate() {
            assert_eq!(frame, (RED, roce(1, 2, number as u32, 200)));
        }
        let frames = receive(&mut b.rest, 100);
        for (number, frame) in frames.into_iter().enumerate() {
            assert_eq!(frame, (RED, plain(1, 2, number as u32)));
        }
        assert_eq!(a.roce.counters().sent_frames, 100);
        assert_eq!(b.roce.counters().received_bytes, 100 * 200);
    }
}

#[test]
fn a_learned_station_is_not_flooded() {
    let mut hub = tunnel("127.0.0.1:0");
    let mut leaves = [tunnel("127.0.0.1:0"), tunnel("127.0.0.1:0")];
    for leaf in &mut leaves {
        hub.add_peer(local(&leaf.rest)).unwrap();
        leaf.add_peer(local(&hub.rest)).unwrap();
    }
    hub.rest.send(Hop::to(RED), &plain(9, 1, 0));
    hub.rest.flush();
    for leaf in &mut leaves {
        assert_eq!(receive(&mut leaf.rest, 1)[0].1, plain(9, 1, 0));
    }
    leaves[0].rest.send(Hop::to(RED), &plain(1, 9, 1));
    leaves[0].rest.flush();
    receive(&mut hub.rest, 1);
    hub.rest.send(Hop::to(RED), &plain(9, 1, 2));
    // Another tenant's station with the same address is a different station.
    hub.rest.send(Hop::to(Segment::Vni(11)), &plain(9, 1, 3));
    hub.rest.flush();
    let first = receive(&mut leaves[0].rest, 2);
    assert_eq!(
        first,
        [(RED, plain(9, 1, 2)), (Segment::Vni(11), plain(9, 1, 3))]
    );
    let second = receive(&mut leaves[1].rest, 1);
    assert_eq!(second, [(Segment::Vni(11), plain(9, 1, 3))]);
}

#[test]
fn a_forged_station_is_counted_named_and_draws_nothing_away() {
    let mut hub = tunnel("127.0.0.1:0");
    let mut leaves = [tunnel("127.0.0.1:0"), tunnel("127.0.0.1:0")];
    for leaf in &mut leaves {
        hub.add_peer(local(&leaf.rest)).unwrap();
        leaf.add_peer(local(&hub.rest)).unwrap();
    }
    for (number, leaf) in leaves.iter_mut().enumerate() {
        leaf.rest.send(Hop::to(RED), &plain(1, 9, number as u32));
        leaf.rest.flush();
        receive(&mut hub.rest, 1);
    }
    assert_eq!(hub.rest.counters().contested, 1);
    let Some(Complaint::Conflict(conflict)) = hub.rest.take_complaint() else {
        panic!("nothing is told");
    };
    let [owner, forger] = leaves.each_ref().map(|leaf| local(&leaf.rest));
    assert_eq!((conflict.peer, conflict.other), (owner, forger));
    hub.rest.send(Hop::to(RED), &plain(9, 1, 7));
    // A frame to everybody, so that the forger has something to wait for.
    hub.rest.send(Hop::to(RED), &plain(9, 5, 8));
    hub.rest.flush();
    assert_eq!(receive(&mut leaves[0].rest, 2)[0].1, plain(9, 1, 7));
    assert_eq!(receive(&mut leaves[1].rest, 1), [(RED, plain(9, 5, 8))]);
}

#[test]
fn strangers_and_nonsense_are_counted_and_dropped() {
    let (a, mut b) = pair("127.0.0.1:0");
    let peer = local(&a.rest);
    let stranger = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
    let whole = [&[8, 0, 0, 0, 0, 0, 10, 0][..], &plain(1, 2, 1)].concat();
    stranger.send_to(&whole, local(&b.rest)).unwrap();
    // Only a peer may use its own address, so nonsense comes from a socket in its place.
    drop(a);
    let former = std::net::UdpSocket::bind(peer).unwrap();
    for nonsense in [&[][..], &[8; 7], &[0; 70], &[8, 0, 0, 0, 0, 0, 1, 0, 1, 2]] {
        former.send_to(nonsense, local(&b.rest)).unwrap();
    }
    former.send_to(&whole, local(&b.rest)).unwrap();
    assert_eq!(receive(&mut b.rest, 1).len(), 1);
    assert_eq!(b.rest.counters().lost(Loss::UnknownPeer), 1);
    assert_eq!(b.rest.counters().lost(Loss::Malformed), 4);
}

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn add(ports: &mut Ports, to: &Ports, keys: Option<&str>) {
    let peer = PeerSpec {
        keys: keys.map(|keys| keys.parse().unwrap()),
        ..local(&to.roce).into()
    };
    ports.add_peer(peer).unwrap();
}

/// Serves both ports of both ends until a condition holds.
fn serve(ends: [&mut Ports; 2], mut done: impl FnMut([&Ports; 2]) -> bool) -> Vec<Vec<u8>> {
    let [a, b] = ends;
    let end = Instant::now() + PATIENCE;
    let mut frames = Vec::new();
    while !done([a, b]) {
        assert!(
            Instant::now() < end,
            "{:?} {:?}",
            a.roce.counters(),
            b.roce.counters()
        );
        for port in [&mut a.roce, &mut a.rest, &mut b.roce, &mut b.rest] {
            let mut sink = |received: Received<'_>| {
                frames.push(received.frame.to_vec());
                true
            };
            port.receive(&mut sink).unwrap();
        }
    }
    frames
}

/// Sends one frame of each sort both ways until all arrive, which takes until there are sessions.
fn meet(a: &mut Ports, b: &mut Ports) {
    let end = Instant::now() + PATIENCE;
    let count = |ports: &Ports| [&ports.roce, &ports.rest].map(|it| it.counters().received_frames);
    while [count(a), count(b)].concat().contains(&0) {
        assert!(Instant::now() < end);
        for ports in [&mut *a, &mut *b] {
            ports.roce.send(Hop::to(RED), &roce(1, 2, 0, 100));
            ports.rest.send(Hop::to(RED), &plain(1, 2, 0));
            ports.roce.refresh();
            ports.rest.refresh();
            ports.roce.flush();
            ports.rest.flush();
        }
        serve([&mut *a, &mut *b], |_| true);
        let mut once = false;
        serve([&mut *a, &mut *b], |_| std::mem::replace(&mut once, true));
    }
}

#[test]
fn a_tunnel_with_a_key_carries_frames_of_both_ports() {
    for any in ["127.0.0.1:0", "[::1]:0"] {
        let (mut a, mut b) = (tunnel(any), tunnel(any));
        let mtu = a.roce.mtu();
        add(&mut a, &b, None);
        let clear = a.roce.mtu();
        a.roce.remove_peer(local(&b.roce));
        a.rest.remove_peer(local(&b.roce));
        add(&mut a, &b, Some(KEY));
        assert_eq!(a.roce.mtu(), clear - 32, "{mtu}");
        add(&mut b, &a, Some(KEY));
        meet(&mut a, &mut b);
        // Frames sent one by one, in place, from another shard, and frames that belong to the other port.
        let mut sender = a.roce.sender().unwrap();
        let before = a.roce.counters().sent_bytes;
        a.roce.send(Hop::to(RED), &roce(1, 2, 1, 1000));
        let (hop, to) = (Hop::to(RED), Mac([2, 0, 0, 0, 0, 1]));
        let lengths = [100, 100, 70];
        let in_place = a.roce.send_in_place(hop, to, &lengths, &mut |rooms| {
            for (room, number) in rooms.iter_mut().zip(2..) {
                let frame = roce(1, 1, number, room.len());
                room.copy_from_slice(&frame);
            }
            true
        });
        assert!(in_place);
        sender.send(Hop::to(RED), &roce(1, 2, 5, 100));
        a.roce.send(Hop::to(RED), &plain(1, 2, 6));
        a.roce.flush();
        sender.flush();
        let whole = 1000 + 270 + plain(1, 2, 6).len() as u64;
        assert_eq!(a.roce.counters().sent_bytes - before, whole);
        let (roce_before, rest_before) = (
            b.roce.counters().received_frames,
            b.rest.counters().received_frames,
        );
        let frames = serve([&mut a, &mut b], |[_, b]| {
            b.roce.counters().received_frames >= roce_before + 5
                && b.rest.counters().received_frames > rest_before
        });
        for frame in [
            roce(1, 1, 2, 100),
            roce(1, 1, 4, 70),
            roce(1, 2, 5, 100),
            plain(1, 2, 6),
        ] {
            assert!(frames.contains(&frame), "{frames:?}");
        }
    }
}

#[test]
fn another_key_and_none_are_counted_and_told() {
    let cases = [
        (Some(OTHER), Some(KEY), Loss::WrongKey, "has another key"),
        (None, Some(KEY), Loss::Unsealed, "sends in the clear"),
        (Some(KEY), None, Loss::Unsealed, "seals what it sends"),
    ];
    for (theirs, ours, loss, said) in cases {
        let (mut a, mut b) = (tunnel("127.0.0.1:0"), tunnel("127.0.0.1:0"));
        add(&mut b, &a, ours);
        add(&mut a, &b, theirs);
        for port in [&mut a.roce, &mut a.rest] {
            port.send(Hop::to(RED), &plain(1, 2, 0));
            port.flush();
        }
        if theirs.is_some() {
            assert_eq!(a.rest.counters().lost(Loss::NoSession), 1);
        }
        let frames = serve([&mut a, &mut b], |[_, b]| b.rest.counters().lost(loss) > 0);
        assert!(frames.is_empty());
        let told = b.rest.take_complaint().unwrap().to_string();
        assert!(told.contains(said), "{told}");
    }
}

#[test]
fn frames_that_cannot_be_sent_are_counted() {
    let mut lonely = tunnel("127.0.0.1:0");
    lonely.rest.send(Hop::to(RED), &plain(1, 2, 0));
    lonely
        .rest
        .send(Hop::to(Segment::Untagged), &plain(1, 2, 0));
    lonely
        .rest
        .send(Hop::to(Segment::Vni(1 << 24)), &plain(1, 2, 0));
    lonely.rest.send(Hop::to(RED), &[0; 13]);
    let counters = lonely.rest.counters();
    assert_eq!(counters.lost(Loss::NoPeer), 1);
    assert_eq!(counters.lost(Loss::Segment), 2);
    assert_eq!(counters.lost(Loss::Runt), 1);
}

#[test]
fn addresses_that_cannot_be_are_explained() {
    let first = tunnel("127.0.0.1:0");
    let taken = local(&first.roce);
    let again = Ports::tunnel(&TunnelConfig { local: taken }).unwrap_err();
    assert!(
        matches!(again, OpenError::InUse(address) if address == taken),
        "{again}"
    );
    let elsewhere = "192.0.2.77:0".parse().unwrap();
    let error = Ports::tunnel(&TunnelConfig { local: elsewhere }).unwrap_err();
    assert!(matches!(error, OpenError::NotLocal(_)), "{error}");
}

#[test]
fn faults_lose_what_they_should() {
    let (mut a, mut b) = pair("127.0.0.1:0");
    a.set_faults("loss=100%".parse().unwrap());
    a.roce.send(Hop::to(RED), &roce(1, 2, 0, 100));
    a.set_faults("delay=1ms".parse().unwrap());
    a.roce.send(Hop::to(RED), &roce(1, 2, 1, 100));
    let due = a.roce.next_deadline().unwrap();
    while a.roce.next_deadline() == Some(due) {
        a.roce.release();
    }
    a.roce.flush();
    assert_eq!(receive(&mut b.roce, 1), [(RED, roce(1, 2, 1, 100))]);
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let (mut a, mut b) = pair("127.0.0.1:0");
    overrun(&mut a.roce, &mut b.roce, RED);
}
