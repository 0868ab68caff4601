//! `cargo xtask lab migrate --faults`: a process ends in the middle of a migration, and the guest continues where it
//! was.
//!
//! ```text
//!   row = (phase, victim)    program under way ──► migration ──phase begins──► victim ends ──► it is taken back
//!                                                                                              by the orchestrator,
//!                            program goes on, ends with status 0 on both sides ◄────────────── or by --recover
//! ```
//! The victim ends within the migration crate's call that reports the phase, so no phase is over before. For the copy
//! phase that is the second progress report of a slow copy. An orchestrator that is killed is a separate process.

mod rows;
mod saboteur;
mod traffic;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use comfy_table::{Table, presets};
use serde_json::Value;
use vrdma_lab::daemon::Daemon;
use vrdma_lab::pair::{Arriving, Pair, Side};
use vrdma_lab::relay::WaitingRelay;
use vrdma_migration::qmp::Monitor;
use vrdma_migration::{Copying, Error, HostSockets, Migration, Options, Phase, Progress};

use super::program::complaint;
use super::relay;
use super::stage::Stage;
use super::{Memory, Peer};
use crate::named::Only;
use rows::ROWS;
use saboteur::{Doomed, Saboteur};
use traffic::Traffic;

/// The process that ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Victim {
    /// The orchestrator is told to end.
    Interrupted,
    /// The orchestrator is killed.
    Orchestrator,
    /// The destination's QEMU is killed.
    Qemu,
    /// The destination's daemon is killed.
    Daemon,
    /// The destination's daemon is killed and started anew.
    NewDaemon,
    /// The destination's relay, by which the memory then comes, is killed.
    Relay,
    /// The relay of the source is stopped: it sends nothing more and does not hang up.
    SilentRelay,
}

impl Victim {
    fn name(self) -> &'static str {
        match self {
            Self::Interrupted => "orchestrator, SIGINT",
            Self::Orchestrator => "orchestrator, SIGKILL",
            Self::Qemu => "QEMU there",
            Self::Daemon => "daemon there",
            Self::NewDaemon => "daemon there, restarted",
            Self::Relay => "relay there",
            Self::SilentRelay => "relay here, SIGSTOP",
        }
    }
}

/// Bytes a second of a copy that is not complete when its first figures are reported.
const SLOW: u64 = 4 << 20;

/// Seconds for which the destination's relay waits for a silent one.
const PATIENCE_OF_RELAY: &str = "3";

/// Exit status of a killed orchestrator.
const DIED: i32 = 42;

/// The phase, four sockets and the URI of the memory.
pub(super) const ORCHESTRATOR_WORDS: usize = 6;

/// The outcome of a row.
struct Outcome {
    said: String,
    /// State of the VM at the source, before recovery and after.
    source: String,
    problem: Option<String>,
}

/// Each phase with each process that ends in it.
fn rows() -> impl Iterator<Item = (Phase, Victim)> {
    ROWS.iter()
        .flat_map(|(phase, victims)| victims.iter().map(|victim| (*phase, *victim)))
}

fn name(phase: Phase, victim: Victim) -> String {
    format!("{} {}", word(phase), victim.name())
}

pub(super) fn names() -> Vec<String> {
    rows().map(|(phase, victim)| name(phase, victim)).collect()
}

pub(super) fn run(pair: &mut Pair, vrdma: &PathBuf, only: &Only) -> Result<ExitCode> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["phase", "who died", "told", "source", "outcome"]);
    let mut failed = 0;
    let mut traffic = Traffic::new(vrdma);
    for (phase, victim) in rows() {
        let name = name(phase, victim);
        if !only.means(&name) {
            continue;
        }
        eprintln!("{name} ...");
        let outcome = Row {
            pair,
            vrdma,
            phase,
            victim,
        }
        .run(&mut traffic)
        .with_context(|| format!("{name}; before it:\n{table}"))?;
        failed += u32::from(outcome.problem.is_some());
        table.add_row([
            word(phase),
            victim.name().to_owned(),
            outcome.said,
            outcome.source,
            verdict(outcome.problem),
        ]);
    }
    traffic.finish(pair)?;
    failed += u32::from(traffic.problem.is_some());
    let programs = format!("{} programs ended", traffic.ended);
    table.add_row(["all", "nobody", "", &programs, &verdict(traffic.problem)]);
    let problem = there_and_back(pair, vrdma)?;
    failed += u32::from(problem.is_some());
    table.add_row(["all", "nobody", "", "there and back", &verdict(problem)]);
    println!("{table}");
    println!("{} rows, {failed} failed", table.row_iter().count());
    Ok(ExitCode::from(u8::from(failed > 0)))
}

fn verdict(problem: Option<String>) -> String {
    problem.map_or("ok".to_owned(), |problem| format!("FAILED: {problem}"))
}

/// Checks that the guest still migrates after all that.
fn there_and_back(pair: &mut Pair, vrdma: &PathBuf) -> Result<Option<String>> {
    eprintln!("there and back ...");
    let outcome = Stage {
        pair,
        vrdma,
        memory: Memory::Unix,
        crashes: false,
        verifies: true,
        post_copy: false,
        killed: false,
        kills: 0,
    }
    .migrate(&[(traffic::command(), Peer::Vm)], 2)?;
    Ok(complaint(&outcome.statuses))
}

/// The phase's name in JSON.
fn word(phase: Phase) -> String {
    let word = serde_json::to_value(phase).ok();
    word.and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// Whether the fault of a phase is to happen now.
fn is_due(phase: Phase, progress: &Progress) -> bool {
    match phase {
        Phase::Copy => matches!(progress, Progress::Memory(_)),
        _ => *progress == Progress::Phase(phase),
    }
}

/// How the memory is copied: slowly in the copy phase, so that a process can end in it.
fn memory(phase: Phase, uri: String) -> Copying {
    Copying {
        bandwidth_limit: (phase == Phase::Copy).then_some(SLOW),
        ..Copying::by(uri)
    }
}

struct Row<'a> {
    pair: &'a mut Pair,
    vrdma: &'a PathBuf,
    phase: Phase,
    victim: Victim,
}

impl Row<'_> {
    fn run(mut self, traffic: &mut Traffic<'_>) -> Result<Outcome> {
        let (spare, arriving) = self.destination()?;
        let there = spare.as_ref().unwrap_or(self.pair.daemon_of(Side::B));
        let options = self.options(there, &arriving);
        let relay = self.relay(&arriving)?;
        traffic.last_for_a_row(self.pair)?;
        let told = match self.victim {
            Victim::Orchestrator => self.kill_orchestrator(&options)?,
            _ => self.sabotage(
                Doomed {
                    spare,
                    arriving: Some(arriving),
                    relay,
                },
                options,
            )?,
        };
        let source = self.source()?;
        let flows = traffic.flows(self.pair);
        let problem = told.problem.or(flows.err().map(|error| error.to_string()));
        Ok(Outcome {
            said: self.shortened(&told.said),
            problem: problem.or((source != "running").then(|| "the VM stands still".to_owned())),
            source: match told.left_as {
                Some(left) => format!("{left}, then {source}"),
                None => source,
            },
        })
    }

    /// A waiting QEMU, and a daemon for it if the daemon is to end.
    fn destination(&mut self) -> Result<(Option<Daemon>, Arriving)> {
        if !matches!(self.victim, Victim::Daemon | Victim::NewDaemon) {
            return Ok((None, self.pair.expect(Side::A)?));
        }
        let spare = self.pair.spare_daemon(Side::A)?;
        let arriving = self.pair.expect_at(Side::A, spare.run_dir())?;
        Ok((Some(spare), arriving))
    }

    fn options(&self, there: &Daemon, arriving: &Arriving) -> Options {
        Options {
            adapters: vec![Side::A.name().parse().expect("a letter is a name")],
            source: HostSockets {
                control: self.pair.daemon_of(Side::A).control_socket(),
                qmp: self.pair.monitor(Side::A),
            },
            destination: HostSockets {
                control: there.control_socket(),
                qmp: arriving.monitor(),
            },
            memory: self.memory(),
            verify: false,
        }
    }

    fn memory(&self) -> Copying {
        let by = match self.has_relays() {
            true => Memory::Direct,
            false => Memory::Unix,
        };
        Copying {
            relay: (by == Memory::Direct).then(|| relay::program(self.pair, self.vrdma, Side::A)),
            ..memory(self.phase, by.uri(Side::B, self.pair.run_dir()))
        }
    }

    fn has_relays(&self) -> bool {
        matches!(self.victim, Victim::Relay | Victim::SilentRelay)
    }

    fn relay(&self, arriving: &Arriving) -> Result<Option<WaitingRelay>> {
        let mut command = relay::command(self.pair, self.vrdma, Side::B, arriving.process_id());
        command.args(["--silence", PATIENCE_OF_RELAY]);
        let start = || relay::start(self.pair, &command);
        self.has_relays().then(start).transpose()
    }

    /// Ends any process but the orchestrator, or tells the orchestrator to end.
    fn sabotage(&self, doomed: Doomed, options: Options) -> Result<Told> {
        let mut saboteur = Saboteur::new(self.pair, self.phase, self.victim, doomed);
        let migrated = Migration::prepare(options)?.run(&mut saboteur);
        saboteur.check()?;
        Ok(match migrated {
            Err(Error::Aborted { why, left, .. }) if left.is_empty() => Told::said(why),
            Err(error) => Told {
                problem: Some("not all was taken back".to_owned()),
                ..Told::said(error.to_string())
            },
            Ok(_) => bail!("the migration succeeded all the same"),
        })
    }

    /// Kills the orchestrator, and lets another one undo what it left.
    fn kill_orchestrator(&self, options: &Options) -> Result<Told> {
        let paths = [
            &options.source.control,
            &options.source.qmp,
            &options.destination.control,
            &options.destination.qmp,
        ];
        let status = Command::new(std::env::current_exe()?)
            .args(["lab", "migrate", "--orchestrator"])
            .arg(word(self.phase))
            .args(paths)
            .arg(&options.memory.uri)
            .status()?;
        ensure!(
            status.code() == Some(DIED),
            "the orchestrator did not die in that phase: {status}"
        );
        let left_as = self.source()?;
        let output = Command::new(self.vrdma)
            .arg("--socket")
            .arg(&options.source.control)
            .args(["migrate", Side::A.name(), "--recover", "--to"])
            .arg(&options.destination.control)
            .arg("--qmp")
            .arg(&options.source.qmp)
            .arg("--to-qmp")
            .arg(&options.destination.qmp)
            .args(["--memory", &options.memory.uri])
            .output()
            .context("cannot start vrdma")?;
        let is_mended = output.status.success();
        let said = [output.stdout, output.stderr].concat();
        Ok(Told {
            said: String::from_utf8_lossy(&said).into_owned(),
            left_as: Some(left_as),
            problem: (!is_mended).then(|| "vrdma migrate --recover failed".to_owned()),
        })
    }

    /// The state of the VM at the source, as its QEMU names it.
    fn source(&self) -> Result<String> {
        let mut monitor = Monitor::connect(&self.pair.monitor(Side::A))?;
        let answer = monitor.execute("query-status", Value::Object(serde_json::Map::new()))?;
        Ok(answer["status"].as_str().unwrap_or("unknown").to_owned())
    }

    /// A sentence without the lab's folder, shortened if it is long.
    fn shortened(&self, said: &str) -> String {
        let folder = format!("{}/", self.pair.run_dir().display());
        let said = said.trim().replace(&folder, "");
        match said.char_indices().nth(SAID_MAX) {
            Some((end, _)) => format!("{}...", &said[..end]),
            None => said,
        }
    }
}

/// Most characters of a sentence in the table.
const SAID_MAX: usize = 90;

/// What the orchestrator reported, or the one that recovered after it.
struct Told {
    said: String,
    /// The VM's state after the orchestrator was killed.
    left_as: Option<String>,
    problem: Option<String>,
}

impl Told {
    fn said(said: String) -> Self {
        Self {
            said,
            left_as: None,
            problem: None,
        }
    }
}

/// Begins a migration in this process, and exits in the middle of it.
pub(super) fn orchestrate(words: &[String]) -> Result<ExitCode> {
    let [phase, control, qmp, to, to_qmp, memory] = words else {
        bail!("an orchestrator is described by {ORCHESTRATOR_WORDS} words");
    };
    let sockets = |control: &str, qmp: &str| HostSockets {
        control: control.into(),
        qmp: qmp.into(),
    };
    let phases = ROWS.iter().map(|(phase, _)| *phase);
    let mut known = phases.filter(|known| word(*known) == *phase);
    let phase = known.next().context("there is no such phase")?;
    let migration = Migration::prepare(Options {
        adapters: vec![Side::A.name().parse()?],
        source: sockets(control, qmp),
        destination: sockets(to, to_qmp),
        memory: self::memory(phase, memory.clone()),
        verify: false,
    })?;
    migration.run(&mut |progress: &Progress| {
        if is_due(phase, progress) {
            // Nothing is undone, as after SIGKILL.
            std::process::exit(DIED);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
