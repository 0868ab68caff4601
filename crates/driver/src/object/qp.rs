//! Queue pairs.

use vrdma_memory::PAGE;
use vrdma_pvrdma::abi::command::Command;
use vrdma_pvrdma::abi::qp::QpAttributes;
use vrdma_pvrdma::abi::request::{CreateQp, QueryQp, qp_type};
use vrdma_pvrdma::abi::response::CreatedQp;
use vrdma_pvrdma::abi::version;

use super::context::handle_of;
use super::{Cq, Pd, Srq};
use crate::command::CommandError;
use crate::directory::Directory;
use crate::guest::Guest;
use crate::ring::ProducerRing;

const TX: u64 = 0;
const RX: u64 = 8;
/// LOCAL_WRITE, which the driver always requests.
const ACCESS: u32 = 1;

/// Bytes of a send entry.
pub(super) fn send_stride(sges: u32) -> u32 {
    (80 + 16 * sges).next_power_of_two()
}

/// Bytes of a receive entry.
pub(super) fn recv_stride(sges: u32) -> u32 {
    (16 + 16 * sges).next_power_of_two()
}

/// Type and sizes of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpShape {
    /// [`qp_type`].
    pub qp_type: u8,
    /// Number of send work requests, a power of two.
    pub send_wr: u32,
    /// Number of receive work requests, a power of two.
    pub recv_wr: u32,
    /// Most buffers of a send.
    pub send_sge: u32,
    /// Most buffers of a receive.
    pub recv_sge: u32,
    /// Whether every send makes a completion.
    pub signal_all: bool,
}

impl QpShape {
    /// A usual connected queue pair.
    pub const RC: Self = Self {
        qp_type: qp_type::RC,
        send_wr: 64,
        recv_wr: 64,
        send_sge: 4,
        recv_sge: 4,
        signal_all: false,
    };
    /// A usual datagram queue pair.
    pub const UD: Self = Self {
        qp_type: qp_type::UD,
        ..Self::RC
    };
    /// The queue pair that Linux creates as QP1.
    pub const GSI: Self = Self {
        qp_type: qp_type::GSI,
        send_wr: 128,
        recv_wr: 512,
        send_sge: 2,
        recv_sge: 1,
        signal_all: true,
    };
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct Qp {
    /// Handle for commands, doorbells and completions.
    pub handle: u32,
    /// Number on the wire.
    pub qpn: u32,
    /// [`qp_type`].
    pub qp_type: u8,
    /// Protection domain.
    pub pd: Pd,
    /// Doorbell page of its owner.
    pub page: u32,
    /// State page and rings.
    pub directory: Directory,
    /// Send ring.
    pub send: ProducerRing,
    /// Receive ring, unless it uses a shared one.
    pub recv: Option<ProducerRing>,
}

impl Guest {
    /// The command that creates a QP, and its pages.
    pub fn qp_request(
        &mut self,
        pd: Pd,
        cqs: (&Cq, &Cq),
        srq: Option<&Srq>,
        shape: QpShape,
    ) -> (CreateQp, Directory) {
        let send_pages = pages(shape.send_wr, send_stride(shape.send_sge));
        let recv_pages = match srq {
            Some(_) => 0,
            None => pages(shape.recv_wr, recv_stride(shape.recv_sge)),
        };
        let directory = Directory::with_pages(&mut self.ram, 1 + send_pages + recv_pages);
        let own = u32::from(srq.is_none());
        let request = CreateQp {
            pdir_dma: directory.address.into(),
            pd_handle: pd.handle.into(),
            send_cq_handle: cqs.0.handle.into(),
            recv_cq_handle: cqs.1.handle.into(),
            srq_handle: srq.map_or(0, |srq| srq.handle).into(),
            max_send_wr: shape.send_wr.into(),
            max_recv_wr: (shape.recv_wr * own).into(),
            max_send_sge: shape.send_sge.into(),
            max_recv_sge: (shape.recv_sge * own).into(),
            access_flags: ACCESS.into(),
            total_chunks: (directory.count() as u16).into(),
            send_chunks: (send_pages as u16).into(),
            sq_sig_all: shape.signal_all.into(),
            qp_type: shape.qp_type,
            is_srq: srq.is_some().into(),
            ..CreateQp::default()
        };
        (request, directory)
    }

    /// Creates a QP with its send and receive CQs.
    pub fn create_qp(
        &mut self,
        pd: Pd,
        cqs: (&Cq, &Cq),
        srq: Option<&Srq>,
        shape: QpShape,
    ) -> Result<Qp, CommandError> {
        let (request, directory) = self.qp_request(pd, cqs, srq, shape);
        let (handle, qpn) = self.ask_for_qp(&request)?;
        let send_end = 1 + request.send_chunks.get() as usize;
        let state = directory.pages[0];
        let ring = |slots, stride, state, pages: &[u64]| {
            ProducerRing::new(slots, stride, state, pages.to_vec())
        };
        let send_pages = &directory.pages[1..send_end];
        let recv_pages = &directory.pages[send_end..];
        let recv_stride = recv_stride(shape.recv_sge);
        Ok(Qp {
            handle,
            qpn,
            qp_type: shape.qp_type,
            pd,
            page: pd.context.page,
            send: ring(
                shape.send_wr,
                send_stride(shape.send_sge),
                state + TX,
                send_pages,
            ),
            recv: srq
                .is_none()
                .then(|| ring(shape.recv_wr, recv_stride, state + RX, recv_pages)),
            directory,
        })
    }

    /// Sends a create command; returns handle and number.
    fn ask_for_qp(&mut self, request: &CreateQp) -> Result<(u32, u32), CommandError> {
        let created: CreatedQp = self.ask(Command::CreateQp, request)?;
        let (handle, qpn) = (created.qp_handle.get(), created.qpn.get());
        Ok(match self.driver().version {
            0..version::QP_HANDLE => (qpn, qpn),
            _ => (handle, qpn),
        })
    }

    /// Queries the attributes of a QP.
    pub fn query_qp(&mut self, qp: &Qp) -> Result<QpAttributes, CommandError> {
        let request = QueryQp {
            qp_handle: qp.handle.into(),
            attr_mask: 0.into(),
        };
        self.ask(Command::QueryQp, &request)
    }

    /// Destroys a QP.
    pub fn destroy_qp(&mut self, qp: Qp) -> Result<(), CommandError> {
        let told = self.tell(Command::DestroyQp, &handle_of(qp.handle));
        qp.directory.free(&mut self.ram);
        told
    }
}

fn pages(slots: u32, stride: u32) -> usize {
    (u64::from(slots) * u64::from(stride)).div_ceil(PAGE) as usize
}
