//! Memory of a node: byte vectors that can be removed.

use std::cell::{Cell, RefCell};

use vrdma_verbs::memory::{CopyFault, Fault, Spot};

/// A buffer by index.
pub(crate) type Region = usize;

#[derive(Default)]
pub(crate) struct Memory {
    buffers: RefCell<Vec<Option<Vec<u8>>>>,
    /// Buffers that their owner fills.
    left: RefCell<Vec<Region>>,
    late: Cell<Option<Region>>,
    /// Bytes copied with non-temporal stores.
    pub(crate) non_temporal: Cell<u64>,
}

impl Memory {
    pub(crate) fn add(&self, bytes: usize) -> Region {
        let mut buffers = self.buffers.borrow_mut();
        buffers.push(Some(vec![0; bytes]));
        buffers.len() - 1
    }

    /// Unmaps a buffer, so that later accesses fault.
    pub(crate) fn remove(&self, region: Region) {
        self.buffers.borrow_mut()[region] = None;
    }

    /// Makes accesses to one buffer too early from now on; with `None`, to no buffer.
    pub(crate) fn set_late(&self, region: Option<Region>) {
        self.late.set(region);
    }

    fn in_time(&self, region: Region) -> Result<(), Fault> {
        match self.late.get() {
            Some(late) if late == region => Err(Fault::Late),
            _ => Ok(()),
        }
    }

    /// Leaves it to the buffer's owner to put received messages in place.
    pub(crate) fn leave_to_owner(&self, region: Region) {
        self.left.borrow_mut().push(region);
    }

    pub(crate) fn bytes(&self, region: Region) -> Vec<u8> {
        self.buffers.borrow()[region].clone().unwrap()
    }

    pub(crate) fn fill(&self, region: Region, offset: usize, data: &[u8]) {
        let mut buffers = self.buffers.borrow_mut();
        buffers[region].as_mut().unwrap()[offset..][..data.len()].copy_from_slice(data);
    }
}

fn range(offset: u64, length: usize) -> std::ops::Range<usize> {
    offset as usize..offset as usize + length
}

impl vrdma_verbs::memory::Memory for Memory {
    type Region = Region;

    fn read(&self, region: &Region, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.in_time(*region)?;
        let buffers = self.buffers.borrow();
        let bytes = buffers[*region].as_ref().ok_or(Fault::Gone)?;
        out.copy_from_slice(bytes.get(range(offset, out.len())).ok_or(Fault::Gone)?);
        Ok(())
    }

    fn write(&self, region: &Region, offset: u64, data: &[u8]) -> Result<(), Fault> {
        self.in_time(*region)?;
        let mut buffers = self.buffers.borrow_mut();
        let bytes = buffers[*region].as_mut().ok_or(Fault::Gone)?;
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
        source
            .read(from.region, from.offset, &mut bytes)
            .map_err(CopyFault::source)?;
        self.write(to.region, to.offset, &bytes)
            .map_err(CopyFault::destination)
    }

    fn copy_non_temporal(
        &self,
        to: Spot<'_, Region>,
        source: &Self,
        from: Spot<'_, Region>,
        length: u64,
    ) -> Result<(), CopyFault> {
        self.non_temporal.update(|bytes| bytes + length);
        self.copy(to, source, from, length)
    }

    fn is_filled_by_owner(&self, region: &Region) -> bool {
        self.left.borrow().contains(region)
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
