//! The state of a connection, as bytes that may be damaged.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::message::{Command, MAX_DATA};
use crate::migration::State;
use crate::script::command;
use crate::session::Session;
use crate::state::{Handled, Head, MAX_KEPT_DMA, MAX_STATE, Pending, SessionState, VERSION};

/// A state with every field set.
fn full() -> SessionState {
    let message = command(0x1234, Command::RegionRead, &[0; 16]);
    let request = |id| Pending {
        id,
        command: Command::DmaRead,
        token: u64::MAX - u64::from(id),
        iova: 0x1_0000_0000,
        count: 4096,
        is_sent: id % 2 == 0,
    };
    SessionState {
        max_transfer: Some(MAX_DATA),
        handled: Some(Handled {
            head: Head::parse(*message.first_chunk().unwrap()).unwrap(),
            has_answer: true,
        }),
        pipe: 1,
        in_pieces: true,
        next_id: 32,
        requests: (0..MAX_KEPT_DMA as u16).map(request).collect(),
        migration: State::Running,
    }
}

fn empty() -> SessionState {
    SessionState {
        max_transfer: None,
        handled: None,
        pipe: 0,
        in_pieces: false,
        next_id: 0,
        requests: Vec::new(),
        migration: State::Stop,
    }
}

fn file() -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.join(format!("corpus/state{VERSION}.bin"))
}

#[test]
fn a_state_that_is_out_there_is_read() {
    let bytes = std::fs::read(file()).unwrap();
    assert_eq!(SessionState::decode(&bytes), Ok(full()));
}

#[test]
#[ignore = "writes a file, for whoever has raised the version"]
fn write_the_corpus() {
    std::fs::write(file(), full().encode()).unwrap();
}

#[test]
fn a_state_is_the_same_after_it_was_bytes() {
    for state in [full(), empty()] {
        let bytes = state.encode();
        assert!(bytes.len() <= MAX_STATE);
        assert_eq!(SessionState::decode(&bytes), Ok(state.clone()));
        let mut saved = state.clone();
        Session::resume(&state).save(&mut saved);
        assert_eq!(saved, state);
    }
    assert_eq!(full().encode().len(), MAX_STATE);
    const { assert!(MAX_STATE <= 900) };
}

#[test]
fn what_nobody_wrote_is_refused() {
    let good = full().encode();
    let changed = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        SessionState::decode(&bytes).unwrap_err().to_string()
    };
    let told = "the record of a connection to QEMU is damaged: ";
    assert_eq!(changed(0, 2), format!("{told}its version is another one"));
    let strange = format!("{told}it has values that nobody writes");
    assert_eq!(changed(1, 0xff), strange);
    assert_eq!(changed(3, 2), strange);
    assert_eq!(changed(31, 1), strange);
    let larger = format!("{told}its transfers are larger than any");
    assert_eq!(changed(7, 1), larger);
    assert_eq!(changed(8 + 4, 3), format!("{told}its header is none"));
    assert_eq!(changed(8 + 7, 1), format!("{told}its header is none"));
    let migration = format!("{told}its migration is in no state");
    assert_eq!(changed(26, 3), migration);
    let requests = format!("{told}it has more or fewer requests than it says");
    assert_eq!(changed(2, 31), requests);
    assert_eq!(changed(32 + 2, 9), format!("{told}a request in it is none"));
    let never = format!("{told}it has requests that were never made");
    assert_eq!(changed(32, 1), never);
    assert_eq!(changed(32 + 7, 1), never);
    let torn = SessionState::decode(&good[..good.len() - 1]).unwrap_err();
    assert_eq!(torn.to_string(), format!("{told}it is torn"));
    let short = SessionState::decode(&good[..31]).unwrap_err();
    assert_eq!(short.to_string(), format!("{told}it is too short"));
    let answer = SessionState {
        handled: None,
        ..full()
    };
    let mut bytes = answer.encode();
    bytes[1] |= 1 << 2;
    let nothing = SessionState::decode(&bytes).unwrap_err();
    assert_eq!(
        nothing.to_string(),
        format!("{told}it has an answer to nothing")
    );
}

proptest! {
    #[test]
    fn damaged_bytes_are_refused_or_are_a_state(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in 0..=MAX_STATE,
        cut in any::<bool>(),
    ) {
        let mut bytes = full().encode();
        for (at, value) in changes {
            *at.get_mut(&mut bytes) = value;
        }
        if cut {
            bytes.truncate(length);
        }
        if let Ok(state) = SessionState::decode(&bytes) {
            prop_assert_eq!(state.encode(), bytes);
            Session::resume(&state);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_are_a_state(bytes in vec(any::<u8>(), 0..1000)) {
        if let Ok(state) = SessionState::decode(&bytes) {
            prop_assert_eq!(state.encode(), bytes);
        }
    }
}
