//! Lines of the log: no client causes as many as it likes.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock};
use std::thread::ThreadId;

use rustix::net::SendFlags;
use tracing::span;
use vrdma_provider::VERSION;
use vrdma_provider::client::Connection;
use vrdma_provider::cm::Greet;
use vrdma_provider::layout::queue_header;
use vrdma_provider::message::{DestroyQp, Header, Hello, ListAdapter, Name, PACKET_MAX, encode};
use vrdma_provider::socket;

use crate::client::{Client, Host, SHORT, assert_works, hello, pair};
use crate::memory::own_memory;
use crate::two;

/// How often an action is repeated.
const TRIES: usize = 400;

/// Limit on lines: far fewer than tries, and more than those at once and one for each second that a slow machine needs.
const LINES: usize = 100;

/// Lines that each thread of this process has written.
static LINES_OF: OnceLock<Mutex<HashMap<ThreadId, usize>>> = OnceLock::new();

/// A subscriber that counts lines.
struct Counting;

impl tracing::Subscriber for Counting {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        let mut lines = LINES_OF.get_or_init(Mutex::default).lock().unwrap();
        *lines.entry(std::thread::current().id()).or_default() += 1;
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Starts a host whose lines are counted.
fn counted() -> (Host, Client, Client) {
    static BEGUN: OnceLock<()> = OnceLock::new();
    BEGUN.get_or_init(|| tracing::subscriber::set_global_default(Counting).unwrap());
    two()
}

/// Returns the number of lines of the host's shards.
fn lines(host: &Host) -> usize {
    let lines = LINES_OF.get_or_init(Mutex::default).lock().unwrap();
    let of_shards = host.shard_threads();
    of_shards.filter_map(|thread| lines.get(&thread)).sum()
}

/// Repeats an action many times: some of them are logged, and not all.
fn assert_told_now_and_then(host: &Host, mut work: impl FnMut()) {
    let before = lines(host);
    (0..TRIES).for_each(|_| work());
    let told = lines(host) - before;
    assert!((1..LINES).contains(&told), "{told} lines");
}

#[test]
fn rule_p12_who_is_refused_again_and_again_is_told_of_now_and_then() {
    let (host, a, b) = counted();
    let mut queues = pair(&a, &b);
    let memory = own_memory();
    let versions = || {
        let other = Hello {
            version: VERSION + 1,
            ..hello(0)
        };
        let connection = Connection::open(&host.path()).unwrap();
        connection.call(&other, &[memory.as_fd()]).unwrap_err();
        let other = Greet {
            version: VERSION + 1,
            reserved: 0,
            adapter: Name::default(),
        };
        let connection = Connection::open(&host.path()).unwrap();
        connection.call(&other, &[]).unwrap_err();
    };
    assert_told_now_and_then(&host, versions);
    assert_works(&a, &b, &mut queues);
}

#[test]
fn whose_memory_is_none_again_and_again_is_told_of_now_and_then() {
    let (host, ..) = counted();
    let memory = own_memory();
    let connection = Connection::open(&host.path()).unwrap();
    let nothing = Hello {
        nonce: 1,
        ..hello(0)
    };
    assert_told_now_and_then(&host, || {
        connection.call(&nothing, &[memory.as_fd()]).unwrap_err();
    });
}

#[test]
fn who_opens_adapters_again_and_again_is_told_of_now_and_then() {
    let (host, ..) = counted();
    assert_told_now_and_then(&host, || drop(Client::open(&host, 0)));
}

/// A client that is gone before the answer, and before its doorbell is watched.
#[test]
fn who_hangs_up_right_behind_its_hello_is_told_of_now_and_then() {
    let (host, a, b) = counted();
    let memory = own_memory();
    let mut buffer = [0; PACKET_MAX];
    let packet = encode(Header::of::<Hello>(0), &hello(0), &mut buffer);
    assert_told_now_and_then(&host, || {
        let connection = Connection::open(&host.path()).unwrap();
        let files = [memory.as_fd()];
        socket::send(connection.as_fd(), packet, &files, SendFlags::empty()).unwrap();
        drop(connection);
        // Served in its turn, after the client that hung up.
        Connection::open(&host.path())
            .unwrap()
            .call(&ListAdapter { index: 0 }, &[])
            .unwrap();
    });
    assert_works(&a, &b, &mut pair(&a, &b));
}

#[test]
fn whose_queue_pairs_fail_again_and_again_is_told_of_now_and_then() {
    let (host, a, _) = counted();
    assert_told_now_and_then(&host, || {
        let queues = a.queues(16);
        let producer = queues.reply.send.header as usize + queue_header::PRODUCER;
        queues.area.u32(producer).store(0x8000_0000, Relaxed);
        a.connect(&queues, a.number(), queues.reply.qp_num, SHORT);
        a.ringer.ring(queues.reply.doorbell);
        let failed = rustix::io::read(&a.events, &mut [0; 16]);
        assert_eq!(failed, Ok(16));
        a.call(&DestroyQp {
            qp: queues.reply.qp,
        })
        .unwrap();
    });
}
