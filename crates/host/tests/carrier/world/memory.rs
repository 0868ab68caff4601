//! Memory of a station: one byte vector for each region.

use std::cell::RefCell;
use std::rc::Rc;

use vrdma_verbs::memory::{CopyFault, Fault, Memory, Spot};

/// A region by its number.
pub(crate) type Region = usize;

/// The regions of one station.
#[derive(Clone, Default)]
pub(crate) struct Regions(Rc<RefCell<Vec<Vec<u8>>>>);

impl Regions {
    pub(crate) fn add(&self, bytes: usize) -> Region {
        let mut regions = self.0.borrow_mut();
        regions.push(vec![0; bytes]);
        regions.len() - 1
    }

    pub(crate) fn fill(&self, region: Region, byte: u8) {
        self.0.borrow_mut()[region].fill(byte);
    }

    pub(crate) fn bytes(&self, region: Region) -> Vec<u8> {
        self.0.borrow()[region].clone()
    }
}

impl Memory for Regions {
    type Region = Region;

    fn read(&self, region: &Region, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let regions = self.0.borrow();
        let from = regions[*region].get(offset as usize..).ok_or(Fault::Gone)?;
        out.copy_from_slice(from.get(..out.len()).ok_or(Fault::Gone)?);
        Ok(())
    }

    fn write(&self, region: &Region, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let mut regions = self.0.borrow_mut();
        let to = regions[*region]
            .get_mut(offset as usize..)
            .ok_or(Fault::Gone)?;
        to.get_mut(..data.len())
            .ok_or(Fault::Gone)?
            .copy_from_slice(data);
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
