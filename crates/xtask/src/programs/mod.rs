//! `cargo xtask programs`: unmodified programs of this host, and in containers, over the verbs library.
//!
//! ```text
//!   host-a (network namespace)             host-b
//!   program or container                   program or container
//!      | libibverbs.so.1 = ours               |
//!      `---- process socket ---> vrdmad <-----'
//!      `---- veth, for the programs' own TCP -'
//!
//!   --with guest:  stock guest --vfio-user, ethernet--> vrdmad <--process socket-- program
//!   --with peer:   program --process socket--> vrdmad <--raw, tunnel--> vrdmad <--process socket-- program
//!   --with peer-guest, --with peer-rxe:
//!                  program --process socket--> vrdmad <--raw, tunnel--> vrdmad, or TAP <--> stock guest
//! ```
//!
//! Each side is an adapter with the address of its namespace, so that programs that meet over TCP and programs that
//! meet by `rdma_cm` use the same name for their peer. A container has the guests' root file system, its own processes,
//! and of the daemon only the socket. A guest and a program of its host meet by `rdma_cm`, or by TCP through the host's
//! own adapter of the port group.

mod apart;
mod migration;
mod mixed;
mod preload;
mod rdmacm;
mod remains;
mod silence;
mod stage;
mod table;
mod third_party;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use vrdma_lab::guest::Kind;
use vrdma_lab::place::{self, Place};
use vrdma_lab::wire::Uplink;

use crate::named::{self, Known, Only};
use apart::Apart;
use mixed::GuestAndHost;
pub(crate) use preload::{library, preload};
pub(crate) use stage::{Hosts, adapter};
use table::{Inside, Program};

/// How long one program may take. The slowest need a fifth of it on two busy cores.
const PROGRAM_LIMIT: Duration = Duration::from_secs(60);

/// Runs perftest, qperf, rdma-core's examples, UCX, libfabric and Open MPI as processes and in containers.
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
    /// Peers that programs of this host talk to
    #[arg(long, value_enum, default_value = "host")]
    with: With,
    /// How peers are reached: raw or tunnel; both in turn if absent
    #[arg(long)]
    uplink: Option<Uplink>,
    /// Instead run third-party programs, from the registries
    #[arg(long, conflicts_with_all = ["with", "uplink"])]
    third_party: bool,
    /// Print results as JSON
    #[arg(long, requires = "third_party")]
    json: bool,
    /// Write docs/programs.md
    #[arg(long, requires = "third_party")]
    write_page: bool,
}

/// The other side of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum With {
    /// Programs of another host's addresses, on the same daemon
    Host,
    /// Programs in a stock guest
    Guest,
    /// Programs on a host with another daemon
    Peer,
    /// Programs in a stock guest of a host with another daemon
    PeerGuest,
    /// Programs in a guest of another host that uses Linux's software RoCE
    PeerRxe,
}

const KNOWN: &[Known] = &[];

/// The hosts on which rows run, which they must leave as they found them.
trait Stage {
    /// Waits until no objects of an ended program are left.
    fn settles(&self) -> Result<()>;

    /// What to print after a failure besides the programs' output.
    fn logs(&self) -> String;

    /// What to print at the end, if anything.
    fn told(&self) -> Option<String> {
        None
    }
}

/// The places of the server and of the client.
type Places<S> = fn(&S) -> [&dyn Place; 2];

type Step<S> = Box<dyn Fn(&S) -> Result<()>>;

struct Case<S> {
    name: String,
    run: Step<S>,
}

/// Cases that share a stage.
struct Pass<'a> {
    /// Names of all cases, also of those that are not selected.
    names: Vec<String>,
    /// Runs or lists the selected cases and returns how many failed.
    perform: Box<dyn FnOnce() -> Result<usize> + 'a>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.third_party {
        return third_party::run(arguments);
    }
    let peers = matches!(arguments.with, With::Peer | With::PeerGuest | With::PeerRxe);
    ensure!(
        peers || arguments.uplink.is_none(),
        "--uplink leads to a peer: add --with peer, peer-guest or peer-rxe"
    );
    let uplinks = match arguments.uplink {
        Some(uplink) => vec![uplink],
        None => match arguments.with {
            With::PeerRxe => vec![Uplink::Raw, Uplink::Tunnel],
            _ => vec![Uplink::Raw, Uplink::Tunnel, Uplink::Sealed],
        },
    };
    let to_guest = |kind| -> Vec<Pass<'_>> {
        let pass = |uplink: &Uplink| guest_and_host(arguments, Some((kind, *uplink)));
        uplinks.iter().map(pass).collect()
    };
    let passes = match arguments.with {
        With::Host => vec![of_one_host(arguments)],
        With::Guest => vec![guest_and_host(arguments, None)],
        With::Peer => uplinks
            .iter()
            .map(|uplink| apart(arguments, *uplink))
            .collect(),
        With::PeerGuest => to_guest(Kind::Vrdma),
        With::PeerRxe => to_guest(Kind::Rxe),
    };
    let names: Vec<&String> = passes.iter().flat_map(|pass| &pass.names).collect();
    arguments.only.check(&names)?;
    let mut failed = 0;
    for pass in passes {
        failed += (pass.perform)()?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn of_one_host(arguments: &Arguments) -> Pass<'_> {
    let programs = |inside| table::programs(arguments.short, inside);
    let mut cases = cases("process", Hosts::processes, programs(Inside::Host));
    let boxed = programs(Inside::Container);
    cases.extend(self::cases("container", Hosts::containers, boxed));
    cases.extend(migrations());
    cases.push(Case {
        name: format!("process: {}", silence::NAME),
        run: Box::new(silence::check),
    });
    pass(cases, arguments, Hosts::start)
}

/// Rows between two hosts. On a raw wire, the hosts' own TCP has other addresses than their adapters.
fn apart(arguments: &Arguments, uplink: Uplink) -> Pass<'_> {
    let mut rows = table::by_rdma_cm(arguments.short);
    if !arguments.short {
        rows.extend(table::by_tcp(false).into_iter().map(|row| row.at("$H")));
    }
    rows.push(table::mckey());
    rows.extend(table::datagram_sockets());
    let cases = cases(&format!("peer, {uplink}"), Apart::processes, rows);
    pass(cases, arguments, move || Apart::start(uplink))
}

/// Rows between a guest and a host: at one daemon, or each on a host of its own.
fn guest_and_host(arguments: &Arguments, apart: Option<(Kind, Uplink)>) -> Pass<'_> {
    let short = arguments.short;
    let suffix = apart.map_or(String::new(), |(kind, uplink)| {
        format!(", {kind}, {uplink}")
    });
    let by_cm = table::by_rdma_cm(short);
    let by_tcp = match apart {
        // TCP between hosts is the same as on one: the short run has these rows once.
        Some(_) if short => Vec::new(),
        _ => table::by_tcp(short),
    };
    let mut rows = [by_cm.clone(), by_tcp.clone()].concat();
    // Stock vmw_pvrdma attaches nothing to groups. rxe does, but sends only one of ten datagrams.
    if !short && matches!(apart, Some((Kind::Rxe, _))) {
        rows.push(table::mckey());
    }
    let setting = format!("guest serves{suffix}");
    let mut cases = cases(&setting, GuestAndHost::guest_serves, rows);
    // The host's TCP has another address than the adapter of its programs.
    let by_cm = by_cm.into_iter().map(Program::reversed);
    let by_tcp = by_tcp.into_iter().map(|row| row.at("$H"));
    let setting = format!("host serves{suffix}");
    let rows = by_cm.chain(by_tcp).collect();
    cases.extend(self::cases(&setting, GuestAndHost::host_serves, rows));
    pass(cases, arguments, move || match apart {
        Some((kind, uplink)) => GuestAndHost::across(kind, uplink),
        None => GuestAndHost::start(),
    })
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

/// A pass of the selected cases on the stage they share, which is set up only if there are any.
fn pass<'a, S: Stage + 'a>(
    mut cases: Vec<Case<S>>,
    arguments: &'a Arguments,
    start: impl FnOnce() -> Result<S> + 'a,
) -> Pass<'a> {
    let names = cases.iter().map(|case| case.name.clone()).collect();
    cases.retain(|case| arguments.only.means(&case.name));
    let perform = move || {
        if arguments.list {
            cases.iter().for_each(|case| println!("{}", case.name));
            return Ok(0);
        }
        match cases.is_empty() {
            true => Ok(0),
            false => Ok(report(&cases, &start()?)),
        }
    };
    Pass {
        names,
        perform: Box::new(perform),
    }
}

fn report<S: Stage>(cases: &[Case<S>], stage: &S) -> usize {
    let mut failed = 0;
    for (index, case) in cases.iter().enumerate() {
        let start = Instant::now();
        let outcome = (case.run)(stage).and_then(|()| stage.settles());
        let known = named::reason(KNOWN, &case.name);
        let word = named::word(outcome.is_ok(), known);
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
    if let Some(told) = stage.told() {
        println!("{told}");
    }
    failed
}

fn check(program: &Program, places: [&dyn Place; 2]) -> Result<()> {
    check_within(PROGRAM_LIMIT, program, places)
}

fn check_within(limit: Duration, program: &Program, places: [&dyn Place; 2]) -> Result<()> {
    let run = if program.together {
        place::run_together
    } else {
        place::run
    };
    let outcome = run(places, &program.server, &program.client, limit)?;
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
    let status = outcome.server.status;
    ensure!(
        status == 0 || !program.together,
        "the server ended with status {status}:\n{}",
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
