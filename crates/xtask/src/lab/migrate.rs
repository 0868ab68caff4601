//! `cargo xtask lab migrate`: a guest that moves to the other host and back, with its connections.
//!
//! ```text
//!   host a                          host b
//!   guest a ──migration──► waiting QEMU        guest b: with our adapter, or with rxe
//!      `──────── ibv_rc_pingpong, perftest ───────^      a process of host b
//!                                                        a third guest, with rxe beside guest b
//! ```

mod convergence;
mod faults;
mod gaps;
mod libvirt;
mod program;
mod regions;
mod relay;
mod renewal;
mod rows;
mod stage;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use vrdma_lab::guest::Kind;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::wire::{self, WireConfig};

use super::WireArguments;
use crate::named::Only;
use program::complaint;
use rows::Row;
use stage::{Move, Outcome, Stage};

/// How QEMU sends the guest's memory.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Memory {
    /// Through a Unix socket, past the wire
    Unix,
    /// By TCP, over the wire, beside the adapters
    Tcp,
    /// By QEMU's own RDMA, on our library and an adapter of each host
    Rdma,
    /// From guest to guest, by relays on an adapter of each host
    Direct,
}

/// The other end of the guest's connections.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// Another guest with an adapter of ours
    Vm,
    /// A process of the other host
    Process,
    /// A guest with Linux's rxe, which knows nothing of us
    Rxe,
}

/// Options of `cargo xtask lab migrate`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of migrations for each program; after an even number the guest is where it began
    #[arg(long, value_name = "N", default_value = "2")]
    times: u32,

    /// How QEMU sends the guest's memory
    #[arg(long, value_enum, default_value = "unix")]
    memory: Memory,

    /// The other end of the connections; several run at the same time
    #[arg(long, value_enum, default_value = "vm", value_delimiter = ',')]
    peers: Vec<Peer>,

    /// Give each guest two adapters, and run programs that use both at once
    #[arg(long, conflicts_with_all = ["faults", "peers", "renew", "converge"])]
    two_adapters: bool,

    /// Let a libvirt start each QEMU, as a domain, and watch it
    ///
    /// Needs root, libvirtd and virsh. First checks that virsh migrate is refused.
    #[arg(long)]
    libvirt: bool,

    #[command(flatten)]
    only: Only,

    /// End a process in each phase instead, and check that the guest continues where it was
    ///
    /// A row is a phase and the process that ends: the orchestrator by a signal that it can handle or not, the
    /// destination's QEMU or its daemon. The programs' connections must survive all of it. Afterwards a guest still
    /// migrates there and back.
    #[arg(long, conflicts_with = "times")]
    faults: bool,

    /// After each migration, kill the workers of both daemons
    ///
    /// The next workers must find the adapter where it is, and its connections must survive that, too.
    #[arg(long, conflicts_with = "faults")]
    crash: bool,

    /// Instead of programs: after each migration, reload the guest's driver, then reboot the guest, and use its adapter
    #[arg(long, conflicts_with_all = ["faults", "crash"])]
    renew: bool,

    /// Instead of programs: a guest that writes its memory faster than it is sent, without and with --auto-converge
    #[arg(long, conflicts_with_all = ["faults", "crash", "renew", "times"])]
    converge: bool,

    /// Use post-copy: the guest runs at the other host before all of its memory has arrived
    ///
    /// Its memory is not compared, but the programs compare what they receive.
    #[arg(long, conflicts_with_all = ["faults", "renew", "converge"])]
    post_copy: bool,

    /// Kill each vrdma migrate when its adapter is about to be restored, or the guest to run, and let --recover do the
    /// rest
    #[arg(long, requires = "post_copy")]
    killed: bool,

    /// Let another program in the guest hold this number of memory regions
    #[arg(long, value_name = "N", default_value = "0")]
    regions: u32,

    /// Do not compare the guest's memory, during which the guest is paused: for figures of its downtime
    #[arg(long, conflicts_with = "faults")]
    no_verify: bool,

    /// Use release builds, for figures
    #[arg(long)]
    release: bool,

    /// Begins a migration as described, and exits in the middle of it
    #[arg(long, hide = true, num_args = faults::ORCHESTRATOR_WORDS)]
    orchestrator: Vec<String>,

    #[command(flatten)]
    wire: WireArguments,
}

impl Peer {
    /// The program that compares what it receives, run with this peer when there are several.
    fn checked(self) -> &'static Row {
        match self {
            Self::Vm => &rows::GUESTS[0],
            Self::Rxe => &rows::BESIDE,
            Self::Process => &rows::PROCESSES[0],
        }
    }
}

/// The phase in which QEMU is told which pages the adapter has written.
const RESEND: &str = "resend";

/// The socket file for the guest's memory.
const MEMORY: &str = "memory.sock";
const PORT: u16 = 4444;

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if !arguments.orchestrator.is_empty() {
        return faults::orchestrate(&arguments.orchestrator);
    }
    let rows = meant(arguments)?;
    let mut pair = start(arguments)?;
    let vrdma = super::built("vrdma", arguments.release)?;
    if arguments.post_copy {
        pair.guest(Side::A).check(convergence::WRITER)?;
    }
    if arguments.regions > 0 {
        regions::hold(pair.guest(Side::A), arguments.regions)?;
    }
    if arguments.peers.contains(&Peer::Process) {
        gaps::install(&pair)?;
    }
    if arguments.libvirt {
        libvirt::check_refusal(&pair)?;
    }
    if arguments.faults {
        return faults::run(&mut pair, &vrdma, &arguments.only);
    }
    let mut stage = Stage {
        pair: &mut pair,
        vrdma: &vrdma,
        memory: arguments.memory,
        crashes: arguments.crash,
        verifies: !arguments.no_verify && !arguments.post_copy,
        post_copy: arguments.post_copy,
        killed: arguments.killed,
        kills: 0,
    };
    if arguments.converge {
        return convergence::run(&mut stage);
    }
    if arguments.renew {
        return renewal::run(&mut stage, arguments.times);
    }
    let [peer] = arguments.peers[..] else {
        let together = arguments.peers.iter().map(|peer| (peer.checked(), *peer));
        return programs(&mut stage, [together.collect()], arguments.times);
    };
    let each = rows.into_iter().map(|row| vec![(row, peer)]);
    programs(&mut stage, each, arguments.times)
}

/// The selected programs, of those that run one after the other. Fails before anything starts if `--only` selects
/// nothing.
fn meant(arguments: &Arguments) -> Result<Vec<&'static Row>> {
    if arguments.faults {
        arguments.only.check(&faults::names())?;
        return Ok(Vec::new());
    }
    let (rows, more): (&[Row], &[Row]) = match arguments.peers[..] {
        [Peer::Vm] if arguments.two_adapters => (&rows::TWO_ADAPTERS, &[]),
        [Peer::Vm] if !arguments.crash => (&rows::GUESTS, &rows::IMPATIENT),
        [Peer::Vm | Peer::Rxe] => (&rows::GUESTS, &[]),
        [Peer::Process] => (&rows::PROCESSES, &[]),
        _ => (&[], &[]),
    };
    let rows = rows.iter().chain(more);
    let names: Vec<&str> = rows.clone().map(|row| row.name).collect();
    arguments.only.check(&names)?;
    Ok(rows.filter(|row| arguments.only.means(row.name)).collect())
}

fn start(arguments: &Arguments) -> Result<Pair> {
    let program = super::daemon(arguments.release)?;
    let wire = arguments.wire.wire()?.unwrap_or_else(WireConfig::default);
    let has = |peer| arguments.peers.contains(&peer);
    let twice = |peer| arguments.peers.iter().filter(|it| **it == peer).count() > 1;
    ensure!(
        !arguments.peers.iter().copied().any(twice),
        "--peers names a peer twice: name each once"
    );
    let has_process = has(Peer::Process);
    let has_verbs = arguments.memory == Memory::Rdma || has_process;
    let qemu_verbs = has_verbs
        .then(|| crate::library::link(arguments.release))
        .transpose()?;
    ensure!(
        !has(Peer::Rxe) || !(arguments.faults || arguments.crash),
        "--faults and --crash need a daemon for each guest: leave --peers rxe out"
    );
    ensure!(
        !arguments.libvirt || !(has_verbs || arguments.memory == Memory::Direct),
        "--libvirt goes with --memory unix or tcp, and with VMs and rxe as peers"
    );
    ensure!(
        !(arguments.killed && arguments.memory == Memory::Direct),
        "--killed goes with --memory unix or tcp: a relay ends with whoever started it"
    );
    let mut kinds = [Kind::Vrdma; 2];
    let rxe_beside = has(Peer::Rxe) && has(Peer::Vm);
    if has(Peer::Rxe) && !rxe_beside {
        kinds[1] = Kind::Rxe;
    }
    Pair::start(&PairConfig {
        kinds,
        travels: true,
        memory_mib: 256,
        supervised: arguments.crash,
        second_adapters: arguments.two_adapters,
        host_adapters: arguments.faults || arguments.memory == Memory::Direct,
        qemu_verbs,
        libvirt: arguments.libvirt,
        rxe_beside,
        ..PairConfig::new(Network::Wire { program, wire })
    })
}

fn programs<'a>(
    stage: &mut Stage<'_>,
    each: impl IntoIterator<Item = Vec<(&'a Row, Peer)>>,
    times: u32,
) -> Result<ExitCode> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "program",
        "migrations",
        "downtime, ms",
        "of it QEMU sends",
        "the rest",
        "medians of its phases",
        "total, ms",
        "peer's pause, ms",
        "beyond downtime",
        "outcome",
    ]);
    let mut failed = 0;
    for together in each {
        let names: Vec<_> = together.iter().map(|(row, _)| row.name).collect();
        let names = names.join(", ");
        eprintln!("{names} ...");
        let commands = together.iter();
        let commands: Vec<_> = commands
            .map(|(row, peer)| (row.command(times), *peer))
            .collect();
        let outcome = stage.migrate(&commands, times)?;
        let writes_much = together.iter().any(|(row, _)| row.writes_much);
        ensure!(
            !writes_much || outcome.moves.iter().any(|it| it.has_phase(RESEND)),
            "{names}: all that the adapter wrote went in its context"
        );
        failed += u32::from(complaint(&outcome.statuses).is_some());
        table.add_row(cells(names, &outcome));
    }
    println!("{table}");
    ensure!(!table.is_empty(), "no program's name contains that");
    println!("{} rows, {failed} failed", table.row_iter().count());
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Phases that handle the adapter while the VM stands still and QEMU has sent everything.
const OF_THE_REST: [&str; 5] = ["configure", "restore", "release", "activate", "resume"];

fn phases_of_the_rest(outcome: &Outcome) -> String {
    let phase = |name: &str| {
        let ms = outcome.median(|it| it.phase(name))?;
        Some(format!("{name} {ms:.0}"))
    };
    let phases: Vec<_> = OF_THE_REST.into_iter().filter_map(phase).collect();
    phases.join(", ")
}

fn cells(name: String, outcome: &Outcome) -> [String; 10] {
    [
        name,
        outcome.moves.len().to_string(),
        outcome.figures(|it| it.number("downtime_ms")),
        outcome.figures(|it| it.number("qemu_ms")),
        outcome.figures(Move::rest),
        phases_of_the_rest(outcome),
        outcome.figures(|it| it.number("total_ms")),
        pauses(outcome),
        outcome.figures(Move::beyond_downtime),
        complaint(&outcome.statuses).map_or("ok".to_owned(), |who| format!("FAILED: {who}")),
    ]
}

/// The pause of each migration if the peer reports it, otherwise the longest of all.
fn pauses(outcome: &Outcome) -> String {
    let longest = outcome.longest_pause;
    match outcome.figures(|it| it.pause) {
        each if !each.is_empty() => each,
        _ => longest.map_or("-".to_owned(), |ms| format!("{ms:.0}")),
    }
}

impl Memory {
    /// The URI at which a host's QEMU receives it.
    fn uri(self, to: Side, run_dir: &Path) -> String {
        match self {
            Self::Unix => format!("unix:{}", run_dir.join(MEMORY).display()),
            Self::Tcp => format!("tcp:{}:{PORT}", wire::address(to)),
            Self::Rdma => format!("rdma:{}:{PORT}", to.qemus_address()),
            Self::Direct => format!("direct:{}:{PORT}", to.qemus_address()),
        }
    }
}
