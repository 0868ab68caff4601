//! Memory whose pages come late: the message that needs them still arrives, and no other client waits.
//!
//! ```text
//!   test ── daemon, a pair of its own
//!    └─ child: serves a file, whose bytes come when the test says so
//!        └─ its program: registers a mapping of the file, and sends from there or writes to there
//! ```
//! The program only waits meanwhile: the kernel may hold a lock of its address space until the page is there. Therefore
//! another process serves its file.

use std::fs::File;
use std::path::Path;

use rustix::io::Errno;
use vrdma_inventory::ShardOptions;
use vrdma_provider::layout::{Buffer, SendHeader, opcode};
use vrdma_provider::message::{DestroyQp, ModifyQp, MrReply, QpAttributes};

use super::{mapped, server};
use crate::adapters::shards;
use crate::child::{self, Child};
use crate::client::{Client, Host, Memory, Queues, assert_works, errno, pair, send};

/// Value of all bytes of the file.
const BYTE: u8 = 7;

/// Bytes of one message.
const LENGTH: u32 = 64;

/// Role of the late memory in the message.
#[derive(Clone, Copy)]
enum Late {
    Source = 1,
    Destination,
    /// Destination of a message whose queue pair ends before the page is there.
    Ended,
}

impl Late {
    fn of(told: Option<u64>) -> Self {
        let all = [Self::Source, Self::Destination, Self::Ended];
        let found = all.into_iter().find(|it| Some(*it as u64) == told);
        found.unwrap()
    }
}

/// The child's role.
pub(crate) fn serves_a_file(socket: &Path) {
    let place = tempfile::NamedTempFile::new().unwrap();
    let server = server::mount_over(place.path());
    let mut program = Child::start_with("late", socket, place.path());
    let what = Late::of(child::listen());
    program.tell(what as u64);
    server.await_request();
    if let Late::Ended = what {
        program.tell(0);
        assert_eq!(program.numbers(), [Errno::AGAIN.raw_os_error() as u64]);
    }
    child::say(&[]);
    assert!(child::listen().is_some(), "the test has failed");
    server.give(BYTE);
    child::say(&program.numbers());
}

/// The role of the child's program.
pub(crate) fn uses_a_file(socket: &Path) {
    let file = File::options().read(true).write(true).open(child::file());
    // Open until the end: a `close` would ask the server, too.
    let file = file.unwrap();
    assert_eq!(file.metadata().unwrap().len(), server::LENGTH);
    let at = mapped(&file);
    let (one, other) = (Client::open_at(socket, 0), Client::open_at(socket, 1));
    let mr = one.register(at, LENGTH.into());
    let mut queues = pair(&one, &other);
    let what = Late::of(child::listen());
    if let Late::Source = what {
        let to = Memory::new(&other, 0, LENGTH as usize);
        other.post_recv(&mut queues.1, 1, to.buffer());
        one.post_send(&mut queues.0, send(1), buffer(at, mr));
        let statuses = [queues.0.wait().status, queues.1.wait().status];
        let [sent, received] = statuses.map(u64::from);
        return child::say(&[sent, received, to.first().into()]);
    }
    let from = Memory::new(&other, BYTE + 1, LENGTH as usize);
    other.post_send(&mut queues.1, write_to(at, mr), from.buffer());
    if let Late::Ended = what {
        assert_eq!(child::listen(), Some(0));
        ends(&one, &queues.0);
        return child::say(&[0, 0, first(at).into()]);
    }
    let status = queues.1.wait().status;
    child::say(&[status.into(), 0, first(at).into()]);
}

/// Destroys a queue pair, which the daemon puts off as long as the page is late.
fn ends(client: &Client, queues: &Queues) {
    let again = Errno::AGAIN.raw_os_error();
    let destroy = || {
        client.call(&DestroyQp {
            qp: queues.reply.qp,
        })
    };
    assert_eq!(errno(destroy()), again);
    let attributes = QpAttributes {
        state: 6,
        ..QpAttributes::default()
    };
    let error = ModifyQp {
        qp: queues.reply.qp,
        mask: 1,
        attributes,
    };
    assert_eq!(errno(client.call(&error)), again);
    child::say(&[again as u64]);
    while let Err(refused) = destroy() {
        assert_eq!(refused.raw_os_error(), again);
    }
}

fn buffer(at: u64, mr: MrReply) -> Buffer {
    Buffer {
        addr: at,
        length: LENGTH,
        lkey: mr.lkey,
    }
}

fn write_to(at: u64, mr: MrReply) -> SendHeader {
    SendHeader {
        opcode: opcode::RDMA_WRITE,
        remote_addr: at,
        rkey: mr.rkey,
        ..send(1)
    }
}

fn first(at: u64) -> u8 {
    // SAFETY: a mapping that this process never ends.
    unsafe { std::ptr::read_volatile(at as *const u8) }
}

fn assert_delays_itself_alone(what: Late, arrives: u8) {
    for trusts_own_user in [false, true] {
        let options = ShardOptions {
            trusts_own_user,
            ..ShardOptions::unpinned(shards())
        };
        let host = Host::with(2, &options);
        let mut child = Child::start_apart("file, later", &host.path());
        let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
        let mut queues = pair(&a, &b);
        child.tell(what as u64);
        assert!(child.numbers().is_empty(), "the page is asked for");
        for _ in 0..4 {
            assert_works(&a, &b, &mut queues);
        }
        child.tell(0);
        assert_eq!(child.numbers(), [0, 0, arrives.into()]);
        assert_works(&a, &b, &mut queues);
    }
}

#[test]
fn a_message_from_a_page_that_comes_late_arrives_and_others_do_not_wait() {
    assert_delays_itself_alone(Late::Source, BYTE);
}

#[test]
fn a_message_into_a_page_that_comes_late_arrives_and_others_do_not_wait() {
    assert_delays_itself_alone(Late::Destination, BYTE + 1);
}

#[test]
fn a_queue_pair_does_not_end_while_something_may_be_written_for_it() {
    assert_delays_itself_alone(Late::Ended, BYTE + 1);
}
