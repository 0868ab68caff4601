//! Registered memory of an engine: byte vectors.

use std::cell::RefCell;
use std::ops::Range;

use vrdma_verbs::memory::{CopyFault, Fault, Spot};

/// A buffer, by its index.
pub(super) type Region = usize;

#[derive(Default)]
pub(super) struct Memory(RefCell<Vec<Vec<u8>>>);

impl Memory {
    pub(super) fn add(&self, bytes: Vec<u8>) -> Region {
        let mut buffers = self.0.borrow_mut();
        buffers.push(bytes);
        buffers.len() - 1
    }

    /// Whether bytes of a buffer are all zero.
    pub(super) fn is_untouched(&self, region: Region, bytes: Range<usize>) -> bool {
        self.0.borrow()[region][bytes].iter().all(|byte| *byte == 0)
    }
}

fn range(offset: u64, length: usize) -> Result<Range<usize>, Fault> {
    let start = usize::try_from(offset).map_err(|_| Fault::Gone)?;
    Ok(start..start.checked_add(length).ok_or(Fault::Gone)?)
}

impl vrdma_verbs::memory::Memory for Memory {
    type Region = Region;

    fn read(&self, region: &Region, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let buffers = self.0.borrow();
        let bytes = buffers[*region].get(range(offset, out.len())?);
        out.copy_from_slice(bytes.ok_or(Fault::Gone)?);
        Ok(())
    }

    fn write(&self, region: &Region, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let mut buffers = self.0.borrow_mut();
        let bytes = buffers[*region].get_mut(range(offset, data.len())?);
        bytes.ok_or(Fault::Gone)?.copy_from_slice(data);
        Ok(())
    }

    fn copy(
        &self,
        to: Spot<'_, Region>,
        source: &Self,
        from: Spot<'_, Region>,
        length: u64,
    ) -> Result<(), CopyFault> {
        let length = usize::try_from(length).map_err(|_| CopyFault::Source)?;
        let bytes = {
            let buffers = source.0.borrow();
            let range = range(from.offset, length).map_err(|_| CopyFault::Source)?;
            buffers[*from.region]
                .get(range)
                .ok_or(CopyFault::Source)?
                .to_vec()
        };
        self.write(to.region, to.offset, &bytes)
            .map_err(|_| CopyFault::Destination)
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
