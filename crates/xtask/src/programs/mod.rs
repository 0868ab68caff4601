//! `cargo xtask programs`: unmodified programs of this host, and in containers, by the verbs library.
//!
//! ```text
//!   host-a (network namespace)             host-b
//!   program or container                   program or container
//!      | libibverbs.so.1 = ours               |
//!      `---- process socket ---> vrdmad <-----'
//!      `---- veth, for the programs' own TCP -'
//! ```
//!
//! Each side is an adapter with the address of its namespace, so that programs that meet over TCP and
//! programs that meet by `rdma_cm` call their peer by the same name. A container has the guests' root
//! file system, processes of its own, and of the daemon only the socket.

mod stage;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use vrdma_lab::pair::Side;
use vrdma_lab::place;

use crate::known::{self, Known};
use stage::{Inside, Stage};
pub(crate) use stage::{library, preload};
use table::Program;

/// How long one program may take. The slowest need a fifth of it on two busy cores.
const PROGRAM_LIMIT: Duration = Duration::from_secs(60);

/// Runs perftest, qperf, rdma-core's examples, UCX, libfabric and Open MPI as processes and in containers.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only what has this text in its name
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Print the names and exit
    #[arg(long)]
    list: bool,
    /// Only the rows that CI has time for: one of each kind
    #[arg(long)]
    short: bool,
}

const KNOWN: &[Known] = &[(
    "Open MPI over rc_verbs",
    "ranks of two processes on one adapter do not meet",
)];

/// Where both sides of a row run.
const SETTINGS: &[(&str, Inside)] = &[("process", Inside::Host), ("container", Inside::Container)];

struct Case {
    name: String,
    inside: Inside,
    program: Program,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut cases = cases(arguments.short);
    cases.retain(|case| case.name.contains(&arguments.only));
    ensure!(
        !cases.is_empty(),
        "nothing is called like {:?}; see --list",
        arguments.only
    );
    if arguments.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(ExitCode::SUCCESS);
    }
    Ok(report(&cases, &Stage::start()?))
}

fn cases(short: bool) -> Vec<Case> {
    let all = SETTINGS.iter().flat_map(|&(place, inside)| {
        let programs = table::programs(short, inside).into_iter();
        programs.map(move |program| Case {
            name: format!("{place}: {}", program.name),
            inside,
            program,
        })
    });
    all.collect()
}

fn report(cases: &[Case], stage: &Stage) -> ExitCode {
    let mut failed = 0;
    for (index, case) in cases.iter().enumerate() {
        let start = Instant::now();
        let outcome = check(case, stage);
        let known = known::reason(KNOWN, &case.program.name);
        let word = known::word(outcome.is_ok(), known);
        println!(
            "[{:>3}/{}] {word} {} ({:.1} s)",
            index + 1,
            cases.len(),
            case.name,
            start.elapsed().as_secs_f64()
        );
        match (outcome, known) {
            (Ok(()), _) => {}
            (Err(_), Some(reason)) => println!("{reason}"),
            (Err(error), None) => {
                failed += 1;
                println!("{error:#}\n--- daemon\n{}", stage.log_tail());
            }
        }
    }
    println!("{} rows, {failed} failed", cases.len());
    ExitCode::from(u8::from(failed > 0))
}

fn check(case: &Case, stage: &Stage) -> Result<()> {
    let [a, b] = [Side::A, Side::B].map(|side| stage.place(side, case.inside));
    let program = &case.program;
    let outcome = place::run((a, &program.server), (b, &program.client), PROGRAM_LIMIT)?;
    let words = outcome.client.stdout_text();
    ensure!(
        outcome.client.status == 0,
        "the client ended with status {}:\n{words}\nthe server said:\n{}",
        outcome.client.status,
        outcome.server.stdout_text(),
    );
    for expected in &program.expect {
        ensure!(
            words.contains(expected),
            "{expected:?} is missing in:\n{words}"
        );
    }
    stage.settles()
}
