//! `vrdma migrate`: takes a VM with its adapters to another host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use vrdma_api_client::Client;
use vrdma_migration::{
    Copying, HostSockets, MemoryProgress, Migration, Options, Phase, PhaseTime, Plan,
    PlannedAdapter, Progress, Recovered, RelayProgram, Watcher,
};

use crate::arguments::MigrateOptions;
use crate::failure::Failure;
use crate::relay;
use crate::report::Report;
use crate::table::{Column, bytes, facts, table};

const RECOVERED: &str = "the VM runs at the source with its connections; end the destination's QEMU, which is of no use any more";

const FINISHED: &str =
    "the VM had gone by post-copy, and runs at the destination with its connections";

pub(crate) fn run(client: &Client, options: &MigrateOptions) -> Result<Report, Failure> {
    let what = Options {
        adapters: options.adapters.clone(),
        source: HostSockets {
            control: client.socket().to_owned(),
            qmp: options.qmp.clone(),
        },
        destination: HostSockets {
            control: options.to.clone(),
            qmp: options.to_qmp.clone(),
        },
        memory: Copying {
            relay: relay(client, options)?,
            ..options.copying()
        },
        verify: options.verify,
    };
    if options.recover {
        return recover(&what);
    }
    let migration = Migration::prepare(what).map_err(failed)?;
    if options.dry_run {
        let plan = migration.plan();
        return Ok(Report::new(plan, plan_text(plan)));
    }
    let mut console = Console::new()?;
    let report = migration.run(&mut console).map_err(failed)?;
    Ok(Report::new(&report, report_text(&report)))
}

fn recover(what: &Options) -> Result<Report, Failure> {
    let recovered = vrdma_migration::recover(what, &mut Console::new()?).map_err(failed)?;
    let (place, said) = match recovered {
        Recovered::AtSource => ("source", RECOVERED),
        Recovered::AtDestination => ("destination", FINISHED),
    };
    let facts = json!({ "recovered": true, "vm": place });
    Ok(Report::new(&facts, said))
}

/// The relay that carries the memory at this side, if an adapter is named for it. Undoing a migration needs none.
fn relay(client: &Client, options: &MigrateOptions) -> Result<Option<RelayProgram>, Failure> {
    let adapter = options.relay_adapter.as_ref();
    let adapter = adapter.filter(|_| !options.recover);
    adapter.map(|name| relay::program(client, name)).transpose()
}

#[allow(clippy::needless_pass_by_value, reason = "a function for map_err")]
fn failed(error: vrdma_migration::Error) -> Failure {
    Failure::new(error.to_string())
}

/// Returns a flag that becomes true at Ctrl-C or SIGTERM: the VM then stays where it is, and is not left between.
fn interrupted() -> Result<Arc<AtomicBool>, Failure> {
    let cannot = |error| Failure::new(format!("cannot wait for signals: {error}"));
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(cannot)?;
    let listen = |kind| {
        let _inside = runtime.enter();
        signal(kind).map_err(cannot)
    };
    let (mut interrupt, mut terminate) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
    );
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        raised.store(true, Ordering::Relaxed);
    });
    Ok(flag)
}

/// Reports the progress on standard error.
pub(crate) struct Console {
    interrupted: Arc<AtomicBool>,
}

impl Console {
    pub(crate) fn new() -> Result<Self, Failure> {
        Ok(Self {
            interrupted: interrupted()?,
        })
    }
}

impl Watcher for Console {
    fn progress(&mut self, progress: &Progress) {
        eprintln!("vrdma: {}", progress_text(progress));
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

fn progress_text(progress: &Progress) -> String {
    match progress {
        Progress::Phase(phase) => phase.to_string(),
        Progress::Memory(memory) => memory_text(memory),
        Progress::PointOfNoReturn => {
            "the source has given the VM up: no way back from here".to_owned()
        }
        Progress::Aborting => "it failed, taking all back".to_owned(),
    }
}

fn memory_text(memory: &MemoryProgress) -> String {
    let downtime = memory.expected_downtime_ms;
    let downtime = downtime.map_or_else(String::new, |ms| format!(", {ms} ms to stand still"));
    format!(
        "  round {}: {} of {} left, {} pages/s{downtime}",
        memory.rounds,
        bytes(memory.remaining_bytes),
        bytes(memory.total_bytes),
        memory.pages_per_second
    )
}

fn plan_text(plan: &Plan) -> String {
    let adapter = |it: &PlannedAdapter| {
        let PlannedAdapter {
            name,
            portgroup,
            mac,
        } = it;
        ("adapter", format!("{name}, {mac}, port group {portgroup}"))
    };
    let mut rows: Vec<_> = plan.adapters.iter().map(adapter).collect();
    rows.extend([
        ("PCI address", plan.pci_addresses.join(", ")),
        ("QEMU", plan.qemu.clone()),
        ("memory", bytes(plan.memory_bytes)),
        (
            "adapters' contexts",
            carried_by(plan.daemon_to_daemon).to_owned(),
        ),
    ]);
    format!("{}\nthe VM can migrate; nothing was changed", facts(rows))
}

fn report_text(report: &vrdma_migration::Report) -> String {
    const COLUMNS: &[Column] = &[Column::Text("PHASE"), Column::Number("MS")];
    let row = |time: &PhaseTime| vec![phase_text(time.phase), milliseconds(time.ms)];
    let phases = table(COLUMNS, report.phases.iter().map(row).collect(), "");
    let resent = match report.resent_bytes {
        0 => String::new(),
        resent => format!(", and {} that QEMU sent", bytes(resent)),
    };
    let context = format!(
        "{}, {} records, {} pages{resent}, {}",
        bytes(report.context_bytes),
        report.context_records,
        report.context_pages,
        carried_by(report.daemon_to_daemon)
    );
    let numbers = facts(vec![
        ("total", format!("{} ms", milliseconds(report.total_ms))),
        ("VM stood still", stood_still(report)),
        (
            "memory",
            format!(
                "{} pages, {} sent, {} rounds{}",
                report.pages,
                bytes(report.transferred_bytes),
                report.rounds,
                report.verified_bytes.map_or_else(String::new, |verified| {
                    format!(", {} compared", bytes(verified))
                })
            ),
        ),
        ("adapters' contexts", context),
    ]);
    format!("{phases}\n\n{numbers}")
}

fn carried_by(daemon_to_daemon: bool) -> &'static str {
    match daemon_to_daemon {
        true => "from daemon to daemon",
        false => "by this program",
    }
}

fn stood_still(report: &vrdma_migration::Report) -> String {
    let qemu = report.qemu_ms.map_or_else(String::new, |ms| {
        format!(", {} of them for QEMU to send the rest", milliseconds(ms))
    });
    format!("{} ms{qemu}", milliseconds(report.downtime_ms))
}

fn phase_text(phase: Phase) -> String {
    phase.to_string()
}

fn milliseconds(ms: f64) -> String {
    format!("{ms:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_table_of_phases_and_numbers() {
        let report = vrdma_migration::Report {
            phases: vec![PhaseTime {
                phase: Phase::Freeze,
                ms: 1.26,
            }],
            total_ms: 1.26,
            downtime_ms: 0.5,
            qemu_ms: None,
            rounds: 3,
            pages: 7,
            transferred_bytes: 2048,
            verified_bytes: Some(4096),
            daemon_to_daemon: true,
            context_bytes: 1024,
            context_records: 4,
            context_pages: 5,
            resent_bytes: 0,
        };
        let text = report_text(&report);
        let lines: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["PHASE", "MS"]);
        assert_eq!(lines[1], ["freezing", "the", "adapter", "1.3"]);
        assert_eq!(lines[4], ["VM", "stood", "still", "0.5", "ms"]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["phases"][0]["phase"], "freeze");
    }

    #[test]
    fn progress_is_a_line() {
        let memory = MemoryProgress {
            rounds: 2,
            remaining_bytes: 1 << 20,
            total_bytes: 1 << 30,
            pages_per_second: 9,
            expected_downtime_ms: Some(30),
        };
        let line = progress_text(&Progress::Memory(memory));
        assert_eq!(
            line,
            "  round 2: 1.0 MiB of 1.0 GiB left, 9 pages/s, 30 ms to stand still"
        );
    }
}
