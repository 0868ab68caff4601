//! Devices that migrate: every arc, data in pieces, the log, and what clients get wrong.

use rustix::io::Errno;

use crate::message::{Command as C, DATA_MAX, MAX_DATA, MAX_LOGGED_RANGES};
use crate::migration::State;
use crate::script::{
    Call, DATA, Device, HELD_MAX, Migrator, Sent, Step, Talk, WRITTEN, command, posted, words,
};
use crate::session::Session;
use crate::state::SessionState;

const GET: u32 = 1 << 16;
const SET: u32 = 1 << 17;
const PROBE: u32 = 1 << 18;

const MIGRATION: u32 = 1;
const STATE: u32 = 2;
const START: u32 = 6;
const STOP: u32 = 7;
const REPORT: u32 = 8;

/// A conversation about a device that can migrate.
fn talk() -> Talk {
    let mut talk = Talk::greeted();
    talk.device.migrator = Some(Migrator::default());
    talk
}

fn migrator(talk: &mut Talk) -> &mut Migrator {
    talk.device.migrator.as_mut().unwrap()
}

/// What the device was told since the last time.
fn steps(talk: &mut Talk) -> Vec<Step> {
    std::mem::take(&mut migrator(talk).steps)
}

fn feature(argsz: u32, flags: u32, data: &[u8]) -> Vec<u8> {
    let payload = [&words(&[argsz, flags]), data].concat();
    command(1, C::DeviceFeature, &payload)
}

fn set_state(code: u32) -> Vec<u8> {
    feature(16, SET | STATE, &words(&[code, u32::MAX]))
}

/// The errno of the only answer, if it has one.
fn errno(sent: &Sent) -> Option<i32> {
    match sent.header.kind {
        crate::message::Kind::Reply { error } => error.map(|error| error as i32),
        crate::message::Kind::Command { .. } => panic!("{sent:?}"),
    }
}

fn outcome(talk: &mut Talk, message: &[u8]) -> Result<Vec<u8>, Errno> {
    talk.send(message);
    let sent = talk.reply();
    match errno(&sent) {
        Some(errno) => Err(Errno::from_raw_os_error(errno)),
        None => Ok(sent.payload),
    }
}

fn state(talk: &mut Talk) -> u32 {
    let answer = outcome(talk, &feature(16, GET | STATE, &[])).unwrap();
    assert_eq!(answer[..8], words(&[16, GET | STATE]));
    assert_eq!(answer[12..], [0xff; 4], "there is no file");
    u32::from_le_bytes(*answer[8..].first_chunk().unwrap())
}

fn go(talk: &mut Talk, to: State) {
    let message = set_state(to as u32);
    assert_eq!(outcome(talk, &message).unwrap(), message[16..]);
}

/// One in this state.
fn talk_in(from: State) -> Talk {
    let mut talk = talk();
    if from == State::Error {
        go(&mut talk, State::Resuming);
        migrator(&mut talk).refuses = Some((Step::Load(Vec::new()), Errno::INVAL));
        let failed = outcome(&mut talk, &set_state(State::Stop as u32));
        assert_eq!(failed, Err(Errno::INVAL));
    } else {
        go(&mut talk, from);
    }
    steps(&mut talk);
    talk
}

fn read(talk: &mut Talk, size: u32) -> Result<Vec<u8>, Errno> {
    let message = command(1, C::MigDataRead, &words(&[8 + size, size]));
    let answer = outcome(talk, &message)?;
    let length = answer.len() as u32;
    assert_eq!(answer[..8], words(&[length, length - 8]));
    Ok(answer[8..].to_vec())
}

fn write(talk: &mut Talk, data: &[u8]) -> Result<(), Errno> {
    let size = data.len() as u32;
    let payload = [&words(&[8 + size, size]), data].concat();
    let answer = outcome(talk, &command(1, C::MigDataWrite, &payload))?;
    assert!(answer.is_empty());
    Ok(())
}

#[test]
fn a_device_that_cannot_migrate_says_so() {
    let mut talk = Talk::greeted();
    for flags in [GET | MIGRATION, PROBE | STATE, SET | STOP] {
        let refused = outcome(&mut talk, &feature(16, flags, &[]));
        assert_eq!(refused, Err(Errno::NOTTY));
    }
    assert_eq!(read(&mut talk, 8), Err(Errno::NOTTY));
    assert_eq!(write(&mut talk, b"data"), Err(Errno::NOTTY));
}

/// Every way from each state to each, by the steps that it takes.
#[test]
fn all_arcs_go_by_stop() {
    use State::{Error, Resuming, Running, Stop, StopCopy};
    let loaded = || Step::Load(Vec::new());
    let arcs = [
        (Running, Running, vec![]),
        (Running, Stop, vec![Step::Stop]),
        (Running, StopCopy, vec![Step::Stop, Step::Save]),
        (Running, Resuming, vec![Step::Stop, Step::Prepare]),
        (Stop, Running, vec![Step::GoOn]),
        (Stop, Stop, vec![]),
        (Stop, StopCopy, vec![Step::Save]),
        (Stop, Resuming, vec![Step::Prepare]),
        (StopCopy, Running, vec![Step::GoOn]),
        (StopCopy, Stop, vec![]),
        (StopCopy, StopCopy, vec![]),
        (StopCopy, Resuming, vec![Step::Prepare]),
        (Resuming, Running, vec![loaded(), Step::GoOn]),
        (Resuming, Stop, vec![loaded()]),
        (Resuming, StopCopy, vec![loaded(), Step::Save]),
        (Resuming, Resuming, vec![]),
    ];
    for (from, to, expected) in arcs {
        let mut talk = talk_in(from);
        go(&mut talk, to);
        assert_eq!(steps(&mut talk), expected, "{from:?} to {to:?}");
        assert_eq!(state(&mut talk), to as u32);
    }
    for from in State::ALL {
        let mut talk = talk_in(from);
        // ERROR, and what is not offered: RUNNING_P2P, PRE_COPY, PRE_COPY_P2P, and no state at all.
        for code in [Error as u32, 5, 6, 7, 8, u32::MAX] {
            let refused = outcome(&mut talk, &set_state(code));
            assert_eq!(refused, Err(Errno::INVAL), "{from:?} to {code}");
        }
        assert_eq!(state(&mut talk), from as u32);
        assert_eq!(steps(&mut talk), []);
    }
}

#[test]
fn only_a_reset_ends_an_error_and_it_ends_any_state() {
    for from in State::ALL {
        let mut talk = talk_in(from);
        if from == State::Error {
            for to in State::ALL {
                let refused = outcome(&mut talk, &set_state(to as u32));
                assert_eq!(refused, Err(Errno::INVAL));
            }
        }
        assert_eq!(steps(&mut talk), []);
        talk.send(&command(2, C::DeviceReset, &[]));
        talk.expect(2, C::DeviceReset, &[]);
        talk.expect_calls(&[Call::Reset]);
        assert_eq!(state(&mut talk), State::Running as u32);
    }
}

/// Where a step of a way fails.
#[test]
fn what_the_device_refuses_leaves_it_where_it_came() {
    use State::{Resuming, Running, Stop, StopCopy};
    let cases = [
        (Running, StopCopy, Step::Stop, Running),
        (Running, StopCopy, Step::Save, Stop),
        (Running, Resuming, Step::Prepare, Stop),
        (Stop, Running, Step::GoOn, Stop),
        (StopCopy, Running, Step::GoOn, Stop),
        (Resuming, Running, Step::GoOn, Stop),
        (Resuming, Running, Step::Load(Vec::new()), State::Error),
    ];
    for (from, to, step, left) in cases {
        let mut talk = talk_in(from);
        migrator(&mut talk).refuses = Some((step, Errno::BUSY));
        let refused = outcome(&mut talk, &set_state(to as u32));
        assert_eq!(refused, Err(Errno::BUSY), "{from:?} to {to:?}");
        assert_eq!(state(&mut talk), left as u32, "{from:?} to {to:?}");
    }
}

#[test]
fn data_is_read_in_pieces_to_its_end() {
    let mut talk = talk_in(State::StopCopy);
    let (first, rest) = DATA.split_at(10);
    assert_eq!(read(&mut talk, 10).unwrap(), first);
    assert_eq!(steps(&mut talk), []);
    assert_eq!(read(&mut talk, 1000).unwrap(), rest);
    assert_eq!(steps(&mut talk), [Step::Saved]);
    assert_eq!(read(&mut talk, 1000).unwrap(), b"");
    // Another transfer begins at the beginning.
    go(&mut talk, State::Stop);
    assert_eq!(read(&mut talk, 10), Err(Errno::INVAL));
    go(&mut talk, State::StopCopy);
    assert_eq!(read(&mut talk, MAX_DATA).unwrap(), DATA);
}

#[test]
fn data_is_written_in_pieces_and_loaded_at_their_end() {
    let mut talk = talk_in(State::Resuming);
    for piece in DATA.chunks(7) {
        write(&mut talk, piece).unwrap();
    }
    assert_eq!(steps(&mut talk), []);
    go(&mut talk, State::Running);
    assert_eq!(steps(&mut talk), [Step::Load(DATA.to_vec()), Step::GoOn]);
    // Nothing is left of it for the next time.
    go(&mut talk, State::Resuming);
    go(&mut talk, State::Stop);
    let again = [Step::Stop, Step::Prepare, Step::Load(Vec::new())];
    assert_eq!(steps(&mut talk), again);
}

#[test]
fn data_moves_in_its_states_only() {
    for from in State::ALL {
        let mut talk = talk_in(from);
        let readable = read(&mut talk, 4).is_ok();
        assert_eq!(readable, from == State::StopCopy, "{from:?}");
        let writable = write(&mut talk, b"data").is_ok();
        assert_eq!(writable, from == State::Resuming, "{from:?}");
    }
}

#[test]
fn pieces_keep_to_what_both_sides_take() {
    let mut talk = talk_in(State::StopCopy);
    assert_eq!(read(&mut talk, MAX_DATA + 1), Err(Errno::INVAL));
    for payload in [&[8 + 3, 4][..], &[0, 4], &[8]] {
        let refused = outcome(&mut talk, &command(1, C::MigDataRead, &words(payload)));
        assert_eq!(refused, Err(Errno::INVAL), "{payload:?}");
    }
    go(&mut talk, State::Resuming);
    for (size, length) in [(4, 3), (4, 5), (u32::MAX, 4)] {
        let payload = [&words(&[16, size]), &DATA[..length]].concat();
        let refused = outcome(&mut talk, &command(1, C::MigDataWrite, &payload));
        assert_eq!(refused, Err(Errno::INVAL), "{size}");
    }
    let mut small = Talk::default();
    small.device.migrator = Some(Migrator::default());
    let version = b"\0\0\0\0{\"capabilities\": {\"max_data_xfer_size\": 16}}\0";
    small.send(&command(0, C::Version, version));
    small.reply();
    go(&mut small, State::StopCopy);
    assert_eq!(read(&mut small, 17), Err(Errno::INVAL));
    assert_eq!(read(&mut small, 16).unwrap(), DATA[..16]);
}

#[test]
fn no_client_fills_the_memory() {
    let mut talk = talk_in(State::Resuming);
    let piece = vec![7; MAX_DATA as usize];
    for _ in 0..DATA_MAX / piece.len() {
        write(&mut talk, &piece).unwrap();
    }
    assert_eq!(write(&mut talk, b"x"), Err(Errno::FBIG));
    assert_eq!(state(&mut talk), State::Resuming as u32);
    write(&mut talk, b"").unwrap();
    assert_eq!(migrator(&mut talk).held, DATA_MAX);
    go(&mut talk, State::StopCopy);
    assert_eq!(migrator(&mut talk).held, DATA.len());
    go(&mut talk, State::Stop);
    assert_eq!(migrator(&mut talk).held, 0);
    // Others have what there is.
    migrator(&mut talk).others = HELD_MAX - DATA.len() + 1;
    let refused = outcome(&mut talk, &set_state(State::StopCopy as u32));
    assert_eq!(refused, Err(Errno::NOSPC));
    go(&mut talk, State::Resuming);
    assert_eq!(write(&mut talk, DATA), Err(Errno::NOSPC));
    write(&mut talk, &DATA[1..]).unwrap();
}

/// What nobody would see is not done.
#[test]
fn what_wants_no_answer_loses_nothing() {
    let mut talk = talk_in(State::StopCopy);
    talk.send(&posted(1, C::MigDataRead, &words(&[12, 4])));
    assert_eq!(read(&mut talk, MAX_DATA).unwrap(), DATA);
    steps(&mut talk);
    let report = [&words(&[40, GET | REPORT])[..], &report_of(0, 0x10_0000)].concat();
    talk.send(&posted(1, C::DeviceFeature, &report));
    assert_eq!(steps(&mut talk), []);
    assert_eq!(talk.replies(), []);
}

#[test]
fn features_are_probed_with_the_ways_to_use_them() {
    let mut talk = talk();
    let offered = [
        (MIGRATION, GET),
        (STATE, GET | SET),
        (START, SET),
        (STOP, SET),
        (REPORT, GET),
    ];
    for (index, methods) in offered {
        for asked in [0, GET, SET, GET | SET] {
            let message = feature(8, PROBE | asked | index, &[]);
            let expected = match asked & !methods {
                0 => Ok(message[16..].to_vec()),
                _ => Err(Errno::INVAL),
            };
            assert_eq!(outcome(&mut talk, &message), expected, "{index} {asked:#x}");
        }
    }
    for unknown in [0, 3, 4, 5, 9, 10, 0xffff] {
        for asked in [PROBE, PROBE | GET, GET, SET] {
            let refused = outcome(&mut talk, &feature(64, asked | unknown, &[0; 56]));
            assert_eq!(refused, Err(Errno::NOTTY), "{unknown}");
        }
    }
    assert_eq!(steps(&mut talk), []);
}

#[test]
fn the_offered_states_are_those_of_stop_and_copy() {
    let mut talk = talk();
    let answer = outcome(&mut talk, &feature(100, GET | MIGRATION, &[])).unwrap();
    assert_eq!(answer, words(&[16, GET | MIGRATION, 1, 0]));
}

#[test]
fn features_that_are_asked_for_in_a_wrong_way_are_refused() {
    let mut talk = talk();
    let log = [0x1000, 0, 1, 0, 0x10_0000, 0, 0x1000, 0];
    let wrong: [(u32, u32, &[u32]); 14] = [
        (16, MIGRATION, &[]),
        (16, GET | SET | STATE, &[1, 0]),
        (16, GET | STATE | 1 << 19, &[]),
        (16, SET | MIGRATION, &[1, 0]),
        (16, GET | START, &[]),
        (15, GET | MIGRATION, &[]),
        (15, GET | STATE, &[]),
        (0, PROBE | STATE, &[]),
        (15, SET | STATE, &[1, 0]),
        (16, SET | STATE, &[1]),
        (39, SET | START, &log),
        (64, SET | START, &log[..6]),
        (64, SET | START, &[0x1001, 0, 0, 0]),
        (64, SET | START, &[0, 0, 0, 0]),
    ];
    for (argsz, flags, data) in wrong {
        let refused = outcome(&mut talk, &feature(argsz, flags, &words(data)));
        assert_eq!(refused, Err(Errno::INVAL), "{argsz} {flags:#x} {data:?}");
    }
    let torn = outcome(&mut talk, &command(1, C::DeviceFeature, &[8, 0, 0, 0, 1]));
    assert_eq!(torn, Err(Errno::INVAL));
    for (iova, length) in [(0, 0), (u64::MAX, 2)] {
        let range = [iova.to_le_bytes(), u64::to_le_bytes(length)].concat();
        let data = [words(&[0x1000, 0, 1, 0]), range].concat();
        let refused = outcome(&mut talk, &feature(40, SET | START, &data));
        assert_eq!(refused, Err(Errno::INVAL));
    }
    let many = words(&[0x1000, 0, MAX_LOGGED_RANGES + 1, 0]);
    let refused = outcome(&mut talk, &feature(u32::MAX, SET | START, &many));
    assert_eq!(refused, Err(Errno::TOOBIG));
    assert_eq!(steps(&mut talk), []);
}

#[test]
fn a_log_is_of_pages_whatever_was_asked_for() {
    let mut talk = talk();
    let data = words(&[0x20_0000, 0, 1, 0, 0x10_0000, 0, 0x1000, 0]);
    let answer = outcome(&mut talk, &feature(40, SET | START, &data)).unwrap();
    let paged = words(&[40, SET | START, 0x1000, 0, 1, 0, 0x10_0000, 0, 0x1000, 0]);
    assert_eq!(answer, paged);
    let all = words(&[0x1000, 0, 0, 0]);
    migrator(&mut talk).refuses = Some((Step::StartLogging, Errno::INVAL));
    let again = outcome(&mut talk, &feature(24, SET | START, &all));
    assert_eq!(again, Err(Errno::INVAL));
    let stop = feature(8, SET | STOP, &[]);
    assert_eq!(outcome(&mut talk, &stop).unwrap(), stop[16..]);
    let told = [Step::StartLogging, Step::StartLogging, Step::StopLogging];
    assert_eq!(steps(&mut talk), told);
}

fn report_of(iova: u64, length: u64) -> Vec<u8> {
    [iova, length, 0x1000].map(u64::to_le_bytes).concat()
}

/// The bitmap that comes for a range, by the bits that are set.
fn report(talk: &mut Talk, numbers: [u64; 3], bitmap: u32) -> Result<Vec<usize>, Errno> {
    let data = numbers.map(u64::to_le_bytes).concat();
    let answer = outcome(talk, &feature(32 + bitmap, GET | REPORT, &data))?;
    assert_eq!(answer[..8], words(&[32 + bitmap, GET | REPORT]));
    assert_eq!(answer[8..32], data);
    let bitmap_bytes = &answer[32..];
    assert_eq!(bitmap_bytes.len(), bitmap as usize);
    let is_set = |bit: &usize| bitmap_bytes[bit / 8] >> (bit % 8) & 1 == 1;
    Ok((0..bitmap_bytes.len() * 8).filter(is_set).collect())
}

#[test]
fn written_pages_are_bits_from_the_start_of_the_range() {
    let mut talk = talk();
    let all = report(&mut talk, [0, 0x10_0000, 0x1000], 32).unwrap();
    assert_eq!(all, [0x10, 0x11, 0x50]);
    let some = report(&mut talk, [0x1_1000, 0x1_0000, 0x1000], 8).unwrap();
    assert_eq!(some, [0]);
    // Larger pages are written if a part of them is.
    let large = report(&mut talk, [0, 0x10_0000, 0x2000], 16).unwrap();
    assert_eq!(large, [8, 0x28]);
    let huge = report(&mut talk, [0, 0x10_0000, 0x20_0000], 8).unwrap();
    assert_eq!(huge, [0]);
    assert_eq!(steps(&mut talk).len(), 4);
    assert_eq!(WRITTEN.len(), 3);
    migrator(&mut talk).refuses = Some((Step::TakeWritten(0..0x1000), Errno::INVAL));
    assert_eq!(report(&mut talk, [0, 0x1000, 0x1000], 8), Err(Errno::INVAL));
}

#[test]
fn ranges_that_cannot_be_told_are_refused() {
    let mut talk = talk();
    // The largest bitmap that goes over.
    let most = u64::from(MAX_DATA) * 8 * 0x1000;
    report(&mut talk, [0, most, 0x1000], MAX_DATA).unwrap();
    // The last page of all addresses.
    report(&mut talk, [0u64.wrapping_sub(0x1000), 0x1000, 0x1000], 8).unwrap();
    steps(&mut talk);
    let wrong = [
        ([0, most + 0x1000, 0x1000], u32::MAX - 32),
        ([0, u64::MAX - 0xfff, 0x1000], u32::MAX - 32),
        ([0, 0, 0x1000], 8),
        ([0, 0x1000, 0x800], 8),
        ([0, 0x1000, 0x1800], 8),
        ([0, 0x1000, 0], 8),
        ([0x800, 0x1000, 0x1000], 8),
        ([0x1000, 0x2000, 0x2000], 8),
        ([0, 0x1800, 0x1000], 8),
        ([0u64.wrapping_sub(0x1000), 0x2000, 0x1000], 8),
        ([0, 0x1000, 0x1000], 7),
    ];
    for (numbers, bitmap) in wrong {
        let refused = report(&mut talk, numbers, bitmap);
        assert_eq!(refused, Err(Errno::INVAL), "{numbers:#x?}");
    }
    assert_eq!(steps(&mut talk), []);
}

/// The session of the next process, and whether its device is to stand still.
fn resumed(talk: &Talk) -> (Talk, bool) {
    let bytes = committed(talk).encode();
    let session = Session::resume(&SessionState::decode(&bytes).unwrap());
    let is_stopped = session.is_stopped();
    let device = Device {
        migrator: Some(Migrator::default()),
        ..Device::default()
    };
    (Talk { session, device }, is_stopped)
}

fn committed(talk: &Talk) -> SessionState {
    let mut state = SessionState {
        max_transfer: None,
        handled: None,
        pipe: 0,
        in_pieces: false,
        next_id: 0,
        requests: Vec::new(),
        migration: State::Running,
    };
    talk.session.save(&mut state);
    state
}

/// The data is lost with the process; a stopped device still stands still.
#[test]
fn another_process_has_the_device_and_not_the_data() {
    use State::{Error, Resuming, Running, Stop, StopCopy};
    let kept = [
        (Running, Running),
        (Stop, Stop),
        (StopCopy, Stop),
        (Resuming, Error),
        (Error, Error),
    ];
    for (before, after) in kept {
        let (mut talk, is_stopped) = resumed(&talk_in(before));
        assert_eq!(state(&mut talk), after as u32, "{before:?}");
        assert_eq!(is_stopped, after != Running);
    }
    let mut loaded = talk_in(Resuming);
    go(&mut loaded, Stop);
    assert_eq!(state(&mut resumed(&loaded).0), Error as u32);
    go(&mut loaded, Running);
    assert_eq!(state(&mut resumed(&loaded).0), Running as u32);
    go(&mut loaded, Stop);
    assert_eq!(state(&mut resumed(&loaded).0), Stop as u32);
}
