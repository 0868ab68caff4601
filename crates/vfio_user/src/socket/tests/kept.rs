//! Processes that end at any step, and the next one that goes on.

use std::collections::VecDeque;
use std::io::ErrorKind;

use super::super::kept::Step;
use super::*;
use crate::script::posted;
use crate::state::SessionState;

/// More steps than any message takes, including those of the next process.
pub(super) const STEPS: usize = 12;

/// The client's send calls: bytes, and number of descriptors.
pub(super) type Sends = Vec<(Vec<u8>, usize)>;

/// A client's socket, the connection of the present process, and the state that outlives processes.
pub(super) struct Kept {
    pub(super) client: UnixStream,
    pub(super) server: Connection,
    pub(super) device: Device,
}

impl Kept {
    pub(super) fn new() -> Self {
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

    pub(super) fn greeted() -> Self {
        let mut kept = Self::new();
        kept.send(&(command(0, C::Version, QEMU_VERSION), 0));
        kept.serve();
        assert_eq!(answers(&kept.read()).len(), 1);
        kept
    }

    pub(super) fn send(&mut self, message: &(Vec<u8>, usize)) {
        let (bytes, fds) = message;
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
    pub(super) fn serve(&mut self) {
        self.server.on_writable(&mut self.device).unwrap();
        while self.server.on_readable(&mut self.device).unwrap() == Progress::Worked {}
    }

    /// Makes one step; false if there is nothing to do.
    pub(super) fn step(&mut self) -> bool {
        let kept = self.server.kept.as_mut().unwrap();
        let step = kept.step(&mut self.server.client, &mut self.device);
        !matches!(step.unwrap(), Step::Idle | Step::Full)
    }

    pub(super) fn try_resume(&self) -> std::io::Result<Connection> {
        let descriptors = self.server.descriptors().unwrap();
        let descriptors = descriptors.map(|fd| fd.try_clone_to_owned().unwrap());
        let (_, state) = self.device.committed.as_ref().unwrap();
        let state = SessionState::decode(state).unwrap();
        Connection::resume(descriptors, &state, Closing::by(drop))
    }

    /// Ends the process, and goes on in another one from the last commit.
    pub(super) fn follow(&mut self) {
        self.server = self.try_resume().unwrap();
        let committed = self.device.committed.take();
        self.device = Device {
            calls: committed.as_ref().unwrap().0.clone(),
            committed,
            ..Device::default()
        };
    }

    /// All bytes that the server sent.
    pub(super) fn read(&mut self) -> Vec<u8> {
        let mut stream = Vec::new();
        let error = self.client.read_to_end(&mut stream).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        stream
    }
}

/// Cuts a stream into messages.
pub(super) fn answers(mut stream: &[u8]) -> Vec<Vec<u8>> {
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

pub(super) fn one(bytes: Vec<u8>, fds: usize) -> Sends {
    vec![(bytes, fds)]
}

pub(super) fn write(id: u16) -> Vec<u8> {
    command(id, C::RegionWrite, &[access(8, 0, 2), vec![1, 2]].concat())
}

pub(super) fn posted_write(id: u16) -> Vec<u8> {
    posted(id, C::RegionWrite, &[access(8, 0, 2), vec![3, 4]].concat())
}

pub(super) fn region_info(id: u16) -> Vec<u8> {
    command(
        id,
        C::DeviceGetRegionInfo,
        &words(&[64, 0, 2, 0, 0, 0, 0, 0]),
    )
}

pub(super) fn set_irqs(id: u16) -> Vec<u8> {
    command(id, C::DeviceSetIrqs, &words(&[20, 0b100_100, 2, 0, 4]))
}

/// Every kind of message that passes a pipe, and some together.
pub(super) fn conversations() -> Vec<Sends> {
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

/// A write in several parts, each in its own buffer of the kernel.
pub(super) fn large() -> Vec<u8> {
    [access(0, 2, 0xf000), vec![7; 0xf000]].concat()
}

/// The client's answers and the device's calls when one process does all.
pub(super) fn undisturbed(mut talk: Kept, sends: &Sends) -> (Vec<Vec<u8>>, Vec<Call>) {
    sends.iter().for_each(|send| talk.send(send));
    talk.serve();
    (answers(&talk.read()), talk.device.take())
}

/// The same when processes end, each after a number of steps.
pub(super) fn disturbed(
    mut talk: Kept,
    sends: &Sends,
    ends: &[usize],
) -> (Vec<Vec<u8>>, Vec<Call>) {
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

/// Several messages in one call, which no client sends that waits for an answer to each.
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

/// The answer has a descriptor, which no pipe takes: it is sent twice if the process ends right after it was sent.
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
