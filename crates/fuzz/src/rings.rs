//! The rings and doorbells of a client that writes any words and slots, as the daemon reads them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use vrdma_provider::area::Area;
use vrdma_provider::daemon::{CompletionRing, CqPlan, QpPlan, WorkRing};
use vrdma_provider::doorbell::{Listener, PAGE_BYTES};
use vrdma_provider::layout::{
    Buffer, Completion, ENCLOSED_MAX, RecvHeader, SendHeader, cq_header, queue_header,
};
use vrdma_provider::message::QpCapacity;
use vrdma_provider::operation::Operation;
use vrdma_provider::{BUFFERS_MAX, QUEUES_MAX};

use crate::input::Input;

/// Entries of the completion queue.
const ENTRIES: u32 = 4;

/// Runs an input as a script of both sides.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut world = World::new(&mut input);
    while !input.is_empty() {
        world.step(&mut input);
    }
}

struct World {
    area: Arc<Area>,
    plan: QpPlan,
    send: WorkRing,
    /// Requests that are fetched and not released.
    in_use: u32,
    cq_area: Arc<Area>,
    cq: CompletionRing,
    doorbells: Listener,
    doorbell_page: Area,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let wanted = QpCapacity {
            max_send_wr: u32::from(input.byte() % 16),
            max_recv_wr: 1,
            max_send_sge: u32::from(input.byte()) % (BUFFERS_MAX + 1),
            max_recv_sge: 1,
            max_inline: u32::from(input.half() % 1024),
        };
        let plan = QpPlan::new(&wanted, false).expect("it is within the limits");
        let (area, _) = Area::create("fuzz", plan.bytes as usize).expect("there is memory");
        let area = Arc::new(area);
        let cq = CqPlan::new(ENTRIES, true).expect("it is within the limits");
        let (cq_area, _) = Area::create("fuzz", cq.bytes as usize).expect("there is memory");
        let cq_area = Arc::new(cq_area);
        let doorbells = Listener::new().expect("there is memory");
        let doorbell_page = Area::map(doorbells.page(), PAGE_BYTES).expect("it is sealed");
        Self {
            send: WorkRing::new(Arc::clone(&area), plan.send),
            area,
            plan,
            in_use: 0,
            cq: CompletionRing::new(Arc::clone(&cq_area), cq.ring),
            cq_area,
            doorbells,
            doorbell_page,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(11) {
            0 => self.set(queue_header::PRODUCER, input.number() as u32),
            1 => self.scribble(input),
            2 | 3 => self.fetch(),
            4 => self.release(),
            5 => {
                let word = [cq_header::CONSUMER, cq_header::ARMED][input.below(2)];
                self.cq_area.u32(word).store(input.number() as u32, Relaxed);
            }
            6 => self.complete(input),
            7 => self.unload(),
            8 => self.ring(input),
            9 => self.scribble_completions(input),
            _ => {
                self.send.restart();
                self.in_use = 0;
            }
        }
    }

    fn set(&self, word: usize, to: u32) {
        let at = self.plan.send.header as usize + word;
        self.area.u32(at).store(to, Relaxed);
    }

    fn scribble(&self, input: &mut Input<'_>) {
        let bytes = input.block();
        let slots = self.plan.send.slots_at as usize;
        let room = self.plan.bytes as usize - slots - bytes.len();
        let at = usize::from(input.half()) * 16 % (room + 1);
        self.area.write(slots + at, bytes);
    }

    fn fetch(&mut self) {
        let slots = self.send.slots();
        let Ok(Some(slot)) = self.send.fetch() else {
            return;
        };
        let header: SendHeader = slot.header();
        let _operation = Operation::of(&header);
        let buffers = (0..)
            .map_while(|index| slot.buffer::<SendHeader>(index))
            .count();
        let most = self.plan.send.stride as usize / size_of::<Buffer>();
        assert!(buffers <= most && slot.buffer::<SendHeader>(usize::MAX).is_none());
        let _receive: RecvHeader = slot.header();
        self.in_use += 1;
        assert!(self.in_use <= slots, "more requests than slots");
    }

    fn release(&mut self) {
        self.send.release();
        self.send.show_released();
        self.in_use = self.in_use.saturating_sub(1);
    }

    fn complete(&mut self, input: &mut Input<'_>) {
        let mut entry = Completion::default();
        let bytes = input.block();
        let buffers = [Buffer {
            length: bytes.len() as u32,
            ..Buffer::default()
        }];
        // A ring that is full or broken returns an error.
        let _enclosed = self.cq.enclose(&mut entry, buffers.into_iter(), bytes);
        let _written = self.cq.write(&entry);
        self.cq.publish();
        self.cq.take_armed(true);
    }

    /// Takes entries and messages that the client may have changed.
    fn unload(&mut self) {
        self.cq.take_enclosed(
            |buffer| buffer.lkey == 0,
            |buffers, bytes| {
                assert!(buffers.len() <= BUFFERS_MAX as usize);
                assert!(bytes.len() <= ENCLOSED_MAX as usize);
            },
        );
        let plan = CqPlan::new(ENTRIES, true).expect("it is within the limits");
        let (area, _) = Area::create("fuzz", plan.bytes as usize).expect("there is memory");
        let mut fresh = CompletionRing::new(Arc::new(area), plan.ring);
        if self.cq.unload(&mut fresh).is_ok() {
            assert!(fresh.written() <= ENTRIES);
        }
    }

    /// Writes entries and messages as the client.
    fn scribble_completions(&self, input: &mut Input<'_>) {
        let bytes = input.block();
        let room = self.cq_area.length() - cq_header::BYTES - bytes.len();
        let at = cq_header::BYTES + usize::from(input.half()) * 4 % (room + 1);
        self.cq_area.write(at, bytes);
    }

    /// Writes words anywhere in the doorbell page; only existing queues may be reported.
    fn ring(&self, input: &mut Input<'_>) {
        let at = input.below(PAGE_BYTES / 8) * 8;
        self.doorbell_page.u64(at).store(input.number(), Relaxed);
        self.doorbell_page
            .u64(64)
            .fetch_or(1 << (input.byte() % 64), Relaxed);
        self.doorbells.sleep();
        self.doorbells.take(|bit| assert!(bit < QUEUES_MAX));
        self.doorbells.awake();
    }
}
