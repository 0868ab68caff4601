//! Guests' packets that are longer than a tunnel carries: their senders are told, or the packets are cut.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use vrdma_api::MacAddress;
use vrdma_wire::internet_checksum;

use super::{Medium, World};
use vrdma_lab::namespace::enter;

/// The cable's 1500 bytes without Ethernet, IPv4, UDP and VXLAN headers.
const MTU: u16 = 1450;

const PATIENCE: Duration = Duration::from_secs(20);

/// A guest's network card.
struct Card {
    stream: UnixStream,
    mac: [u8; 6],
}

impl Card {
    fn plug(world: &World, host: usize, name: &str) -> Self {
        let socket = world.daemons[host].add_vm(name);
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mac = MacAddress::derived_from(&name.parse().unwrap()).octets();
        Self { stream, mac }
    }

    fn send(&mut self, frame: &[u8]) {
        let length = (frame.len() as u32).to_be_bytes();
        self.stream
            .write_all(&[&length[..], frame].concat())
            .unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).unwrap();
        frame
    }
}

/// Makes an IPv4 packet of 1500 bytes.
fn packet(from: &Card, to: &Card, flags: u8) -> Vec<u8> {
    let mut header = [
        0x45, 0, 5, 0xdc, 0, 7, flags, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 1, 0, 2,
    ];
    let sum = internet_checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    [&to.mac[..], &from.mac, &[8, 0], &header, &[0x5a; 1480]].concat()
}

#[test]
fn what_a_tunnel_does_not_carry_is_told_or_cut() {
    if !enter("hosts::too_long::what_a_tunnel_does_not_carry_is_told_or_cut") {
        return;
    }
    let world = World::new(Medium::Tunnel);
    let mut ours = Card::plug(&world, 0, "v0");
    let mut theirs = Card::plug(&world, 1, "v1");
    let whole = packet(&ours, &theirs, 0x40);
    ours.send(&whole);
    let told = ours.receive();
    assert_eq!((&told[..6], &told[6..12]), (&ours.mac[..], &theirs.mac[..]));
    assert_eq!(
        (told[23], &told[34..36]),
        (1, &[3, 4][..]),
        "fragmentation needed"
    );
    assert_eq!(told[40..42], MTU.to_be_bytes());
    assert_eq!(world.daemons[0].ethernet().drops["too-big"], 1);

    let whole = packet(&ours, &theirs, 0);
    ours.send(&whole);
    let pieces = [theirs.receive(), theirs.receive()];
    assert!(
        pieces
            .iter()
            .all(|piece| piece.len() <= 14 + usize::from(MTU))
    );
    let data = pieces.map(|piece| piece[34..].to_vec()).concat();
    assert_eq!(data, whole[34..]);
    assert_eq!(world.daemons[0].ethernet().drops["too-big"], 1);
}
