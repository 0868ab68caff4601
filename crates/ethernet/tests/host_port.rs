//! The host's own IP stack in a port group, beside a process adapter: a TAP in a network namespace of the test's own.

use std::net::{IpAddr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket, sockopt,
};
use vrdma_ethernet::{Behind, EthernetPort};
use vrdma_lab::namespace::{enter, shell};
use vrdma_switch::{GroupId, PortId};
use vrdma_threads::mailbox;
use vrdma_uplink::Tap;
use vrdma_wire::{Gid, Mac};

const HOST: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
const ADAPTER: Mac = Mac([0x52, 0x54, 0, 0, 0, 2]);

/// Types of an echo and its answer, and the beginning of a received packet (ping(8), icmp(7), icmp6(7)).
struct Ping {
    family: AddressFamily,
    protocol: rustix::net::Protocol,
    request: u8,
    reply: u8,
    header: usize,
}

const V4: Ping = Ping {
    family: AddressFamily::INET,
    protocol: ipproto::ICMP,
    request: 8,
    reply: 0,
    header: 20,
};
const V6: Ping = Ping {
    family: AddressFamily::INET6,
    protocol: ipproto::ICMPV6,
    request: 128,
    reply: 129,
    header: 0,
};

impl Ping {
    /// Sends an echo, and waits for the answer.
    fn send(&self, to: IpAddr) {
        let socket = socket(self.family, SocketType::RAW, Some(self.protocol)).unwrap();
        let patience = std::time::Duration::from_secs(20);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(patience)).unwrap();
        let mut echo = [self.request, 0, 0, 0, 0x12, 0x34, 0, 1];
        // The kernel fills the checksum in for ICMPv6.
        let sum = 0xffff - (u32::from(self.request) << 8) - 0x1234 - 1;
        echo[2..4].copy_from_slice(&(sum as u16).to_be_bytes());
        let address = SocketAddr::new(to, 0);
        sendto(&socket, &echo, SendFlags::empty(), &address).unwrap();
        let mut answer = [0; 256];
        loop {
            let (length, _) =
                recv(&socket, &mut answer, RecvFlags::empty()).expect("no answer came");
            let message = &answer[self.header..length];
            if message[0] == self.reply && message[4..8] == echo[4..8] {
                return;
            }
        }
    }
}

#[test]
fn the_host_pings_an_adapter_of_processes() {
    if !enter("the_host_pings_an_adapter_of_processes") {
        return;
    }
    let (handle, thread) = vrdma_ethernet::start(
        vec![mailbox().unwrap().0],
        &Default::default(),
        Default::default(),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let port = |port: u32, mac: Mac, behind| EthernetPort {
        name: format!("port{port}").parse().unwrap(),
        port: PortId(port),
        group: GroupId(0),
        segment: Default::default(),
        mac,
        may_send_roce: false,
        kept: Default::default(),
        away: false,
        past: Default::default(),
        behind,
    };
    let tap = Tap::open("vr0", HOST.0, Some("10.9.0.1".parse().unwrap())).unwrap();
    let ip = Gid::from_ipv4("10.9.0.2".parse().unwrap());
    // IPv6 needs a network of its own: the interface's link-local one waits a second for others with the same address,
    // unless told not to.
    shell("ip -6 address add fd09::1/64 dev vr0 nodad");
    let far = "fd09::2".parse::<std::net::Ipv6Addr>().unwrap();
    let addresses = vec![Gid::link_local(ADAPTER), ip, Gid(far.octets())];
    for port in [
        port(0, HOST, Behind::Host(tap)),
        port(1, ADAPTER, Behind::Nobody(addresses)),
    ] {
        runtime.block_on(handle.add_port(port)).unwrap();
    }
    V4.send("10.9.0.2".parse().unwrap());
    V6.send(far.into());
    let counted = runtime.block_on(handle.snapshot()).unwrap();
    let (_, of_host) = &counted[0];
    assert!(of_host.connected && of_host.tx_frames >= 4 && of_host.rx_frames >= 4);
    handle.stop();
    thread.join().unwrap();
}
