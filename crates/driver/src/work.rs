//! Work requests, as the provider writes them into the rings: fields that an operation does not use keep the old bytes
//! of the slot.

use vrdma_pvrdma::abi::PAGE;
use vrdma_pvrdma::abi::work::{
    AddressVector, AtomicPart, DatagramPart, FastRegisterPart, RdmaPart, RecvHeader, SendHeader,
    SgeEntry, opcode, send_flag,
};
use vrdma_wire::Gid;
use zerocopy::{FromZeros, IntoBytes};

use crate::directory::Directory;
use crate::guest::Guest;
use crate::object::{Mr, Pd, Qp, Srq};
use crate::ring::Full;

/// Byte left by older requests in the slot.
const STALE: u8 = 0xcc;

/// A send work request.
#[derive(Clone, Debug)]
pub struct SendWork {
    header: SendHeader,
    sges: Vec<SgeEntry>,
}

impl SendWork {
    /// A signalled request with any opcode.
    pub fn new(id: u64, opcode: u32) -> Self {
        let mut header = SendHeader::new_zeroed();
        header.as_mut_bytes().fill(STALE);
        header.wr_id = id.into();
        header.opcode = opcode.into();
        header.send_flags = send_flag::SIGNALED.into();
        Self {
            header,
            sges: Vec::new(),
        }
    }

    /// SEND.
    pub fn send(id: u64) -> Self {
        Self::new(id, opcode::SEND)
    }

    /// RDMA WRITE.
    pub fn write(id: u64, addr: u64, rkey: u32) -> Self {
        Self::new(id, opcode::RDMA_WRITE).remote(addr, rkey)
    }

    /// RDMA READ.
    pub fn read(id: u64, addr: u64, rkey: u32) -> Self {
        Self::new(id, opcode::RDMA_READ).remote(addr, rkey)
    }

    /// Compare and swap.
    pub fn compare_swap(id: u64, addr: u64, rkey: u32, compare: u64, swap: u64) -> Self {
        let part = AtomicPart {
            remote_addr: addr.into(),
            compare_add: compare.into(),
            swap: swap.into(),
            rkey: rkey.into(),
            reserved: 0.into(),
        };
        Self::new(id, opcode::ATOMIC_CMP_AND_SWP).part(&part)
    }

    /// Fetch and add.
    pub fn fetch_add(id: u64, addr: u64, rkey: u32, add: u64) -> Self {
        let part = AtomicPart {
            remote_addr: addr.into(),
            compare_add: add.into(),
            swap: 0.into(),
            rkey: rkey.into(),
            reserved: 0.into(),
        };
        Self::new(id, opcode::ATOMIC_FETCH_AND_ADD).part(&part)
    }

    /// LOCAL_INV: invalidates a fast-register region.
    pub fn local_invalidate(id: u64, key: u32) -> Self {
        Self::new(id, opcode::LOCAL_INV).ex(key.to_le_bytes())
    }

    /// FAST_REG: fills a fast-register region with the pages of `directory`, starting at address `start`.
    pub fn fast_register(
        id: u64,
        key: u32,
        directory: &Directory,
        start: u64,
        length: u32,
        access: u32,
    ) -> Self {
        let part = FastRegisterPart {
            iova_start: start.into(),
            pl_pdir_dma: directory.address.into(),
            page_shift: PAGE.ilog2().into(),
            page_list_len: directory.count().into(),
            length: length.into(),
            access_flags: access.into(),
            rkey: key.into(),
            reserved: 0.into(),
        };
        Self::new(id, opcode::FAST_REG_MR).part(&part)
    }

    /// Sets the remote memory.
    pub fn remote(self, addr: u64, rkey: u32) -> Self {
        self.part(&RdmaPart {
            remote_addr: addr.into(),
            rkey: rkey.into(),
            reserved: 0.into(),
        })
    }

    /// Adds immediate data.
    pub fn imm(mut self, imm: [u8; 4]) -> Self {
        let with_imm = match self.header.opcode.get() {
            opcode::SEND => opcode::SEND_WITH_IMM,
            opcode::RDMA_WRITE => opcode::RDMA_WRITE_WITH_IMM,
            other => other,
        };
        self.header.opcode = with_imm.into();
        self.ex(imm)
    }

    /// Makes the receiver invalidate `key`.
    pub fn invalidating(mut self, key: u32) -> Self {
        self.header.opcode = opcode::SEND_WITH_INV.into();
        self.ex(key.to_le_bytes())
    }

    fn ex(mut self, ex: [u8; 4]) -> Self {
        self.header.ex = ex;
        self
    }

    /// Fills the union.
    pub fn part(mut self, part: &impl PartBytes) -> Self {
        let bytes = part.part_bytes();
        self.header.part[..bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Adds a buffer.
    pub fn sge(mut self, sge: SgeEntry) -> Self {
        self.sges.push(sge);
        self
    }

    /// Replaces the flags.
    pub fn flags(mut self, flags: u32) -> Self {
        self.header.send_flags = flags.into();
        self
    }

    /// Makes the request unsignaled: without a completion.
    pub fn unsignaled(self) -> Self {
        self.flags(0)
    }

    /// Makes the request wait for earlier READs and atomics.
    pub fn fenced(self) -> Self {
        self.flags(send_flag::SIGNALED | send_flag::FENCE)
    }

    /// Requests a solicited event at the peer.
    pub fn solicited(self) -> Self {
        self.flags(send_flag::SIGNALED | send_flag::SOLICITED)
    }

    /// Encodes the request with another number of buffers than there are.
    pub fn claim_sges(mut self, count: u32) -> Vec<u8> {
        self.header.num_sge = count.into();
        self.bytes()
    }

    /// Encodes the ring entry.
    pub fn encode(&self) -> Vec<u8> {
        let mut header = self.header;
        header.num_sge = (self.sges.len() as u32).into();
        let sges = self.sges.clone();
        Self { header, sges }.bytes()
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.header.as_bytes().to_vec();
        self.sges
            .iter()
            .for_each(|sge| bytes.extend_from_slice(sge.as_bytes()));
        bytes
    }
}

/// The variants of the union.
pub trait PartBytes {
    /// Bytes of the variant.
    fn part_bytes(&self) -> &[u8];
}

macro_rules! part {
    ($($part:ty),*) => {$(
        impl PartBytes for $part {
            fn part_bytes(&self) -> &[u8] {
                self.as_bytes()
            }
        }
    )*};
}

part!(RdmaPart, AtomicPart, FastRegisterPart, DatagramPart);

/// Destination of a datagram, as from an address handle and the work request.
pub fn datagram(pd: Pd, gid: Gid, qpn: u32, qkey: u32) -> DatagramPart {
    const PORT: u32 = 1 << 24;
    const GRH: u8 = 0x80;
    DatagramPart {
        remote_qpn: qpn.into(),
        remote_qkey: qkey.into(),
        av: AddressVector {
            port_pd: (PORT | pd.handle).into(),
            dgid: gid.0,
            src_path_bits: GRH,
            hop_limit: 64,
            ..AddressVector::default()
        },
    }
}

/// A receive entry.
pub fn receive(id: u64, sges: &[SgeEntry]) -> Vec<u8> {
    let header = RecvHeader {
        wr_id: id.into(),
        num_sge: (sges.len() as u32).into(),
        total_len: 0xdead_beef.into(),
    };
    let mut bytes = header.as_bytes().to_vec();
    sges.iter()
        .for_each(|sge| bytes.extend_from_slice(sge.as_bytes()));
    bytes
}

impl Guest {
    /// Posts a send and rings its doorbell.
    pub fn post_send(&mut self, qp: &Qp, request: &SendWork) -> Result<(), Full> {
        self.post_send_entry(qp, &request.encode())
    }

    /// Posts any bytes as a send and rings its doorbell.
    pub fn post_send_entry(&mut self, qp: &Qp, entry: &[u8]) -> Result<(), Full> {
        qp.send.push(&self.ram.view(), entry)?;
        self.ring_send(qp);
        Ok(())
    }

    /// Posts a receive and rings its doorbell.
    ///
    /// # Panics
    /// If the QP has a shared receive queue.
    pub fn post_recv(&mut self, qp: &Qp, id: u64, sges: &[SgeEntry]) -> Result<(), Full> {
        let ring = qp.recv.as_ref().expect("the QP has an own receive queue");
        ring.push(&self.ram.view(), &receive(id, sges))?;
        self.ring_recv(qp);
        Ok(())
    }

    /// Posts a receive to a shared queue and rings its doorbell.
    pub fn post_srq_recv(&mut self, srq: &Srq, id: u64, sges: &[SgeEntry]) -> Result<(), Full> {
        srq.ring.push(&self.ram.view(), &receive(id, sges))?;
        self.ring_srq(srq);
        Ok(())
    }
}

impl Mr {
    /// Address `addr` and the remote key, for RDMA and atomics.
    pub fn at(&self, addr: u64) -> (u64, u32) {
        (addr, self.rkey)
    }
}
