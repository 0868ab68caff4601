//! Making a device from records, on another thread than its shard's: for thousands of objects that takes longer than
//! the shard's other adapters can wait.
//!
//! ```text
//!   shard ── Maker ──► a thread that may wait: Device::resume ── Made ──► shard: the device takes its place, frozen
//! ```
//! In between, what QEMU sends waits in its socket; otherwise it could change the memory that is being read. A QEMU
//! that leaves at that time makes the shard wait until its memory is released: for one device at most, and only while
//! its restore is under way.
//!
//! This module does not know the origin of the records.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use vrdma_memory::Space;
use vrdma_pvrdma::{Device, DeviceConfig, SavedRecord};
use vrdma_verbs::Time;

use super::arriving::NOT_RESTORED;
use super::backend::Backend;

/// What a device is made over. The memory is not read before.
pub struct Maker {
    config: DeviceConfig,
    memory: Arc<Space>,
    doorbells: Option<OwnedFd>,
    /// How the memory was mapped at that time.
    generation: u64,
    now: Time,
}

/// A device that has not taken its place yet.
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
    /// Makes a device that goes on with these records. With `end_connections` its connections end: their other ends
    /// have gone on.
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
    /// Prepares to make the device over the guest's memory; from now on what QEMU sends waits. The error is a sentence.
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

    /// Puts the device in its place, unless QEMU has left or its context was deleted meanwhile. The error is a
    /// sentence.
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
        // The path MTU may have changed meanwhile.
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
