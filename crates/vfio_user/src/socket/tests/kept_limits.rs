//! Kept connections that are full, in pieces, busy or at their end.

use super::kept::*;
use super::*;

/// QEMU takes a header that arrives in two pieces for the end of the connection.
#[test]
fn a_header_arrives_in_one_piece_however_full_the_socket_is() {
    for buffer in [2304, 4608, 8192, 65536] {
        let mut talk = Kept::greeted();
        rustix::net::sockopt::set_socket_send_buffer_size(&talk.server, buffer).unwrap();
        let lengths = [4, 4096, MAX_DATA, 12, 8192, MAX_DATA, 8, 8, 8];
        for (id, length) in (1..).zip(lengths) {
            talk.send(&(command(id, C::RegionRead, &access(0, 2, length)), 0));
        }
        for (id, length) in (1..).zip(lengths) {
            talk.serve();
            let mut header = [0; HEADER_SIZE];
            assert_eq!(talk.client.read(&mut header).unwrap(), HEADER_SIZE);
            assert_eq!(Header::parse(&header).unwrap().id, id);
            let mut left = HEADER_SIZE + length as usize;
            while left > 0 {
                match talk.client.read(&mut [0; 700][..left.min(700)]) {
                    Ok(read) => left -= read,
                    Err(_) => {
                        assert!(talk.server.wants_write());
                        talk.follow();
                        talk.server.on_writable(&mut talk.device).unwrap();
                    }
                }
            }
        }
        assert!(talk.read().is_empty());
    }
}

#[test]
fn who_takes_no_answers_is_not_served() {
    let mut talk = Kept::greeted();
    let read = command(1, C::RegionRead, &access(0, 2, MAX_DATA));
    for _ in 0..20 {
        talk.send(&(read.clone(), 0));
    }
    talk.serve();
    assert!(talk.server.wants_write() && !talk.server.wants_read());
    let heard = talk.device.take().len();
    assert!(heard < 20, "{heard}");
    talk.serve();
    assert_eq!(talk.device.take(), []);
    let mut whole = 0;
    while let bytes @ 1.. = talk.read().len() {
        whole += bytes;
        talk.serve();
    }
    assert_eq!(whole, 20 * (2 * HEADER_SIZE + MAX_DATA as usize));
    assert!(!talk.server.wants_write() && talk.server.wants_read());
}

#[test]
fn a_turn_has_an_end() {
    let mut talk = Kept::greeted();
    let count = 100;
    let flood: Vec<u8> = (0..count).flat_map(posted_write).collect();
    talk.send(&(flood, 0));
    let mut turns = 0;
    while talk.server.on_readable(&mut talk.device) == Ok(Progress::Worked) {
        turns += 1;
    }
    let turn = super::super::kept::TURN_MESSAGES;
    assert_eq!(turns, usize::from(count).div_ceil(turn));
    assert_eq!(talk.device.take().len(), usize::from(count));
}

#[test]
fn commands_wait_for_a_device_that_is_busy() {
    let mut talk = Kept::greeted();
    talk.device.is_slow = true;
    talk.send(&(write(1), 0));
    talk.send(&(write(2), 0));
    talk.serve();
    assert_eq!(answers(&talk.read()).len(), 1);
    talk.device.is_slow = false;
    talk.device.is_busy = false;
    talk.follow();
    talk.serve();
    assert_eq!(answers(&talk.read()).len(), 1);
    assert_eq!(talk.device.take().len(), 2);
}

#[test]
fn a_message_in_pieces_is_answered_once_or_the_connection_ends() {
    let bytes = set_irqs(2);
    let large = vec![0; 2 * crate::message::MAX_MESSAGE];
    let oversized = command(2, C::RegionWrite, &large[..crate::message::MAX_MESSAGE]);
    let in_pieces: [Sends; 3] = [
        vec![(bytes[..5].to_vec(), 0), (bytes[5..].to_vec(), 4)],
        vec![(bytes[..20].to_vec(), 4), (bytes[20..].to_vec(), 0)],
        oversized
            .chunks(40_000)
            .map(|piece| (piece.to_vec(), 0))
            .collect(),
    ];
    for pieces in in_pieces {
        let mut ended = 0;
        for steps in 0..60 {
            let mut talk = Kept::greeted();
            talk.send(&(write(1), 0));
            let (last, first) = pieces.split_last().unwrap();
            first.iter().for_each(|piece| talk.send(piece));
            talk.serve_some(steps);
            if talk.try_resume().is_err() {
                ended += 1;
            } else {
                talk.follow();
            }
            talk.send(last);
            talk.serve();
            talk.send(&(write(3), 0));
            talk.serve();
            let ids: Vec<u8> = answers(&talk.read()).iter().map(|bytes| bytes[0]).collect();
            assert_eq!(ids, [1, 2, 3], "{steps}");
        }
        assert!(ended > 0);
    }
}

impl Kept {
    fn serve_some(&mut self, steps: usize) {
        (0..steps).all(|_| self.step());
    }
}

#[test]
fn who_hangs_up_is_noticed() {
    let mut talk = Kept::greeted();
    talk.client.shutdown(std::net::Shutdown::Write).unwrap();
    let closed = talk.server.on_readable(&mut talk.device);
    assert_eq!(closed, Err(Closed::HungUp));

    let mut talk = Kept::greeted();
    talk.send(&(write(1)[..20].to_vec(), 0));
    talk.serve();
    talk.client.shutdown(std::net::Shutdown::Write).unwrap();
    let closed = talk.server.on_readable(&mut talk.device);
    assert_eq!(closed, Err(Closed::Torn));

    let mut talk = Kept::greeted();
    talk.send(&(write(1), 0));
    talk.client.shutdown(std::net::Shutdown::Both).unwrap();
    let closed = talk.server.on_readable(&mut talk.device);
    assert_eq!(closed, Err(Closed::HungUp));
}

#[test]
fn who_breaks_the_protocol_is_disconnected() {
    let mut talk = Kept::greeted();
    talk.send(&(vec![0; HEADER_SIZE], 0));
    let closed = talk.server.on_readable(&mut talk.device).unwrap_err();
    assert!(matches!(closed, Closed::Protocol(SessionError::Header(_))));
}

/// This holds for everything that a client sends, in one process after the other: its `close` may take long.
#[test]
fn who_serves_a_kept_client_closes_nothing_of_it() {
    let (tells, told) = channel();
    let (client, server) = UnixStream::pair().unwrap();
    let closing = Closing::by(move |fd| tells.send(fd).unwrap());
    let mut talk = Kept::new();
    talk.client = client;
    talk.server = Connection::kept(server.into(), closing).unwrap();
    let sends = [
        (command(0, C::Version, QEMU_VERSION), 1),
        (map(2, 3), 2),
        (set_irqs(3), 3),
        (set_irqs(4), 253),
        (write(5), 1),
    ];
    for send in &sends {
        talk.send(send);
        talk.serve();
        assert_eq!(
            told.try_iter().count(),
            2 * send.1,
            "looked at, and consumed"
        );
    }
}

/// Requests of the server, wherever the process ends: one reply, or an error if they were never sent.
#[test]
fn guest_memory_is_read_after_a_crash() {
    for (steps, then) in (0..STEPS).flat_map(|first| (0..STEPS).map(move |then| (first, then))) {
        let mut talk = Kept::greeted();
        talk.send(&(write(1), 0));
        talk.serve();
        talk.server.dma_read(7, 0x1000, 2).unwrap();
        talk.serve_some(steps);
        talk.follow();
        talk.serve();
        let sent = talk.read();
        let asked = answers(&sent)
            .into_iter()
            .find(|message| message[2] == C::DmaRead as u8);
        if let Some(asked) = &asked {
            let header = Header::parse(asked.first_chunk().unwrap()).unwrap();
            let kind = Kind::Reply { error: None };
            let payload = [&asked[HEADER_SIZE..], &[8, 9]].concat();
            talk.send(&(message(header.id, header.command, kind, &payload), 0));
        }
        talk.send(&(write(2), 0));
        talk.serve_some(then);
        talk.follow();
        talk.serve();
        let done: Vec<_> = talk.device.take();
        let done: Vec<_> = done
            .iter()
            .filter(|call| matches!(call, Call::DmaDone { .. }))
            .collect();
        let result = Ok(vec![8, 9]);
        let expected = Call::DmaDone { token: 7, result };
        let expected: Vec<_> = asked.iter().map(|_| &expected).collect();
        assert_eq!(done, expected, "{steps} {then}");
        assert_eq!(answers(&talk.read()).len(), 1);
    }
}

#[test]
fn requests_that_never_left_fail_in_the_next_process() {
    let mut talk = Kept::greeted();
    rustix::net::sockopt::set_socket_send_buffer_size(&talk.server, 4608).unwrap();
    let mut made = 0;
    while talk.server.dma_write(made, 0x1000, &[1; 4096]).is_ok() {
        made += 1;
    }
    assert_eq!(made, crate::state::MAX_KEPT_DMA as u64);
    talk.serve();
    talk.follow();
    talk.serve();
    let failed = |call: &Call| match call {
        Call::DmaDone {
            result: Err(Errno::CONNRESET),
            ..
        } => 1,
        _ => 0,
    };
    let failed: usize = talk.device.take().iter().map(failed).sum();
    let mut asked = Vec::new();
    while let bytes @ [_, ..] = &talk.read()[..] {
        asked.extend_from_slice(bytes);
        talk.serve();
    }
    assert_eq!(answers(&asked).len() + failed, made as usize);
    assert!(failed > 0);
}
