use proptest::prelude::*;

use super::*;

const MTU: usize = 1450;
const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 9, 0x52, 0x54, 0, 0, 0, 1];
const OURS: [u8; 4] = [10, 0, 0, 1];
const THEIRS: [u8; 4] = [10, 0, 0, 9];

fn v4(flags: u16, data: &[u8]) -> Vec<u8> {
    let mut header = [0; IPV4_BYTES];
    header[0] = PLAIN_IPV4;
    header[2..4].copy_from_slice(&((IPV4_BYTES + data.len()) as u16).to_be_bytes());
    header[4..6].copy_from_slice(&[7, 7]);
    header[6..8].copy_from_slice(&flags.to_be_bytes());
    header[8..10].copy_from_slice(&[64, 17]);
    header[12..16].copy_from_slice(&OURS);
    header[16..].copy_from_slice(&THEIRS);
    fill_checksum(&mut header, 10, &[]);
    [&ADDRESSES[..], &[8, 0], &header, data].concat()
}

fn v6(next_header: u8, data: &[u8]) -> Vec<u8> {
    let mut header = [0; IPV6_BYTES];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(data.len() as u16).to_be_bytes());
    header[6..8].copy_from_slice(&[next_header, 64]);
    header[8] = 0xfc;
    header[24] = 0xfd;
    [&ADDRESSES[..], &[0x86, 0xdd], &header, data].concat()
}

fn told(frame: &[u8]) -> Vec<u8> {
    match Oversize::of(frame, MTU) {
        Oversize::Tell(answer) => answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_forbids_pieces_is_told_what_fits() {
    let frame = v4(MUST_NOT_BE_CUT, &[5; 1480]);
    let answer = told(&frame);
    assert_eq!(answer[..6], ADDRESSES[6..]);
    assert_eq!((&answer[26..30], &answer[30..34]), (&THEIRS[..], &OURS[..]));
    assert_eq!((answer[34], answer[35]), (3, 4));
    assert_eq!(answer[40..42], (MTU as u16).to_be_bytes());
    assert_eq!(answer[42..100], frame[14..72], "what it is about");
    assert_eq!(answer.len(), 14 + MESSAGE_BYTES_MAX);
    let sums = [&answer[14..34], &answer[34..]].map(internet_checksum);
    assert_eq!(sums, [0, 0]);
}

#[test]
fn ipv6_is_told_too() {
    let frame = v6(17, &[5; 1460]);
    let answer = told(&frame);
    assert_eq!((answer[22], answer[38]), (0xfd, 0xfc));
    assert_eq!((answer[54], answer[55]), (2, 0));
    assert_eq!(answer[58..62], (MTU as u32).to_be_bytes());
    assert_eq!(answer.len(), 14 + MESSAGE_BYTES_MAX_V6);
    let mut pseudo = [0; IPV6_BYTES];
    pseudo[..32].copy_from_slice(&answer[22..54]);
    pseudo[34..36].copy_from_slice(&answer[18..20]);
    pseudo[39] = ICMPV6;
    assert_eq!(internet_checksum(&[&pseudo[..], &answer[54..]].concat()), 0);
}

#[test]
fn pieces_are_the_whole() {
    let data: Vec<u8> = (0..4000u32).map(|at| at as u8).collect();
    for (flags, more_after) in [(0, false), (MORE_PIECES | 100, true)] {
        let Oversize::Cut(pieces) = Oversize::of(&v4(flags, &data), MTU) else {
            panic!("not cut");
        };
        let mut whole = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            assert!(piece.len() - ETHERNET_BYTES <= MTU);
            assert_eq!(internet_checksum(&piece[14..34]), 0);
            let said = u16::from_be_bytes([piece[20], piece[21]]);
            assert_eq!(
                usize::from(said & OFFSET),
                usize::from(flags & OFFSET) + whole.len() / 8
            );
            let last = number + 1 == pieces.len();
            assert_eq!(said & MORE_PIECES != 0, !last || more_after);
            whole.extend_from_slice(&piece[34..]);
        }
        assert_eq!(whole, data);
    }
}

#[test]
fn complaints_groups_and_nonsense_are_lost() {
    let good = v4(MUST_NOT_BE_CUT, &[5; 1480]);
    let mut to_many = good.clone();
    to_many[0] = 1;
    let mut torn = good.clone();
    torn[24] ^= 1;
    let mut arp = good.clone();
    arp[13] = 6;
    let later = v4(MUST_NOT_BE_CUT | 5, &[5; 1480]);
    let unreachable = v6(ICMPV6, &[1; 1460]);
    for frame in [to_many, torn, arp, later, unreachable, good[..40].to_vec()] {
        assert_eq!(Oversize::of(&frame, MTU), Oversize::Lost);
    }
    assert_eq!(Oversize::of(&v4(0, &[5; 1480]), 20), Oversize::Lost);
}

proptest! {
    #[test]
    fn no_frame_panics(at in 0usize..80, byte: u8, cut in 0usize..1600, mtu in 0usize..2000) {
        for mut frame in [v4(0, &[5; 1480]), v4(MUST_NOT_BE_CUT, &[5; 1480]), v6(17, &[5; 1460])] {
            frame[at] = byte;
            frame.truncate(cut);
            let _ = Oversize::of(&frame, mtu);
        }
    }
}
