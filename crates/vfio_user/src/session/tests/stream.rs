//! Messages on a stream: splits, bursts, sizes, and which message owns descriptors.

use rustix::io::Errno;

use crate::message::{BadHeader, Command as C, HEADER_SIZE, Kind, MAX_MESSAGE, MAX_MESSAGE_FDS};
use crate::script::{Call, Talk, access, command, message, pattern, posted, sent, words};
use crate::session::{OUTPUT_LIMIT, SessionError};

fn map(id: u16) -> Vec<u8> {
    let range = [0, u64::from(id) << 12, 0x1000]
        .map(u64::to_le_bytes)
        .concat();
    command(id, C::DmaMap, &[words(&[32, 3]), range].concat())
}

/// For each mapping that the device saw, whether a file came with it.
fn files(talk: &mut Talk) -> Vec<bool> {
    let calls = talk.device.take();
    calls
        .iter()
        .map(|call| matches!(call, Call::Map { fd: true, .. }))
        .collect()
}

#[test]
fn a_message_may_come_byte_by_byte() {
    let mut talk = Talk::greeted();
    let read = command(1, C::RegionRead, &access(0, 0, 4));
    let (last, front) = read.split_last().unwrap();
    for byte in front {
        talk.send(&[*byte]);
        talk.expect_silence();
        assert!(!talk.session.is_between_messages());
    }
    talk.send(&[*last]);
    talk.expect(1, C::RegionRead, &[access(0, 0, 4), pattern(0, 4)].concat());
    assert!(talk.session.is_between_messages());
}

#[test]
fn a_burst_is_answered_in_order() {
    let mut talk = Talk::greeted();
    let burst: Vec<u8> = (0..100)
        .flat_map(|id| command(id, C::RegionRead, &access(id.into(), 0, 1)))
        .collect();
    talk.send(&burst);
    for (id, sent) in talk.replies().iter().enumerate() {
        let data = pattern(id as u64, 1);
        sent.expect(
            id as u16,
            C::RegionRead,
            &[access(id as u64, 0, 1), data].concat(),
        );
    }
}

/// This holds however much the client sends ahead.
#[test]
fn commands_wait_while_the_device_is_busy() {
    let mut talk = Talk::greeted();
    talk.device.is_slow = true;
    let write = |id| command(id, C::RegionWrite, &[access(0, 0, 1), vec![7]].concat());
    talk.send(&[write(1), write(2), write(3)].concat());
    for served in 1..=3 {
        assert_eq!(talk.device.take().len(), 1, "{served}");
        assert_eq!(talk.replies().len(), 1);
        talk.session.go_on(&mut talk.device).unwrap();
        talk.expect_silence();
        talk.device.is_busy = false;
        talk.session.go_on(&mut talk.device).unwrap();
    }
    talk.expect_silence();
    assert!(talk.session.is_between_messages());
}

#[test]
fn descriptors_belong_to_the_last_message_of_their_burst() {
    let mut talk = Talk::greeted();
    talk.send_with(&[map(1), map(2), map(3)].concat(), 1);
    assert_eq!(files(&mut talk), [false, false, true]);
}

#[test]
fn descriptors_may_come_with_any_part_of_their_message() {
    let message = map(1);
    for cut in 1..message.len() {
        let (head, tail) = message.split_at(cut);
        let mut talk = Talk::greeted();
        talk.send_with(head, 1);
        talk.send(&[tail, &map(2)].concat());
        assert_eq!(files(&mut talk), [true, false]);
        talk.send(head);
        talk.send_with(tail, 1);
        assert_eq!(files(&mut talk), [true]);
        talk.send_with(&[&map(3)[..], head].concat(), 1);
        talk.send(tail);
        assert_eq!(files(&mut talk), [false, true]);
    }
}

#[test]
fn descriptors_of_a_message_without_use_for_them_are_closed() {
    let (mut talk, pipe) = (Talk::greeted(), std::io::pipe().unwrap());
    let fds = vec![sent(pipe.1.into())];
    talk.feed(&command(1, C::DeviceReset, &[]), fds).unwrap();
    talk.expect(1, C::DeviceReset, &[]);
    let end = std::io::read_to_string(pipe.0).unwrap();
    assert_eq!(end, "", "the writing end is closed");
}

#[test]
fn descriptors_of_an_oversized_message_are_closed_while_it_is_read_past() {
    let (mut talk, pipe) = (Talk::greeted(), std::io::pipe().unwrap());
    let mut header = command(1, C::DmaMap, &[]);
    header[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    talk.feed(&header, vec![sent(pipe.1.try_clone().unwrap().into())])
        .unwrap();
    talk.feed(&[0; 9], vec![sent(pipe.1.into())]).unwrap();
    assert_eq!(std::io::read_to_string(pipe.0).unwrap(), "");
}

#[test]
fn surplus_descriptors_are_closed_and_the_message_is_refused() {
    let mut talk = Talk::greeted();
    let (last, front) = map(1)
        .split_last()
        .map(|(last, front)| (*last, front.to_vec()))
        .unwrap();
    for byte in front {
        talk.send_with(&[byte], 2);
    }
    talk.send_with(&[last], MAX_MESSAGE_FDS);
    talk.expect_error(1, Errno::MFILE);
    talk.send_with(&map(2), 1);
    assert_eq!(files(&mut talk), [true]);
}

#[test]
fn descriptors_that_the_kernel_dropped_are_noticed() {
    let mut talk = Talk::greeted();
    let message = map(1);
    talk.session.space()[..message.len()].copy_from_slice(&message);
    talk.session
        .received(message.len(), Vec::new(), true, &mut talk.device)
        .unwrap();
    talk.expect_error(1, Errno::MFILE);
}

#[test]
fn a_message_larger_than_any_is_refused_and_read_past() {
    let mut talk = Talk::greeted();
    let payload = vec![0xff; 3 * MAX_MESSAGE];
    let oversized = command(1, C::RegionWrite, &payload[..MAX_MESSAGE]);
    let mut larger = oversized.clone();
    larger[4..8].copy_from_slice(&((HEADER_SIZE + payload.len()) as u32).to_le_bytes());
    larger.truncate(HEADER_SIZE);
    for message in [oversized, [larger, payload].concat()] {
        talk.send(&[message, command(2, C::DeviceReset, &[])].concat());
        let replies = talk.replies();
        assert_eq!(
            replies[0].header.kind,
            Kind::Reply { error: Some(90) },
            "EMSGSIZE"
        );
        replies[1].expect(2, C::DeviceReset, &[]);
        talk.expect_calls(&[Call::Reset]);
        assert!(talk.session.is_between_messages());
    }
}

#[test]
fn an_oversized_message_that_wants_no_reply_gets_none() {
    let mut talk = Talk::greeted();
    talk.send(&posted(1, C::RegionWrite, &vec![0; MAX_MESSAGE]));
    talk.expect_silence();
}

#[test]
fn headers_that_lose_the_stream_end_the_session() {
    let mut short = command(1, C::DeviceReset, &[]);
    short[4] = 15;
    let mut strange = command(1, C::DeviceReset, &[]);
    strange[8] = 0xf;
    let large = message(1, 11, Kind::Reply { error: None }, &vec![0; MAX_MESSAGE]);
    let cases = [
        (short, SessionError::Header(BadHeader::Size(15))),
        (strange, SessionError::Header(BadHeader::Type(15))),
        (large, SessionError::ReplySize(MAX_MESSAGE as u32)),
    ];
    for (bytes, error) in cases {
        assert_eq!(Talk::greeted().feed(&bytes, Vec::new()), Err(error));
    }
}

#[test]
fn a_client_that_never_reads_is_disconnected_at_the_bound() {
    let mut talk = Talk::greeted();
    let read = command(1, C::RegionRead, &access(0, 2, 0x8000));
    let mut replies = 0;
    let end = loop {
        match talk.feed(&read, Vec::new()) {
            Ok(()) => replies += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(end, SessionError::OutputLimit);
    assert_eq!(replies, OUTPUT_LIMIT / (0x8000 + 2 * HEADER_SIZE));
}

#[test]
fn a_slow_client_is_served_in_pieces() {
    let mut talk = Talk::greeted();
    let mut stream = Vec::new();
    for id in 0..1000 {
        talk.send(&command(id, C::RegionRead, &access(u64::from(id), 2, 300)));
        for _ in 0..4 {
            let Some(outgoing) = talk.session.outgoing() else {
                break;
            };
            let length = outgoing.bytes.len().min(97);
            stream.extend_from_slice(&outgoing.bytes[..length]);
            talk.session.sent(length);
        }
    }
    while let Some(outgoing) = talk.session.outgoing() {
        let length = outgoing.bytes.len();
        stream.extend_from_slice(outgoing.bytes);
        talk.session.sent(length);
    }
    let mut rest = &stream[..];
    for id in 0..1000 {
        let kind = Kind::Reply { error: None };
        let data = [access(u64::from(id), 2, 300), pattern(u64::from(id), 300)].concat();
        let expected = message(id, C::RegionRead as u16, kind, &data);
        rest = rest
            .strip_prefix(&expected[..])
            .expect("the replies come whole and in order");
    }
    assert!(rest.is_empty());
}

#[test]
fn a_descriptor_goes_with_the_first_byte_of_its_message_only() {
    let mut talk = Talk::greeted();
    let query = |id| {
        command(
            id,
            C::DeviceGetRegionInfo,
            &words(&[64, 0, 2, 0, 0, 0, 0, 0]),
        )
    };
    talk.send(&[command(1, C::DeviceReset, &[]), query(2), query(3)].concat());
    let mut seen = Vec::new();
    while let Some(outgoing) = talk.session.outgoing() {
        let length = outgoing.bytes.len().div_ceil(2);
        seen.push(outgoing.fd.is_some());
        talk.session.sent(length);
        if seen.len() > 64 {
            break;
        }
    }
    assert_eq!(seen.iter().filter(|fd| **fd).count(), 2);
    assert!(!seen[0]);
}
