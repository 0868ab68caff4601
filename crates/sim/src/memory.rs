//! An adapter's registered memory: buffers that grow by slots with guards between them.
//!
//! ```text
//!   | guard | slot 0 .......... | guard | slot 1 .... | guard |       everything starts as EMPTY
//! ```
//! Nobody has a reason to write to a guard, so a changed guard shows a stray write.

use std::cell::RefCell;
use std::rc::Rc;

use vrdma_verbs::memory::{CopyFault, Fault, Memory as _, Spot};

/// The value of fresh bytes.
pub(crate) const EMPTY: u8 = 0xee;

const GUARD_BYTES: usize = 16;

/// Bytes registered for each buffer, whether slots are in them yet or not.
pub(crate) const BUFFER_BYTES: u64 = 1 << 28;

/// A buffer by index.
pub(crate) type Region = usize;

#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Where guards begin.
    guards: Vec<usize>,
}

/// A handle of all buffers of one adapter.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    buffers: Rc<RefCell<Vec<Buffer>>>,
}

impl Memory {
    pub(crate) fn add(&self) -> Region {
        let mut buffers = self.buffers.borrow_mut();
        buffers.push(Buffer::default());
        buffers.len() - 1
    }

    /// Makes a slot, aligned to eight bytes.
    pub(crate) fn slot(&self, region: Region, bytes: u32) -> u64 {
        let mut buffers = self.buffers.borrow_mut();
        let buffer = &mut buffers[region];
        let guard = buffer.bytes.len();
        buffer.guards.push(guard);
        let start = guard + GUARD_BYTES;
        let end = (start + bytes as usize).next_multiple_of(8);
        buffer.bytes.resize(end, EMPTY);
        start as u64
    }

    pub(crate) fn fill(&self, region: Region, offset: u64, bytes: impl Iterator<Item = u8>) {
        let mut buffers = self.buffers.borrow_mut();
        let slot = &mut buffers[region].bytes[offset as usize..];
        slot.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
    }

    pub(crate) fn word(&self, region: Region, offset: u64) -> u64 {
        let mut word = [0; 8];
        let inside = self.read(&region, offset, &mut word);
        inside.map_or(0, |()| u64::from_le_bytes(word))
    }

    /// Finds the first byte of a slot that is not as expected; returns its place, the byte, and the expected byte.
    pub(crate) fn differs(
        &self,
        region: Region,
        offset: u64,
        expected: impl Iterator<Item = u8>,
    ) -> Option<(usize, u8, u8)> {
        let buffers = self.buffers.borrow();
        let slot = &buffers[region].bytes[offset as usize..];
        let mut pairs = slot.iter().copied().zip(expected).enumerate();
        let (at, (is, should)) = pairs.find(|(_, (is, should))| is != should)?;
        Some((at, is, should))
    }

    /// Finds the first byte that is neither untouched nor as expected.
    pub(crate) fn torn(
        &self,
        region: Region,
        offset: u64,
        expected: impl Iterator<Item = u8>,
    ) -> Option<usize> {
        let buffers = self.buffers.borrow();
        let slot = &buffers[region].bytes[offset as usize..];
        let mut pairs = slot.iter().zip(expected);
        pairs.position(|(&is, should)| is != EMPTY && is != should)
    }

    /// Finds a guard that was written to.
    pub(crate) fn broken_guard(&self) -> Option<(Region, usize)> {
        let buffers = self.buffers.borrow();
        buffers.iter().enumerate().find_map(|(region, buffer)| {
            let broken = |&start: &usize| {
                let guard = &buffer.bytes[start..start + GUARD_BYTES];
                guard.iter().any(|&byte| byte != EMPTY)
            };
            Some((region, *buffer.guards.iter().find(|start| broken(start))?))
        })
    }
}

fn range(offset: u64, length: usize) -> std::ops::Range<usize> {
    offset as usize..(offset as usize).saturating_add(length)
}

impl vrdma_verbs::memory::Memory for Memory {
    type Region = Region;

    fn read(&self, region: &Region, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let buffers = self.buffers.borrow();
        let bytes = &buffers[*region].bytes;
        out.copy_from_slice(bytes.get(range(offset, out.len())).ok_or(Fault::Gone)?);
        Ok(())
    }

    fn write(&self, region: &Region, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let mut buffers = self.buffers.borrow_mut();
        let bytes = &mut buffers[*region].bytes;
        let to = bytes
            .get_mut(range(offset, data.len()))
            .ok_or(Fault::Gone)?;
        to.copy_from_slice(data);
        Ok(())
    }

    fn copy(
        &self,
        to: Spot<'_, Region>,
        source: &Self,
        from: Spot<'_, Region>,
        length: u64,
    ) -> Result<(), CopyFault> {
        let mut bytes = vec![0; length as usize];
        let read = source.read(from.region, from.offset, &mut bytes);
        read.map_err(|_| CopyFault::Source)?;
        let written = self.write(to.region, to.offset, &bytes);
        written.map_err(|_| CopyFault::Destination)
    }

    fn fetch_update(
        &self,
        region: &Region,
        offset: u64,
        update: &dyn Fn(u64) -> u64,
    ) -> Result<u64, Fault> {
        let mut word = [0; 8];
        self.read(region, offset, &mut word)?;
        let old = u64::from_le_bytes(word);
        self.write(region, offset, &update(old).to_le_bytes())?;
        Ok(old)
    }
}
