use std::collections::BTreeSet;
use std::vec::Vec;

use super::*;

#[test]
fn codes_are_unique_and_found_again() {
    for info in OPCODES {
        assert_eq!(info.opcode.info(), Some(info));
        let found = Opcode::find(info.service, info.operation, info.position, info.carries);
        assert_eq!(found, Some(info.opcode), "{}", info.name);
    }
    let codes: BTreeSet<_> = OPCODES.iter().map(|info| info.opcode).collect();
    assert_eq!(codes.len(), OPCODES.len());
    let known = (0..=255).filter(|&code| Opcode(code).info().is_some());
    assert_eq!(known.count(), OPCODES.len());
}

/// IBTA 9.2.1: the upper three bits name the service.
#[test]
fn the_code_says_the_service() {
    for info in OPCODES {
        let service = match info.opcode.0 >> 5 {
            0 => Service::Rc,
            1 => Service::Uc,
            3 => Service::Ud,
            _ => Service::Cnp,
        };
        assert_eq!(info.service, service, "{}", info.name);
    }
}

/// IBTA 9.2.1: the lower five bits mean the same for every service that has them.
#[test]
fn unreliable_connections_repeat_the_reliable_ones() {
    for info in OPCODES.iter().filter(|info| info.service == Service::Uc) {
        let rc = Opcode(info.opcode.0 & 31).info().unwrap();
        assert_eq!(
            (rc.operation, rc.position, rc.carries, rc.payload),
            (info.operation, info.position, info.carries, info.payload),
        );
    }
}

const POSITIONS: [Position; 4] = [
    Position::First,
    Position::Middle,
    Position::Last,
    Position::Only,
];

#[test]
fn positions_say_what_starts_and_ends() {
    for position in POSITIONS {
        assert_eq!(Position::new(position.starts(), position.ends()), position);
    }
}

/// A requester cuts every message of these operations into packets, so all positions must exist.
#[test]
fn messages_of_any_length_can_be_cut() {
    use Carries::{Immediate, Nothing, Remote, RemoteImmediate};
    for service in [Service::Rc, Service::Uc] {
        let exists = |operation, position, carries| {
            assert!(Opcode::find(service, operation, position, carries).is_some());
        };
        for position in POSITIONS {
            let target = if position.starts() { Remote } else { Nothing };
            exists(Operation::Send, position, Nothing);
            exists(Operation::Write, position, target);
        }
        exists(Operation::Send, Position::Last, Immediate);
        exists(Operation::Send, Position::Only, Immediate);
        exists(Operation::Write, Position::Last, Immediate);
        exists(Operation::Write, Position::Only, RemoteImmediate);
    }
}

#[test]
fn only_data_has_payload() {
    let without: Vec<_> = OPCODES
        .iter()
        .filter(|info| !info.payload)
        .map(|info| info.name)
        .collect();
    assert_eq!(
        without,
        [
            "RC_READ_REQUEST",
            "RC_ACKNOWLEDGE",
            "RC_ATOMIC_ACKNOWLEDGE",
            "RC_COMPARE_SWAP",
            "RC_FETCH_ADD",
            "CNP"
        ]
    );
}
