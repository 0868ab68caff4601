//! `cargo xtask programs`: unmodified programs of this host, and in containers, by the verbs library.
//!
//! ```text
//!   host-a (network namespace)             host-b
//!   program or container                   program or container
//!      | libibverbs.so.1 = ours               |
//!      `---- process socket ---> vrdmad <-----'
//!      `---- veth, for the programs' own TCP -'
//!
//!   --with guest:  stock guest --vfio-user, ethernet--> vrdmad <--process socket-- program
//!   --with peer:   program --process socket--> vrdmad <--tunnel--> vrdmad <--process socket-- program
//! ```
//!
//! Each side is an adapter with the address of its namespace, so that programs that meet over TCP and
//! programs that meet by `rdma_cm` call their peer by the same name. A container has the guests' root
//! file system, processes of its own, and of the daemon only the socket. A guest and a program of its host
//! meet by `rdma_cm`, or by TCP through the host's own adapter of the port group.

mod apart;
mod migration;
mod mixed;
mod preload;
mod remains;
mod stage;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use vrdma_lab::place::{self, Place};

use crate::known::{self, Known};
use apart::Apart;
use mixed::GuestAndHost;
pub(crate) use preload::{library, preload};
pub(crate) use stage::Hosts;
use table::{Inside, Program};

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
    /// With whom programs of this host talk
    #[arg(long, value_enum, default_value = "host")]
    with: With,
}

/// The other side of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum With {
    /// Programs of another host's addresses, on the same daemon
    Host,
    /// Programs in a stock guest
    Guest,
    /// Programs on a host with a daemon of its own, through a tunnel
    Peer,
}

const KNOWN: &[Known] = &[];

/// Where rows run, and what they must leave as they found it.
trait Stage {
    /// Waits until nothing of an ended program is left.
    fn settles(&self) -> Result<()>;

    /// What to show of a failure besides the programs' words.
    fn logs(&self) -> String;
}

/// Server's and client's.
type Places<S> = fn(&S) -> [&dyn Place; 2];

type Step<S> = Box<dyn Fn(&S) -> Result<()>>;

struct Case<S> {
    name: String,
    run: Step<S>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let short = arguments.short;
    match arguments.with {
        With::Host => {
            let mut cases = cases(
                "process",
                Hosts::processes,
                table::programs(short, Inside::Host),
            );
            let boxed = table::programs(short, Inside::Container);
            cases.extend(self::cases("container", Hosts::containers, boxed));
            cases.extend(migrations());
            perform(cases, arguments, Hosts::start)
        }
        With::Peer => {
            let rows = table::by_rdma_cm(short);
            let cases = cases("peer", Apart::processes, rows);
            perform(cases, arguments, Apart::start)
        }
        With::Guest => {
            let (by_cm, by_tcp) = (table::by_rdma_cm(short), table::by_tcp(short));
            let rows = [by_cm.clone(), by_tcp.clone()].concat();
            let mut cases = cases("guest serves", GuestAndHost::guest_serves, rows);
            // The host's TCP has another address than the adapter of its programs.
            let by_cm = by_cm.into_iter().map(|row| row.at("$B"));
            let by_tcp = by_tcp.into_iter().map(|row| row.at("$H"));
            cases.extend(self::cases(
                "host serves",
                GuestAndHost::host_serves,
                by_cm.chain(by_tcp).collect(),
            ));
            perform(cases, arguments, GuestAndHost::start)
        }
    }
}

fn cases<S: 'static>(setting: &str, places: Places<S>, programs: Vec<Program>) -> Vec<Case<S>> {
    let programs = programs.into_iter();
    let case = |program: Program| Case {
        name: format!("{setting}: {}", program.name),
        run: Box::new(move |stage: &S| check(&program, places(stage))),
    };
    programs.map(case).collect()
}

fn migrations() -> impl Iterator<Item = Case<Hosts>> {
    migration::ROWS.iter().map(|&(name, memory)| Case {
        name: format!("process: {name}"),
        run: Box::new(move |stage| migration::check(stage, memory)),
    })
}

fn perform<S: Stage>(
    mut cases: Vec<Case<S>>,
    arguments: &Arguments,
    start: fn() -> Result<S>,
) -> Result<ExitCode> {
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
    Ok(report(&cases, &start()?))
}

fn report<S: Stage>(cases: &[Case<S>], stage: &S) -> ExitCode {
    let mut failed = 0;
    for (index, case) in cases.iter().enumerate() {
        let start = Instant::now();
        let outcome = (case.run)(stage).and_then(|()| stage.settles());
        let known = known::reason(KNOWN, &case.name);
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
                println!("{error:#}\n{}", stage.logs());
            }
        }
    }
    println!("{} rows, {failed} failed", cases.len());
    ExitCode::from(u8::from(failed > 0))
}

fn check(program: &Program, [server, client]: [&dyn Place; 2]) -> Result<()> {
    let outcome = place::run(
        (server, &program.server),
        (client, &program.client),
        PROGRAM_LIMIT,
    )?;
    let words = outcome.client.stdout_text();
    let said = || {
        format!(
            "{words}{}\nthe server said:\n{}{}",
            outcome.client.stderr_text(),
            outcome.server.stdout_text(),
            outcome.server.stderr_text()
        )
    };
    let status = outcome.client.status;
    ensure!(
        status == 0,
        "the client ended with status {status}:\n{}",
        said()
    );
    for expected in &program.expect {
        ensure!(
            words.contains(expected),
            "{expected:?} is missing in:\n{}",
            said()
        );
    }
    Ok(())
}
