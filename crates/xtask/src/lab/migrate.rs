//! `cargo xtask lab migrate`: a guest that goes to the other host and comes back, with its connections.
//!
//! ```text
//!   host a                          host b
//!   guest a ──migration──► waiting QEMU        guest b
//!      `──────── ibv_rc_pingpong, perftest ───────^
//! ```

mod faults;
mod program;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets};
use serde_json::Value;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::wire::WireConfig;

use super::WireArguments;
use super::survive::Replacing;
use crate::guests::objects;
use program::Program;

/// Options of `cargo xtask lab migrate`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many migrations for each program; with an even number the guest ends where it began
    #[arg(long, value_name = "N", default_value = "2")]
    times: u32,

    /// Only programs whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// Let something die in each phase instead, and look whether the guest runs on where it was
    ///
    /// A row is a phase and who dies: the orchestrator by a signal that it can handle or not, the destination's QEMU or
    /// its daemon. The programs' connections must survive all of it. A guest then goes there and back all the same.
    #[arg(long, conflicts_with = "times")]
    faults: bool,

    /// After each migration, kill the workers of both daemons
    ///
    /// Those that follow must find the adapter where it is, and its connections must survive that, too.
    #[arg(long, conflicts_with = "faults")]
    crash: bool,

    /// Begins a migration as described, and dies in it
    #[arg(long, hide = true, num_args = faults::ORCHESTRATOR_WORDS)]
    orchestrator: Vec<String>,

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
    if !arguments.orchestrator.is_empty() {
        return faults::orchestrate(&arguments.orchestrator);
    }
    let program = super::daemon(false)?;
    let vrdma = super::built("vrdma-cli", "vrdma", false)?;
    let wire = arguments.wire.wire()?.unwrap_or_else(WireConfig::default);
    let mut pair = Pair::start(&PairConfig {
        travels: true,
        memory_mib: 256,
        supervised: arguments.crash,
        ..PairConfig::new(Network::Wire { program, wire })
    })?;
    if arguments.faults {
        return faults::run(&mut pair, &vrdma, &arguments.only);
    }
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
            crashes: arguments.crash,
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
    /// Workers are killed after each migration.
    crashes: bool,
}

impl Stage<'_> {
    fn migrate(&mut self, row: &Row, times: u32) -> Result<Outcome> {
        let program = Program::start(self.pair, &(row.command)(times))?;
        let mut moves = Vec::new();
        for _ in 0..times {
            if let Err(error) = objects::wait_for_traffic(self.pair, self.vrdma) {
                program.tell(self.pair);
                return Err(error);
            }
            moves.push(self.go()?);
            if self.crashes {
                self.crash()?;
            }
        }
        let statuses = program.statuses(self.pair)?;
        Ok(Outcome { moves, statuses })
    }

    fn crash(&self) -> Result<()> {
        for side in [Side::A, Side::B] {
            let replaced = Replacing::Kill.replace(self.pair.daemon_of(side))?;
            ensure!(replaced.is_some(), "a daemon has no worker");
        }
        Ok(())
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
            .args(["--verify", "--memory", &memory])
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
}
