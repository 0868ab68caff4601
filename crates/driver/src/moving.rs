//! A guest that goes to another host: what QEMU and the daemon there do.

use std::io;
use std::mem;
use std::sync::Arc;

use vrdma_memory::PAGE;
use vrdma_pvrdma::{Context, Device};

use crate::guest::Guest;
use crate::ram::Ram;

impl Guest {
    /// `source`, whose device is frozen, goes on here, where nothing was started yet: with a copy of its memory, and
    /// a device that begins with that one's context. What is left of `source` is a machine without its driver.
    ///
    /// # Errors
    /// Of the system, or no device goes on with this context.
    pub fn arrive(&mut self, source: &mut Self, context: &Context) -> io::Result<()> {
        let config = *self.device.config();
        context.check(&config).map_err(io::Error::other)?;
        self.ram.become_copy(&source.ram);
        let doorbells = self.device.doorbell_fd();
        let doorbells = doorbells.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let (space, now) = (Arc::clone(&self.dma), self.clock.now());
        let device = Device::resume(config, space, doorbells, &context.records, None, now);
        self.device = device.map_err(io::Error::other)?;
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
