use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use vrdma_wire::{Gid, Mac, internet_checksum};

use super::*;

const ANN: PortId = PortId(1);
const BOB: PortId = PortId(2);
const BLUE: GroupId = GroupId(0);
const RED: GroupId = GroupId(1);
const SECONDS: u64 = SECOND;

fn who(last: u8) -> Listener {
    Listener {
        group: BLUE,
        mac: Mac([2, 0, 0, 0, 0, last]),
        ip: Some(Ipv4Addr::new(10, 0, 0, last)),
    }
}

fn v4(last: u8) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(239, 1, 2, last))
}

fn v6(last: u16) -> Gid {
    Gid(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, last).octets())
}

/// Returns, for each frame, the destination's last bytes, the kind of message, and its record types if it has any.
fn told(reports: &mut Reports, now: u64) -> Vec<(Vec<u8>, u8, Vec<u8>)> {
    let frames = reports.poll(now).into_iter().map(|(_, frame)| {
        let is_v4 = frame[12..14] == [8, 0];
        let (to, message, record) = match is_v4 {
            true => (frame[30..34].to_vec(), &frame[38..], 8),
            false => (
                vec![frame[38], frame[39], frame[52], frame[53]],
                &frame[62..],
                20,
            ),
        };
        if is_v4 {
            assert_eq!(internet_checksum(&frame[14..38]), 0);
            assert_eq!(internet_checksum(message), 0);
        }
        let newer = matches!(message[0], 0x22 | 143);
        let records = if newer { &message[8..] } else { &[] };
        let kinds = records.chunks(record).map(|record| record[0]);
        (to, message[0], kinds.collect())
    });
    frames.collect()
}

fn igmp_query(code: u8, group: [u8; 4], newer: bool) -> Vec<u8> {
    let mut message = [&[0x11, code, 0, 0][..], &group].concat();
    message.extend(newer.then_some([2, 125, 0, 0]).into_iter().flatten());
    let sum = internet_checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut ip = vec![0x45, 0, 0, 20 + message.len() as u8, 0, 0, 0, 0, 1, 2, 0, 0];
    ip.extend([10, 0, 0, 254, 224, 0, 0, 1]);
    [
        &[1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 254, 8, 0][..],
        &ip,
        &message,
    ]
    .concat()
}

fn mld_query(code: u16, newer: bool) -> Vec<u8> {
    let from = Gid::link_local(Mac([2, 0, 0, 0, 0, 254])).to_ipv6();
    let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let mut message = vec![130, 0, 0, 0];
    message.extend(code.to_be_bytes());
    message.extend([0; 18]);
    message.extend(newer.then_some([2, 125, 0, 0]).into_iter().flatten());
    let sum = crate::host::checksum(from, to, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 254, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 8 + message.len() as u8, 0, 1]);
    frame.extend(from.octets());
    frame.extend(to.octets());
    frame.extend([58, 0, 5, 2, 0, 0, 1, 0]);
    frame.extend(message);
    frame
}

fn listening() -> Reports {
    let mut reports = Reports::default();
    reports.listen(ANN, who(1), &[v4(3), v6(5)], 0);
    reports.poll(0);
    reports.poll(SECONDS);
    assert_eq!(reports.next_deadline(), None);
    reports
}

#[test]
fn joining_and_leaving_are_told_twice() {
    let mut reports = Reports::default();
    reports.listen(ANN, who(1), &[v4(3), v4(4), v6(5)], 0);
    let joined = [
        (vec![224, 0, 0, 22], 0x22, vec![4, 4]),
        (vec![0xff, 2, 0, 0x16], 143, vec![4]),
    ];
    assert_eq!(told(&mut reports, 0), joined);
    assert_eq!(told(&mut reports, SECONDS - 1), []);
    reports.listen(ANN, who(1), &[v4(3), v4(4), v6(5)], SECONDS / 2);
    assert_eq!(told(&mut reports, SECONDS), joined);
    assert_eq!(reports.next_deadline(), None);
    reports.listen(ANN, who(1), &[v4(4)], 5 * SECONDS);
    let left = [
        (vec![224, 0, 0, 22], 0x22, vec![3]),
        (vec![0xff, 2, 0, 0x16], 143, vec![3]),
    ];
    assert_eq!(told(&mut reports, 5 * SECONDS), left);
    assert_eq!(told(&mut reports, 6 * SECONDS), left);
    assert_eq!(reports.next_deadline(), None);
}

#[test]
fn queries_are_answered_in_time_and_in_their_version() {
    let mut reports = listening();
    let all = igmp_query(100, [0; 4], true);
    assert!(reports.hear(BLUE, &all, 10 * SECONDS, || u32::MAX / 2));
    let due = reports.next_deadline().unwrap();
    assert!((14 * SECONDS..=15 * SECONDS).contains(&due), "{due}");
    assert_eq!(
        told(&mut reports, due),
        [(vec![224, 0, 0, 22], 0x22, vec![2])]
    );
    let older = igmp_query(10, [0; 4], false);
    assert!(reports.hear(BLUE, &older, 20 * SECONDS, || 0));
    assert_eq!(
        told(&mut reports, 20 * SECONDS),
        [(vec![239, 1, 2, 3], 0x16, vec![])]
    );
    reports.listen(ANN, who(1), &[v6(5)], 30 * SECONDS);
    assert_eq!(
        told(&mut reports, 30 * SECONDS),
        [(vec![224, 0, 0, 2], 0x17, vec![])]
    );
    told(&mut reports, 31 * SECONDS);
    assert!(reports.hear(BLUE, &mld_query(1000, true), 40 * SECONDS, || 0));
    assert_eq!(
        told(&mut reports, 40 * SECONDS),
        [(vec![0xff, 2, 0, 0x16], 143, vec![2])]
    );
    assert!(reports.hear(BLUE, &mld_query(1000, false), 50 * SECONDS, || 0));
    assert_eq!(
        told(&mut reports, 50 * SECONDS),
        [(vec![0xff, 0xe, 0, 5], 131, vec![])]
    );
    reports.listen(ANN, who(1), &[], 60 * SECONDS);
    assert_eq!(
        told(&mut reports, 60 * SECONDS),
        [(vec![0xff, 2, 0, 2], 132, vec![])]
    );
    told(&mut reports, 61 * SECONDS);
    reports.listen(ANN, who(1), &[v4(1)], 300 * SECONDS);
    assert_eq!(
        told(&mut reports, 300 * SECONDS),
        [(vec![224, 0, 0, 22], 0x22, vec![4])]
    );
}

#[test]
fn a_flood_of_queries_has_one_answer_a_second() {
    let mut reports = listening();
    let mut answers = 0;
    for step in 0..1000 {
        let now = 10 * SECONDS + step * SECONDS / 100;
        reports.hear(BLUE, &igmp_query(0, [239, 1, 2, 3], true), now, || 0);
        answers += reports.poll(now).len();
    }
    assert_eq!(answers, 10);
}

#[test]
fn what_is_not_asked_or_not_told_has_no_answer() {
    let mut reports = listening();
    let mut bad = igmp_query(100, [0; 4], true);
    bad[40] ^= 1;
    assert!(!reports.hear(BLUE, &bad, 10 * SECONDS, || 0));
    let other = igmp_query(100, [239, 9, 9, 9], true);
    reports.hear(BLUE, &other, 10 * SECONDS, || 0);
    assert_eq!(reports.next_deadline(), None);
    let link = [[224, 0, 0, 5]].map(|ip| Gid::from_ipv4(ip.into()));
    reports.listen(BOB, who(2), &link, 0);
    reports.forget(ANN);
    reports.hear(BLUE, &igmp_query(100, [0; 4], true), 10 * SECONDS, || 0);
    assert_eq!(reports.next_deadline(), None);
}

#[test]
fn a_new_switch_is_told_everything() {
    let mut reports = listening();
    reports.listen(BOB, who(2), &[], 0);
    reports.tell_again(10 * SECONDS);
    assert_eq!(told(&mut reports, 10 * SECONDS).len(), 2);
    assert_eq!(told(&mut reports, 11 * SECONDS).len(), 2);
    assert_eq!(reports.next_deadline(), None);
}

#[test]
fn only_those_are_looked_at_that_are_concerned_or_due() {
    const MANY: u32 = 1000;
    let mut reports = Reports::default();
    for number in 0..MANY {
        let who = Listener {
            group: RED,
            ..who(1)
        };
        reports.listen(PortId(100 + number), who, &[v4(9), v6(9)], 0);
    }
    reports.listen(BOB, who(2), &[v6(5)], 0);
    while let Some(due) = reports.next_deadline() {
        reports.poll(due);
    }
    let looks = |reports: &mut Reports| core::mem::take(&mut reports.looks);
    looks(&mut reports);
    reports.listen(ANN, who(1), &[v4(3)], 10 * SECONDS);
    assert_eq!(looks(&mut reports), 1, "joining");
    assert_eq!(reports.poll(10 * SECONDS).len(), 1);
    assert_eq!(reports.poll(11 * SECONDS).len(), 1);
    assert_eq!(looks(&mut reports), 2, "reports that are due");
    for group in [[0; 4], [239, 1, 2, 3], [239, 1, 2, 9]] {
        let query = igmp_query(100, group, true);
        assert!(reports.hear(BLUE, &query, 20 * SECONDS, || 0));
    }
    assert_eq!(looks(&mut reports), 2, "questions of one port group");
    reports.forget(ANN);
    assert_eq!(reports.next_deadline(), None);
    assert_eq!(looks(&mut reports), 0);
}

#[test]
fn who_comes_to_another_port_group_answers_there() {
    let mut reports = listening();
    let moved = Listener {
        group: RED,
        ..who(1)
    };
    reports.listen(ANN, moved, &[v4(3)], 2 * SECONDS);
    while let Some(due) = reports.next_deadline() {
        reports.poll(due);
    }
    let all = igmp_query(0, [0; 4], true);
    reports.hear(BLUE, &all, 10 * SECONDS, || 0);
    assert_eq!(reports.next_deadline(), None);
    reports.hear(RED, &all, 10 * SECONDS, || 0);
    assert_eq!(reports.poll(10 * SECONDS).len(), 1);
    reports.forget(ANN);
    assert!(reports.networks.is_empty(), "nothing is left");
}

proptest! {
    #[test]
    fn any_frame_is_heard(bytes in prop::collection::vec(any::<u8>(), 0..120), newer: bool) {
        listening().hear(BLUE, &bytes, 0, || 0);
        for (mut frame, behind) in [(igmp_query(1, [0; 4], newer), 14), (mld_query(1, newer), 54)] {
            let room = &mut frame[behind..];
            let length = bytes.len().min(room.len());
            room[..length].copy_from_slice(&bytes[..length]);
            listening().hear(BLUE, &frame, 0, || 0);
        }
    }
}
