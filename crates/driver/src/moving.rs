//! Moves a guest to another host, or back to a snapshot: the part of QEMU and of the daemon there.

use std::io;
use std::mem;
use std::sync::Arc;

use vrdma_adapter::Journal;
use vrdma_memory::PAGE;
use vrdma_pvrdma::{Context, Device, SavedRecord, WrittenPages};

use crate::guest::Guest;
use crate::ram::Ram;

/// Contents of a guest's memory.
pub struct SavedRam(Vec<(u64, Box<[u8; PAGE as usize]>)>);

impl SavedRam {
    /// The pages that are not all zero, as in a context.
    pub fn pages(&self) -> Vec<WrittenPages> {
        let written = (self.0.iter()).filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0));
        let pages = written.map(|(address, bytes)| WrittenPages {
            address: *address,
            bytes: bytes.to_vec(),
        });
        pages.collect()
    }
}

impl Guest {
    /// Copies the present memory of the guest.
    pub fn save_ram(&self) -> SavedRam {
        let pages = self.ram.all_taken().map(|page| {
            let mut bytes = Box::new([0; PAGE as usize]);
            self.ram.read_bytes(page, &mut *bytes);
            (page, bytes)
        });
        SavedRam(pages.collect())
    }

    /// Goes back to a snapshot: its memory, and a frozen device. The driver must not have made anything since.
    ///
    /// # Errors
    /// An error of the system, or no device can go on with this context.
    pub fn go_back(&mut self, ram: &SavedRam, context: &Context) -> io::Result<()> {
        for (page, bytes) in &ram.0 {
            self.ram.write_bytes(*page, &**bytes);
        }
        self.device = self.resumed(context)?;
        self.device.keep_frozen(None);
        Ok(())
    }

    /// Goes on as a machine whose whole memory is in the context, without its driver.
    ///
    /// # Errors
    /// Like [`go_back`](Self::go_back).
    pub fn go_on_alone(&mut self, context: &Context) -> io::Result<()> {
        for run in &context.pages {
            self.ram.write_bytes(run.address, &run.bytes);
        }
        self.device = self.resumed(context)?;
        self.device.keep_frozen(None);
        Ok(())
    }

    /// Continues in another process: the one that served the device ended, and the new one goes on from its records and
    /// continues them.
    ///
    /// # Errors
    /// An error of the system, or no device can go on with these records.
    pub fn revive(
        &mut self,
        records: &[SavedRecord],
        journal: Option<Box<dyn Journal>>,
    ) -> io::Result<()> {
        self.device = self.resumed_from(records, journal)?;
        Ok(())
    }

    fn resumed(&self, context: &Context) -> io::Result<Device> {
        let config = self.device.config();
        context.check(config).map_err(io::Error::other)?;
        self.resumed_from(&context.records, None)
    }

    fn resumed_from(
        &self,
        records: &[SavedRecord],
        journal: Option<Box<dyn Journal>>,
    ) -> io::Result<Device> {
        let config = *self.device.config();
        let doorbells = self.device.doorbell_fd();
        let doorbells = doorbells.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let (space, now) = (Arc::clone(&self.dma), self.clock.now());
        let device = Device::resume(config, space, doorbells, records, journal, now);
        device.map_err(io::Error::other)
    }

    /// Continues the guest `source`, whose device is frozen, in this guest, where nothing was started yet: with a copy
    /// of its memory, and a device made from its context. Then `source` is a machine without a driver.
    ///
    /// # Errors
    /// An error of the system, or no device can go on with this context.
    pub fn arrive(&mut self, source: &mut Self, context: &Context) -> io::Result<()> {
        self.ram.become_copy(&source.ram);
        self.device = self.resumed(context)?;
        self.driver = source.driver.take();
        self.interrupts = mem::take(&mut source.interrupts);
        Ok(())
    }
}

impl Ram {
    /// Becomes a copy of another memory of the same size.
    fn become_copy(&mut self, other: &Self) {
        let mut bytes = [0; PAGE as usize];
        for page in other.all_taken() {
            other.read_bytes(page, &mut bytes);
            self.write_bytes(page, &bytes);
        }
        self.follow(other);
    }
}
