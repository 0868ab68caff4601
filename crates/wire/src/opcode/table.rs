//! The table: one row for each opcode.

use super::Carries::{
    Ack, Atomic, AtomicAck, Datagram, DatagramImmediate, Immediate, Invalidate, Nothing, Remote,
    RemoteImmediate,
};
use super::Operation::{
    Acknowledge, AtomicAcknowledge, CompareSwap, Congestion, FetchAdd, Read, ReadResponse, Send,
    Write,
};
use super::Position::{First, Last, Middle, Only};
use super::Service::{Cnp, Rc, Uc, Ud};
use super::{Carries, Opcode, OpcodeInfo, Operation, Position, Service};

const NO: bool = false;
const YES: bool = true;

macro_rules! opcodes {
    ($($code:literal $name:ident $service:ident $operation:ident $position:ident
       $carries:expr, $payload:ident;)*) => {
        impl Opcode {
            $(#[doc = concat!("The code of `", stringify!($name), "`.")]
            pub const $name: Self = Self($code);)*
        }

        /// Every opcode of the table, by code.
        pub const OPCODES: &[OpcodeInfo] = &[$(OpcodeInfo {
            opcode: Opcode::$name,
            name: stringify!($name),
            service: $service,
            operation: $operation,
            position: $position,
            carries: $carries,
            payload: $payload,
        }),*];
    };
}

#[rustfmt::skip]
opcodes! {
    // code, name                 service operation         position headers     payload
    0x00 RC_SEND_FIRST             Rc  Send              First  Nothing, YES;
    0x01 RC_SEND_MIDDLE            Rc  Send              Middle Nothing, YES;
    0x02 RC_SEND_LAST              Rc  Send              Last   Nothing, YES;
    0x03 RC_SEND_LAST_IMMEDIATE    Rc  Send              Last   Immediate, YES;
    0x04 RC_SEND_ONLY              Rc  Send              Only   Nothing, YES;
    0x05 RC_SEND_ONLY_IMMEDIATE    Rc  Send              Only   Immediate, YES;
    0x06 RC_WRITE_FIRST            Rc  Write             First  Remote, YES;
    0x07 RC_WRITE_MIDDLE           Rc  Write             Middle Nothing, YES;
    0x08 RC_WRITE_LAST             Rc  Write             Last   Nothing, YES;
    0x09 RC_WRITE_LAST_IMMEDIATE   Rc  Write             Last   Immediate, YES;
    0x0a RC_WRITE_ONLY             Rc  Write             Only   Remote, YES;
    0x0b RC_WRITE_ONLY_IMMEDIATE   Rc  Write             Only   RemoteImmediate, YES;
    0x0c RC_READ_REQUEST           Rc  Read              Only   Remote, NO;
    0x0d RC_READ_RESPONSE_FIRST    Rc  ReadResponse      First  Ack, YES;
    0x0e RC_READ_RESPONSE_MIDDLE   Rc  ReadResponse      Middle Nothing, YES;
    0x0f RC_READ_RESPONSE_LAST     Rc  ReadResponse      Last   Ack, YES;
    0x10 RC_READ_RESPONSE_ONLY     Rc  ReadResponse      Only   Ack, YES;
    0x11 RC_ACKNOWLEDGE            Rc  Acknowledge       Only   Ack, NO;
    0x12 RC_ATOMIC_ACKNOWLEDGE     Rc  AtomicAcknowledge Only   AtomicAck, NO;
    0x13 RC_COMPARE_SWAP           Rc  CompareSwap       Only   Atomic, NO;
    0x14 RC_FETCH_ADD              Rc  FetchAdd          Only   Atomic, NO;
    0x16 RC_SEND_LAST_INVALIDATE   Rc  Send              Last   Invalidate, YES;
    0x17 RC_SEND_ONLY_INVALIDATE   Rc  Send              Only   Invalidate, YES;
    0x20 UC_SEND_FIRST             Uc  Send              First  Nothing, YES;
    0x21 UC_SEND_MIDDLE            Uc  Send              Middle Nothing, YES;
    0x22 UC_SEND_LAST              Uc  Send              Last   Nothing, YES;
    0x23 UC_SEND_LAST_IMMEDIATE    Uc  Send              Last   Immediate, YES;
    0x24 UC_SEND_ONLY              Uc  Send              Only   Nothing, YES;
    0x25 UC_SEND_ONLY_IMMEDIATE    Uc  Send              Only   Immediate, YES;
    0x26 UC_WRITE_FIRST            Uc  Write             First  Remote, YES;
    0x27 UC_WRITE_MIDDLE           Uc  Write             Middle Nothing, YES;
    0x28 UC_WRITE_LAST             Uc  Write             Last   Nothing, YES;
    0x29 UC_WRITE_LAST_IMMEDIATE   Uc  Write             Last   Immediate, YES;
    0x2a UC_WRITE_ONLY             Uc  Write             Only   Remote, YES;
    0x2b UC_WRITE_ONLY_IMMEDIATE   Uc  Write             Only   RemoteImmediate, YES;
    0x64 UD_SEND_ONLY              Ud  Send              Only   Datagram, YES;
    0x65 UD_SEND_ONLY_IMMEDIATE    Ud  Send              Only   DatagramImmediate, YES;
    0x81 CNP                       Cnp Congestion        Only   Carries::Cnp, NO;
}

/// Row of each code in [`OPCODES`]; for unknown codes it is beyond the end.
pub(super) const INDEX: [u8; 256] = {
    let mut index = [u8::MAX; 256];
    let mut row = 0;
    while row < OPCODES.len() {
        index[OPCODES[row].opcode.0 as usize] = row as u8;
        row += 1;
    }
    index
};

const SERVICES: usize = Cnp as usize + 1;
const OPERATIONS: usize = Congestion as usize + 1;
const POSITIONS: usize = Only as usize + 1;
const CARRIES: usize = Carries::Cnp as usize + 1;

/// Returns the index of an opcode's meaning in [`BY_MEANING`].
pub(super) const fn meaning(
    service: Service,
    operation: Operation,
    position: Position,
    carries: Carries,
) -> usize {
    let operation = service as usize * OPERATIONS + operation as usize;
    (operation * POSITIONS + position as usize) * CARRIES + carries as usize
}

/// Row of each meaning in [`OPCODES`]; beyond the end if there is none. Every packet sent is looked up here.
pub(super) static BY_MEANING: [u8; SERVICES * OPERATIONS * POSITIONS * CARRIES] = {
    let mut rows = [u8::MAX; SERVICES * OPERATIONS * POSITIONS * CARRIES];
    let mut row = 0;
    while row < OPCODES.len() {
        let info = &OPCODES[row];
        rows[meaning(info.service, info.operation, info.position, info.carries)] = row as u8;
        row += 1;
    }
    rows
};
