//! DMA requests of the server and their replies.

use rustix::io::Errno;

use crate::message::{Command as C, Kind, MAX_DATA};
use crate::script::{Call, Talk, command, message};
use crate::session::{DmaRefused, MAX_PENDING_DMA, SessionError};

fn payload(iova: u64, count: u64, data: &[u8]) -> Vec<u8> {
    [&[iova, count].map(u64::to_le_bytes).concat(), data].concat()
}

fn reply(id: u16, command: C, payload: &[u8]) -> Vec<u8> {
    message(id, command as u16, Kind::Reply { error: None }, payload)
}

#[track_caller]
fn expect_request(talk: &mut Talk, command: C, expected: &[u8]) -> u16 {
    let sent = talk.reply();
    assert_eq!(sent.header.command, command as u16);
    assert_eq!(sent.header.kind, Kind::Command { no_reply: false });
    assert_eq!(sent.payload, expected);
    sent.header.id
}

fn done(token: u64, result: Result<&[u8], Errno>) -> Call {
    Call::DmaDone {
        token,
        result: result.map(<[u8]>::to_vec),
    }
}

#[test]
fn guest_memory_is_read() {
    let mut talk = Talk::greeted();
    talk.session.dma_read(77, 0x1234, 3).unwrap();
    let id = expect_request(&mut talk, C::DmaRead, &payload(0x1234, 3, &[]));
    talk.send(&reply(id, C::DmaRead, &payload(0x1234, 3, &[7, 8, 9])));
    talk.expect_calls(&[done(77, Ok(&[7, 8, 9]))]);
    talk.expect_silence();
}

#[test]
fn guest_memory_is_written_and_both_lengths_of_reply_are_understood() {
    let mut talk = Talk::greeted();
    for reply_length in [12, 16] {
        talk.session.dma_write(5, 0x1000, &[1, 2]).unwrap();
        let id = expect_request(&mut talk, C::DmaWrite, &payload(0x1000, 2, &[1, 2]));
        talk.send(&reply(
            id,
            C::DmaWrite,
            &payload(0x1000, 2, &[])[..reply_length],
        ));
        talk.expect_calls(&[done(5, Ok(&[]))]);
    }
}

#[test]
fn replies_may_come_in_any_order() {
    let mut talk = Talk::greeted();
    for token in 0..3 {
        talk.session.dma_read(token, token * 16, 1).unwrap();
    }
    let ids: Vec<u16> = talk.replies().iter().map(|sent| sent.header.id).collect();
    for token in [1, 2, 0] {
        talk.send(&reply(
            ids[token],
            C::DmaRead,
            &payload(token as u64 * 16, 1, &[token as u8]),
        ));
    }
    talk.expect_calls(&[done(1, Ok(&[1])), done(2, Ok(&[2])), done(0, Ok(&[0]))]);
}

#[test]
fn the_clients_errors_reach_the_device() {
    let mut talk = Talk::greeted();
    let cases = [
        (14, Errno::FAULT),
        (0, Errno::IO),
        (4096, Errno::IO),
        (u32::MAX, Errno::IO),
    ];
    for (raw, errno) in cases {
        talk.session.dma_read(1, 0, 4).unwrap();
        let id = talk.reply().header.id;
        talk.send(&message(
            id,
            C::DmaRead as u16,
            Kind::Reply { error: Some(raw) },
            &[],
        ));
        talk.expect_calls(&[done(1, Err(errno))]);
    }
}

#[test]
fn replies_that_do_not_fit_their_request_are_errors_for_the_device() {
    let mut talk = Talk::greeted();
    let bad_reads = [
        payload(0, 3, &[0; 3]),
        payload(0, 4, &[0; 5]),
        payload(1, 4, &[0; 4]),
        vec![0; 15],
    ];
    for bad in bad_reads {
        talk.session.dma_read(1, 0, 4).unwrap();
        let id = talk.reply().header.id;
        talk.send(&reply(id, C::DmaRead, &bad));
        talk.expect_calls(&[done(1, Err(Errno::IO))]);
    }
    for bad in [payload(0, 1, &[]), payload(1, 2, &[]), vec![0; 11]] {
        talk.session.dma_write(1, 0, &[0; 2]).unwrap();
        let id = talk.reply().header.id;
        talk.send(&reply(id, C::DmaWrite, &bad));
        talk.expect_calls(&[done(1, Err(Errno::IO))]);
    }
}

#[test]
fn a_reply_that_nobody_asked_for_ends_the_session() {
    let mut talk = Talk::greeted();
    let stray = reply(9, C::DmaRead, &payload(0, 0, &[]));
    assert_eq!(
        talk.feed(&stray, Vec::new()),
        Err(SessionError::UnexpectedReply(9))
    );

    let mut talk = Talk::greeted();
    talk.session.dma_read(1, 0, 4).unwrap();
    let id = talk.reply().header.id;
    let other = reply(id, C::DmaWrite, &payload(0, 4, &[]));
    assert_eq!(
        talk.feed(&other, Vec::new()),
        Err(SessionError::UnexpectedReply(id))
    );

    let mut talk = Talk::greeted();
    talk.session.dma_read(1, 0, 1).unwrap();
    let once = reply(talk.reply().header.id, C::DmaRead, &payload(0, 1, &[0]));
    let twice = [&once[..], &once].concat();
    assert!(matches!(
        talk.feed(&twice, Vec::new()),
        Err(SessionError::UnexpectedReply(_))
    ));
}

#[test]
fn nothing_is_asked_before_the_greeting() {
    let mut talk = Talk::default();
    assert_eq!(talk.session.dma_read(1, 0, 4), Err(DmaRefused::NotReady));
    talk.expect_silence();
}

#[test]
fn transfers_stay_within_what_the_client_takes() {
    let mut talk = Talk::greeted();
    let limit = DmaRefused::TooLarge(MAX_DATA);
    assert_eq!(talk.session.dma_read(1, 0, MAX_DATA + 1), Err(limit));
    assert_eq!(
        talk.session
            .dma_write(1, 0, &vec![0; MAX_DATA as usize + 1]),
        Err(limit)
    );
    talk.session
        .dma_write(1, 0, &vec![0; MAX_DATA as usize])
        .unwrap();

    let mut talk = Talk::default();
    let small = b"\0\0\0\0{\"capabilities\":{\"max_data_xfer_size\":16}}\0";
    talk.send(&command(0, C::Version, small));
    assert_eq!(
        talk.session.dma_read(1, 0, 17),
        Err(DmaRefused::TooLarge(16))
    );
}

#[test]
fn requests_are_bounded_and_ids_are_not_reused_while_open() {
    let mut talk = Talk::greeted();
    talk.session.dma_read(u64::MAX, 0, 1).unwrap();
    let first = talk.reply().header.id;
    for round in 0..0x1_0000u64 {
        talk.session.dma_read(round, 0, 1).unwrap();
        let id = talk.reply().header.id;
        assert_ne!(id, first);
        talk.send(&reply(id, C::DmaRead, &payload(0, 1, &[0])));
        talk.expect_calls(&[done(round, Ok(&[0]))]);
    }
    for token in 1..MAX_PENDING_DMA as u64 {
        talk.session.dma_read(token, 0, 1).unwrap();
    }
    assert_eq!(talk.session.dma_read(0, 0, 1), Err(DmaRefused::Busy));
}

#[test]
fn writes_wait_while_the_client_does_not_read() {
    let mut talk = Talk::greeted();
    let data = vec![0; MAX_DATA as usize];
    for token in 0..4 {
        talk.session.dma_write(token, 0, &data).unwrap();
    }
    assert_eq!(talk.session.dma_write(9, 0, &data), Err(DmaRefused::Busy));
    assert_eq!(talk.replies().len(), 4);
    talk.session.dma_write(9, 0, &data).unwrap();
}

#[test]
fn the_end_of_the_session_ends_every_request() {
    let mut talk = Talk::greeted();
    talk.session.dma_read(1, 0, 1).unwrap();
    talk.session.dma_write(2, 0, &[0]).unwrap();
    talk.session.abandon(&mut talk.device);
    talk.expect_calls(&[
        done(1, Err(Errno::CONNRESET)),
        done(2, Err(Errno::CONNRESET)),
    ]);
    talk.session.abandon(&mut talk.device);
    talk.expect_calls(&[]);
}
