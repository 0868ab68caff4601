//! Memory of a program, at a virtual address that the device learns only by registration.

use vrdma_memory::PAGE;

use crate::guest::Guest;
use crate::ram::Ram;

/// First virtual address; buffers are far apart, so that running over the end is noticed.
const VIRTUAL_BASE: u64 = 0x7f00_0000_0000;

/// A buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Virtual address of the first byte.
    pub address: u64,
    /// Length in bytes.
    pub length: u64,
    /// The pages that the buffer touches.
    pub pages: Vec<u64>,
}

impl Buffer {
    /// Bus address of the byte at `offset`.
    pub fn bus(&self, offset: u64) -> u64 {
        let at = self.address % PAGE + offset;
        self.pages[(at / PAGE) as usize] + at % PAGE
    }

    /// Writes `data` from `offset`.
    pub fn write(&self, ram: &Ram, offset: u64, data: &[u8]) {
        for (at, piece) in self.pieces(offset, data.len()) {
            ram.write_bytes(at, &data[piece]);
        }
    }

    /// Reads `length` bytes from `offset`.
    pub fn read(&self, ram: &Ram, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (at, piece) in self.pieces(offset, length) {
            ram.read_bytes(at, &mut bytes[piece]);
        }
        bytes
    }

    /// Fills the buffer with a pattern that depends on `seed` and position.
    pub fn fill(&self, ram: &Ram, seed: u64) {
        self.write(ram, 0, &pattern(seed, self.length as usize));
    }

    /// Cuts a slice into pieces with their bus addresses.
    fn pieces(
        &self,
        offset: u64,
        length: usize,
    ) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> + '_ {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let room = PAGE - (self.address + at) % PAGE;
            let piece = done..length.min(done + room as usize);
            done = piece.end;
            (!piece.is_empty()).then(|| (self.bus(at), piece))
        })
    }
}

/// Bytes that depend on `seed` and position.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mix = |index: u64| (index ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..length as u64).map(|index| mix(index) as u8).collect()
}

impl Guest {
    /// A page-aligned buffer.
    pub fn buffer(&mut self, length: u64) -> Buffer {
        self.buffer_at(0, length)
    }

    /// A buffer that begins at byte `offset` of a page.
    pub fn buffer_at(&mut self, offset: u64, length: u64) -> Buffer {
        let count = (offset + length).div_ceil(PAGE).max(1);
        let pages = self.ram.take_many(count as usize);
        // The first page's address makes the virtual address unique.
        let address = VIRTUAL_BASE + ((pages[0] - crate::ram::RAM_BASE) << 16) + offset;
        Buffer {
            address,
            length,
            pages,
        }
    }
}
