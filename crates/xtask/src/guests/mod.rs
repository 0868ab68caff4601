//! `cargo xtask guests`: unmodified programs in stock guests, through a real daemon.
//!
//! One pair of guests is booted and runs every row of [`table`] from guest to guest, then some inside
//! one guest, then the scenarios of [`life`]. After each of them the daemon must hold exactly the
//! objects that the idle guests' kernels own: what a program leaves behind is a failure.

mod life;
mod objects;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use vrdma_lab::daemon::Doorbells;
use vrdma_lab::pair::{Network, Outcome, Pair, PairConfig};

use objects::Objects;
use table::Row;

/// How long one program may take. The slowest need a fifth of it on two busy cores.
const PROGRAM_LIMIT: Duration = Duration::from_secs(90);

/// Runs perftest, qperf, rdma-core's examples, UCX and Open MPI between and inside guests, then
/// kills programs, reboots guests and reloads drivers under traffic.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Only what has this text in its name
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Print the names and exit
    #[arg(long)]
    list: bool,
    /// How the adapters' doorbells work: mapped or trapped
    #[arg(long, default_value_t = Doorbells::Mapped)]
    doorbells: Doorbells,
}

/// What the whole run shares.
struct Bench {
    pair: Pair,
    /// The command line program.
    vrdma: PathBuf,
    /// What idle guests own.
    idle: Objects,
}

impl Bench {
    fn settles(&self) -> Result<()> {
        objects::wait_for(&self.pair, &self.vrdma, &self.idle)
    }
}

type Step = Box<dyn Fn(&mut Bench) -> Result<()>>;

struct Case {
    name: String,
    run: Step,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut cases = cases();
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
    let network = Network::Daemon(crate::lab::daemon(true)?);
    let config = PairConfig {
        doorbells: arguments.doorbells,
        ..PairConfig::new(network)
    };
    let pair = Pair::start(&config)?;
    let vrdma = crate::lab::built("vrdma-cli", "vrdma", true)?;
    let idle = Objects::of(&pair, &vrdma)?;
    Ok(report(&cases, &mut Bench { pair, vrdma, idle }))
}

fn cases() -> Vec<Case> {
    let rows = table::rows();
    let alone = rows.iter().filter(|row| row.alone).cloned();
    let alone: Vec<Case> = alone
        .map(|row| program(row, "in one guest: ", Pair::run_alone))
        .collect();
    let mut cases: Vec<Case> = rows
        .into_iter()
        .map(|row| program(row, "", Pair::run))
        .collect();
    cases.extend(alone);
    cases.extend(life::SCENARIOS.iter().map(|(name, scenario)| Case {
        name: (*name).to_owned(),
        run: Box::new(scenario),
    }));
    cases
}

type Start = fn(&Pair, &str, &str, Duration) -> Result<Outcome>;

fn program(row: Row, place: &str, start: Start) -> Case {
    Case {
        name: format!("{place}{}", row.name),
        run: Box::new(move |bench| check(bench, &row, start)),
    }
}

fn check(bench: &mut Bench, row: &Row, start: Start) -> Result<()> {
    let (server, client) = (with_device(&row.server), with_device(&row.client));
    let outcome = start(&bench.pair, &server, &client, PROGRAM_LIMIT)?;
    let client = &outcome.client;
    let words = client.stdout_text();
    ensure!(
        client.status == 0,
        "the client ended with status {}:\n{words}{}\nthe server said:\n{}{}",
        client.status,
        client.stderr_text(),
        outcome.server.stdout_text(),
        outcome.server.stderr_text(),
    );
    for expected in row.expect {
        ensure!(
            words.contains(expected),
            "{expected:?} is missing in:\n{words}"
        );
    }
    Ok(())
}

/// Defines `$DEV`, which the guests' boot does not know.
fn with_device(command: &str) -> String {
    format!("DEV=$(ls /sys/class/infiniband); {command}")
}

fn report(cases: &[Case], bench: &mut Bench) -> ExitCode {
    let mut failed = 0;
    for (index, case) in cases.iter().enumerate() {
        let start = Instant::now();
        let outcome = (case.run)(bench).and_then(|()| bench.settles());
        let (word, seconds) = (verdict(&outcome), start.elapsed().as_secs_f64());
        println!(
            "[{:>3}/{}] {word} {} ({seconds:.1} s)",
            index + 1,
            cases.len(),
            case.name
        );
        if let Err(error) = outcome {
            failed += 1;
            println!("{error:#}\n{}", bench.pair.logs());
        }
    }
    println!("{} passed, {failed} failed", cases.len() - failed);
    ExitCode::from(u8::from(failed > 0))
}

fn verdict(outcome: &Result<()>) -> &'static str {
    match outcome {
        Ok(()) => "ok    ",
        Err(_) => "FAILED",
    }
}
