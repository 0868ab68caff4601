//! A device that migrates, and asserts that it is only asked for what its state allows.

use std::ops::Range;

use rustix::io::Errno;
use vrdma_vfio_user::Migration;
use vrdma_vfio_user::message::{DATA_MAX, DMA_PAGE_SIZE};

/// Each call whose number is a multiple of this is refused.
const REFUSED: u32 = 5;

#[derive(Default)]
pub(super) struct Migrator {
    calls: u32,
    is_stopped: bool,
    /// Whether it takes data, or has refused data.
    is_open: bool,
    has_failed: bool,
}

impl Migrator {
    pub(super) fn reset(&mut self) {
        let calls = self.calls;
        *self = Self {
            calls,
            ..Self::default()
        };
    }

    fn answer(&mut self) -> Result<(), Errno> {
        self.calls += 1;
        match self.calls % REFUSED {
            0 => Err(Errno::BUSY),
            _ => Ok(()),
        }
    }

    fn check_stopped(&self) {
        assert!(self.is_stopped && !self.is_open && !self.has_failed);
    }
}

impl Migration for Migrator {
    fn stop(&mut self) -> Result<(), Errno> {
        assert!(!self.is_stopped && !self.has_failed);
        self.answer()?;
        self.is_stopped = true;
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), Errno> {
        self.check_stopped();
        self.answer()?;
        self.is_stopped = false;
        Ok(())
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Errno> {
        assert!(self.is_stopped && bytes <= DATA_MAX);
        Ok(())
    }

    fn save(&mut self) -> Result<Vec<u8>, Errno> {
        self.check_stopped();
        self.answer()?;
        Ok(vec![7; 100])
    }

    fn saved(&mut self) {
        self.check_stopped();
    }

    fn prepare(&mut self) -> Result<(), Errno> {
        self.check_stopped();
        self.answer()?;
        self.is_open = true;
        Ok(())
    }

    fn load(&mut self, data: &[u8]) -> Result<(), Errno> {
        assert!(self.is_stopped && self.is_open && data.len() <= DATA_MAX);
        self.is_open = false;
        let answer = self.answer();
        self.has_failed = answer.is_err();
        answer
    }

    fn start_logging(&mut self) -> Result<(), Errno> {
        self.answer()
    }

    fn stop_logging(&mut self) {}

    fn take_written(&mut self, range: Range<u64>) -> Result<Vec<Range<u64>>, Errno> {
        assert!(range.start.is_multiple_of(DMA_PAGE_SIZE) && range.start < range.end);
        self.answer()?;
        let first = range.start..range.start.saturating_add(DMA_PAGE_SIZE);
        // The last page of the address space has no end and does not count.
        let whole = first.end.is_multiple_of(DMA_PAGE_SIZE).then_some(first);
        Ok(whole.into_iter().collect())
    }
}
