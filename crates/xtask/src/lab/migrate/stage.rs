//! Migrations of guest a, by the program that users use.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vrdma_lab::pair::{Arriving, Pair, QEMUS, Side};
use vrdma_lab::relay::WaitingRelay;

use super::gaps::{Span, longest_within};
use super::program::Program;
use super::{Memory, Peer, libvirt, relay, rows};
use crate::guests::objects;
use crate::lab::survive::Replacing;

/// Most migrations of a row that are reported one by one.
const TOLD_MAX: usize = 6;

/// The downtime limit is so short that QEMU does not send the rest at once.
const POST_COPY: [&str; 3] = ["--post-copy", "--downtime-limit", "1"];

/// Messages at which `vrdma migrate` is killed, in turn: before its adapter is restored, and before the guest runs.
const KILLED_AT: [&str; 2] = ["restoring the adapter", "resuming the VM"];

/// The phase that only a migration by post-copy has.
const PAGE_IN: &str = "page-in";

/// Most attempts of a client that comes before its server listens: perftest with `-R` shakes hands, then listens once
/// more.
const EARLY_MAX: u32 = 5;

/// perftest reports half the time of a message and its answer, but the whole time of a READ.
const HALVES: f64 = 2.0;

/// The outcome of a row.
pub(super) struct Outcome {
    pub(super) moves: Vec<Move>,
    /// Exit statuses of server and client of each program.
    pub(super) statuses: Vec<Option<i32>>,
    /// Milliseconds in which the client had no answer, if it reports that.
    pub(super) longest_pause: Option<f64>,
}

/// Figures of a migration, from `vrdma migrate` and from the peer.
pub(super) struct Move {
    report: Value,
    /// Time of the migration.
    span: Span,
    /// Milliseconds in which a queue pair of the peer had no answer, if it reports that.
    pub(super) pause: Option<f64>,
}

impl Outcome {
    /// Figures of each migration; of many, the least, the median and the most.
    pub(super) fn figures(&self, of: impl Fn(&Move) -> Option<f64>) -> String {
        let mut all: Vec<f64> = self.moves.iter().filter_map(of).collect();
        let text = |ms: &f64| format!("{ms:.0}");
        if all.len() <= TOLD_MAX {
            return all.iter().map(text).collect::<Vec<_>>().join(", ");
        }
        all.sort_by(f64::total_cmp);
        let places = [0, all.len() / 2, all.len() - 1];
        places.map(|place| text(&all[place])).join(" / ")
    }

    /// The median.
    pub(super) fn median(&self, of: impl Fn(&Move) -> Option<f64>) -> Option<f64> {
        let mut all: Vec<f64> = self.moves.iter().filter_map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }
}

impl Move {
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.report[name].as_f64()
    }

    /// How long the VM stood still while QEMU sent nothing.
    pub(super) fn rest(&self) -> Option<f64> {
        Some(self.number("downtime_ms")? - self.number("qemu_ms")?)
    }

    /// How much longer the peer had to wait than the VM stood still.
    pub(super) fn beyond_downtime(&self) -> Option<f64> {
        Some(self.pause? - self.number("downtime_ms")?)
    }

    /// How long one phase took.
    pub(super) fn phase(&self, name: &str) -> Option<f64> {
        let mut phases = self.report["phases"].as_array()?.iter();
        phases.find(|phase| phase["phase"] == name)?["ms"].as_f64()
    }

    pub(super) fn has_phase(&self, name: &str) -> bool {
        self.phase(name).is_some()
    }
}

/// The pair, programs and options that migrations need.
pub(super) struct Stage<'a> {
    pub(super) pair: &'a mut Pair,
    pub(super) vrdma: &'a PathBuf,
    pub(super) memory: Memory,
    /// Whether workers are killed after each migration.
    pub(super) crashes: bool,
    /// Whether the guest's memory is compared before the source gives the adapter up.
    pub(super) verifies: bool,
    /// Whether memory follows the guest.
    pub(super) post_copy: bool,
    /// Whether `vrdma migrate` is killed in the middle of post-copy.
    pub(super) killed: bool,
    /// How often it was killed.
    pub(super) kills: usize,
}

impl Stage<'_> {
    /// Migrates while a program for each peer runs, and waits until all programs end.
    pub(super) fn migrate(
        &mut self,
        commands: &[(rows::Command, Peer)],
        times: u32,
    ) -> Result<Outcome> {
        let programs = commands.iter();
        let programs = programs.map(|(command, peer)| self.start(command, *peer));
        let mut programs = programs.collect::<Result<Vec<_>>>()?;
        let mut moves = Vec::new();
        for _ in 0..times {
            self.wait_for_traffic(&programs)?;
            moves.push(self.go()?);
            if self.crashes {
                self.crash()?;
            }
        }
        let mut statuses = Vec::new();
        for program in &mut programs {
            statuses.extend(program.statuses(self.pair, self.vrdma)?);
        }
        let said: Vec<_> = programs.iter().map(Program::client_said).collect();
        for moved in &mut moves {
            let pauses = said.iter();
            let pauses = pauses.filter_map(|said| longest_within(&moved.span, said));
            moved.pause = pauses.reduce(f64::max);
        }
        let pauses = said.iter().filter_map(|said| longest_latency(said));
        Ok(Outcome {
            moves,
            statuses,
            longest_pause: pauses.reduce(f64::max).map(|us| us / 1e3),
        })
    }

    /// Starts a program and waits until its messages flow.
    fn start(&self, command: &rows::Command, peer: Peer) -> Result<Program> {
        for _ in 0..EARLY_MAX {
            let mut program = Program::start(self.pair, command, peer)?;
            let flows = objects::wait_for_traffic(self.pair, self.vrdma);
            if flows.is_ok() || !program.came_too_early() {
                return Ok(program);
            }
            eprintln!("nobody listened yet, once more");
            program.abandon(self.pair)?;
        }
        Program::start(self.pair, command, peer)
    }

    fn wait_for_traffic(&self, programs: &[Program]) -> Result<()> {
        let flows = objects::wait_for_traffic(self.pair, self.vrdma);
        if flows.is_err() {
            programs.iter().for_each(|program| program.tell(self.pair));
        }
        flows
    }

    fn crash(&self) -> Result<()> {
        for side in [Side::A, Side::B] {
            let replaced = Replacing::Kill.replace(self.pair.daemon_of(side))?;
            ensure!(replaced.is_some(), "a daemon has no worker");
        }
        Ok(())
    }

    /// Migrates guest a once, to the host where it is not.
    pub(super) fn go(&mut self) -> Result<Move> {
        self.go_with(if self.post_copy { &POST_COPY } else { &[] })
    }

    /// The same with more options.
    pub(super) fn go_with(&mut self, options: &[&str]) -> Result<Move> {
        let arriving = self.pair.expect(Side::A)?;
        let began = SystemTime::now();
        let relay = self.relay(&arriving)?;
        let mut command = self.command(&arriving, options);
        if self.killed {
            kill_when(&mut command, KILLED_AT[self.kills % KILLED_AT.len()])?;
            self.kills += 1;
            command = self.command(&arriving, &["--recover"]);
        }
        let output = command.output().context("cannot start vrdma")?;
        ensure!(
            output.status.success(),
            "vrdma migrate failed: {}\n{}",
            words(&output),
            self.pair.logs()
        );
        let span = Span::since(began);
        relay.map(WaitingRelay::finish).transpose()?;
        self.pair.arrived(arriving)?;
        libvirt::check_running(self.pair)?;
        // Its Ethernet must have moved, too.
        self.pair.guest(Side::B).check("ping -c 1 -W 5 $A")?;
        let report = serde_json::from_slice(&output.stdout)?;
        let moved = Move {
            report,
            span,
            pause: None,
        };
        let by_daemons = moved.report["daemon_to_daemon"] == self.pair.daemons_hand_over();
        ensure!(
            by_daemons || self.killed,
            "the context went another way: {}",
            moved.report
        );
        ensure!(
            !self.post_copy || self.killed || moved.has_phase(PAGE_IN),
            "all was there when the guest ran: {}",
            moved.report
        );
        Ok(moved)
    }

    /// The command `vrdma migrate` for guest a to a waiting QEMU.
    pub(super) fn command(&self, arriving: &Arriving, options: &[&str]) -> Command {
        let from = self.pair.place(Side::A);
        let memory = self.memory.uri(from.other(), self.pair.run_dir());
        let mut command = Command::new(self.vrdma);
        command
            .args(["--json", "--socket"])
            .arg(self.pair.daemon_of(from).control_socket())
            .arg("migrate")
            .args(self.pair.adapters(Side::A))
            .arg("--to")
            .arg(self.pair.daemon_of(from.other()).control_socket())
            .arg("--qmp")
            .arg(self.pair.monitor(Side::A))
            .arg("--to-qmp")
            .arg(arriving.monitor())
            .args(self.verifies.then_some("--verify"))
            .args(["--memory", &memory])
            .args(options);
        if self.memory == Memory::Direct {
            command.args(["--relay-adapter", QEMUS]);
        }
        command
    }

    /// Starts a relay at the host where the guest is not, if its memory comes by one.
    fn relay(&self, arriving: &Arriving) -> Result<Option<WaitingRelay>> {
        match self.memory {
            Memory::Direct => {
                let host = self.pair.place(Side::A).other();
                let command = relay::command(self.pair, self.vrdma, host, arriving.process_id());
                relay::start(self.pair, &command).map(Some)
            }
            Memory::Unix | Memory::Tcp | Memory::Rdma => Ok(None),
        }
    }
}

/// Starts a migration, and kills it when it prints those words.
fn kill_when(command: &mut Command, says: &str) -> Result<()> {
    let child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = child.context("cannot start vrdma")?;
    let said = child.stderr.take().context("it has no standard error")?;
    let mut lines = BufReader::new(said).lines().map_while(Result::ok);
    let in_time = lines.any(|line| line.contains(says));
    child.kill()?;
    let status = child.wait()?;
    ensure!(
        in_time && !status.success(),
        "the migration was over before it could be killed"
    );
    Ok(())
}

/// The output of a program.
pub(super) fn words(output: &Output) -> String {
    let both = [&output.stderr[..], &output.stdout[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The peer's longest wait, in microseconds: by perftest's `t_max`.
fn longest_latency(said: &str) -> Option<f64> {
    const COLUMN: usize = 3;
    let mut lines = said.lines().skip_while(|line| !line.contains("t_max"));
    let figures = lines.nth(1)?;
    let told: f64 = figures.split_whitespace().nth(COLUMN)?.parse().ok()?;
    let is_whole = said.contains("RDMA_Read Latency Test");
    Some(if is_whole { told } else { told * HALVES })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_latency_is_perftests() {
        let said = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n \
                    64      8000          20.10          51234.50      22.00\n---\n";
        assert_eq!(longest_latency(said), Some(102_469.0));
        let said = format!("                    RDMA_Read Latency Test\n{said}");
        assert_eq!(longest_latency(&said), Some(51_234.5));
        assert_eq!(
            longest_latency(" #bytes  BW average[MB/sec]\n 64 100.0\n"),
            None
        );
    }

    #[test]
    fn many_figures_are_three() {
        let outcome = |count: u32| Outcome {
            moves: (0..count)
                .map(|ms| Move {
                    report: serde_json::json!({ "downtime_ms": ms }),
                    span: Span::since(SystemTime::now()),
                    pause: None,
                })
                .collect(),
            statuses: vec![Some(0); 2],
            longest_pause: None,
        };
        let figures = |count| outcome(count).figures(|it| it.number("downtime_ms"));
        assert_eq!(figures(3), "0, 1, 2");
        assert_eq!(figures(9), "0 / 4 / 8");
        let median = outcome(9).median(|it| it.number("downtime_ms"));
        assert_eq!(median, Some(4.0));
    }
}
