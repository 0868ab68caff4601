//! Devices that migrate: every arc, data in pieces, and errors of clients.

mod features;

use rustix::io::Errno;

use crate::message::{Command as C, DATA_MAX, MAX_DATA};
use crate::migration::State;
use crate::script::{
    Call, DATA, Device, HELD_MAX, Migrator, Sent, Step, Talk, command, posted, words,
};
use crate::session::Session;
use crate::state::SessionState;

const GET: u32 = 1 << 16;
const SET: u32 = 1 << 17;
const PROBE: u32 = 1 << 18;

const MIGRATION: u32 = 1;
const STATE: u32 = 2;
const STOP: u32 = 7;

/// A conversation about a device that can migrate.
fn talk() -> Talk {
    let mut talk = Talk::greeted();
    talk.device.migrator = Some(Migrator::default());
    talk
}

fn migrator(talk: &mut Talk) -> &mut Migrator {
    talk.device.migrator.as_mut().unwrap()
}

/// The device's calls since the last time.
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

/// The errno of an answer, if it has one.
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

/// A conversation about a device in this state.
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

/// Each pair of states, with the steps between them.
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
        // ERROR, and states that are not offered: RUNNING_P2P, PRE_COPY, PRE_COPY_P2P, and invalid numbers.
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

/// The state after a failed step.
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
    // Another transfer begins at the first byte.
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
    // No data is left for the next time.
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
    // The memory for data is used up by others.
    migrator(&mut talk).others = HELD_MAX - DATA.len() + 1;
    let refused = outcome(&mut talk, &set_state(State::StopCopy as u32));
    assert_eq!(refused, Err(Errno::NOSPC));
    go(&mut talk, State::Resuming);
    assert_eq!(write(&mut talk, DATA), Err(Errno::NOSPC));
    write(&mut talk, &DATA[1..]).unwrap();
}

/// A request without an answer has no effect.
#[test]
fn what_wants_no_answer_loses_nothing() {
    let mut talk = talk_in(State::StopCopy);
    talk.send(&posted(1, C::MigDataRead, &words(&[12, 4])));
    assert_eq!(read(&mut talk, MAX_DATA).unwrap(), DATA);
    assert_eq!(talk.replies(), []);
}

/// The session of the next process, and whether its device must stand still.
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
