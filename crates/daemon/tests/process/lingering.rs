//! Descriptors whose `close` takes as long as their sender likes: here a socket with unsent data that is to linger for
//! an hour. A client that sends one delays no other client; otherwise these tests would last that long.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, socket as open_socket,
};
use vrdma_provider::VERSION;
use vrdma_provider::cm::{CreateChannel, Greet};
use vrdma_provider::message::{Call, Header, ListAdapter, Name, PACKET_MAX, encode};
use vrdma_provider::socket;

use crate::client::{Host, assert_works, pair};
use crate::two;

/// Makes the descriptor, and its peer, which has to stay until the end.
fn lingering() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[0; 65536]).is_ok() {}
    set_socket_linger(&socket, Some(Duration::from_secs(3600))).unwrap();
    (socket.into(), peer)
}

fn connected(host: &Host) -> OwnedFd {
    let socket = open_socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(host.path()).unwrap()).unwrap();
    socket
}

/// Sends a packet with the descriptor. The daemon's copy is then the last one.
fn send_with(socket: &OwnedFd, packet: &[u8], file: OwnedFd) {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    // A daemon that hung up already has closed it.
    let _sent = socket::send(socket.as_fd(), packet, &[file.as_fd()], flags);
    // If the daemon has closed its copy before this, ours is the last one; nobody waits for the thread that closes it.
    std::thread::spawn(move || drop(file));
}

fn packet<T: Call>(request: &T) -> Vec<u8> {
    encode(Header::of::<T>(0), request, &mut [0; PACKET_MAX]).to_vec()
}

#[test]
fn behind_something_that_is_no_request() {
    let (host, a, b) = two();
    let mut queues = pair(&a, &b);
    let mut peers = Vec::new();
    for _ in 0..20 {
        let (file, peer) = lingering();
        let socket = connected(&host);
        socket::send(socket.as_fd(), &[1, 2, 3], &[], SendFlags::empty()).unwrap();
        send_with(&socket, &[1, 2, 3], file);
        peers.push(peer);
        drop(socket);
        assert_works(&a, &b, &mut queues);
    }
}

#[test]
fn with_a_request_of_connection_management() {
    let (host, a, b) = two();
    let mut queues = pair(&a, &b);
    let socket = connected(&host);
    let greet = Greet {
        version: VERSION,
        reserved: 0,
        adapter: Name::default(),
    };
    socket::send(socket.as_fd(), &packet(&greet), &[], SendFlags::empty()).unwrap();
    let mut peers = Vec::new();
    for _ in 0..4 {
        let (file, peer) = lingering();
        send_with(&socket, &packet(&CreateChannel {}), file);
        peers.push(peer);
        assert_works(&a, &b, &mut queues);
    }
}

#[test]
fn rule_p10_descriptors_that_nobody_wants_delay_nobody() {
    let (host, a, b) = two();
    let mut queues = pair(&a, &b);
    let socket = connected(&host);
    let mut peers = Vec::new();
    for _ in 0..4 {
        let (file, peer) = lingering();
        send_with(&socket, &packet(&ListAdapter { index: 0 }), file);
        peers.push(peer);
        assert_works(&a, &b, &mut queues);
    }
}
