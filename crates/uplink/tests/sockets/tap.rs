//! A TAP interface, from both of its ends.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vrdma_lab::namespace::{enter, enter_without_network};
use vrdma_uplink::{Tap, TapError};

const HOST: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
const PEER: [u8; 6] = [0x52, 0x54, 0, 0, 0, 2];
const ARP: [u8; 2] = [8, 6];
const IPV4: [u8; 2] = [8, 0];

/// Returns the next frame of this kind; the host sends other frames unasked.
fn frame_of(tap: &Tap, kind: [u8; 2]) -> Vec<u8> {
    let mut room = [0; 2048];
    loop {
        let patience = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let ready = poll(
            &mut [PollFd::new(&tap.as_fd(), PollFlags::IN)],
            Some(&patience),
        );
        assert_eq!(ready.unwrap(), 1, "no frame came");
        while let Some(length) = tap.receive(&mut room).unwrap() {
            if room[12..14] == kind {
                return room[..length].to_vec();
            }
        }
    }
}

#[test]
fn the_host_speaks_into_a_tap_and_hears_from_it() {
    if !enter("tap::the_host_speaks_into_a_tap_and_hears_from_it") {
        return;
    }
    let tap = Tap::open("vr0", HOST, Some("10.9.0.1".parse().unwrap())).unwrap();
    assert!(tap.is_ours());
    let socket = UdpSocket::bind("10.9.0.1:700").unwrap();
    socket.send_to(b"there", "10.9.0.2:701").unwrap();
    let question = frame_of(&tap, ARP);
    assert_eq!(
        (&question[..6], &question[6..12]),
        (&[0xff; 6][..], &HOST[..])
    );
    let mut answer = [&HOST[..], &PEER, &question[12..20], &[0, 2], &PEER].concat();
    answer.extend([10, 9, 0, 2]);
    answer.extend(&question[22..32]);
    assert!(tap.send(&answer).unwrap());
    let mut packet = frame_of(&tap, IPV4);
    assert_eq!(packet[..6], PEER);
    assert!(packet.ends_with(b"there"));
    // Back to its source: addresses and ports are swapped, so the checksums stay right.
    packet[..12].rotate_left(6);
    packet[26..34].rotate_left(4);
    packet[34..38].rotate_left(2);
    assert!(tap.send(&packet).unwrap());
    let mut received = [0; 16];
    let (length, from) = socket.recv_from(&mut received).unwrap();
    assert_eq!((&received[..length], from.port()), (&b"there"[..], 701));
}

#[test]
fn a_tap_that_cannot_be_made_is_told_in_a_sentence() {
    assert!(matches!(
        Tap::open("a/b", HOST, None),
        Err(TapError::Name(_))
    ));
    if !enter("tap::a_tap_that_cannot_be_made_is_told_in_a_sentence") {
        return;
    }
    let taken = Tap::open("vr0", HOST, None).unwrap();
    let error = Tap::open("vr0", HOST, None).unwrap_err();
    assert!(matches!(error, TapError::InUse(_)), "{error}");
    drop(taken);
    Tap::open("vr0", HOST, Some("fd00::1".parse().unwrap())).unwrap();
}

#[test]
fn without_the_privilege_the_sentence_says_what_to_do() {
    if !enter_without_network("tap::without_the_privilege_the_sentence_says_what_to_do") {
        return;
    }
    let error = Tap::open("vr0", HOST, None).unwrap_err();
    assert!(error.to_string().contains("CAP_NET_ADMIN"), "{error}");
    let gone = UdpSocket::bind("10.9.0.1:0")
        .map(drop)
        .map_err(|error| error.kind());
    assert_eq!(gone, Err(ErrorKind::AddrNotAvailable));
}
