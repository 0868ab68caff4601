//! Hostile clients: for any bytes in any pieces, the session answers or ends, and its memory stays bounded.

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::io::Errno;

use crate::message::{Command, HEADER_SIZE, IRQ_TYPE_COUNT, Kind};
use crate::script::{Migrator, Talk, access, any_fd, command, message, sent, words};
use crate::session::OUTPUT_LIMIT;

/// `VFIO_DEVICE_FEATURE_SET` of `MIG_DEVICE_STATE`.
const SET_STATE: u32 = 1 << 17 | 2;

/// A message that is valid or nearly so.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        0u32..16,
        Just(0x1000),
        Just(0xffff_f000),
        Just(u32::MAX),
        any::<u32>(),
    ];
    let fields = vec(number, 0..12);
    let kind = prop_oneof![
        4 => Just(Kind::Command { no_reply: false }),
        1 => Just(Kind::Command { no_reply: true }),
    ];
    (any::<u16>(), 0u16..20, kind, fields)
        .prop_map(|(id, code, kind, fields)| message(id, code, kind, &words(&fields)))
}

/// A message to a device that migrates: states, data, its log.
fn migrating() -> impl Strategy<Value = Vec<u8>> {
    let state = (0u32..8).prop_map(|state| words(&[16, SET_STATE, state, 0]));
    let feature = (0u32..40, 0u32..10, 0u32..8, vec(0u32..0x2000, 0..8)).prop_map(
        |(argsz, index, methods, data)| words(&[&[argsz, index | methods << 16], &*data].concat()),
    );
    let size = (0u32..0x2000, 0u32..0x200).prop_map(|(argsz, size)| words(&[argsz, size]));
    let data = vec(any::<u8>(), 0..100).prop_map(|data| {
        let size = data.len() as u32;
        [words(&[8 + size, size]), data].concat()
    });
    prop_oneof![
        3 => state.prop_map(|payload| command(1, Command::DeviceFeature, &payload)),
        2 => feature.prop_map(|payload| command(2, Command::DeviceFeature, &payload)),
        1 => size.prop_map(|payload| command(3, Command::MigDataRead, &payload)),
        1 => data.prop_map(|payload| command(4, Command::MigDataWrite, &payload)),
    ]
}

/// A conversation after the version was accepted, with a device that can do everything.
fn greeted() -> Talk {
    let mut talk = Talk::greeted();
    talk.device.migrator = Some(Migrator::default());
    talk
}

fn read() -> impl Strategy<Value = Vec<u8>> {
    (any::<u16>(), 0u64..0x1100, 0u32..9, 0u32..0x200).prop_map(|(id, at, region, count)| {
        command(id, Command::RegionRead, &access(at, region, count))
    })
}

/// Feeds the stream in pieces with some descriptors, taking answers now and then. True if the session survived.
fn feed(talk: &mut Talk, stream: &[u8], pieces: &[(usize, usize, bool)]) -> bool {
    let mut rest = stream;
    for (length, fds, take) in pieces.iter().cycle() {
        if rest.is_empty() {
            return true;
        }
        let (now, later) = rest.split_at((*length).min(rest.len()));
        rest = later;
        let fds = (0..*fds).map(|_| sent(any_fd())).collect();
        if talk.feed(now, fds).is_err() {
            return false;
        }
        if *take {
            talk.replies();
        }
        let waiting = talk
            .session
            .outgoing()
            .map_or(0, |outgoing| outgoing.bytes.len());
        assert!(waiting <= OUTPUT_LIMIT);
        assert!(!talk.session.space().is_empty());
        talk.device.take();
    }
    true
}

fn pieces() -> impl Strategy<Value = Vec<(usize, usize, bool)>> {
    vec((1usize..200, 0usize..3, any::<bool>()), 1..20)
}

/// Checks that a valid command gets its answer: the stream is in step.
fn still_answers(talk: &mut Talk) {
    talk.replies();
    talk.device.take();
    talk.send(&command(0xbeef, Command::DeviceReset, &[]));
    talk.expect(0xbeef, Command::DeviceReset, &[]);
}

/// Found by fuzzing: with no vectors, any interrupt type was accepted.
#[test]
fn a_type_of_interrupts_that_is_none_is_refused() {
    const ALL_TRIGGER: u32 = 0b100_001;
    let mut talk = Talk::greeted();
    let payload = words(&[20, ALL_TRIGGER, IRQ_TYPE_COUNT, 0, 0]);
    talk.send(&command(1, Command::DeviceSetIrqs, &payload));
    talk.expect_error(1, Errno::INVAL);
    talk.expect_calls(&[]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(stream in vec(any::<u8>(), 0..2000), pieces in pieces()) {
        for mut talk in [Talk::default(), greeted()] {
            feed(&mut talk, &stream, &pieces);
        }
    }

    #[test]
    fn well_framed_nonsense_leaves_the_stream_in_step(
        messages in vec(prop_oneof![plausible(), read(), migrating()], 0..40),
        pieces in pieces(),
    ) {
        let mut talk = greeted();
        prop_assert!(feed(&mut talk, &messages.concat(), &pieces));
        still_answers(&mut talk);
    }

    #[test]
    fn every_command_that_wants_an_answer_gets_exactly_one(
        messages in vec(prop_oneof![plausible(), read(), migrating()], 0..40),
        pieces in pieces(),
    ) {
        let wanting = |message: &Vec<u8>| message[8] & 0x10 == 0;
        let expected: Vec<Vec<u8>> =
            messages.iter().filter(|m| wanting(m)).map(|m| m[..4].to_vec()).collect();
        let mut talk = greeted();
        let pieces: Vec<_> = pieces.iter().map(|(length, fds, _)| (*length, *fds, false)).collect();
        prop_assert!(feed(&mut talk, &messages.concat(), &pieces));
        let answered: Vec<Vec<u8>> = talk
            .replies()
            .iter()
            .map(|sent| {
                let (id, code) = (sent.header.id.to_le_bytes(), sent.header.command.to_le_bytes());
                [id, code].concat()
            })
            .collect();
        prop_assert_eq!(answered, expected);
    }

    #[test]
    fn how_the_stream_is_cut_does_not_matter(
        messages in vec(prop_oneof![plausible(), read(), migrating()], 0..20),
        pieces in pieces(),
    ) {
        let stream = messages.concat();
        let pieces: Vec<_> = pieces.iter().map(|(length, ..)| (*length, 0, false)).collect();
        let (mut whole, mut cut) = (greeted(), greeted());
        prop_assert!(feed(&mut whole, &stream, &[(stream.len().max(1), 0, false)]));
        prop_assert!(feed(&mut cut, &stream, &pieces));
        prop_assert_eq!(whole.replies(), cut.replies());
    }

    #[test]
    fn flipped_bits_in_payloads_leave_the_stream_in_step(
        messages in vec(read(), 1..20),
        flips in vec((any::<prop::sample::Index>(), 0usize..16, 0u8..8), 1..20),
    ) {
        let mut messages = messages;
        for (at, byte, bit) in flips {
            at.get_mut(&mut messages)[HEADER_SIZE + byte] ^= 1 << bit;
        }
        let mut talk = greeted();
        talk.send(&messages.concat());
        still_answers(&mut talk);
    }

    #[test]
    fn flipped_bits_anywhere_never_panic(
        messages in vec(prop_oneof![plausible(), read(), migrating()], 1..20),
        flips in vec((any::<prop::sample::Index>(), 0u8..8), 1..20),
        pieces in pieces(),
    ) {
        let mut stream = messages.concat();
        for (at, bit) in flips {
            *at.get_mut(&mut stream) ^= 1 << bit;
        }
        let mut talk = greeted();
        talk.session.dma_read(1, 0, 64).unwrap();
        feed(&mut talk, &stream, &pieces);
    }
}
