//! What a migration tells while it goes on, and at its end.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

/// What a migration is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The source's daemon begins to note what the adapter writes.
    Track,
    /// QEMU sends the memory while the VM runs.
    Copy,
    /// The adapter stands still, as the VM does. QEMU begins to send what is left. Where daemons hand contexts over by themselves,
    /// its context goes now.
    Freeze,
    /// QEMU is told what the adapter has written, if that is much, and sends it.
    Resend,
    /// Its context is at the other daemon, or goes there.
    HandOver,
    /// All that is left arrives at the destination's QEMU.
    SwitchOver,
    /// The destination's QEMU gets the adapter's PCI configuration.
    Configure,
    /// The destination's daemon makes the adapter from the context; it does nothing yet.
    Restore,
    /// The guest's memory on both hosts is compared, if that was asked for.
    Verify,
    /// The source's daemon gives the adapter up: the point of no return.
    Release,
    /// The destination's goes on with it.
    Activate,
    /// The VM runs at the destination.
    Resume,
    /// Its memory follows it, by post-copy.
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

/// Of the copy of the memory, as QEMU counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemoryProgress {
    /// Passes over the memory so far.
    pub rounds: u64,
    /// Bytes that are left in this one.
    pub remaining_bytes: u64,
    /// Bytes of the memory.
    pub total_bytes: u64,
    /// How fast it goes.
    pub pages_per_second: u64,
    /// How long the VM would stand still if it stopped now.
    pub expected_downtime_ms: Option<u64>,
}

/// What is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// A phase begins.
    Phase(Phase),
    /// A few times a second.
    Memory(MemoryProgress),
    /// The source cannot go on from here.
    PointOfNoReturn,
    /// Something failed before that, and is taken back.
    Aborting,
}

/// Who is told.
pub trait Watcher {
    /// Something went on.
    fn progress(&mut self, progress: &Progress);

    /// Whether to give up, which is asked until the point of no return.
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
    /// Which.
    pub phase: Phase,
    /// Milliseconds.
    pub ms: f64,
}

/// A migration that is done.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// In their order.
    pub phases: Vec<PhaseTime>,
    /// Milliseconds of all of them.
    pub total_ms: f64,
    /// Milliseconds between the source's event STOP and the destination's RESUME, as they came here.
    pub downtime_ms: f64,
    /// Milliseconds of it that the source's QEMU took to send what was left, by its clock. The adapter is frozen and handed
    /// over meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qemu_ms: Option<f64>,
    /// Passes over the memory.
    pub rounds: u64,
    /// Pages that were sent, those of zeros among them.
    pub pages: u64,
    /// Bytes that QEMU sent.
    pub transferred_bytes: u64,
    /// Bytes of memory that were compared, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_bytes: Option<u64>,
    /// Whether the source's daemon brought the adapters' contexts to the destination's, or else this program.
    pub daemon_to_daemon: bool,
    /// The adapters' contexts.
    pub context_bytes: u64,
    /// Records of the device in it.
    pub context_records: u64,
    /// Pages in it, which the device wrote.
    pub context_pages: u64,
    /// Bytes that the device wrote and that QEMU sent, since they were too many for its context.
    pub resent_bytes: u64,
}

/// When phases began.
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
