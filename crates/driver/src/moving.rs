//! A guest that goes to another host, or back to what it was: what QEMU and the daemon there do.

use std::io;
use std::mem;
use std::sync::Arc;

use vrdma_memory::PAGE;
use vrdma_pvrdma::{Context, Device, WrittenPages};

use crate::guest::Guest;
use crate::ram::Ram;

/// What was in a guest's memory.
pub struct SavedRam(Vec<(u64, Box<[u8; PAGE as usize]>)>);

impl SavedRam {
    /// Those that are not empty, as a context has them.
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
    /// Its memory as it is.
    pub fn save_ram(&self) -> SavedRam {
        let pages = self.ram.all_taken().map(|page| {
            let mut bytes = Box::new([0; PAGE as usize]);
            self.ram.read_bytes(page, &mut *bytes);
            (page, bytes)
        });
        SavedRam(pages.collect())
    }

    /// Goes back to a snapshot: its memory, and a device that is frozen. The driver has made nothing since.
    ///
    /// # Errors
    /// Of the system, or no device goes on with this context.
    pub fn go_back(&mut self, ram: &SavedRam, context: &Context) -> io::Result<()> {
        for (page, bytes) in &ram.0 {
            self.ram.write_bytes(*page, &**bytes);
        }
        self.device = self.resumed(context)?;
        self.device.keep_frozen(None);
        Ok(())
    }

    /// A machine whose whole memory is in the context, and whose driver is not there.
    ///
    /// # Errors
    /// As [`go_back`](Self::go_back).
    pub fn go_on_alone(&mut self, context: &Context) -> io::Result<()> {
        for run in &context.pages {
            self.ram.write_bytes(run.address, &run.bytes);
        }
        self.device = self.resumed(context)?;
        self.device.keep_frozen(None);
        Ok(())
    }

    fn resumed(&self, context: &Context) -> io::Result<Device> {
        let config = *self.device.config();
        context.check(&config).map_err(io::Error::other)?;
        let doorbells = self.device.doorbell_fd();
        let doorbells = doorbells.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let (space, now) = (Arc::clone(&self.dma), self.clock.now());
        let device = Device::resume(config, space, doorbells, &context.records, None, now);
        device.map_err(io::Error::other)
    }

    /// `source`, whose device is frozen, goes on here, where nothing was started yet: with a copy of its memory, and
    /// a device that begins with that one's context. What is left of `source` is a machine without its driver.
    ///
    /// # Errors
    /// Of the system, or no device goes on with this context.
    pub fn arrive(&mut self, source: &mut Self, context: &Context) -> io::Result<()> {
        self.ram.become_copy(&source.ram);
        self.device = self.resumed(context)?;
        self.driver = source.driver.take();
        self.interrupts = mem::take(&mut source.interrupts);
        Ok(())
    }
}

impl Ram {
    /// Becomes the same as another one of its size.
    fn become_copy(&mut self, other: &Self) {
        let mut bytes = [0; PAGE as usize];
        for page in other.all_taken() {
            other.read_bytes(page, &mut bytes);
            self.write_bytes(page, &bytes);
        }
        self.follow(other);
    }
}
