//! Half of a round trip of two bytes, and of a bare wake-up.

use std::env;
use std::hint::spin_loop;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

use crate::Floor;

const ROUNDS: usize = 10_000;

/// Rounds of a ring, which are a hundred times shorter than the others.
const RING_ROUNDS: usize = 200_000;

/// Rounds before those that are measured.
const WARM_UP: usize = 500;

const MESSAGE: usize = 2;

/// A cache line of its own, with the neighbour that is fetched along with it.
#[repr(align(128))]
struct Line(AtomicU64);

static THERE: Line = Line(AtomicU64::new(0));
static BACK: Line = Line(AtomicU64::new(0));

pub(super) fn all() -> io::Result<Vec<Floor>> {
    Ok(vec![
        of("bare shared ring", ring()),
        of(
            "bare shared ring, both ends on one core",
            ring_on_one_core()?,
        ),
        of("wake-up by eventfd", wake()?),
        of("Unix socket", unix()?),
        of("TCP loopback", tcp()?),
    ])
}

/// Makes a result of round trips in nanoseconds.
fn of(name: &'static str, mut rounds: Vec<u64>) -> Floor {
    rounds.sort_unstable();
    let at = |share: f64| {
        let index = (rounds.len() as f64 * share) as usize;
        rounds[index.min(rounds.len() - 1)] as f64 / 2000.0
    };
    Floor {
        cell: "latency, 2 B",
        name,
        unit: "us",
        typical: at(0.5),
        tail: Some([at(0.99), at(0.999)]),
    }
}

fn timed(rounds: usize, mut round: impl FnMut() -> io::Result<()>) -> io::Result<Vec<u64>> {
    for _ in 0..WARM_UP {
        round()?;
    }
    let one = |_| {
        let start = Instant::now();
        round()?;
        Ok(start.elapsed().as_nanos() as u64)
    };
    (0..rounds).map(one).collect()
}

/// Measures two spinning threads: sequence numbers that stand for slots of a ring.
fn ring() -> Vec<u64> {
    thread::scope(|scope| {
        scope.spawn(|| answer_rounds(spin_loop));
        ask_rounds(spin_loop)
    })
}

/// The same on one core, which each thread yields to the other: like two programs beside a daemon that has the only
/// other core.
fn ring_on_one_core() -> io::Result<Vec<u64>> {
    let mut core = CpuSet::new();
    core.set(sched_getcpu());
    thread::scope(|scope| {
        let answering = scope.spawn(|| -> io::Result<()> {
            sched_setaffinity(None, &core)?;
            answer_rounds(thread::yield_now);
            Ok(())
        });
        let asking = scope.spawn(|| -> io::Result<Vec<u64>> {
            sched_setaffinity(None, &core)?;
            Ok(ask_rounds(thread::yield_now))
        });
        let told = |_| io::Error::other("a thread of the ring ended early");
        let rounds = asking.join().map_err(told)?;
        answering.join().map_err(told)??;
        rounds
    })
}

/// Answers all rounds; `idle` is called while there is nothing to answer.
fn answer_rounds(idle: fn()) {
    for number in 1..=(RING_ROUNDS + WARM_UP) as u64 {
        while THERE.0.load(Acquire) < number {
            idle();
        }
        BACK.0.store(number, Release);
    }
    // For the next measurement.
    THERE.0.store(0, Release);
}

fn ask_rounds(idle: fn()) -> Vec<u64> {
    let mut number = 0;
    let rounds = timed(RING_ROUNDS, || {
        number += 1;
        THERE.0.store(number, Release);
        while BACK.0.load(Acquire) != number {
            idle();
        }
        Ok(())
    });
    rounds.unwrap_or_default()
}

/// Measures two threads that sleep.
fn wake() -> io::Result<Vec<u64>> {
    let (there, back) = (
        eventfd(0, EventfdFlags::CLOEXEC)?,
        eventfd(0, EventfdFlags::CLOEXEC)?,
    );
    let one = 1u64.to_ne_bytes();
    thread::scope(|scope| {
        scope.spawn(|| -> io::Result<()> {
            let mut count = [0; 8];
            for _ in 0..ROUNDS + WARM_UP {
                rustix::io::read(&there, &mut count)?;
                rustix::io::write(&back, &one)?;
            }
            Ok(())
        });
        timed(ROUNDS, || {
            rustix::io::write(&there, &one)?;
            rustix::io::read(&back, &mut [0; 8])?;
            Ok(())
        })
    })
}

fn unix() -> io::Result<Vec<u64>> {
    let path = env::temp_dir().join(format!("floors-{}.socket", std::process::id()));
    let listener = UnixListener::bind(&path)?;
    let mut child = other("echo-unix", &path.to_string_lossy())?;
    let (stream, _) = listener.accept()?;
    std::fs::remove_file(&path)?;
    let rounds = ping(stream);
    child.wait()?;
    rounds
}

fn tcp() -> io::Result<Vec<u64>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut child = other("echo-tcp", &listener.local_addr()?.to_string())?;
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let rounds = ping(stream);
    child.wait()?;
    rounds
}

fn ping(mut stream: impl Read + Write) -> io::Result<Vec<u64>> {
    let mut message = [1; MESSAGE];
    timed(ROUNDS, || {
        stream.write_all(&message)?;
        stream.read_exact(&mut message)
    })
}

/// Starts this program again in another role.
pub(super) fn other(role: &str, argument: &str) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .args([role, argument])
        .spawn()
}

pub(super) fn echo_tcp(address: &str) -> io::Result<()> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    echo(stream)
}

pub(super) fn echo_unix(path: &str) -> io::Result<()> {
    echo(UnixStream::connect(path)?)
}

fn echo(mut stream: impl Read + Write) -> io::Result<()> {
    let mut message = [0; MESSAGE];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message)?;
    }
    Ok(())
}
