//! A VM's adapter that goes to another host, and one that has come from there.
//!
//! ```text
//!   source        working ──track──► tracked ──freeze──► frozen ──release──► reset
//!                    ▲                  └──────thaw─────────┘
//!   destination   reset ──restore──► its MSI-X table is written ──QEMU has wired the interrupts──► awaits its device ──take_made──►
//!                   ▲                                                                                     │      restored, frozen
//!                   └────────────────────────────────── discard ──────────────────────────────────────────┴────────┘       │
//!                                                                                                        working ◄──activate┘
//! ```
//! The device is made elsewhere ([`making`](super::making)): at once, or, if parts of the guest's memory follow later,
//! when they are there. None of the memory is read before.
//!
//! For a worker that follows, an adapter that is restored and not yet activated is reset: its records are those of the
//! reset device.
//!
//! The MSI-X table is QEMU's. It is written in the way that the device writes memory, and QEMU passes the write on to
//! its own table; before it answers, it wires the interrupts that are not masked.
//!
//! This module knows neither the other host nor the pages that it needs.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use vrdma_api::MSIX_TABLE_WORDS;
use vrdma_memory::Space;
use vrdma_pvrdma::config_space::CONFIG_BYTES;
use vrdma_pvrdma::{BarRegion, DeviceState, SavedRecord};
use vrdma_threads::{Reply, is_withdrawn};
use vrdma_vfio_user::Errno;

use super::Vm;
use super::backend::{Backend, MSIX_TABLE};
use super::making::{Made, Maker};

/// Register of configuration space with the address of BAR 0, which begins with the MSI-X table.
const BAR0: usize = 0x10;
const BAR_ADDRESS: u32 = !0xf;

/// A device that has stopped.
pub struct Frozen {
    /// What another device needs to go on.
    pub records: Vec<SavedRecord>,
    /// The guest's memory, with the log of what the device wrote.
    pub memory: Arc<Space>,
    /// How the memory was mapped at that time: the log of another mapping is another log.
    pub generation: u64,
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen")
            .field("records", &self.records.len())
            .finish_non_exhaustive()
    }
}

/// What a device is to take over from another host's device, besides its records.
#[derive(Debug)]
pub struct Restoring {
    /// The source's configuration space: its BAR 0 has to be where QEMU has it here.
    pub config_space: Vec<u8>,
    /// QEMU's MSI-X table of the source.
    pub msix_table: Option<[u32; MSIX_TABLE_WORDS]>,
    /// Told that the device can be made, or why it cannot: a sentence.
    pub reply: Reply<Result<Maker, String>>,
}

const NOT_CONNECTED: &str = "no QEMU is connected to the adapter: start the VM first";

const OTHER_PLACE: &str = "QEMU has the adapter's PCI function elsewhere than the VM had it: start it with the slots that the adapters had \
     (vrdma adapter qemu-args --slot)";

pub(super) const NOT_RESTORED: &str = "the adapter was not restored, or QEMU has left or reset it since: restore it from its context first";

const NOT_TRACKED: &str = "the adapter is not tracked, or its guest's memory was mapped anew since: track it, and begin the migration again";

const FROZEN: &str = "the adapter is frozen: thaw it first";

impl Vm {
    /// Begins the log of what the device writes; returns its PCI configuration space. The error is a sentence.
    pub(crate) fn track(&mut self) -> Result<Vec<u8>, String> {
        if self.connection.is_none() {
            return Err(NOT_CONNECTED.to_owned());
        }
        self.check_here()?;
        if self.backend.device.is_frozen() {
            return Err(FROZEN.to_owned());
        }
        self.backend.memory.dirty_log().enable();
        self.backend.tracked = true;
        Ok(self.backend.config_space().to_vec())
    }

    /// Prepares to stop the device; its peers are told next. The error is a sentence.
    pub(crate) fn prepare_freeze(&mut self) -> Result<(), String> {
        self.check_freeze()?;
        self.advance_epoch();
        Ok(())
    }

    /// Makes what its peers are told next newer than what they were told.
    pub(crate) fn advance_epoch(&mut self) {
        self.backend.device.advance_epoch(time_of_day());
        self.backend.commit_records();
    }

    /// Stops the device. The error is a sentence.
    pub(crate) fn freeze(&mut self) -> Result<Frozen, String> {
        self.check_freeze()?;
        let records = self.backend.device.freeze();
        self.backend.interrupt();
        let memory = self.memory();
        let generation = memory.generation();
        Ok(Frozen {
            records,
            memory,
            generation,
        })
    }

    fn check_freeze(&self) -> Result<(), String> {
        if !self.backend.tracked {
            return Err(NOT_TRACKED.to_owned());
        }
        // The caller that froze it relies on it to stand still until it is thawed.
        if self.backend.device.is_frozen() {
            return Err(FROZEN.to_owned());
        }
        Ok(())
    }

    /// Lets the device go on, and ends the log. The error is a sentence.
    pub(crate) fn thaw(&mut self) -> Result<(), String> {
        self.check_here()?;
        self.backend.stop_resending()?;
        self.backend.end_tracking();
        self.backend.go_on();
        Ok(())
    }

    fn check_here(&self) -> Result<(), String> {
        if self.is_restored() {
            return Err(
                "the adapter waits to be activated in the place of another host's: activate it, or delete its context"
                    .to_owned(),
            );
        }
        let refusal = self.backend.by_client.refusal();
        refusal.map_or(Ok(()), |sentence| Err(sentence.to_owned()))
    }

    /// Resets the device, since another host's has gone on. The error is a sentence.
    pub(crate) fn release(&mut self) -> Result<(), String> {
        self.check_here()?;
        if !self.backend.device.is_frozen() {
            return Err("the adapter is not frozen: its VM runs here".to_owned());
        }
        self.backend.end_tracking();
        self.backend.reset_device();
        Ok(())
    }

    /// Returns the guest's memory, with the log of what the device writes. The error is a sentence.
    pub(crate) fn tracked_memory(&self) -> Result<Arc<Space>, String> {
        match self.backend.tracked {
            true => Ok(self.memory()),
            false => Err(NOT_TRACKED.to_owned()),
        }
    }

    /// Returns the guest's memory, if the device could be restored. The error is a sentence.
    pub(crate) fn waiting_memory(&self) -> Result<Arc<Space>, String> {
        self.check_waiting().map_err(str::to_owned)?;
        Ok(self.memory())
    }

    /// Returns the guest's memory while the frozen device leaves it alone. The error is a sentence.
    pub(crate) fn frozen_memory(&self) -> Result<Arc<Space>, String> {
        match self.backend.device.is_frozen() {
            true => Ok(self.memory()),
            false => Err(
                "the adapter is not frozen: its guest's memory is another one at any moment"
                    .to_owned(),
            ),
        }
    }

    fn check_waiting(&self) -> Result<(), &'static str> {
        if self.connection.is_none() {
            return Err(NOT_CONNECTED);
        }
        if self.backend.restoring.is_some() || self.is_restored() {
            return Err("the adapter is restored already: activate it, or delete its context");
        }
        if self.backend.device.snapshot().state != DeviceState::Reset {
            return Err("the adapter is in use: start the VM's QEMU with -S -incoming defer");
        }
        Ok(())
    }

    /// Whether the device was restored, and neither activated nor reset.
    pub(crate) fn is_restored(&self) -> bool {
        self.backend.is_restored()
    }

    /// Prepares to make the device from another host's, which begins as soon as QEMU has its MSI-X table.
    pub(crate) fn restore(&mut self, restoring: Restoring) {
        if let Err(sentence) = self.check_waiting() {
            refuse(restoring, sentence);
            return;
        }
        let place = bar_0(&restoring.config_space);
        if place.is_some() && place != bar_0(&self.backend.config_space()) {
            refuse(restoring, OTHER_PLACE);
            return;
        }
        let Some(connection) = &mut self.connection else {
            refuse(restoring, NOT_CONNECTED);
            return;
        };
        let Some(table) = restoring.msix_table else {
            self.backend.finish_restoring(restoring);
            return;
        };
        let at = u64::from(place.unwrap_or_default() & BAR_ADDRESS);
        let bytes: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
        match connection.dma_write(MSIX_TABLE, at, &bytes) {
            Ok(()) => self.backend.restoring = Some(restoring),
            Err(error) => refuse(restoring, &format!("QEMU cannot be asked: {error}")),
        }
    }

    /// Puts the device that was made in its place; it does nothing yet. The error is a sentence.
    pub(crate) fn take_made(&mut self, made: Made) -> Result<(), String> {
        self.backend.take_made(made)
    }

    /// Lets the restored device go on. The error is a sentence.
    pub(crate) fn activate(&mut self) -> Result<(), String> {
        if !self.is_restored() {
            return Err(NOT_RESTORED.to_owned());
        }
        if self.backend.awaits_device {
            return Err("the adapter's device is still being made".to_owned());
        }
        self.backend.activate();
        Ok(())
    }

    /// Ends a restore that is under way, and resets a device that was restored.
    pub(crate) fn discard(&mut self) {
        if let Some(restoring) = self.backend.restoring.take() {
            refuse(restoring, "its context was deleted");
        }
        if self.is_restored() {
            self.backend.reset_device();
        }
    }
}

fn bar_0(config_space: &[u8]) -> Option<u32> {
    let register = config_space.get(BAR0..)?.first_chunk()?;
    Some(u32::from_le_bytes(*register))
}

/// Returns the nanoseconds since 1970, which epochs begin with.
fn time_of_day() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| it.as_nanos() as u64)
}

fn refuse(restoring: Restoring, sentence: &str) {
    // The caller may be gone, and nothing was done.
    let _ = restoring.reply.send(Err(sentence.to_owned()));
}

impl Backend {
    pub(super) fn end_tracking(&mut self) {
        if std::mem::take(&mut self.tracked) {
            self.memory.dirty_log().disable();
        }
    }

    /// Lets the device work.
    pub(super) fn go_on(&mut self) {
        if self.device.is_frozen() {
            self.device.advance_epoch(time_of_day());
        }
        self.device.thaw(self.clock.now());
        self.commit_records();
    }

    /// Ends a restore, since QEMU has left and will not say that it has the MSI-X table.
    pub(super) fn end_restoring(&mut self) {
        self.table = None;
        self.awaits_device = false;
        if let Some(restoring) = self.restoring.take() {
            refuse(
                restoring,
                "QEMU left while the adapter was being restored; see its log",
            );
        }
    }

    /// Returns the configuration space as QEMU wrote it last.
    fn config_space(&mut self) -> [u8; CONFIG_BYTES] {
        let mut config_space = [0; CONFIG_BYTES];
        self.device.read(BarRegion::Config, 0, &mut config_space);
        config_space
    }

    fn is_restored(&self) -> bool {
        self.awaits_device || (self.restored && self.device.is_frozen())
    }

    fn reset_device(&mut self) {
        self.awaits_device = false;
        self.device.reset();
        self.device.record();
        self.commit_records();
    }

    /// Takes QEMU's answer to a write of its MSI-X table. What follows is done at the end of the message, and not
    /// within it.
    pub(super) fn table_written(&mut self, result: Result<(), Errno>) {
        self.table = Some(result);
    }

    /// Lets the device be made if QEMU has answered.
    pub(super) fn conclude_restoring(&mut self) {
        let Some(result) = self.table.take() else {
            return;
        };
        let Some(restoring) = self.restoring.take() else {
            return;
        };
        match result {
            Ok(()) => self.finish_restoring(restoring),
            Err(error) => {
                let sentence = format!("QEMU did not take the MSI-X table: {error}");
                refuse(restoring, &sentence);
            }
        }
    }

    fn finish_restoring(&mut self, restoring: Restoring) {
        if is_withdrawn(&restoring.reply) {
            return;
        }
        let maker = self.await_device();
        if let Err(Ok(_)) = restoring.reply.send(maker) {
            // The caller gave up at this moment, and takes it for not done.
            self.reset_device();
        }
    }

    fn activate(&mut self) {
        self.restored = false;
        self.device.advance_epoch(time_of_day());
        self.device.thaw(self.clock.now());
        if let Some(journal) = self.device.take_journal() {
            self.device.record_to(journal);
        }
        self.keep_doorbells();
        self.commit_records();
    }
}
