//! A device that migrates, and records its calls.

use std::ops::Range;

use rustix::io::Errno;

use crate::message::DMA_PAGE_SIZE;
use crate::migration::Migration;

/// The calls that it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Stop,
    GoOn,
    Save,
    Saved,
    Prepare,
    Load(Vec<u8>),
    StartLogging,
    StopLogging,
    TakeWritten(Range<u64>),
}

/// Data of this test device: more than one piece.
pub(crate) const DATA: &[u8] = b"what a device is made of";

/// Pages that it reports as written.
pub(crate) const WRITTEN: [u64; 3] = [0x1_0000, 0x1_1000, 0x5_0000];

#[derive(Debug, Default)]
pub(crate) struct Migrator {
    pub(crate) steps: Vec<Step>,
    /// Error of the next such step.
    pub(crate) refuses: Option<(Step, Errno)>,
    /// Bytes reserved for this device.
    pub(crate) held: usize,
    /// Bytes reserved for other devices.
    pub(crate) others: usize,
}

/// Most bytes reserved for all devices: more than a test fills.
pub(crate) const HELD_MAX: usize = 2 * crate::message::DATA_MAX;

impl Migrator {
    fn told(&mut self, step: Step) -> Result<(), Errno> {
        self.steps.push(step.clone());
        match self.refuses.take_if(|(refused, _)| *refused == step) {
            Some((_, errno)) => Err(errno),
            None => Ok(()),
        }
    }
}

impl Migration for Migrator {
    fn stop(&mut self) -> Result<(), Errno> {
        self.told(Step::Stop)
    }

    fn go_on(&mut self) -> Result<(), Errno> {
        self.told(Step::GoOn)
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Errno> {
        match bytes <= HELD_MAX - self.others {
            true => self.held = bytes,
            false => return Err(Errno::NOSPC),
        }
        Ok(())
    }

    fn save(&mut self) -> Result<Vec<u8>, Errno> {
        self.told(Step::Save)?;
        Ok(DATA.to_vec())
    }

    fn saved(&mut self) {
        self.steps.push(Step::Saved);
    }

    fn prepare(&mut self) -> Result<(), Errno> {
        self.told(Step::Prepare)
    }

    fn load(&mut self, data: &[u8]) -> Result<(), Errno> {
        self.told(Step::Load(data.to_vec()))
    }

    fn start_logging(&mut self) -> Result<(), Errno> {
        self.told(Step::StartLogging)
    }

    fn stop_logging(&mut self) {
        self.steps.push(Step::StopLogging);
    }

    fn take_written(&mut self, range: Range<u64>) -> Result<Vec<Range<u64>>, Errno> {
        self.told(Step::TakeWritten(range.clone()))?;
        let pages = WRITTEN.map(|page| page..page + DMA_PAGE_SIZE);
        let within = |page: &Range<u64>| range.start <= page.start && page.end <= range.end;
        Ok(pages.into_iter().filter(within).collect())
    }
}
