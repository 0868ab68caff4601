//! A process that ends at any step, and another one that goes on.

use std::collections::VecDeque;
use std::io::ErrorKind;

use super::super::kept::Step;
use super::*;
use crate::script::posted;
use crate::state::SessionState;

/// More steps than any message takes, with those of the next process.
const STEPS: usize = 12;

/// What the client sends in one call: bytes, and how many descriptors.
type Sends = Vec<(Vec<u8>, usize)>;

/// A client's socket, the connection of the process of now, and what processes have in common.
struct Kept {
    client: UnixStream,
    server: Connection,
    device: Device,
}

impl Kept {
    fn new() -> Self {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        let server = Connection::kept(server.into(), Closing::by(drop)).unwrap();
        let device = Device {
            committed: Some((Vec::new(), server.state().unwrap().encode())),
            ..Device::default()
        };
        Self {
            client,
            server,
            device,
        }
    }

    fn greeted() -> Self {
        let mut kept = Self::new();
        kept.send(&(command(0, C::Version, QEMU_VERSION), 0));
        kept.serve();
        assert_eq!(answers(&kept.read()).len(), 1);
        kept
    }

    fn send(&mut self, (bytes, fds): &(Vec<u8>, usize)) {
        let fd = any_fd();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = vec![fd.as_fd(); *fds];
        assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
        let sent = sendmsg(
            &self.client,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::empty(),
        );
        assert_eq!(sent, Ok(bytes.len()));
    }

    /// Serves until there is nothing to do.
    fn serve(&mut self) {
        self.server.on_writable(&mut self.device).unwrap();
        while self.server.on_readable(&mut self.device).unwrap() == Progress::Worked {}
    }

    /// One step; false when there is nothing to do.
    fn step(&mut self) -> bool {
        let kept = self.server.kept.as_mut().unwrap();
        let step = kept.step(&mut self.server.client, &mut self.device);
        !matches!(step.unwrap(), Step::Idle | Step::Full)
    }

    fn try_resume(&self) -> std::io::Result<Connection> {
        let descriptors = self.server.descriptors().unwrap();
        let descriptors = descriptors.map(|fd| fd.try_clone_to_owned().unwrap());
        let (_, state) = self.device.committed.as_ref().unwrap();
        let state = SessionState::decode(state).unwrap();
        Connection::resume(descriptors, &state, Closing::by(drop))
    }

    /// The process ends, and another one goes on with what was committed.
    fn follow(&mut self) {
        self.server = self.try_resume().unwrap();
        let committed = self.device.committed.take();
        self.device = Device {
            calls: committed.as_ref().unwrap().0.clone(),
            committed,
            ..Device::default()
        };
    }

    /// All that the server sent.
    fn read(&mut self) -> Vec<u8> {
        let mut stream = Vec::new();
        let error = self.client.read_to_end(&mut stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        stream
    }
}

/// A stream cut into messages.
fn answers(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    while let Some(head) = stream.first_chunk::<HEADER_SIZE>() {
        let size = HEADER_SIZE + Header::parse(head).unwrap().payload as usize;
        let (answer, rest) = stream.split_at(size);
        answers.push(answer.to_vec());
        stream = rest;
    }
    assert!(stream.is_empty(), "a part of an answer");
    answers
}

fn one(bytes: Vec<u8>, fds: usize) -> Sends {
    vec![(bytes, fds)]
}

fn write(id: u16) -> Vec<u8> {
    command(id, C::RegionWrite, &[access(8, 0, 2), vec![1, 2]].concat())
}

fn posted_write(id: u16) -> Vec<u8> {
    posted(id, C::RegionWrite, &[access(8, 0, 2), vec![3, 4]].concat())
}

fn region_info(id: u16) -> Vec<u8> {
    command(
        id,
        C::DeviceGetRegionInfo,
        &words(&[64, 0, 2, 0, 0, 0, 0, 0]),
    )
}

fn set_irqs(id: u16) -> Vec<u8> {
    command(id, C::DeviceSetIrqs, &words(&[20, 0b100_100, 2, 0, 4]))
}

/// Every kind of message that passes a pipe, and some together.
fn conversations() -> Vec<Sends> {
    let read = |id, length| command(id, C::RegionRead, &access(0, 2, length));
    vec![
        one(read(1, 8), 0),
        one(read(1, 4096), 0),
        one(read(1, MAX_DATA), 0),
        one(write(1), 0),
        one(posted_write(1), 0),
        one(map(1, 3), 1),
        one(map(1, 3), 0),
        one(set_irqs(1), 4),
        one(set_irqs(1), MAX_MESSAGE_FDS + 1),
        one(command(1, C::DeviceReset, &[]), 2),
        one(command(1, C::DeviceGetInfo, &words(&[16, 0, 0, 0])), 0),
        one(command(1, C::RegionRead, &access(0, 5, 8)), 0),
        one(command(1, C::RegionWrite, &large()), 0),
        one([posted_write(1), posted_write(2), write(3)].concat(), 0),
        vec![
            (write(1), 0),
            (map(2, 3), 1),
            (posted_write(3), 0),
            (map(4, 3), 1),
        ],
        vec![
            (posted_write(1), 0),
            (set_irqs(2), 4),
            (read(3, 8), 0),
            (write(4), 0),
        ],
    ]
}

/// A write in several parts, of which each is in a buffer of the kernel's.
fn large() -> Vec<u8> {
    [access(0, 2, 0xf000), vec![7; 0xf000]].concat()
}

/// What a client of one process hears, and what the device.
fn undisturbed(mut talk: Kept, sends: &Sends) -> (Vec<Vec<u8>>, Vec<Call>) {
    sends.iter().for_each(|send| talk.send(send));
    talk.serve();
    (answers(&talk.read()), talk.device.take())
}

/// Processes end after so many steps each.
fn disturbed(mut talk: Kept, sends: &Sends, ends: &[usize]) -> (Vec<Vec<u8>>, Vec<Call>) {
    sends.iter().for_each(|send| talk.send(send));
    for steps in ends {
        (0..*steps).all(|_| talk.step());
        talk.follow();
    }
    talk.serve();
    assert!(!talk.server.wants_write());
    let (calls, _) = talk.device.committed.clone().unwrap();
    (answers(&talk.read()), calls)
}

#[test]
fn a_kept_connection_answers_as_any_other() {
    for sends in conversations() {
        let mut other = Pair::greeted();
        for (bytes, fds) in &sends {
            let fd = any_fd();
            match fds {
                0 => other.send(bytes),
                fds => other.send_with(bytes, &vec![fd.as_fd(); *fds]),
            }
            other.serve();
        }
        other.client.set_nonblocking(true).unwrap();
        let mut stream = Vec::new();
        other.client.read_to_end(&mut stream).unwrap_err();
        let (heard, calls) = undisturbed(Kept::greeted(), &sends);
        assert!(heard == answers(&stream), "{:?}", sends[0].0[2]);
        assert_eq!(calls, other.device.take());
    }
}

#[test]
fn each_command_has_one_answer_and_one_effect_wherever_processes_end() {
    for sends in conversations() {
        let expected = undisturbed(Kept::greeted(), &sends);
        let steps = STEPS * sends.len();
        for first in 0..steps {
            for second in [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(6)] {
                let ends: Vec<_> = [Some(first), second].into_iter().flatten().collect();
                let found = disturbed(Kept::greeted(), &sends, &ends);
                assert!(found == expected, "{ends:?} of {:?}", sends[0].0[2]);
            }
        }
    }
}

#[test]
fn a_greeting_has_one_answer_and_the_session_is_greeted() {
    let sends = vec![(command(1, C::Version, QEMU_VERSION), 0), (write(2), 0)];
    let expected = undisturbed(Kept::new(), &sends);
    assert_eq!(expected.0.len(), 2);
    for steps in 0..2 * STEPS {
        assert_eq!(disturbed(Kept::new(), &sends, &[steps]), expected);
    }
}

#[test]
fn descriptors_are_those_of_their_message_after_a_crash() {
    let mut sends = vec![(map(1, 3), 0), (map(2, 3), 1), (map(3, 3), 0)];
    for steps in 0..6 * STEPS {
        if steps >= 3 * STEPS {
            sends[0].0 = command(
                1,
                C::DmaMap,
                &[&map(1, 3)[HEADER_SIZE..], &large()].concat(),
            );
        }
        let (heard, calls) = disturbed(Kept::greeted(), &sends, &[steps]);
        let files: Vec<bool> = calls
            .iter()
            .filter_map(|call| match call {
                Call::Map { fd, .. } => Some(*fd),
                _ => None,
            })
            .collect();
        assert_eq!(
            (heard.len(), files),
            (3, vec![false, true, false]),
            "{steps}"
        );
    }
}

/// Several messages in one call, which nobody sends who asks for an answer to each.
#[test]
fn descriptors_of_two_messages_are_those_of_the_last() {
    let mut talk = Kept::greeted();
    talk.send(&([map(1, 3), map(2, 3)].concat(), 1));
    talk.send(&(map(3, 3), 1));
    talk.send(&(map(4, 3), 0));
    talk.serve();
    let seen = |call: &Call| matches!(call, Call::Map { fd: true, .. });
    let files: Vec<bool> = talk.device.take().iter().map(seen).collect();
    assert_eq!(files, [false, true, true, false]);
    assert_eq!(answers(&talk.read()).len(), 4);
}

/// The answer has a descriptor, which no pipe takes: it is given twice if the process ends right after it was sent.
#[test]
fn the_memory_of_a_region_is_handed_over_twice_after_one_of_the_steps() {
    let sends = one(region_info(1), 0);
    let counts: Vec<usize> = (0..STEPS)
        .map(|steps| disturbed(Kept::greeted(), &sends, &[steps]).0.len())
        .collect();
    let twice: VecDeque<usize> = counts.iter().copied().filter(|count| *count != 1).collect();
    assert_eq!(twice, [2], "{counts:?}");
    assert_eq!(counts[2], 2, "looked at and handled, sent");
}

#[test]
fn the_memory_of_a_region_comes_with_its_answer() {
    let mut talk = Kept::greeted();
    talk.send(&(region_info(1), 0));
    talk.serve();
    let mut bytes = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = rustix::net::RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        &talk.client,
        &mut [std::io::IoSliceMut::new(&mut bytes)],
        &mut control,
        rustix::net::RecvFlags::empty(),
    );
    assert_eq!(received.unwrap().bytes, HEADER_SIZE + 64);
    assert_eq!(control.drain().count(), 1);
}

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

/// Whatever a client sends, in one process after the other: its `close` may take long.
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

/// Requests of ours, wherever the process ends: one reply, or an error if they never left.
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
