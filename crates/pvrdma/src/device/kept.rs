//! The record of the device itself, and making a device from records.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use prost::Message;
use vrdma_adapter::{Journal, LogLimit};
use vrdma_memory::{SharedPages, Space};
use vrdma_verbs::Time;

use super::{Device, Stage};
use crate::adapter::Turn;
use crate::config::DeviceConfig;
use crate::handshake::{Handshake, Terms};
use crate::interrupts::Interrupts;
use crate::kept::{Kind, Lost, Past, Registers, Revived, SavedRecord};

/// Numbers of the stages.
mod stage {
    pub(super) const RESET: u32 = 0;
    pub(super) const CONFIGURED: u32 = 1;
    pub(super) const ACTIVE: u32 = 2;
    pub(super) const FAILED: u32 = 3;
}

impl Device {
    /// Writes the records that another process needs to go on to `journal` from now on: first everything that exists,
    /// in the same batch. Call it between turns. If there is no room, there is no [`journal`](Self::journal)
    /// afterwards.
    pub fn record_to(&mut self, journal: Box<dyn Journal>) {
        match &mut self.stage {
            Stage::Active(adapter, _) => {
                adapter.set_journal(Some(journal));
                adapter.record_everything();
            }
            _ => self.journal = Some(journal),
        }
        self.record();
    }

    /// The journal that records the device, unless there was no room.
    pub fn journal(&mut self) -> Option<&mut Box<dyn Journal>> {
        match &mut self.stage {
            Stage::Active(adapter, _) => adapter.journal.as_mut().or(self.journal.as_mut()),
            _ => self.journal.as_mut(),
        }
    }

    /// Takes the journal away: another device goes on writing to it.
    pub fn take_journal(&mut self) -> Option<Box<dyn Journal>> {
        match &mut self.stage {
            Stage::Active(adapter, _) => adapter.take_journal().or_else(|| self.journal.take()),
            _ => self.journal.take(),
        }
    }

    /// Sets a journal that already has the device's records.
    pub(super) fn put_journal(&mut self, journal: Box<dyn Journal>) {
        match &mut self.stage {
            Stage::Active(adapter, _) => adapter.set_journal(Some(journal)),
            _ => self.journal = Some(journal),
        }
    }

    /// Records the registers. Call it after they were written, before the writer is told. The registers of a frozen
    /// device are recorded when it is thawed.
    pub fn record(&mut self) {
        if self.frozen {
            return;
        }
        let record = self.registers().encode_to_vec();
        let Some(journal) = self.journal() else {
            return;
        };
        if !journal.put(Kind::Registers as u16, 0, &record) {
            tracing::warn!(
                "there is no room to record a guest's device: it will not survive the end of the worker"
            );
            self.stop_recording();
        }
    }

    /// Stops recording: no device is to go on from these records, and they are removed.
    pub fn stop_recording(&mut self) {
        self.journal = None;
        if let Stage::Active(adapter, _) = &mut self.stage {
            adapter.set_journal(None);
        }
    }

    fn registers(&self) -> Registers {
        let stage = match &self.stage {
            Stage::Reset => stage::RESET,
            Stage::Configured => stage::CONFIGURED,
            Stage::Active(..) => stage::ACTIVE,
            Stage::Failed => stage::FAILED,
        };
        let region = self.handshake.as_ref().map(|it| it.guest_part().to_vec());
        Registers {
            stage,
            region: region.unwrap_or_default(),
            dsr_low: self.dsr_low,
            error: self.error,
            mac: self.mac.into(),
            mask: self.interrupts.mask(),
            lives: self.lives,
            busy: self.is_busy(),
            config_space: self.config_space.bytes().into(),
            epoch: self.epoch,
        }
    }

    /// Makes a device that goes on from its records, over the same memory or a copy of it: with the doorbell pages of
    /// the previous process, if they are mapped. Inconsistent records fail the device, and the guest is told.
    ///
    /// # Errors
    /// The record of the registers, or memory for the doorbell pages, is missing.
    ///
    /// # Panics
    /// Like [`new`](Self::new).
    pub fn resume(
        config: DeviceConfig,
        space: Arc<Space>,
        doorbells: Option<OwnedFd>,
        records: &[SavedRecord],
        journal: Option<Box<dyn Journal>>,
        now: Time,
    ) -> Result<Self, Lost> {
        config.limits.assert_consistent();
        let past = Past::new(records);
        let registers = past.get(Kind::Registers, 0).ok_or(Lost::Registers)?;
        let registers = Registers::decode(registers).map_err(|_| Lost::Registers)?;
        let pages = doorbell_pages(&config, doorbells);
        let pages = pages.map_err(|error| Lost::Doorbells(error.kind()))?;
        let mut device = Self::with_pages(config, space, pages);
        device.journal = journal;
        device.take_registers(&registers)?;
        // The memory that records refer to is looked up even if the guest has just turned bus mastering off.
        device.space.set_bus_master(true);
        device.take_stage(&registers, &past, now);
        let bus_master = device.config_space.bus_master();
        device.space.set_bus_master(bus_master);
        if registers.busy {
            device.error = device.request(now);
        }
        Ok(device)
    }

    fn take_registers(&mut self, registers: &Registers) -> Result<(), Lost> {
        let bytes = registers.config_space.as_slice();
        self.config_space.write(0, bytes);
        if self.config_space.bytes() != bytes {
            return Err(Lost::Registers);
        }
        self.dsr_low = registers.dsr_low;
        self.error = registers.error;
        self.mac = (*registers.mac).try_into().map_err(|_| Lost::Registers)?;
        self.lives = registers.lives;
        self.epoch = registers.epoch;
        self.interrupts = Interrupts::resume(registers.mask);
        Ok(())
    }

    fn take_stage(&mut self, registers: &Registers, past: &Past<'_>, now: Time) {
        self.handshake = Handshake::resume(&registers.region).map(Box::new);
        match (registers.stage, self.handshake.clone()) {
            (stage::CONFIGURED, Some(_)) => self.stage = Stage::Configured,
            (stage::ACTIVE, Some(handshake)) => self.take_life(&handshake, past, now),
            (stage::FAILED | stage::ACTIVE, _) => self.stage = Stage::Failed,
            _ => {}
        }
    }

    /// Restores the guest's objects. Without its own rings and slots, or with inconsistent records, the device fails.
    fn take_life(&mut self, handshake: &Handshake, past: &Past<'_>, now: Time) {
        let space = Arc::clone(&self.space);
        let memory = space.view();
        let terms = match handshake.agree(&memory) {
            Ok(terms) => terms,
            Err(refusal) => {
                tracing::warn!(%refusal, "a guest's device cannot go on");
                self.stage = Stage::Failed;
                return;
            }
        };
        let slots = terms.slots;
        let revived = Revived {
            config: self.config,
            terms,
            doorbell_pages: self.doorbell_pages.clone(),
            log_limit: LogLimit::new(),
            seed: self.identity().seed,
        };
        let turn = Turn {
            memory: &memory,
            now,
        };
        match revived.adapter(past, &memory) {
            Ok(mut adapter) => {
                adapter.set_journal(self.journal.take());
                adapter.conclude_intent(past, &memory);
                adapter.wake_everything(turn);
                for event in adapter.lost(past) {
                    adapter.write_event(turn, event);
                }
                self.stage = Stage::Active(Box::new(adapter), slots);
            }
            Err(error) => {
                tracing::warn!(%error, "a guest's device cannot go on");
                self.fail_instead(handshake, turn);
            }
        }
        drop(memory);
        self.give_up_if_broken();
    }

    /// Starts an empty life that ends at once: the guest hears that the device is gone.
    fn fail_instead(&mut self, handshake: &Handshake, turn: Turn<'_, '_>) {
        let Ok(terms) = handshake.agree(turn.memory) else {
            return;
        };
        let slots = terms.slots;
        let mut adapter = self.new_adapter(terms);
        adapter.resume_rings(turn);
        adapter.break_down();
        self.stage = Stage::Active(Box::new(adapter), slots);
    }

    /// Makes an adapter without objects.
    pub(super) fn new_adapter(&mut self, terms: Terms) -> crate::adapter::Adapter {
        let pages = self.doorbell_pages.clone();
        let mut adapter = crate::adapter::Adapter::new(
            self.config,
            self.identity(),
            terms,
            pages,
            self.log_limit,
        );
        adapter.set_journal(self.journal.take());
        adapter.record_frame();
        adapter
    }
}

/// The doorbell pages of programs, if they are memory.
fn doorbell_pages(
    config: &DeviceConfig,
    fd: Option<OwnedFd>,
) -> io::Result<Option<Arc<SharedPages>>> {
    let count = config.limits.uar_pages as usize;
    Ok(match (config.maps_doorbells, fd) {
        (true, Some(fd)) => Some(Arc::new(SharedPages::resume(fd, count)?)),
        (true, None) => return Err(io::ErrorKind::NotFound.into()),
        (false, _) => None,
    })
}
