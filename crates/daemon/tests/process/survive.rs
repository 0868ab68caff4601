//! A worker is killed at any moment: its clients notice only a pause.
//!
//! Every message has a number that determines its payload; messages that arrive are counted and compared.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use vrdma_provider::message::{
    AllocPd, CreateCq, DeallocPd, DeregMr, DestroyCq, NO_CHANNEL, RegMr, access,
};
use vrdma_provider::socket::SOCKET_FILE;

use crate::client::{Client, LONG, Memory, Queues, Terms, connected, pair, send, write};

const CONFIGURATION: &str = r#"
supervise = true

[[portgroup]]
name = "blue"

[[adapter]]
name = "c0"
portgroup = "blue"
kind = "process"
ip = "10.0.0.1"

[[adapter]]
name = "c1"
portgroup = "blue"
kind = "process"
ip = "10.0.0.2"
"#;

/// Limit on starting a program; even a busy machine is faster.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Time in which systemd expects a sign of life. Here, nothing ends a daemon that gives none in time.
const WATCHDOG: Duration = Duration::from_secs(2);

/// Workers killed in one test.
const KILLS: u32 = 12;

/// A daemon whose workers are killed.
pub(crate) struct Kept {
    keeper: Child,
    folder: tempfile::TempDir,
    notified: UnixDatagram,
}

impl Kept {
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a daemon with additions to its configuration.
    pub(crate) fn start_with(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = folder.path().join("run");
        let file = folder.path().join("vrdmad.toml");
        fs::write(
            &file,
            format!("[daemon]\nrun_dir = {run_dir:?}{CONFIGURATION}{more}"),
        )
        .unwrap();
        let notify = folder.path().join("notify");
        let notified = UnixDatagram::bind(&notify).unwrap();
        notified.set_read_timeout(Some(PATIENCE)).unwrap();
        // As systemd does: the watchdog is for the process that it starts.
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "WATCHDOG_PID=$$ exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_vrdmad"),
        ]);
        command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        command.arg("--config").arg(file);
        command.args(["--crashes", "1000", "--log", "warn"]);
        let keeper = command.env("NOTIFY_SOCKET", notify).spawn().unwrap();
        let kept = Self {
            keeper,
            folder,
            notified,
        };
        kept.await_ready();
        kept
    }

    /// Waits until a worker says that it is ready.
    pub(crate) fn await_ready(&self) {
        self.await_notice(b"READY=1");
    }

    /// Waits until a worker sends this notice to the service supervisor.
    fn await_notice(&self, notice: &[u8]) {
        let mut said = [0; 64];
        loop {
            let length = self.notified.recv(&mut said).unwrap();
            if said[..length].starts_with(notice) {
                return;
            }
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.run_dir().join(SOCKET_FILE)
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Ends the worker: kills it, or has the daemon upgrade to its program as installed.
    pub(crate) fn end_worker(&self, is_upgrade: bool) {
        match is_upgrade {
            true => kill_process(Pid::from_child(&self.keeper), Signal::HUP).unwrap(),
            false => kill_process(self.worker(), Signal::KILL).unwrap(),
        }
    }

    pub(crate) fn worker_number(&self) -> u32 {
        self.worker().as_raw_nonzero().get() as u32
    }

    /// Kills the worker, and waits for the next one.
    pub(crate) fn kill_worker(&self) {
        kill_process(self.worker(), Signal::KILL).unwrap();
        self.await_ready();
    }

    fn worker(&self) -> Pid {
        let keeper = self.keeper.id();
        let children = Path::new("/proc").join(format!("{keeper}/task/{keeper}/children"));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let children = fs::read_to_string(&children).unwrap();
            let first = children.split_whitespace().next();
            if let Some(worker) = first.and_then(|number| Pid::from_raw(number.parse().ok()?)) {
                return worker;
            }
            assert!(Instant::now() < deadline, "no worker is started");
        }
    }

    /// Kills one worker after the other, each after `progress` has advanced, and then sets `ended`.
    pub(crate) fn kill_workers(&self, progress: &AtomicU32, ended: &AtomicBool) {
        for round in 0..KILLS {
            let seen = progress.load(SeqCst);
            let deadline = Instant::now() + PATIENCE;
            // Kills each worker at another moment of the work.
            while progress.load(SeqCst).wrapping_sub(seen) <= round * 7 % 50 {
                assert!(Instant::now() < deadline, "nothing goes on: round {round}");
                thread::yield_now();
            }
            self.kill_worker();
        }
        ended.store(true, SeqCst);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Returns the payload of message `number`.
fn content(number: u64) -> [u8; 64] {
    std::array::from_fn(|at| (number.wrapping_mul(37) as u8).wrapping_add(at as u8))
}

/// Numbered SENDs in one direction, each into a place of its own.
struct Stream<'a> {
    from: &'a Client,
    to: &'a Client,
    queues: (Queues, Queues),
    source: Memory,
    landing: Memory,
    posted: u64,
    sent: u64,
    received: u64,
}

const SLOTS: u64 = 8;

impl<'a> Stream<'a> {
    fn new(from: &'a Client, to: &'a Client) -> Self {
        let mut stream = Self {
            from,
            to,
            queues: connected(from, to, LONG),
            source: Memory::new(from, 0, SLOTS as usize * 64),
            landing: Memory::for_messages(to, SLOTS as usize * 64),
            posted: 0,
            sent: 0,
            received: 0,
        };
        (0..SLOTS).for_each(|number| stream.post_receive(number));
        stream
    }

    fn post_receive(&mut self, number: u64) {
        let buffer = part(&self.landing, number);
        self.to.post_recv(&mut self.queues.1, number, buffer);
    }

    /// Posts the next message for each that was received.
    fn go_on(&mut self) {
        self.post();
        self.take();
    }

    fn post(&mut self) {
        while self.posted < self.received + SLOTS && self.posted < self.sent + SLOTS {
            let number = self.posted;
            let at = (number % SLOTS) as usize * 64;
            self.source.bytes[at..at + 64].copy_from_slice(&content(number));
            let buffer = part(&self.source, number);
            self.from
                .post_send(&mut self.queues.0, send(number), buffer);
            self.posted += 1;
        }
    }

    fn take(&mut self) {
        while let Some(done) = self.queues.0.poll() {
            assert_eq!((done.status, done.wr_id), (0, self.sent), "sent in order");
            self.sent += 1;
        }
        while let Some(done) = self.queues.1.poll() {
            assert_eq!(
                (done.status, done.wr_id),
                (0, self.received),
                "received once"
            );
            let at = (self.received % SLOTS) as usize * 64;
            let found = &self.landing.bytes[at..at + 64];
            assert_eq!(found, content(self.received), "message {}", self.received);
            self.post_receive(self.received + SLOTS);
            self.received += 1;
        }
    }

    /// Whether a message is under way: the memory that it arrives in must not be freed.
    fn is_busy(&self) -> bool {
        self.received < self.posted || self.sent < self.posted
    }
}

fn part(memory: &Memory, number: u64) -> vrdma_provider::layout::Buffer {
    let mut buffer = memory.buffer();
    buffer.addr += number % SLOTS * 64;
    buffer.length = 64;
    buffer
}

#[test]
fn each_worker_gives_signs_of_life_for_the_keeper() {
    let kept = Kept::start();
    kept.await_notice(b"WATCHDOG=1");
    kept.kill_worker();
    kept.await_notice(b"WATCHDOG=1");
}

#[test]
fn messages_are_neither_lost_nor_doubled_when_workers_are_killed() {
    let kept = Kept::start();
    // One of the clients puts enclosed messages in place by itself.
    let (a, b) = (
        Client::open_at(&kept.socket(), 0),
        Client::enclosing_at(&kept.socket(), 1),
    );
    let mut there = Stream::new(&a, &b);
    let mut back = Stream::new(&b, &a);
    let (progress, ended) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| kept.kill_workers(&progress, &ended));
        while !ended.load(SeqCst) {
            there.go_on();
            back.go_on();
            progress.store((there.received + back.received) as u32, SeqCst);
        }
    });
    let goal = there.posted.max(back.posted) + 100;
    let deadline = Instant::now() + PATIENCE;
    while there.received < goal || back.received < goal {
        there.go_on();
        back.go_on();
        assert!(Instant::now() < deadline, "the last worker serves nobody");
    }
    while there.is_busy() || back.is_busy() {
        there.take();
        back.take();
        assert!(Instant::now() < deadline, "the last messages are lost");
    }
}

/// Each request gets one answer and is done once: objects that it made can be used and given back, and nothing else is
/// left.
#[test]
fn requests_are_answered_once_when_workers_are_killed() {
    let kept = Kept::start();
    let client = Client::open_at(&kept.socket(), 0);
    let bytes = vec![0u8; 8192];
    let (progress, ended) = (AtomicU32::new(0), AtomicBool::new(false));
    let mut numbers = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| kept.kill_workers(&progress, &ended));
        while !ended.load(SeqCst) {
            let pd = client.call(&AllocPd {}).unwrap().pd;
            let cq = client
                .connection
                .call(
                    &CreateCq {
                        entries: 16,
                        channel: NO_CHANNEL,
                        cookie: 1,
                    },
                    &[],
                )
                .unwrap();
            assert_eq!(cq.fds.len(), 1, "the ring comes with it");
            let region = RegMr {
                address: bytes.as_ptr() as u64,
                length: bytes.len() as u64,
                iova: bytes.as_ptr() as u64,
                pd,
                access: access::LOCAL_WRITE,
                ..RegMr::default()
            };
            let mr = client.call(&region).unwrap().mr;
            client.call(&DeregMr { mr }).unwrap();
            client.call(&DestroyCq { cq: cq.body.cq }).unwrap();
            client.call(&DeallocPd { pd }).unwrap();
            numbers.push(pd);
            progress.fetch_add(6, SeqCst);
        }
    });
    // An object that was made twice would use up a number forever.
    assert!(numbers.iter().all(|pd| *pd < 1024));
    assert!(numbers.len() >= KILLS as usize);
}

/// A region of memory that programs share, including its windows, is found again where it was.
#[test]
fn regions_and_connections_are_there_when_nothing_was_under_way() {
    let kept = Kept::start();
    let (a, b) = (
        Client::open_at(&kept.socket(), 0),
        Client::open_at(&kept.socket(), 1),
    );
    let mut queues = pair(&a, &b);
    let (from, to) = (Memory::new(&a, 7, 1 << 16), Memory::new(&b, 0, 1 << 16));
    for round in 0..3 {
        kept.kill_worker();
        a.post_send(&mut queues.0, write(round, &to), from.buffer());
        let done = queues.0.wait();
        assert_eq!((done.status, done.wr_id, to.first()), (0, round, 7));
    }
}

/// Adapters are made again one after another. Nothing of the first one may be sent before the last one is there: these
/// queue pairs have no timer that would send it again.
#[test]
fn nothing_is_sent_before_all_adapters_are_there_again() {
    let kept = Kept::start();
    let (a, b) = (
        Client::open_at(&kept.socket(), 0),
        Client::open_at(&kept.socket(), 1),
    );
    let terms = Terms { timeout: 0, ..LONG };
    let mut queues = connected(&a, &b, terms);
    let (from, to) = (Memory::new(&a, 7, 4096), Memory::new(&b, 0, 4096));
    for round in 0..3 {
        kept.end_worker(false);
        a.post_send(&mut queues.0, write(round, &to), from.buffer());
        let done = queues.0.wait();
        assert_eq!((done.status, done.wr_id, to.first()), (0, round, 7));
        kept.await_ready();
    }
}
