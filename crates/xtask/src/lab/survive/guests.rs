//! The same between two stock guests: their device, its connections and QEMU's requests survive the workers.

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use vrdma_lab::daemon::Daemon;
use vrdma_lab::guest::{Output, Running};
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};

use super::{Outcome, PATIENCE, Pauses, Replacing, between, limit};
use crate::guests::{objects, with_device};

/// A program as server and client, for a number of seconds. Scripts of `sh`.
pub(super) struct Row {
    pub(super) name: &'static str,
    server: fn(u32) -> String,
    client: fn(u32) -> String,
}

macro_rules! programs {
    ($($name:literal, $command:expr;)*) => {
        [$(Row {
            name: concat!("guests: ", $name),
            server: |seconds| { let command: fn(u32) -> String = $command; command(seconds) },
            client: |seconds| { let command: fn(u32) -> String = $command; format!("{} $A", command(seconds)) },
        }),*]
    };
}

/// The first three compare every byte and report differences.
const PROGRAMS: [Row; 7] = programs! {
    "ibv_rc_pingpong -c", |seconds| {
        format!("ibv_rc_pingpong -d $DEV -g 1 -c -s 16384 -n {}", seconds * 1200)
    };
    "ibv_rc_pingpong -c -e", |seconds| {
        format!("ibv_rc_pingpong -d $DEV -g 1 -c -e -s 4096 -n {}", seconds * 800)
    };
    "ibv_srq_pingpong -c", |seconds| {
        format!("ibv_srq_pingpong -d $DEV -g 1 -c -q 4 -s 4096 -n {}", seconds * 1200)
    };
    "ib_send_lat", |seconds| format!("ib_send_lat -d $DEV -x 1 -F -s 64 -n {}", seconds * 2000);
    "ib_write_bw", |seconds| format!("ib_write_bw -d $DEV -x 1 -F -D {seconds}");
    "ib_send_bw", |seconds| format!("ib_send_bw -d $DEV -x 1 -F -D {seconds}");
    "ib_read_bw", |seconds| format!("ib_read_bw -d $DEV -x 1 -F -D {seconds}");
};

/// The kernels' own RDMA: blocks are written and read past all caches, and compared.
const NVME: Row = Row {
    name: "guests: NVMe over RDMA",
    server: |_| include_str!("nvme_target.sh").to_owned(),
    client: |seconds| format!("seconds={seconds}\n{}", include_str!("nvme_host.sh")),
};

pub(super) fn rows() -> impl Iterator<Item = Row> {
    PROGRAMS.into_iter().chain([NVME])
}

/// Two guests and a daemon with a keeper.
pub(super) struct Guests {
    pair: Pair,
    /// The command line program.
    cli: PathBuf,
}

impl Guests {
    pub(super) fn boot(program: PathBuf, cli: PathBuf) -> Result<Self> {
        let config = PairConfig {
            supervised: true,
            ..PairConfig::new(Network::Daemon(program))
        };
        let pair = Pair::start(&config)?;
        Ok(Self { pair, cli })
    }

    fn daemon(&self) -> Result<&Daemon> {
        self.pair.daemons().first().context("the pair has a daemon")
    }

    pub(super) fn survive(
        &self,
        row: &Row,
        seconds: u32,
        replacing: &Replacing,
    ) -> Result<Outcome> {
        let (a, b) = (self.pair.guest(Side::A), self.pair.guest(Side::B));
        let server = a.spawn(&with_device(&(row.server)(seconds)))?;
        a.wait_settled(&server)?;
        let client = b.spawn(&with_device(&(row.client)(seconds)))?;
        // Programs that connect by TCP do not try twice, and a worker that ends interrupts the Ethernet.
        objects::wait_for_traffic(&self.pair, &self.cli)?;
        let deadline = Instant::now() + limit(seconds);
        let mut pauses = Pauses::default();
        while client.status().is_none() && Instant::now() < deadline {
            thread::sleep(between(pauses.count()));
            if let Some(restart) = replacing.replace(self.daemon()?)? {
                pauses.add(restart);
            }
        }
        let statuses = [client, server].map(|program| ended(&program));
        if statuses != [Some(0); 2] {
            eprintln!("{}", self.pair.logs());
        }
        Ok(Outcome {
            pauses,
            statuses,
            longest: None,
        })
    }
}

/// The status of a program, which is killed if it does not end.
fn ended(program: &Running) -> Option<i32> {
    let status = program.wait_status(PATIENCE).ok();
    if status != Some(0) {
        let (stdout, stderr) = program.printed();
        let output = Output {
            status: status.unwrap_or(-1),
            stdout,
            stderr,
        };
        eprintln!("{}{}", output.stdout_text(), output.stderr_text());
        // It may have ended meanwhile.
        let _ = program.kill();
    }
    status
}
