//! Memory regions.

use vrdma_memory::PAGE;
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::request::{CreateMr, mr_flag};
use vrdma_pvrdma::abi::response::CreatedMr;
use vrdma_pvrdma::abi::work::SgeEntry;

use super::context::handle_of;
use super::{Buffer, Pd};
use crate::command::CommandError;
use crate::directory::Directory;
use crate::guest::Guest;

/// Access flags (`enum ib_access_flags`).
#[allow(missing_docs, reason = "the names are the kernel's")]
pub mod rights {
    pub const LOCAL_WRITE: u32 = 1;
    pub const REMOTE_WRITE: u32 = 2;
    pub const REMOTE_READ: u32 = 4;
    pub const REMOTE_ATOMIC: u32 = 8;
    pub const RELAXED_ORDERING: u32 = 1 << 20;
    pub const ALL: u32 = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC;
}

/// A memory region.
#[derive(Clone, Debug)]
pub struct Mr {
    /// Handle.
    pub handle: u32,
    /// Local key.
    pub lkey: u32,
    /// Remote key.
    pub rkey: u32,
    directory: Option<Directory>,
}

impl Mr {
    /// A part of this region, for a work request.
    pub fn sge(&self, addr: u64, length: u32) -> SgeEntry {
        SgeEntry {
            addr: addr.into(),
            length: length.into(),
            lkey: self.lkey.into(),
        }
    }
}

impl Guest {
    /// The command that registers a whole buffer, and the page directory in it.
    pub fn mr_request(&mut self, pd: Pd, buffer: &Buffer, access: u32) -> (CreateMr, Directory) {
        let directory = Directory::build(&mut self.ram, buffer.pages.clone());
        let request = CreateMr {
            start: buffer.address.into(),
            length: buffer.length.into(),
            pdir_dma: directory.address.into(),
            pd_handle: pd.handle.into(),
            access_flags: access.into(),
            flags: 0.into(),
            nchunks: directory.count().into(),
        };
        (request, directory)
    }

    /// Registers a whole buffer.
    pub fn register(&mut self, pd: Pd, buffer: &Buffer, access: u32) -> Result<Mr, CommandError> {
        let (request, directory) = self.mr_request(pd, buffer, access);
        let created = self.create_mr(&request)?;
        Ok(Mr {
            directory: Some(directory),
            ..created
        })
    }

    /// Registers all bus memory for local use.
    pub fn register_dma(&mut self, pd: Pd) -> Result<Mr, CommandError> {
        let request = CreateMr {
            access_flags: rights::LOCAL_WRITE.into(),
            flags: mr_flag::DMA.into(),
            pd_handle: pd.handle.into(),
            ..CreateMr::default()
        };
        self.create_mr(&request)
    }

    /// Makes a region for fast-register work requests of up to `pages` pages.
    pub fn register_empty(&mut self, pd: Pd, pages: u32) -> Result<Mr, CommandError> {
        let request = CreateMr {
            flags: mr_flag::FAST_REGISTER.into(),
            pd_handle: pd.handle.into(),
            nchunks: pages.into(),
            length: (u64::from(pages) * PAGE).into(),
            ..CreateMr::default()
        };
        self.create_mr(&request)
    }

    /// Sends a create command.
    pub fn create_mr(&mut self, request: &CreateMr) -> Result<Mr, CommandError> {
        let created: CreatedMr = self.ask(Command::CreateMr, request)?;
        Ok(Mr {
            handle: created.mr_handle.get(),
            lkey: created.lkey.get(),
            rkey: created.rkey.get(),
            directory: None,
        })
    }

    /// Deregisters a region; frees its directory, but not its buffer.
    pub fn deregister(&mut self, mr: Mr) -> Result<(), CommandError> {
        let told = self.tell(Command::DestroyMr, &handle_of(mr.handle));
        if let Some(directory) = mr.directory {
            directory.free_index(&mut self.ram);
        }
        told
    }
}
