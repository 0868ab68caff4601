//! The process that serves two devices ends at any moment, and another one goes on from the last commit: no message is
//! lost, doubled or out of order, and every byte arrives.
//!
//! The end of a process is a panic in a call of the journal, which is caught; its state is dropped.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vrdma_adapter::Journal;
use vrdma_driver::notebook::{Crash, Key, Notebook, Notes};
use vrdma_driver::object::{Connection, QpShape, Srq, pattern};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Fabric, Guest, Pair, PairOptions};
use vrdma_pvrdma::{DeviceConfig, SavedRecord};

mod damaged;
mod elsewhere;
mod living;

/// Messages each way.
const MESSAGES: u64 = 10;

/// Bytes of a message, more than a page.
const LENGTH: u32 = 5000;

/// Requests and receives posted ahead, as many as there are slots: if a completion can be seen before its slot is free,
/// there is no room to post the next one.
const AHEAD: u64 = 4;

/// A pair whose work queues have as few slots as requests are posted ahead.
fn full_rings(kernel: bool) -> PairOptions {
    let slots = AHEAD as u32;
    PairOptions {
        kernel,
        shape: QpShape {
            send_wr: slots,
            recv_wr: slots,
            ..QpShape::RC
        },
        ..PairOptions::default()
    }
}

/// A pair whose devices are recorded.
struct World {
    pair: Pair,
    book: Arc<Mutex<Notebook>>,
    crashes: u32,
}

impl World {
    fn new(options: PairOptions) -> Self {
        let book = Arc::new(Mutex::new(Notebook::default()));
        let mut fabric = Fabric::new();
        for number in 0..2 {
            let config = DeviceConfig::new(Fabric::identity(number as u8 + 1));
            let guest = fabric.add_bare(config).unwrap();
            let notes = Notes::of(number, &book);
            fabric[guest].device.record_to(notes);
            fabric[guest].probe().unwrap();
            fabric.bind(guest);
        }
        let mut world = Self {
            pair: Pair::between(fabric, (0, 1), options),
            book,
            crashes: 0,
        };
        world.fill();
        world.commit();
        world
    }

    /// Fills the buffers with the data of the messages.
    fn fill(&mut self) {
        let (a, b) = (&self.pair.a, &self.pair.b);
        let (of_a, of_b) = (pattern(1, BYTES), pattern(2, BYTES));
        a.buffer.write(&self.pair.fabric[0].ram, 0, &of_a);
        b.buffer.write(&self.pair.fabric[1].ram, 0, &of_b);
    }

    /// Commits all records, as before a command's answer.
    fn commit(&mut self) {
        (0..2).for_each(|guest| self.pair.fabric[guest].device.record());
        self.book.lock().unwrap().commit();
    }

    /// Makes the process end at a call of the journal.
    fn end_at(&mut self, call: u32) {
        self.book.lock().unwrap().left = Some(call);
    }

    /// Runs the process as far as it can without time passing; true if it ended.
    fn run(&mut self) -> bool {
        self.may_end(Fabric::pump)
    }

    /// Like [`run`](Self::run), with time passing.
    fn pass(&mut self) -> bool {
        self.may_end(|fabric| fabric.pass(Duration::from_millis(20)))
    }

    fn may_end(&mut self, work: impl FnOnce(&mut Fabric)) -> bool {
        let fabric = &mut self.pair.fabric;
        let Err(cause) = catch_unwind(AssertUnwindSafe(|| work(fabric))) else {
            return false;
        };
        assert!(cause.is::<Crash>(), "the process ended by itself");
        self.crashes += 1;
        self.go_on();
        true
    }

    /// Goes on in another process.
    fn go_on(&mut self) {
        let fabric = std::mem::take(&mut self.pair.fabric);
        let book = &self.book;
        book.lock().unwrap().batch.clear();
        self.pair.fabric = fabric.reborn(|number, guest| {
            let records = book.lock().unwrap().records_of(number);
            revive(guest, &records, Notes::of(number, book));
        });
    }
}

fn revive(guest: &mut Guest, records: &[SavedRecord], journal: Box<dyn Journal>) {
    guest.revive(records, Some(journal)).unwrap();
}

/// The requests that both ends post, and the completions that they expect.
struct Traffic {
    kind: Work,
    srq: Option<Srq>,
    posted: u64,
    received: VecDeque<u64>,
    sent: VecDeque<u64>,
    receives: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Send,
    Write,
    Read,
    WriteImm,
}

/// Offset of message `number` in both buffers.
fn place(number: u64) -> u64 {
    number * u64::from(LENGTH)
}

impl Traffic {
    fn new(kind: Work, srq: Option<Srq>) -> Self {
        Self {
            kind,
            srq,
            posted: 0,
            received: VecDeque::new(),
            sent: VecDeque::new(),
            receives: 0,
        }
    }

    fn takes_receives(&self) -> bool {
        matches!(self.kind, Work::Send | Work::WriteImm)
    }

    /// Runs the programs: they post as long as there is room, and take their completions.
    fn programs(&mut self, pair: &mut Pair) {
        let wanted = (self.received.len() as u64 + AHEAD).min(MESSAGES);
        while self.takes_receives() && self.receives < wanted {
            let sge = pair.b.sge(place(self.receives), LENGTH);
            let (guest, id) = (&mut pair.fabric[1], self.receives);
            match &self.srq {
                Some(srq) => guest.post_srq_recv(srq, id, &[sge]).unwrap(),
                None => guest.post_recv(&pair.b.qp, id, &[sge]).unwrap(),
            }
            self.receives += 1;
        }
        while self.posted < MESSAGES && self.posted < self.sent.len() as u64 + AHEAD {
            let request = self.request(pair, self.posted);
            pair.fabric[0].post_send(&pair.a.qp, &request).unwrap();
            self.posted += 1;
        }
        for done in pair.sent() {
            assert_eq!(done.status, 0, "{done:?}");
            self.sent.push_back(done.id);
        }
        for done in pair.received() {
            assert_eq!(done.status, 0, "{done:?}");
            self.received.push_back(done.id);
        }
    }

    fn request(&self, pair: &Pair, number: u64) -> SendWork {
        let (address, key) = pair.b.remote(place(number));
        let request = match self.kind {
            Work::Send => SendWork::send(number),
            Work::Write => SendWork::write(number, address, key),
            Work::Read => SendWork::read(number, address, key),
            Work::WriteImm => SendWork::write(number, address, key).imm([1, 2, 3, 4]),
        };
        request.sge(pair.a.sge(place(number), LENGTH))
    }

    fn is_done(&self) -> bool {
        let received = !self.takes_receives() || self.received.len() as u64 >= MESSAGES;
        received && self.sent.len() as u64 >= MESSAGES
    }

    /// Runs to the end with a crash at `call`; false if everything was done before.
    fn crashes_at(mut self, world: &mut World, call: u32) -> bool {
        let from = [pattern(1, BYTES), pattern(2, BYTES)];
        world.end_at(call);
        for _ in 0..100 {
            self.programs(&mut world.pair);
            if !world.run() && !self.is_done() {
                world.pass();
            }
        }
        self.programs(&mut world.pair);
        let all: Vec<u64> = (0..MESSAGES).collect();
        assert_eq!(self.sent, all, "{:?} at {call}", self.kind);
        if self.takes_receives() {
            assert_eq!(self.received, all, "{:?} at {call}", self.kind);
        }
        let moved = place(MESSAGES) as usize;
        let expected = match self.kind {
            Work::Read => &from[1],
            _ => &from[0],
        };
        assert_eq!(world.pair.bytes_of_a(0, moved), expected[..moved]);
        assert_eq!(world.pair.bytes_of_b(0, moved), expected[..moved]);
        world.book.lock().unwrap().left.take();
        world.crashes > 0
    }
}

/// Bytes of all messages.
const BYTES: usize = MESSAGES as usize * LENGTH as usize;

fn at_every_step(options: PairOptions, kind: Work) {
    for call in 0.. {
        let mut world = World::new(options);
        if !Traffic::new(kind, None).crashes_at(&mut world, call) {
            assert!(call > 12, "it crashed {call} times only");
            return;
        }
    }
}

#[test]
fn messages_survive_a_crash_at_every_step() {
    for kind in [Work::Send, Work::Write, Work::Read, Work::WriteImm] {
        for kernel in [false, true] {
            at_every_step(full_rings(kernel), kind);
        }
    }
}

#[test]
fn shared_receives_survive_a_crash_at_every_step() {
    for call in 0.. {
        let mut world = World::new(full_rings(false));
        let srq = with_shared_queue(&mut world);
        let traffic = Traffic::new(Work::Send, Some(srq));
        if !traffic.crashes_at(&mut world, call) {
            return;
        }
    }
}

/// Replaces `b`'s queue pair by one that uses a shared receive queue.
fn with_shared_queue(world: &mut World) -> Srq {
    let pair = &mut world.pair;
    let (a, mut b) = (pair.a.clone(), pair.b.clone());
    let gids = [pair.fabric[0].gid(), pair.fabric[1].gid()];
    let vm = &mut pair.fabric[1];
    let srq = vm.create_srq(b.pd, AHEAD as u32, 1).unwrap();
    let cqs = (&b.send_cq, &b.recv_cq);
    b.qp = vm.create_qp(b.pd, cqs, Some(&srq), QpShape::RC).unwrap();
    vm.connect(&b.qp, &Connection::to(a.qp.qpn, gids[0]))
        .unwrap();
    pair.fabric[0].reset_qp(&a.qp).unwrap();
    pair.fabric[0]
        .connect(&a.qp, &Connection::to(b.qp.qpn, gids[1]))
        .unwrap();
    pair.b = b;
    world.commit();
    srq
}
