//! Measures how long the pause is when a worker with much state ends. As a measurement, it runs only on request:
//!
//! ```text
//! cargo test -p vrdma-daemon --release --test process pause -- --ignored --nocapture
//! VRDMA_TEST_ADAPTERS=200 VRDMA_TEST_QUEUE_PAIRS=10000 ...   as many of all adapters together, with a region each
//! VRDMA_TEST_REGIONS=10000 ...                               another number of regions
//! ```
//! Queue pairs of an adapter share a completion queue. Ten thousand queue pairs take more descriptors than many
//! machines allow; root with CAP_SYS_RESOURCE may have them.

use std::fmt::Write;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vrdma_provider::message::qp_type;

use crate::client::{Client, LONG, Memory, Queues, connected, write};
use crate::survive::Kept;

/// Workers ended in each way.
const ENDS: u64 = 5;

/// Limit on the daemon's descriptors: one or two for a queue pair, and some for each adapter.
const DESCRIPTORS: u64 = 1 << 17;

fn wanted(variable: &str, otherwise: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.map_or(otherwise, |value| value.parse().unwrap())
}

fn adapters(count: u8) -> String {
    // Two adapters are configured already.
    (2..count).fold(String::new(), |mut text, number| {
        let last = number + 1;
        let name = format!("name = \"c{number}\"\nportgroup = \"blue\"");
        let kind = format!("kind = \"process\"\nip = \"10.0.0.{last}\"");
        writeln!(text, "\n[[adapter]]\n{name}\n{kind}").unwrap();
        text
    })
}

/// Returns a process's resident memory, in kilobytes.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    words[1].parse().unwrap()
}

/// Registers regions of one page each.
fn regions(client: &Client, count: u64) -> Vec<Memory> {
    (0..count).map(|_| Memory::new(client, 0, 4096)).collect()
}

/// Connects queue pairs of two adapters, with a completion queue each.
fn of_two(clients: &[Client]) -> (Queues, Queues) {
    connected(&clients[0], &clients[1], LONG)
}

/// Connects two more queue pairs, which share those completion queues.
fn connect_more(clients: &[Client], queues: &(Queues, Queues)) {
    let (a, b) = queues;
    let ours = clients[0].queue_pair(qp_type::RC, a.cq_handle).body;
    let theirs = clients[1].queue_pair(qp_type::RC, b.cq_handle).body;
    clients[0].connect_pair(&ours, clients[1].number(), theirs.qp_num, LONG);
    clients[1].connect_pair(&theirs, clients[0].number(), ours.qp_num, LONG);
}

/// Ends the worker, and writes until the next one serves: a worker that is replaced still does the first writes.
/// Returns the longest write in milliseconds.
fn longest_while(kept: &Kept, is_upgrade: bool, mut write: impl FnMut()) -> f64 {
    let serves = AtomicBool::new(false);
    thread::scope(|scope| {
        kept.end_worker(is_upgrade);
        scope.spawn(|| {
            kept.await_ready();
            serves.store(true, Ordering::Relaxed);
        });
        let mut longest = Duration::ZERO;
        loop {
            let is_last = serves.load(Ordering::Relaxed);
            let began = Instant::now();
            write();
            longest = longest.max(began.elapsed());
            if is_last {
                return longest.as_secs_f64() * 1e3;
            }
        }
    })
}

/// Allows as many descriptors as needed, or as many as possible.
fn allow_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: Some(DESCRIPTORS),
        maximum: Some(maximum.map_or(DESCRIPTORS, |it| it.max(DESCRIPTORS))),
    };
    let allowed = Rlimit {
        current: maximum,
        maximum,
    };
    let limited = setrlimit(Resource::Nofile, wanted);
    limited
        .or_else(|_| setrlimit(Resource::Nofile, allowed))
        .unwrap();
}

#[test]
#[ignore = "it measures"]
fn pause() {
    allow_descriptors();
    let adapter_count = wanted("VRDMA_TEST_ADAPTERS", 2) as u8;
    let pairs = wanted("VRDMA_TEST_QUEUE_PAIRS", 2) / 2;
    let kept = Kept::start_with(&adapters(adapter_count));
    let clients: Vec<_> = (0..adapter_count)
        .map(|number| Client::open_at(&kept.socket(), number))
        .collect();
    let before = resident(kept.worker_number());
    let mut queues: Vec<_> = clients.chunks_exact(2).map(of_two).collect();
    for number in queues.len() as u64..pairs {
        let at = (number % queues.len() as u64) as usize;
        connect_more(&clients[at * 2..], &queues[at]);
    }
    let added = resident(kept.worker_number()).saturating_sub(before);
    let region_count = wanted("VRDMA_TEST_REGIONS", pairs * 2);
    let of_each = region_count / u64::from(adapter_count);
    let all: Vec<Vec<Memory>> = clients
        .iter()
        .map(|client| regions(client, of_each))
        .collect();
    println!(
        "{adapter_count} adapters, {} queue pairs, {region_count} regions",
        pairs.max(queues.len() as u64) * 2
    );
    println!("{} bytes resident a queue pair", added * 1024 / (pairs * 2));
    let last = queues.len() - 1;
    for (what, is_upgrade) in [("kill -9", false), ("upgrade", true)] {
        let mut id = 0;
        let mut pauses: Vec<f64> = (0..ENDS)
            .map(|_| {
                let (a, _) = &mut queues[last];
                let (from, to) = (last * 2, &all[last * 2 + 1][0]);
                longest_while(&kept, is_upgrade, || {
                    id += 1;
                    clients[from].post_send(a, write(id, to), all[from][0].buffer());
                    let done = a.wait();
                    assert_eq!((done.status, done.wr_id), (0, id));
                })
            })
            .collect();
        pauses.sort_by(f64::total_cmp);
        println!(
            "{what}: median {:.0} ms, worst {:.0} ms",
            pauses[pauses.len() / 2],
            pauses[pauses.len() - 1]
        );
    }
}
