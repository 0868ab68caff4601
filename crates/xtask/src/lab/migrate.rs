//! `cargo xtask lab migrate`: a guest that goes to the other host and comes back, with its connections.
//!
//! ```text
//!   host a                          host b
//!   guest a ──migration──► waiting QEMU        guest b
//!      `──────── ibv_rc_pingpong, perftest ───────^
//! ```
//! The server runs in guest a and writes into a file, since the lab's channel to it ends with its first QEMU.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use serde_json::Value;
use vrdma_lab::guest::{Guest, Running};
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::wire::WireConfig;

use super::WireArguments;
use crate::guests::{objects, with_device};

/// Options of `cargo xtask lab migrate`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many migrations for each program; with an even number the guest ends where it began
    #[arg(long, value_name = "N", default_value = "2")]
    times: u32,

    /// Only programs whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    #[command(flatten)]
    wire: WireArguments,
}

/// A program as server and client, for so many migrations.
struct Row {
    name: &'static str,
    command: fn(u32) -> String,
}

/// The first two compare every byte, or complain.
const ROWS: [Row; 6] = [
    Row {
        name: "ibv_rc_pingpong -c",
        command: |times| {
            format!(
                "ibv_rc_pingpong -d $DEV -g 1 -c -s 16384 -n {}",
                times * 8_000
            )
        },
    },
    Row {
        name: "ibv_srq_pingpong -c -e",
        command: |times| {
            format!(
                "ibv_srq_pingpong -d $DEV -g 1 -c -e -q 4 -s 4096 -n {}",
                times * 8_000
            )
        },
    },
    Row {
        name: "ib_send_lat",
        command: |times| format!("ib_send_lat -d $DEV -x 1 -F -s 64 -n {}", times * 8_000),
    },
    Row {
        name: "ib_write_bw",
        command: |times| format!("ib_write_bw -d $DEV -x 1 -F -D {}", times * 6),
    },
    Row {
        name: "ib_read_bw",
        command: |times| format!("ib_read_bw -d $DEV -x 1 -F -D {}", times * 6),
    },
    Row {
        name: "ib_atomic_bw",
        command: |times| format!("ib_atomic_bw -d $DEV -x 1 -F -D {}", times * 6),
    },
];

/// Beyond what a program was asked to run.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the guest's memory goes.
const MEMORY: &str = "memory.sock";

/// What became of a row.
struct Outcome {
    moves: Vec<Move>,
    statuses: [Option<i32>; 2],
}

/// What `vrdma migrate` tells.
struct Move {
    report: Value,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let program = super::daemon(false)?;
    let vrdma = super::built("vrdma-cli", "vrdma", false)?;
    let wire = arguments.wire.wire()?.unwrap_or_else(WireConfig::default);
    let mut pair = Pair::start(&PairConfig {
        travels: true,
        memory_mib: 256,
        ..PairConfig::new(Network::Wire { program, wire })
    })?;
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "program",
        "migrations",
        "downtime, ms",
        "total, ms",
        "outcome",
    ]);
    let mut failed = 0;
    let rows = ROWS.iter().filter(|row| row.name.contains(&arguments.only));
    for row in rows {
        eprintln!("{} ...", row.name);
        let outcome = Stage {
            pair: &mut pair,
            vrdma: &vrdma,
        }
        .migrate(row, arguments.times)?;
        let is_good = outcome.statuses == [Some(0); 2];
        failed += u32::from(!is_good);
        table.add_row([
            row.name.to_owned(),
            outcome.moves.len().to_string(),
            outcome.figures("downtime_ms"),
            outcome.figures("total_ms"),
            match is_good {
                true => "ok".to_owned(),
                false => format!("FAILED: {:?}", outcome.statuses),
            },
        ]);
    }
    println!("{table}");
    println!("{} rows, {failed} failed", table.row_iter().count());
    Ok(ExitCode::from(u8::from(failed > 0)))
}

impl Outcome {
    fn figures(&self, name: &str) -> String {
        let of = |it: &Move| {
            it.report[name]
                .as_f64()
                .map_or("?".to_owned(), |ms| format!("{ms:.0}"))
        };
        self.moves.iter().map(of).collect::<Vec<_>>().join(", ")
    }
}

struct Stage<'a> {
    pair: &'a mut Pair,
    vrdma: &'a PathBuf,
}

impl Stage<'_> {
    fn migrate(&mut self, row: &Row, times: u32) -> Result<Outcome> {
        let command = (row.command)(times);
        let server = with_device(&command);
        let started = format!(
            "rm -f /tmp/status; setsid sh -c '({server}) > /tmp/server.out 2>&1; echo $? > /tmp/status' \
             < /dev/null > /dev/null 2>&1 &"
        );
        self.pair.guest(Side::A).check(&started)?;
        await_server(self.pair.guest(Side::A))?;
        let client = with_device(&format!("{command} $A"));
        let client = self.pair.guest(Side::B).spawn(&client)?;
        let mut moves = Vec::new();
        for _ in 0..times {
            if let Err(error) = objects::wait_for_traffic(self.pair, self.vrdma) {
                self.tell(&client);
                return Err(error);
            }
            moves.push(self.go()?);
        }
        let statuses = [self.server_status()?, client_status(&client)];
        if statuses != [Some(0); 2] {
            self.tell(&client);
        }
        Ok(Outcome { moves, statuses })
    }

    /// One migration of guest a, to the host where it is not.
    fn go(&mut self) -> Result<Move> {
        let from = self.pair.place(Side::A);
        let arriving = self.pair.expect(Side::A)?;
        let memory = format!("unix:{}", self.pair.run_dir().join(MEMORY).display());
        let output = Command::new(self.vrdma)
            .args(["--json", "--socket"])
            .arg(self.pair.daemon_of(from).control_socket())
            .args(["migrate", Side::A.name(), "--to"])
            .arg(self.pair.daemon_of(from.other()).control_socket())
            .arg("--qmp")
            .arg(self.pair.monitor(Side::A))
            .arg("--to-qmp")
            .arg(arriving.monitor())
            .args(["--memory", &memory])
            .output()
            .context("cannot start vrdma")?;
        ensure!(
            output.status.success(),
            "vrdma migrate failed: {}{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout),
            self.pair.logs()
        );
        self.pair.arrived(arriving)?;
        // Its Ethernet has moved, too.
        self.pair.guest(Side::B).check("ping -c 1 -W 5 $A")?;
        let report = serde_json::from_slice(&output.stdout)?;
        Ok(Move { report })
    }

    fn server_status(&self) -> Result<Option<i32>> {
        let guest = self.pair.guest(Side::A);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = guest.check("cat /tmp/status 2> /dev/null || true")?;
            if let Ok(status) = status.trim().parse() {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                guest.check("pkill -9 ib || true")?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn tell(&self, client: &Running) {
        let server = self
            .pair
            .guest(Side::A)
            .check("cat /tmp/server.out; dmesg | tail -20");
        eprintln!(
            "server: {}",
            server.unwrap_or_else(|error| error.to_string())
        );
        let (stdout, stderr) = client.printed();
        eprintln!(
            "client: {}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
        eprintln!("{}", self.pair.logs());
    }
}

/// Perftest and the examples of libibverbs listen at 18515.
fn await_server(guest: &Guest) -> Result<()> {
    let listens = "for i in $(seq 200); do grep -qs ':4853 [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6 && exit 0; \
                   sleep 0.1; done; cat /tmp/server.out; exit 1";
    guest
        .check(listens)
        .map(drop)
        .context("the server does not listen")
}

fn client_status(client: &Running) -> Option<i32> {
    let status = client.wait_status(PATIENCE).ok();
    if status.is_none() {
        // It may have ended meanwhile.
        let _ = client.kill();
    }
    status
}
