//! Page directories, as `pvrdma_misc.c` builds them: directory page, table pages, data pages.

use vrdma_memory::PAGE;

use crate::ram::Ram;

const ENTRIES: usize = PAGE as usize / size_of::<u64>();

/// A directory in guest memory.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Bus address of the directory page, for commands.
    pub address: u64,
    /// The table pages.
    pub tables: Vec<u64>,
    /// The listed pages.
    pub pages: Vec<u64>,
}

impl Directory {
    /// Makes a directory of `pages`, at most 2^18 of them.
    pub fn build(ram: &mut Ram, pages: Vec<u64>) -> Self {
        let tables = ram.take_many(pages.len().div_ceil(ENTRIES));
        let address = ram.take();
        write_entries(ram, address, &tables);
        for (table, chunk) in tables.iter().zip(pages.chunks(ENTRIES)) {
            write_entries(ram, *table, chunk);
        }
        Self {
            address,
            tables,
            pages,
        }
    }

    /// Makes a directory of `count` new pages.
    pub fn with_pages(ram: &mut Ram, count: usize) -> Self {
        let pages = ram.take_many(count);
        Self::build(ram, pages)
    }

    /// Number of pages, as commands state it.
    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Bus address of the entry for page `index`, for tests that spoil it.
    pub fn entry_at(&self, index: usize) -> u64 {
        self.tables[index / ENTRIES] + (index % ENTRIES * size_of::<u64>()) as u64
    }

    /// Frees directory, tables and pages.
    pub fn free(self, ram: &mut Ram) {
        ram.free(self.pages);
        ram.free(self.tables);
        ram.free([self.address]);
    }

    /// Frees directory and tables, but not the pages.
    pub fn free_index(self, ram: &mut Ram) {
        ram.free(self.tables);
        ram.free([self.address]);
    }
}

fn write_entries(ram: &Ram, page: u64, entries: &[u64]) {
    let bytes: Vec<u8> = entries
        .iter()
        .flat_map(|entry| entry.to_le_bytes())
        .collect();
    ram.write_bytes(page, &bytes);
}
