//! A queue pair and its rings, and the writes of a program into them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use vrdma_provider::area::Area;
use vrdma_provider::doorbell::PAGE_BYTES;
use vrdma_provider::layout::{Buffer, SendHeader, cq_header, queue_header, send_flag};
use vrdma_provider::message::{MrReply, QpReply, QueueGeometry};
use zerocopy::IntoBytes;

use super::arena::arena;
use crate::input::Input;

/// A queue pair that works until the script begins.
pub(super) struct Parts {
    pub(super) doorbells: Area,
    pub(super) qp: QpReply,
    pub(super) queues: Arc<Area>,
    pub(super) cq: QueueGeometry,
    pub(super) entries: Arc<Area>,
    pub(super) region: MrReply,
    pub(super) peer: Option<MrReply>,
    pub(super) posted: [u32; 2],
}

impl Parts {
    pub(super) fn act(&mut self, deed: usize, input: &mut Input<'_>) {
        match deed {
            7..10 => self.post_send(input),
            10 | 11 => self.post_receive(input),
            12 => {
                let bytes = input.block();
                let room = (self.qp.bytes as usize - 4096).saturating_sub(bytes.len());
                let at = 4096 + usize::from(input.half()) * 16 % (room + 1);
                self.queues.write(at, bytes);
            }
            13 => {
                let header = [self.qp.send, self.qp.recv][input.below(2)].header as usize;
                let word = self.queues.u32(header + queue_header::PRODUCER);
                word.store(input.number() as u32, Relaxed);
            }
            14 => {
                let word = [cq_header::CONSUMER, cq_header::ARMED][input.below(2)];
                let word = self.entries.u32(self.cq.header as usize + word);
                word.store(input.number() as u32, Relaxed);
            }
            _ => {
                let at = input.below(PAGE_BYTES / 8) * 8;
                self.doorbells.u64(at).store(input.number(), Relaxed);
                self.ring();
            }
        }
    }

    fn buffer(&self, input: &mut Input<'_>) -> Buffer {
        Buffer {
            addr: arena() + u64::from(input.half() >> 1),
            length: input.number() as u32 & 0x7fff,
            lkey: self.region.lkey,
        }
    }

    /// Posts a request that is correct except, perhaps, for some bytes.
    fn post_send(&mut self, input: &mut Input<'_>) {
        let (operation, peer) = (input.byte() % 12, self.peer.unwrap_or(self.region));
        let header = SendHeader {
            wr_id: self.posted[0].into(),
            opcode: operation.into(),
            flags: send_flag::SIGNALED,
            buffers: input.below(3) as u32,
            remote_addr: arena() + u64::from(input.half() & 0xfff8),
            rkey: peer.rkey,
            ..SendHeader::default()
        };
        let buffers = [self.buffer(input), self.buffer(input)];
        let mut slot = [header.as_bytes(), buffers.as_bytes()].concat();
        for _ in 0..input.below(4) {
            slot[input.below(128)] = input.byte();
        }
        self.post(0, self.qp.send, &slot);
        self.ring();
    }

    fn post_receive(&mut self, input: &mut Input<'_>) {
        let count = u64::from(input.byte() % 4);
        let buffers = [self.buffer(input), self.buffer(input)];
        let slot = [[7, count].as_bytes(), buffers.as_bytes()].concat();
        self.post(1, self.qp.recv, &slot);
        self.ring();
    }

    fn post(&mut self, which: usize, queue: QueueGeometry, slot: &[u8]) {
        let length = slot.len().min(queue.stride as usize);
        let at = queue.slots_at + self.posted[which] % queue.slots * queue.stride;
        self.queues.write(at as usize, &slot[..length]);
        self.posted[which] = self.posted[which].wrapping_add(1);
        let producer = self
            .queues
            .u32(queue.header as usize + queue_header::PRODUCER);
        producer.store(self.posted[which], Relaxed);
    }

    fn ring(&self) {
        let (word, bit) = (self.qp.doorbell / 64, self.qp.doorbell % 64);
        self.doorbells
            .u64(128 + word as usize * 8)
            .fetch_or(1 << bit, Relaxed);
        self.doorbells.u64(64).fetch_or(1 << word, Relaxed);
    }
}
