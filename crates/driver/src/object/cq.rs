//! Completion queues.

use vrdma_memory::PAGE;
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::completion::CompletionEntry;
use vrdma_pvrdma::abi::request::CreateCq;
use vrdma_pvrdma::abi::response::CreatedCq;

use super::Context;
use super::context::handle_of;
use crate::command::CommandError;
use crate::directory::Directory;
use crate::guest::Guest;
use crate::ring::ConsumerRing;

const ENTRY_BYTES: u32 = 64;
const RX: u64 = 8;

/// A completion queue.
#[derive(Clone, Debug)]
pub struct Cq {
    /// Handle.
    pub handle: u32,
    /// Doorbell page of its owner.
    pub page: u32,
    /// State page and entries.
    pub directory: Directory,
    ring: ConsumerRing,
}

impl Cq {
    /// Bus address of the device's producer index; the guest's consumer index follows.
    pub fn state(&self) -> u64 {
        self.ring.state()
    }
}

/// The main fields of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Cookie.
    pub id: u64,
    /// QP handle.
    pub qp: u32,
    /// `enum pvrdma_wc_opcode`
    pub opcode: u32,
    /// `enum pvrdma_wc_status`
    pub status: u32,
    /// Bytes received or read.
    pub byte_len: u32,
}

impl From<&CompletionEntry> for Completion {
    fn from(entry: &CompletionEntry) -> Self {
        Self {
            id: entry.wr_id.get(),
            qp: entry.qp.get() as u32,
            opcode: entry.opcode.get(),
            status: entry.status.get(),
            byte_len: entry.byte_len.get(),
        }
    }
}

impl Guest {
    /// The command that creates a CQ, and its pages.
    pub fn cq_request(&mut self, context: Context, entries: u32) -> (CreateCq, Directory) {
        let pages = 1 + (u64::from(entries) * u64::from(ENTRY_BYTES)).div_ceil(PAGE);
        let directory = Directory::with_pages(&mut self.ram, pages as usize);
        let request = CreateCq {
            pdir_dma: directory.address.into(),
            ctx_handle: context.handle.into(),
            cqe: entries.into(),
            nchunks: directory.count().into(),
            reserved: 0.into(),
        };
        (request, directory)
    }

    /// Creates a CQ of `entries`, a power of two.
    ///
    /// # Panics
    /// If the device answers with another size: the driver would use it.
    pub fn create_cq(&mut self, context: Context, entries: u32) -> Result<Cq, CommandError> {
        let (request, directory) = self.cq_request(context, entries);
        let created: CreatedCq = self.ask(Command::CreateCq, &request)?;
        assert_eq!(created.cqe.get(), entries, "the size is the guest's");
        let state = directory.pages[0] + RX;
        let pages = directory.pages[1..].to_vec();
        Ok(Cq {
            handle: created.cq_handle.get(),
            page: context.page,
            ring: ConsumerRing::new(entries, ENTRY_BYTES, state, pages),
            directory,
        })
    }

    /// Takes the next completion, as the provider does: rings POLL when the ring is empty, and looks again.
    pub fn poll_entry(&mut self, cq: &Cq) -> Option<CompletionEntry> {
        let entry = cq.ring.pop(&self.ram.view());
        if entry.is_some() {
            return entry;
        }
        self.ring_poll(cq);
        cq.ring.pop(&self.ram.view())
    }

    /// Takes the next completion without a doorbell.
    pub fn peek_entry(&self, cq: &Cq) -> Option<CompletionEntry> {
        cq.ring.pop(&self.ram.view())
    }

    /// Takes the next completion, with its main fields only.
    pub fn poll_cq(&mut self, cq: &Cq) -> Option<Completion> {
        self.poll_entry(cq).as_ref().map(Completion::from)
    }

    /// Takes all completions in the ring.
    pub fn drain_cq(&mut self, cq: &Cq) -> Vec<Completion> {
        std::iter::from_fn(|| self.poll_cq(cq)).collect()
    }

    /// Destroys a CQ.
    pub fn destroy_cq(&mut self, cq: Cq) -> Result<(), CommandError> {
        let told = self.tell(Command::DestroyCq, &handle_of(cq.handle));
        cq.directory.free(&mut self.ram);
        told
    }
}
