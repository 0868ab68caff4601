//! `cargo xtask guests`: unmodified programs in stock guests, through a real daemon.
//!
//! One pair of guests is booted and runs each row of [`table`] from guest to guest, then some inside one guest, then
//! the scenarios of [`life`]. After each of them the daemon must hold exactly the objects that the idle guests' kernels
//! own: an object that a program leaves behind is a failure.
//!
//! Between two hosts the same rows cross a wire. When one guest's RDMA is rxe, they run in both directions, and after
//! each row rxe must have found no packet with a wrong ICRC.

mod last_word;
mod life;
pub(crate) mod objects;
mod selection;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use vrdma_api::DoorbellMode;
use vrdma_lab::guest::{Guest, Kind};
use vrdma_lab::pair::{Network, Outcome, Pair, PairConfig, Side};
use vrdma_lab::wire::WireConfig;

use crate::lab::WireArguments;
use crate::named::{self, Known, Only};
use crate::rxe;
use objects::Objects;
pub(crate) use selection::{Setting, rows};
pub(crate) use table::Row;

/// How long one program may take. The slowest need a fifth of it on two busy cores.
const PROGRAM_LIMIT: Duration = Duration::from_secs(90);

/// None at present.
const KNOWN: &[Known] = &[];

/// Runs perftest, qperf, rdma-core's examples, UCX and Open MPI between and inside guests, then
/// kills programs, reboots guests and reloads drivers under traffic.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    only: Only,
    /// Print the names and exit
    #[arg(long)]
    list: bool,
    /// Only the rows that CI has time for: one of each kind
    #[arg(long)]
    short: bool,
    /// Kind of guest a: vrdma or rxe
    #[arg(long, default_value_t = Kind::Vrdma)]
    a: Kind,
    /// Kind of guest b
    #[arg(long, default_value_t = Kind::Vrdma)]
    b: Kind,
    /// How the adapters' doorbells work: mapped or trapped
    #[arg(long, default_value_t = DoorbellMode::Mapped)]
    doorbells: DoorbellMode,
    #[command(flatten)]
    wire: WireArguments,
}

/// What all rows of a run share.
struct Bench {
    pair: Pair,
    /// The command line program.
    vrdma: PathBuf,
    /// The objects of idle guests.
    idle: Objects,
    /// Whether the wire's faults leave each packet's bits unchanged.
    intact: bool,
    /// Whether frames get lost.
    lossy: bool,
}

impl Bench {
    fn settles(&self) -> Result<()> {
        objects::wait_for(&self.pair, &self.vrdma, &self.idle)?;
        match self.intact {
            true => rxe::check(guests(&self.pair)),
            false => Ok(()),
        }
    }
}

type Step = Box<dyn Fn(&mut Bench) -> Result<()>>;

struct Case {
    name: String,
    run: Step,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let wire = arguments.wire.wire()?;
    let mut cases = cases(arguments, wire.as_ref());
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    arguments.only.check(&names)?;
    cases.retain(|case| arguments.only.means(&case.name));
    if arguments.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(ExitCode::SUCCESS);
    }
    Ok(report(&cases, &mut bench(arguments, wire)?))
}

fn bench(arguments: &Arguments, wire: Option<WireConfig>) -> Result<Bench> {
    let program = crate::lab::daemon(true)?;
    let faults = wire.as_ref().map_or("", |wire| wire.faults.as_str());
    let (intact, lossy) = (!faults.contains("corrupt"), !faults.is_empty());
    let network = match wire {
        Some(wire) => Network::Wire { program, wire },
        None => Network::Daemon(program),
    };
    let pair = Pair::start(&PairConfig {
        kinds: [arguments.a, arguments.b],
        doorbells: arguments.doorbells,
        ..PairConfig::new(network)
    })?;
    let vrdma = crate::lab::built("vrdma", true)?;
    let idle = Objects::of(&pair, &vrdma)?;
    rxe::watch(guests(&pair))?;
    Ok(Bench {
        pair,
        vrdma,
        idle,
        intact,
        lossy,
    })
}

fn cases(arguments: &Arguments, wire: Option<&WireConfig>) -> Vec<Case> {
    let faulty = wire.is_some_and(|wire| !wire.faults.is_empty());
    let kinds = [arguments.a, arguments.b];
    let rows = selection::rows(Setting {
        short: arguments.short,
        lossy: faulty,
        unlike: kinds[0] != kinds[1],
        rxe: kinds.contains(&Kind::Rxe),
    });
    let all = |place: &str, rows: &[Row], start: Start| -> Vec<Case> {
        let rows = rows.iter().cloned();
        rows.map(|row| program(row, place, start)).collect()
    };
    let mut cases = all("", &rows, Pair::run);
    if arguments.a != arguments.b {
        cases.extend(all("client in a: ", &rows, reversed));
    }
    if arguments.short || kinds != [Kind::Vrdma; 2] {
        return cases;
    }
    if wire.is_none() {
        let alone: Vec<Row> = rows.iter().filter(|row| row.alone).cloned().collect();
        cases.extend(all("in one guest: ", &alone, Pair::run_alone));
    }
    if !faulty {
        cases.extend(life::SCENARIOS.iter().map(|(name, scenario)| Case {
            name: (*name).to_owned(),
            run: Box::new(scenario),
        }));
    }
    cases
}

/// Rows call the server's address `$A`, which is wrong when the server is in guest b.
fn reversed(pair: &Pair, server: &str, client: &str, limit: Duration) -> Result<Outcome> {
    let client = format!("A=$B; {client}");
    pair.run_reversed(&format!("A=$B; {server}"), &client, limit)
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
    let judged = match bench.lossy && last_word::is_lost(&outcome) {
        true => &outcome.server,
        false => &outcome.client,
    };
    let words = judged.stdout_text();
    ensure!(
        judged.status == 0,
        "the client ended with status {}:\n{words}{}\nthe server said:\n{}{}",
        judged.status,
        judged.stderr_text(),
        outcome.server.stdout_text(),
        outcome.server.stderr_text(),
    );
    for expected in row.expect {
        ensure!(
            words.contains(expected),
            "{expected:?} is missing in:\n{words}\nthe server said:\n{}{}",
            outcome.server.stdout_text(),
            outcome.server.stderr_text(),
        );
    }
    Ok(())
}

/// Defines `$DEV`, which the guests' boot scripts do not define.
pub(crate) fn with_device(command: &str) -> String {
    format!("DEV=$(ls /sys/class/infiniband); {command}")
}

fn report(cases: &[Case], bench: &mut Bench) -> ExitCode {
    let mut failed = 0;
    for (index, case) in cases.iter().enumerate() {
        let start = Instant::now();
        let outcome = (case.run)(bench).and_then(|()| bench.settles());
        let known = named::reason(KNOWN, &case.name);
        let word = named::word(outcome.is_ok(), known);
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "[{:>3}/{}] {word} {} ({seconds:.1} s)",
            index + 1,
            cases.len(),
            case.name
        );
        match (outcome, known) {
            (Ok(()), _) => {}
            (Err(_), Some(reason)) => println!("{reason}"),
            (Err(error), None) => {
                failed += 1;
                println!("{error:#}\n{}{}", bench.pair.logs(), kernels(&bench.pair));
            }
        }
    }
    println!("{} rows, {failed} failed", cases.len());
    if let Some(told) = rxe::told(guests(&bench.pair)) {
        println!("{told}");
    }
    ExitCode::from(u8::from(failed > 0))
}

/// The last messages of the guests' kernels: drivers complain there.
fn kernels(pair: &Pair) -> String {
    let said = guests(pair).map(|guest| {
        let words = guest.check("dmesg | tail -n 20");
        let words = words.unwrap_or_else(|error| format!("{error:#}"));
        format!("--- kernel of {}\n{words}\n", guest.name())
    });
    said.concat()
}

fn guests(pair: &Pair) -> [&Guest; 2] {
    [Side::A, Side::B].map(|side| pair.guest(side))
}
