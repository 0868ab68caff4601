//! Raw uplinks opposite a Linux stack with its offloads, and a tunnel opposite Linux's own VXLAN.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::namespace::veth;
use crate::world::{drain, plain, receive, roce};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};
use vrdma_lab::namespace::{enter, shell, wait_for_carrier};
use vrdma_uplink::{Hop, Loss, PeerSpec, Port, Ports, Segment, TunnelConfig};
use vrdma_wire::internet_checksum;

/// Makes another network namespace, moves an interface into it and runs a function there. Sockets that the function
/// opens stay there, and keep the namespace.
fn beyond<T: Send>(interface: &str, inside: impl FnOnce() -> T + Send) -> T {
    let (say, hear) = std::sync::mpsc::channel();
    let (moved, wait) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let there = scope.spawn(move || {
            // SAFETY: only the network namespace of this thread changes; no file table is split.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            say.send(gettid()).unwrap();
            wait.recv().unwrap();
            inside()
        });
        let thread = hear.recv().unwrap().as_raw_nonzero();
        shell(&format!("ip link set {interface} netns {thread}"));
        moved.send(()).unwrap();
        there.join().unwrap()
    })
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Whether the UDP or TCP checksum of an untagged IPv4 frame is right.
fn transport_checksum_is_right(frame: &[u8]) -> bool {
    let (ip, l4) = (
        &frame[14..34],
        &frame[34..14 + usize::from(frame[16]) * 256 + usize::from(frame[17])],
    );
    let mut pseudo = ip[12..20].to_vec();
    pseudo.extend([0, ip[9]]);
    pseudo.extend((l4.len() as u16).to_be_bytes());
    pseudo.extend(l4);
    internet_checksum(&pseudo) == 0 && internet_checksum(ip) == 0
}

#[test]
fn partial_checksums_are_completed() {
    if !enter("kernel::partial_checksums_are_completed") {
        return;
    }
    veth("up0", "up1");
    shell(
        "ip address add 10.9.0.1/24 dev up0; ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev up0",
    );
    let mut ports = Ports::raw("up1").unwrap();
    let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
    for len in [0, 1, 100, 1001] {
        socket.send_to(&vec![0xa5; len], "10.9.0.2:9").unwrap();
        let frames = receive(&mut ports.rest, 1);
        assert_eq!(frames[0].1.len(), 42 + len);
        assert!(transport_checksum_is_right(&frames[0].1), "{len} bytes");
    }
    // UDP to RoCE's port is for the shard, whoever sends it.
    socket.send_to(&[1; 64], "10.9.0.2:4791").unwrap();
    assert_eq!(receive(&mut ports.roce, 1).len(), 1);
}

/// Passes frames on between two ports until a condition holds. Returns how many arrivals were cut into several frames,
/// and the longest frame.
fn bridge_until(a: &mut Port, b: &mut Port, mut done: impl FnMut() -> bool) -> (usize, usize) {
    let (mut cut, mut longest) = (0, 0);
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(
            Instant::now() < end,
            "{:?} {:?}",
            a.counters(),
            b.counters()
        );
        for turn in [true, false] {
            let (from, to) = if turn {
                (&mut *a, &mut *b)
            } else {
                (&mut *b, &mut *a)
            };
            let mut frames = Vec::new();
            let arrivals = drain(from, &mut frames);
            cut += frames.len().saturating_sub(arrivals);
            for (segment, frame) in frames {
                longest = frame.len().max(longest);
                to.send(Hop::to(segment), &frame);
            }
            to.flush();
        }
    }
    (cut, longest)
}

/// Two Linux stacks use TCP through two raw uplinks, and every byte arrives: checksums and segmentation of both sides'
/// offloads are undone.
#[test]
fn tcp_with_offloads_passes() {
    if !enter("kernel::tcp_with_offloads_passes") {
        return;
    }
    veth("up0", "up1");
    veth("up2", "up3");
    shell("ip address add 10.9.0.1/24 dev up0");
    let listener = beyond("up3", || {
        shell("ip address add 10.9.0.2/24 dev up3; ip link set up3 up");
        wait_for_carrier("up3");
        TcpListener::bind("10.9.0.2:7000").unwrap()
    });
    wait_for_carrier("up2");
    let (mut a, mut b) = (Ports::raw("up1").unwrap(), Ports::raw("up2").unwrap());
    let sent: Vec<u8> = (0..4_000_000u32).map(|number| (number / 7) as u8).collect();
    let copy = sent.clone();
    let client = std::thread::spawn(move || {
        let mut stream = TcpStream::connect("10.9.0.2:7000").unwrap();
        stream.write_all(&copy).unwrap();
    });
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut bytes).unwrap();
        bytes
    });
    let (cut, longest) = bridge_until(&mut a.rest, &mut b.rest, || server.is_finished());
    client.join().unwrap();
    assert!(server.join().unwrap() == sent);
    assert!(cut > 0 && longest <= 1514, "{cut} cut, {longest} bytes");
    assert_eq!(a.rest.counters().lost(Loss::Offload), 0);
    assert_eq!(b.rest.counters().lost(Loss::Offload), 0);
}

#[test]
fn linux_vxlan_is_an_ordinary_peer() {
    if !enter("kernel::linux_vxlan_is_an_ordinary_peer") {
        return;
    }
    veth("up0", "up1");
    shell(
        "ip address add 10.9.0.1/24 dev up0
         ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev up0
         ip link add vx type vxlan id 10 local 10.9.0.1 remote 10.9.0.2 dstport 4789
         echo 1 > /proc/sys/net/ipv6/conf/vx/disable_ipv6
         ip link set vx up",
    );
    let mut outer = beyond("up1", || {
        shell(
            "ip link set up1 address 02:00:00:00:00:02; ip address add 10.9.0.2/24 dev up1
             ip link set up1 up",
        );
        wait_for_carrier("up1");
        Ports::tunnel(&TunnelConfig {
            local: "10.9.0.2:4789".parse().unwrap(),
        })
        .unwrap()
    });
    wait_for_carrier("up0");
    let mut inner = Ports::raw("vx").unwrap();
    // The kernel sends each flow from a port of its own.
    let kernel = PeerSpec {
        any_port: true,
        ..address("10.9.0.1:4789").into()
    };
    outer.add_peer(kernel).unwrap();
    for number in 0..50 {
        inner
            .rest
            .send(Hop::to(Segment::Untagged), &plain(1, 2, number));
        inner
            .roce
            .send(Hop::to(Segment::Untagged), &roce(1, 2, number, 1400));
    }
    inner.rest.flush();
    inner.roce.flush();
    let segment = Segment::Vni(10);
    for (number, frame) in receive(&mut outer.rest, 50).into_iter().enumerate() {
        assert_eq!(frame, (segment, plain(1, 2, number as u32)));
    }
    for (number, frame) in receive(&mut outer.roce, 50).into_iter().enumerate() {
        assert_eq!(frame, (segment, roce(1, 2, number as u32, 1400)));
    }
    outer.roce.send(Hop::to(segment), &roce(2, 1, 9, 1400));
    outer.roce.flush();
    assert_eq!(
        receive(&mut inner.roce, 1),
        [(Segment::Untagged, roce(2, 1, 9, 1400))]
    );
}

#[test]
fn a_tunnel_knows_the_mtu_of_its_path() {
    if !enter("kernel::a_tunnel_knows_the_mtu_of_its_path") {
        return;
    }
    veth("up0", "up1");
    shell("ip address add 10.9.0.1/24 dev up0");
    let local = "10.9.0.1:0".parse().unwrap();
    let mut ports = Ports::tunnel(&TunnelConfig { local }).unwrap();
    ports.add_peer(address("10.9.0.2:4789")).unwrap();
    assert_eq!(ports.roce.mtu(), 1450);
    let too_big = |ports: &mut Ports| {
        let whole = roce(1, 2, 0, ports.roce.mtu() as usize + 14 + 1);
        ports.roce.send(Hop::to(Segment::Vni(1)), &whole);
        ports.roce.flush();
        ports.roce.counters().lost(Loss::TooBig)
    };
    assert_eq!(too_big(&mut ports), 1);
    shell("ip link set up0 mtu 9000");
    wait_for_carrier("up0");
    ports.roce.refresh();
    assert_eq!(ports.roce.mtu(), 8950);
    assert_eq!(too_big(&mut ports), 2);
    shell("ip link set up0 mtu 1400");
    // The MTU is known after the first refusal at the latest.
    assert_eq!(too_big(&mut ports), 3);
    assert_eq!(ports.roce.mtu(), 1350);
    // Frames that leave as one message are counted one by one.
    let whole = roce(1, 2, 0, 1365);
    for _ in 0..3 {
        ports.roce.send(Hop::to(Segment::Vni(1)), &whole);
    }
    ports.roce.flush();
    assert_eq!(ports.roce.counters().lost(Loss::TooBig), 6);
}

#[test]
fn ipv6_takes_twenty_bytes_more() {
    if !enter("kernel::ipv6_takes_twenty_bytes_more") {
        return;
    }
    veth("up0", "up1");
    shell(
        "echo 0 > /proc/sys/net/ipv6/conf/up0/disable_ipv6
         ip address add fd09::1/64 dev up0 nodad",
    );
    let local = "[fd09::1]:0".parse().unwrap();
    let mut ports = Ports::tunnel(&TunnelConfig { local }).unwrap();
    ports.add_peer(address("[fd09::2]:4789")).unwrap();
    assert_eq!(ports.roce.mtu(), 1430);
}

/// Datagrams to hosts that are not resolved yet wait in the kernel and fill the socket.
#[test]
fn a_full_socket_says_when_it_has_room() {
    if !enter("kernel::a_full_socket_says_when_it_has_room") {
        return;
    }
    veth("up0", "up1");
    shell("ip address add 10.9.0.1/24 dev up0");
    let local = "10.9.0.1:4789".parse().unwrap();
    let mut ports = Ports::tunnel(&TunnelConfig { local }).unwrap();
    for host in 100..250 {
        let peer = std::net::SocketAddr::from(([10, 9, 0, host], 4789));
        ports.rest.add_peer(peer).unwrap();
    }
    let full = (0..100_000).any(|number| {
        ports
            .rest
            .send(Hop::to(Segment::Vni(1)), &plain(1, 2, number));
        !ports.rest.flush()
    });
    assert!(full && ports.rest.is_waiting());
    assert_eq!(ready(&ports.rest, Duration::ZERO), 0);
    shell(
        "for host in $(seq 100 249); do
             ip neighbour replace 10.9.0.$host lladdr 02:00:00:00:00:02 dev up0
           done",
    );
    assert_eq!(ready(&ports.rest, Duration::from_secs(10)), 1);
    while !ports.rest.flush() {
        assert_eq!(ready(&ports.rest, Duration::from_secs(10)), 1);
    }
    assert!(!ports.rest.is_waiting());
    assert_eq!(ready(&ports.rest, Duration::ZERO), 0);
}

/// Returns 1 if the port's descriptor becomes readable within `patience`, else 0.
fn ready(port: &Port, patience: Duration) -> usize {
    let patience = Timespec::try_from(patience).unwrap();
    poll(&mut [PollFd::new(port, PollFlags::IN)], Some(&patience)).unwrap()
}
