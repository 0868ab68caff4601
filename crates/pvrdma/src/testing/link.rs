//! Objects and rings as a user library uses them, for tests of the data path.

use vrdma_memory::PAGE;
use vrdma_verbs::{Pace, Source};

use super::Guest;
use crate::abi::command::Command;
use crate::abi::completion::CompletionEntry;
use crate::abi::qp::{AddressAttributes, QpAttributes};
use crate::abi::request::{
    Context, CreateBind, CreateCq, CreateMr, CreateQp, CreateUc, ModifyQp, qp_type,
};
use crate::abi::response::{Created, CreatedCq, CreatedMr, CreatedQp};
use crate::abi::work::{RdmaPart, RecvHeader, SendHeader, SgeEntry, opcode, send_flag};
use zerocopy::IntoBytes;

pub(crate) const GID: [u8; 16] = [0x20; 16];
/// Number of sends, and of receives, of one buffer that fill a page.
pub(crate) const SENDS: u32 = 32;
pub(crate) const RECVS: u32 = 128;
const SEND_STRIDE: u64 = 128;
const RECV_STRIDE: u64 = 32;

/// A completion queue of a guest.
pub(crate) struct CqRing {
    pub(crate) handle: u32,
    pub(crate) entries: u32,
    pub(crate) pages: Vec<u64>,
    pub(crate) consumer: u32,
}

/// A queue pair of a guest.
pub(crate) struct QpRing {
    pub(crate) handle: u32,
    pub(crate) qpn: u32,
    pub(crate) pages: Vec<u64>,
    pub(crate) sent: u32,
    pub(crate) received: u32,
}

/// The objects of a queue pair connected to itself.
pub(crate) struct Link {
    pub(crate) page: u32,
    pub(crate) cq: CqRing,
    pub(crate) qp: QpRing,
    pub(crate) mr: CreatedMr,
    pub(crate) buffer: u64,
}

impl Guest {
    pub(crate) fn cq(&mut self, owner: u32, entries: u32) -> CqRing {
        let count = 1 + (entries * 64).div_ceil(PAGE as u32);
        let (pdir, pages) = self.directory(count);
        let request = CreateCq {
            pdir_dma: pdir.into(),
            ctx_handle: owner.into(),
            cqe: entries.into(),
            nchunks: count.into(),
            ..CreateCq::default()
        };
        let created: CreatedCq = self.ask(Command::CreateCq, &request);
        CqRing {
            handle: created.cq_handle.get(),
            entries,
            pages,
            consumer: 0,
        }
    }

    pub(crate) fn qp(&mut self, pd: u32, cq: u32) -> QpRing {
        let (pdir, pages) = self.directory(3);
        let request = CreateQp {
            pdir_dma: pdir.into(),
            pd_handle: pd.into(),
            send_cq_handle: cq.into(),
            recv_cq_handle: cq.into(),
            max_send_wr: SENDS.into(),
            max_recv_wr: RECVS.into(),
            max_send_sge: 1.into(),
            max_recv_sge: 1.into(),
            total_chunks: 3.into(),
            send_chunks: 1.into(),
            qp_type: qp_type::RC,
            ..CreateQp::default()
        };
        let created: CreatedQp = self.ask(Command::CreateQp, &request);
        QpRing {
            handle: created.qp_handle.get(),
            qpn: created.qpn.get(),
            pages,
            sent: 0,
            received: 0,
        }
    }

    /// Makes a link of the kernel (page 0), or of a program with doorbell page `page`.
    pub(crate) fn link(&mut self, page: u32, entries: u32) -> Link {
        let owner = match page {
            0 => 0,
            _ => {
                let request = CreateUc {
                    pfn: u64::from(page).into(),
                };
                let created: Created = self.ask(Command::CreateUc, &request);
                created.handle.get()
            }
        };
        let context = Context {
            ctx_handle: owner.into(),
            ..Context::default()
        };
        let pd: Created = self.ask(Command::CreatePd, &context);
        let pd = pd.handle.get();
        let cq = self.cq(owner, entries);
        let qp = self.qp(pd, cq.handle);
        let (mr, buffer) = self.buffer(pd);
        self.bind();
        self.connect(&qp, qp.qpn);
        Link {
            page,
            cq,
            qp,
            mr,
            buffer,
        }
    }

    fn buffer(&mut self, pd: u32) -> (CreatedMr, u64) {
        let (pdir, pages) = self.directory(1);
        let request = CreateMr {
            start: pages[0].into(),
            length: PAGE.into(),
            pdir_dma: pdir.into(),
            pd_handle: pd.into(),
            access_flags: 15.into(),
            flags: 0.into(),
            nchunks: 1.into(),
        };
        (self.ask(Command::CreateMr, &request), pages[0])
    }

    fn bind(&mut self) {
        let request = CreateBind {
            gid: GID,
            gid_type: 2,
            ..CreateBind::default()
        };
        assert_eq!(self.execute(Command::CreateBind, &request), 0);
    }

    pub(crate) fn modify(&mut self, qp: &QpRing, mask: u32, attrs: QpAttributes) -> u32 {
        let request = ModifyQp {
            qp_handle: qp.handle.into(),
            attr_mask: mask.into(),
            attrs,
        };
        self.execute(Command::ModifyQp, &request)
    }

    pub(crate) fn connect(&mut self, qp: &QpRing, peer: u32) {
        let attrs = QpAttributes {
            path_mtu: 3.into(),
            dest_qp_num: peer.into(),
            qp_access_flags: 15.into(),
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            port_num: 1,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            ah_attr: AddressAttributes {
                dgid: GID,
                port_num: 1,
                ..AddressAttributes::default()
            },
            ..QpAttributes::default()
        };
        for (state, mask) in [(1, 0x39), (2, 0x12_9181), (3, 0x1_2e01)] {
            let attrs = QpAttributes {
                qp_state: state.into(),
                ..attrs
            };
            assert_eq!(self.modify(qp, mask, attrs), 0, "to {state}");
        }
    }

    /// Runs the device until it has nothing more to do; everything it sends comes back to it.
    pub(crate) fn run(&mut self) {
        let space = std::sync::Arc::clone(&self.space);
        for _ in 0..10_000 {
            let memory = space.view();
            let polled = self.device.poll(&memory, self.now);
            let Some(request) = self
                .device
                .next_request(&memory, self.now, &mut Pace::Local)
            else {
                match polled {
                    true => continue,
                    false => return,
                }
            };
            let source = Source::Memory(&memory);
            let device = &mut self.device;
            let answer = device.deliver_in_row(&memory, &request, source, self.now, &mut None);
            device.end_row();
            if let Some(answer) = answer {
                self.device
                    .respond(&memory, &answer, Source::Memory(&memory), self.now);
            }
        }
        panic!("the device does not come to rest");
    }
}

impl Link {
    /// Puts a header and one buffer into the send ring.
    pub(crate) fn post(&mut self, guest: &Guest, header: &SendHeader, length: u32) {
        let slot = u64::from(self.qp.sent % SENDS);
        let at = self.qp.pages[1] + slot * SEND_STRIDE;
        guest.put(at, header);
        guest.put(at + size_of::<SendHeader>() as u64, &self.sge(length));
        self.qp.sent = (self.qp.sent + 1) % (2 * SENDS);
        guest.put(self.qp.pages[0], &self.qp.sent);
    }

    /// A signaled RDMA WRITE of the buffer to itself.
    pub(crate) fn write(&self, id: u64) -> SendHeader {
        let part = RdmaPart {
            remote_addr: self.buffer.into(),
            rkey: self.mr.rkey,
            ..RdmaPart::default()
        };
        let mut header = self.header(id, opcode::RDMA_WRITE);
        header.part[..size_of::<RdmaPart>()].copy_from_slice(part.as_bytes());
        header
    }

    pub(crate) fn header(&self, id: u64, opcode: u32) -> SendHeader {
        SendHeader {
            wr_id: id.into(),
            num_sge: 1.into(),
            opcode: opcode.into(),
            send_flags: send_flag::SIGNALED.into(),
            ..SendHeader::default()
        }
    }

    fn sge(&self, length: u32) -> SgeEntry {
        SgeEntry {
            addr: self.buffer.into(),
            length: length.into(),
            lkey: self.mr.lkey,
        }
    }

    pub(crate) fn post_recv(&mut self, guest: &Guest, id: u64, length: u32) {
        let slot = u64::from(self.qp.received % RECVS);
        let at = self.qp.pages[2] + slot * RECV_STRIDE;
        let header = RecvHeader {
            wr_id: id.into(),
            num_sge: 1.into(),
            ..RecvHeader::default()
        };
        guest.put(at, &header);
        guest.put(at + size_of::<RecvHeader>() as u64, &self.sge(length));
        self.qp.received = (self.qp.received + 1) % (2 * RECVS);
        guest.put(self.qp.pages[0] + 8, &self.qp.received);
    }

    /// Consumer index of the send ring, as the device wrote it.
    pub(crate) fn released(&self, guest: &Guest) -> u32 {
        guest.get(self.qp.pages[0] + 4)
    }

    /// Takes the next completion.
    pub(crate) fn poll(&mut self, guest: &Guest) -> Option<CompletionEntry> {
        let ring = &mut self.cq;
        let producer: u32 = guest.get(ring.pages[0] + 8);
        if producer == ring.consumer {
            return None;
        }
        let offset = u64::from(ring.consumer % ring.entries) * 64;
        let at = ring.pages[1 + (offset / PAGE) as usize] + offset % PAGE;
        ring.consumer = (ring.consumer + 1) % (2 * ring.entries);
        guest.put(ring.pages[0] + 12, &ring.consumer);
        Some(guest.get(at))
    }

    /// Takes all completions: the cookie and status of each.
    pub(crate) fn drain(&mut self, guest: &Guest) -> Vec<(u64, u32)> {
        let next = || self.poll(guest);
        let entries = std::iter::from_fn(next);
        entries
            .map(|entry| (entry.wr_id.get(), entry.status.get()))
            .collect()
    }
}
