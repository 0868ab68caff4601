//! A VM's adapter that goes to another host, and one that has come from there.
//!
//! ```text
//!   source        working ──track──► tracked ──freeze──► frozen ──release──► reset
//!                    ▲                  └──────thaw─────────┘
//!   destination   reset ──activate──► its MSI-X table is written ──QEMU has wired the interrupts──► working
//! ```
//! The MSI-X table is QEMU's. It is written as the device writes memory, which QEMU passes on to its own table; QEMU
//! then wires the interrupts that are not masked before it answers.
//!
//! This module knows neither the other host nor the pages that it needs.

use std::fmt;
use std::sync::Arc;

use vrdma_api::MSIX_TABLE_WORDS;
use vrdma_memory::Space;
use vrdma_pvrdma::{Device, DeviceState, SavedRecord};
use vrdma_vfio_user::Errno;

use super::Vm;
use super::backend::{ACTIVATION, Backend};
use crate::plane::{Reply, is_withdrawn};

/// Where configuration space says that BAR 0 is, with the MSI-X table at its start.
const BAR0: usize = 0x10;
const BAR_ADDRESS: u32 = !0xf;

/// A device that does nothing any more.
pub struct Frozen {
    /// What another one needs to go on.
    pub records: Vec<SavedRecord>,
    /// The guest's memory, with the log of what the device wrote.
    pub memory: Arc<Space>,
    /// How it was mapped then: the log of other maps is another one.
    pub generation: u64,
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen")
            .field("records", &self.records.len())
            .finish_non_exhaustive()
    }
}

/// How a device is to go on.
#[derive(Debug)]
pub struct Activation {
    /// Its records.
    pub records: Vec<SavedRecord>,
    /// Its configuration space has the same as QEMU's.
    pub config_space: Vec<u8>,
    /// QEMU's MSI-X table of the source.
    pub msix_table: Option<[u32; MSIX_TABLE_WORDS]>,
    /// Told when it goes on, or why it does not: a sentence.
    pub reply: Reply<Result<(), String>>,
}

const NOT_CONNECTED: &str = "no QEMU is connected to the adapter: start the VM first";

impl Vm {
    /// The log of what the device writes begins. The error is a sentence.
    pub(crate) fn track(&mut self) -> Result<(), String> {
        if self.connection.is_none() {
            return Err(NOT_CONNECTED.to_owned());
        }
        if self.backend.device.is_frozen() {
            return Err("the adapter is frozen: thaw it first".to_owned());
        }
        self.backend.memory.dirty_log().enable();
        self.backend.tracked = true;
        Ok(())
    }

    /// The device stops. The error is a sentence.
    pub(crate) fn freeze(&mut self) -> Result<Frozen, String> {
        if !self.backend.tracked {
            return Err(
                "the adapter is not tracked, or its guest's memory was mapped anew since: track it, and begin the \
                 migration again"
                    .to_owned(),
            );
        }
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

    /// The device goes on, and the log ends.
    pub(crate) fn thaw(&mut self) {
        let now = self.backend.clock.now();
        self.backend.end_tracking();
        self.backend.device.thaw(now);
    }

    /// Another host's device has gone on. The error is a sentence.
    pub(crate) fn release(&mut self) -> Result<(), String> {
        if !self.backend.device.is_frozen() {
            return Err("the adapter is not frozen: its VM runs here".to_owned());
        }
        self.backend.end_tracking();
        self.backend.device.reset();
        self.backend.device.record();
        self.backend.commit_records();
        Ok(())
    }

    /// The guest's memory, if its device could be activated. The error is a sentence.
    pub(crate) fn waiting_memory(&self) -> Result<Arc<Space>, String> {
        self.check_waiting().map_err(str::to_owned)?;
        Ok(self.memory())
    }

    fn check_waiting(&self) -> Result<(), &'static str> {
        if self.connection.is_none() {
            return Err(NOT_CONNECTED);
        }
        if self.backend.activation.is_some() {
            return Err("the adapter is being activated already");
        }
        if self.backend.device.snapshot().state != DeviceState::Reset {
            return Err("the adapter is in use: start the VM's QEMU with -S -incoming defer");
        }
        Ok(())
    }

    /// Goes on for a device of another host, as soon as QEMU has its MSI-X table.
    pub(crate) fn activate(&mut self, activation: Activation) {
        if let Err(sentence) = self.check_waiting() {
            refuse(activation, sentence);
            return;
        }
        let Some(connection) = &mut self.connection else {
            refuse(activation, NOT_CONNECTED);
            return;
        };
        let Some(table) = activation.msix_table else {
            self.backend.go_on(activation);
            return;
        };
        let at = activation
            .config_space
            .get(BAR0..)
            .and_then(|it| it.first_chunk());
        let at = u64::from(at.map_or(0, |it| u32::from_le_bytes(*it)) & BAR_ADDRESS);
        let bytes: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
        match connection.dma_write(ACTIVATION, at, &bytes) {
            Ok(()) => self.backend.activation = Some(activation),
            Err(error) => refuse(activation, &format!("QEMU cannot be asked: {error}")),
        }
    }
}

fn refuse(activation: Activation, sentence: &str) {
    // Whoever asked may be gone, and nothing was done.
    let _ = activation.reply.send(Err(sentence.to_owned()));
}

impl Backend {
    pub(super) fn end_tracking(&mut self) {
        if std::mem::take(&mut self.tracked) {
            self.memory.dirty_log().disable();
        }
    }

    /// QEMU has left, and will not say that it has the MSI-X table.
    pub(super) fn end_activation(&mut self) {
        self.table = None;
        if let Some(activation) = self.activation.take() {
            refuse(
                activation,
                "QEMU left while the adapter was being activated; see its log",
            );
        }
    }

    /// QEMU's answer to a write of its MSI-X table: goes on at the end of the message, and not within it.
    pub(super) fn table_written(&mut self, result: Result<(), Errno>) {
        self.table = Some(result);
    }

    /// Goes on if QEMU has answered.
    pub(super) fn conclude_activation(&mut self) {
        let Some(result) = self.table.take() else {
            return;
        };
        let Some(activation) = self.activation.take() else {
            return;
        };
        match result {
            Ok(()) => self.go_on(activation),
            Err(error) => {
                let sentence = format!("QEMU did not take the MSI-X table: {error}");
                refuse(activation, &sentence);
            }
        }
    }

    fn go_on(&mut self, activation: Activation) {
        if is_withdrawn(&activation.reply) {
            return;
        }
        let went_on = self.resume_from(&activation.records);
        let went_on = went_on.map_err(|error| format!("the adapter cannot go on: {error:#}"));
        if let Err(Ok(())) = activation.reply.send(went_on) {
            // Whoever asked gave up at this moment, and takes it for not done.
            self.device.reset();
        }
    }

    fn resume_from(&mut self, records: &[SavedRecord]) -> anyhow::Result<()> {
        let doorbells = self.device.doorbell_fd();
        let doorbells = doorbells.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let config = *self.device.config();
        let memory = Arc::clone(&self.memory);
        let now = self.clock.now();
        let mut device = Device::resume(config, memory, doorbells, records, None, now)?;
        if let Some(journal) = self.device.take_journal() {
            device.record_to(journal);
        }
        self.device = device;
        self.keep_doorbells();
        self.commit_records();
        Ok(())
    }
}
