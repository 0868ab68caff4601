//! A device that is made from records on another thread than its shard's: one with thousands of objects takes longer than the
//! shard's other adapters can wait.
//!
//! ```text
//!   shard ── Maker ──► whoever asked, where nobody waits: Device::resume ── Made ──► shard: the device takes its place, frozen
//! ```
//! In between what QEMU sends waits in its socket, or it could change the memory that is looked through. A QEMU that leaves then
//! has the shard wait until its memory is let go: for one device at most, and only while its restore is under way.
//!
//! This module does not know why there are such records.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use vrdma_memory::Space;
use vrdma_pvrdma::{Device, DeviceConfig, SavedRecord};
use vrdma_verbs::Time;

use super::arriving::NOT_RESTORED;
use super::backend::Backend;

/// What a device is made over. Nothing is looked at before.
pub struct Maker {
    config: DeviceConfig,
    memory: Arc<Space>,
    doorbells: Option<OwnedFd>,
    /// How the memory was mapped then.
    generation: u64,
    now: Time,
}

/// A device that has not taken its place.
pub struct Made {
    device: Device,
    generation: u64,
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maker").finish_non_exhaustive()
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made").finish_non_exhaustive()
    }
}

impl Maker {
    /// The device that goes on with these records. With `end_connections` its connections end: their other ends have gone on.
    ///
    /// # Errors
    /// A sentence.
    pub fn make(self, records: &[SavedRecord], end_connections: bool) -> Result<Made, String> {
        let Self {
            config,
            memory,
            doorbells,
            generation,
            now,
        } = self;
        let device = Device::resume(config, memory, doorbells, records, None, now);
        let mut device = device.map_err(|error| cannot_go_on(&error))?;
        if end_connections {
            device.end_connections();
        }
        Ok(Made { device, generation })
    }
}

impl Backend {
    /// The device is to be made over the guest's memory, and what QEMU sends waits from now on. The error is a sentence.
    pub(super) fn await_device(&mut self) -> Result<Maker, String> {
        let doorbells = self.device.doorbell_fd();
        let doorbells = doorbells.map(|fd| fd.try_clone_to_owned()).transpose();
        let maker = Maker {
            config: *self.device.config(),
            memory: Arc::clone(&self.memory),
            doorbells: doorbells.map_err(|error| cannot_go_on(&error))?,
            generation: self.memory.generation(),
            now: self.clock.now(),
        };
        self.awaits_device = true;
        Ok(maker)
    }

    /// What was made takes its place, unless QEMU has left or its context was deleted meanwhile. The error is a sentence.
    pub(super) fn take_made(&mut self, made: Made) -> Result<(), String> {
        let Made {
            mut device,
            generation,
        } = made;
        let is_awaited = std::mem::take(&mut self.awaits_device);
        if !is_awaited || generation != self.memory.generation() {
            self.device.reclaim_memory();
            self.dispose(device);
            return Err(NOT_RESTORED.to_owned());
        }
        // The way out of the host may have changed meanwhile.
        device.set_mtu(self.device.config().mtu);
        device.keep_frozen(self.device.take_journal());
        self.device = device;
        self.restored = true;
        Ok(())
    }
}

fn cannot_go_on(error: &dyn fmt::Display) -> String {
    format!("the adapter cannot go on: {error:#}")
}
