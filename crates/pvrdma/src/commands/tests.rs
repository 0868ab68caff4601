//! Each command's success and refusals (rules 9 to 42 of the reference).

mod objects;
mod queue_pairs;
mod queues;

use vrdma_wire::Mtu;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::command::{ACK, Command, HEADER_BYTES, RESPONSE_BYTES};
use crate::abi::register::Vector;
use crate::abi::request::{Context, Handle, QueryPkey, QueryPort, ResizeCq};
use crate::abi::response::{Created, Pkey, PortAttributes};
use crate::testing::Guest;

const EINVAL: u32 = 22;
const ENOENT: u32 = 2;
const ENOMEM: u32 = 12;
const EFAULT: u32 = 14;
const EBUSY: u32 = 16;
const ENOTSUP: u32 = 95;

fn handle(handle: u32) -> Handle {
    Handle {
        handle: handle.into(),
        ..Handle::default()
    }
}

fn context(owner: u32) -> Context {
    Context {
        ctx_handle: owner.into(),
        ..Context::default()
    }
}

fn create_pd(guest: &mut Guest, owner: u32) -> u32 {
    guest
        .ask::<_, Created>(Command::CreatePd, &context(owner))
        .handle
        .get()
}

/// A request that is refused because of one fault.
struct Refusal<T> {
    what: &'static str,
    /// The change that makes a good request a bad one.
    spoil: fn(&mut T),
    errno: u32,
}

#[track_caller]
fn assert_refused<T>(guest: &mut Guest, command: Command, good: T, cases: &[Refusal<T>])
where
    T: Copy + IntoBytes + Immutable,
{
    for Refusal { what, spoil, errno } in cases {
        let mut request = good;
        spoil(&mut request);
        assert_eq!(guest.execute(command, &request), *errno, "{what}");
    }
}

#[test]
fn a_waited_command_answers_and_interrupts_once() {
    let mut guest = Guest::active();
    create_pd(&mut guest, 0);
    let header = guest.response_header();
    assert_eq!(header.ack.get(), ACK + Command::CreatePd as u32);
    assert_eq!(header.error, 0);
    assert_eq!(guest.device.take_interrupts(), Vector::Response.bit());
    assert_eq!(guest.device.take_interrupts(), 0);
}

#[test]
fn an_unwaited_command_does_not_interrupt() {
    let mut guest = Guest::active();
    let pd = create_pd(&mut guest, 0);
    guest.device.take_interrupts();
    assert_eq!(guest.execute(Command::DestroyPd, &handle(pd)), 0);
    assert_eq!(guest.device.take_interrupts(), 0);
}

#[test]
fn a_response_is_not_longer_than_it_should_be() {
    let mut guest = Guest::active();
    let response: [u8; RESPONSE_BYTES - HEADER_BYTES] = guest.ask(Command::CreatePd, &context(0));
    let body = size_of::<Created>();
    assert!(response[body..].iter().all(|byte| *byte == 0x5a));
}

#[test]
fn a_refused_command_leaves_no_valid_answer_and_no_interrupt() {
    let mut guest = Guest::active();
    assert_eq!(guest.execute(Command::CreatePd, &context(77)), ENOENT);
    let header = guest.response_header();
    assert_eq!((header.ack.get(), header.error), (0, ENOENT as u8));
    assert_eq!(guest.device.take_interrupts(), 0);
    assert_eq!(guest.device.snapshot().violations.commands, 1);
}

#[test]
fn unknown_commands_are_refused() {
    let mut guest = Guest::active();
    for code in [21, 22, 0x8000_0000, u32::MAX] {
        assert_eq!(guest.execute_code(code, &[0_u8; 8]), ENOTSUP, "{code:#x}");
    }
    assert_eq!(
        guest.execute(Command::ResizeCq, &ResizeCq::default()),
        ENOTSUP
    );
}

#[test]
fn the_port_is_active() {
    let mut guest = Guest::active();
    let request = QueryPort {
        port: 1,
        ..QueryPort::default()
    };
    let port: PortAttributes = guest.ask(Command::QueryPort, &request);
    assert_eq!((port.state.get(), port.phys_state), (4, 5));
    assert_eq!(port.active_mtu.get(), 5);
    guest.device.set_mtu(Mtu::B1024);
    let port: PortAttributes = guest.ask(Command::QueryPort, &request);
    assert_eq!((port.active_mtu.get(), port.max_mtu.get()), (3, 5));
    assert_eq!(port.gid_tbl_len.get(), guest.device.config().limits.gids);
    for port in [0, 2, 255] {
        let request = QueryPort { port, ..request };
        assert_eq!(guest.execute(Command::QueryPort, &request), EINVAL);
    }
}

#[test]
fn there_is_one_pkey() {
    let mut guest = Guest::active();
    let request = QueryPkey {
        port: 1,
        ..QueryPkey::default()
    };
    let pkey: Pkey = guest.ask(Command::QueryPkey, &request);
    assert_eq!(pkey.as_bytes()[..2], [0xff, 0xff]);
    let request = QueryPkey {
        index: 1,
        ..request
    };
    assert_eq!(guest.execute(Command::QueryPkey, &request), EINVAL);
}
