//! What a migration reports while it runs, and at its end.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Phases of a migration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The source's daemon begins to track the pages that the adapter writes.
    Track,
    /// QEMU sends the memory while the VM runs.
    Copy,
    /// VM and adapter stand still. QEMU begins to send the rest. If daemons hand contexts over by themselves, the
    /// adapter's context goes now.
    Freeze,
    /// QEMU is told of the pages that the adapter has written, if there are many, and sends them.
    Resend,
    /// The context is at the other daemon, or goes there.
    HandOver,
    /// The rest arrives at the destination's QEMU.
    SwitchOver,
    /// The destination's QEMU gets the adapter's PCI configuration.
    Configure,
    /// The destination's daemon makes the adapter from the context; it does nothing yet.
    Restore,
    /// The guest's memory on both hosts is compared, if that was asked for.
    Verify,
    /// The source's daemon gives the adapter up: the point of no return.
    Release,
    /// The destination's daemon goes on with the adapter.
    Activate,
    /// The VM runs at the destination.
    Resume,
    /// The rest of its memory follows by post-copy.
    PageIn,
    /// The source's QEMU ends.
    Quit,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Track => "beginning to track the adapter",
            Self::Copy => "copying the memory",
            Self::Freeze => "freezing the adapter",
            Self::Resend => "having QEMU send what the adapter has written",
            Self::HandOver => "handing over the adapter's context",
            Self::SwitchOver => "switching over",
            Self::Configure => "configuring the adapter's PCI function",
            Self::Restore => "restoring the adapter at the destination",
            Self::Verify => "comparing the memory on both hosts",
            Self::Release => "releasing the adapter at the source",
            Self::Activate => "activating the adapter at the destination",
            Self::Resume => "resuming the VM at the destination",
            Self::PageIn => "fetching the memory that is missing",
            Self::Quit => "ending the source's QEMU",
        })
    }
}

/// Progress of the copy of the memory, as QEMU counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemoryProgress {
    /// Passes over the memory so far.
    pub rounds: u64,
    /// Bytes that are left in the current pass.
    pub remaining_bytes: u64,
    /// Bytes of the memory.
    pub total_bytes: u64,
    /// Pages sent per second.
    pub pages_per_second: u64,
    /// How long the VM would stand still if it stopped now.
    pub expected_downtime_ms: Option<u64>,
}

/// A report of progress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// A phase begins.
    Phase(Phase),
    /// State of the copy; a few times a second.
    Memory(MemoryProgress),
    /// The source can no longer go on.
    PointOfNoReturn,
    /// Something failed before that point, and is taken back.
    Aborting,
}

/// The receiver of reports.
pub trait Watcher {
    /// Called with each report.
    fn progress(&mut self, progress: &Progress);

    /// Whether to give up. Called until the point of no return.
    fn is_interrupted(&self) -> bool {
        false
    }
}

impl<F: FnMut(&Progress)> Watcher for F {
    fn progress(&mut self, progress: &Progress) {
        self(progress);
    }
}

/// How long a phase took.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct PhaseTime {
    /// The phase.
    pub phase: Phase,
    /// Its milliseconds.
    pub ms: f64,
}

/// A migration that is done.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Times of the phases, in order.
    pub phases: Vec<PhaseTime>,
    /// Milliseconds of all phases.
    pub total_ms: f64,
    /// Milliseconds between the source's event STOP and the destination's RESUME, as received by this program.
    pub downtime_ms: f64,
    /// Milliseconds of the downtime in which the source's QEMU sent the rest, by its clock. The adapter is frozen and
    /// handed over meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qemu_ms: Option<f64>,
    /// Passes over the memory.
    pub rounds: u64,
    /// Pages that were sent, including pages of zeros.
    pub pages: u64,
    /// Bytes that QEMU sent.
    pub transferred_bytes: u64,
    /// Bytes of memory that were compared, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_bytes: Option<u64>,
    /// Whether the source's daemon brought the adapters' contexts to the destination's; otherwise this program did.
    pub daemon_to_daemon: bool,
    /// Bytes of the adapters' contexts.
    pub context_bytes: u64,
    /// Records of devices in them.
    pub context_records: u64,
    /// Pages in them, which the devices wrote.
    pub context_pages: u64,
    /// Bytes that the devices wrote and QEMU sent, because they were too many for the contexts.
    pub resent_bytes: u64,
}

/// Start times of the phases.
pub(crate) struct Times {
    done: Vec<PhaseTime>,
    current: Option<(Phase, Instant)>,
}

impl Times {
    pub(crate) fn new() -> Self {
        Self {
            done: Vec::new(),
            current: None,
        }
    }

    pub(crate) fn enter(&mut self, phase: Phase) {
        self.end();
        self.current = Some((phase, Instant::now()));
    }

    fn end(&mut self) {
        if let Some((phase, began)) = self.current.take() {
            let ms = milliseconds(began.elapsed());
            self.done.push(PhaseTime { phase, ms });
        }
    }

    pub(crate) fn finish(mut self) -> Vec<PhaseTime> {
        self.end();
        self.done
    }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
