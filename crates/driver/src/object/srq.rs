//! Shared receive queues.

use vrdma_memory::PAGE;
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::request::{CreateSrq, ModifySrq, SRQ_LIMIT, SrqAttributes};
use vrdma_pvrdma::abi::response::Created;

use super::Pd;
use super::context::handle_of;
use super::qp::recv_stride;
use crate::command::CommandError;
use crate::directory::Directory;
use crate::guest::Guest;
use crate::ring::ProducerRing;

const RX: u64 = 8;

/// A shared receive queue.
#[derive(Clone, Debug)]
pub struct Srq {
    /// Handle, which is also its number.
    pub handle: u32,
    /// Doorbell page of its owner.
    pub page: u32,
    /// State page and ring.
    pub directory: Directory,
    /// Ring.
    pub ring: ProducerRing,
}

impl Guest {
    /// The command that creates an SRQ, and its pages.
    pub fn srq_request(&mut self, pd: Pd, slots: u32, sges: u32) -> (CreateSrq, Directory) {
        let bytes = u64::from(slots) * u64::from(recv_stride(sges));
        let pages = 1 + bytes.div_ceil(PAGE);
        let directory = Directory::with_pages(&mut self.ram, pages as usize);
        let request = CreateSrq {
            pdir_dma: directory.address.into(),
            pd_handle: pd.handle.into(),
            nchunks: directory.count().into(),
            attrs: SrqAttributes {
                max_wr: slots.into(),
                max_sge: sges.into(),
                srq_limit: 0.into(),
                reserved: 0.into(),
            },
            srq_type: 0,
            reserved: [0; 7],
        };
        (request, directory)
    }

    /// Creates an SRQ of `slots` receives with up to `sges` buffers.
    pub fn create_srq(&mut self, pd: Pd, slots: u32, sges: u32) -> Result<Srq, CommandError> {
        let (request, directory) = self.srq_request(pd, slots, sges);
        let created: Created = self.ask(Command::CreateSrq, &request)?;
        let state = directory.pages[0] + RX;
        let pages = directory.pages[1..].to_vec();
        Ok(Srq {
            handle: created.handle.get(),
            page: pd.context.page,
            ring: ProducerRing::new(slots, recv_stride(sges), state, pages),
            directory,
        })
    }

    /// Arms the limit event.
    pub fn set_srq_limit(&mut self, srq: &Srq, limit: u32) -> Result<(), CommandError> {
        let request = ModifySrq {
            srq_handle: srq.handle.into(),
            attr_mask: SRQ_LIMIT.into(),
            attrs: SrqAttributes {
                srq_limit: limit.into(),
                ..SrqAttributes::default()
            },
        };
        self.tell(Command::ModifySrq, &request)
    }

    /// Queries the attributes of an SRQ.
    pub fn query_srq(&mut self, srq: &Srq) -> Result<SrqAttributes, CommandError> {
        self.ask(Command::QuerySrq, &handle_of(srq.handle))
    }

    /// Destroys an SRQ.
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<(), CommandError> {
        let told = self.tell(Command::DestroySrq, &handle_of(srq.handle));
        srq.directory.free(&mut self.ram);
        told
    }
}
