//! The actions of a hostile guest: numbers that are likely to hit, written to places that matter.

use std::time::Duration;

use vrdma_driver::object::Mr;
use vrdma_driver::work::{SendWork, receive};
use vrdma_driver::{End, Fabric, Guest, RAM_BASE};
use vrdma_memory::{PAGE, Protection};
use vrdma_pvrdma::BarRegion;
use vrdma_pvrdma::abi::command::{HEADER_BYTES, REQUEST_BYTES};
use vrdma_pvrdma::abi::doorbell::Doorbell;

use crate::input::Input;

const VILLAIN: usize = 0;

/// A hostile guest with two connected queue pairs, one of a program and one of its kernel.
pub(crate) struct Villain {
    end: End,
    kernel: End,
    /// A fast-register region of the kernel.
    empty: Mr,
    /// The memory that the peers of both queue pairs share.
    target: (u64, u32),
    kernel_target: (u64, u32),
    /// Pages that the device knows.
    pages: Vec<u64>,
}

impl Villain {
    pub(crate) fn new(vm: &mut Guest, program: (End, &End), kernel: (End, &End)) -> Self {
        let (target, kernel_target) = (program.1.remote(0), kernel.1.remote(0));
        let (end, kernel) = (program.0, kernel.0);
        let empty = vm.register_empty(kernel.pd, 16).unwrap();
        let driver = vm.driver();
        let mut pages = vec![driver.region, driver.command_slot, driver.response_slot];
        let directories = [
            &end.qp.directory,
            &end.send_cq.directory,
            &end.recv_cq.directory,
            &kernel.qp.directory,
            &kernel.send_cq.directory,
            &driver.event_pages,
            &driver.notify_pages,
        ];
        for directory in directories {
            pages.push(directory.address);
            pages.extend(&directory.tables);
            pages.extend(&directory.pages);
        }
        pages.extend(&end.buffer.pages);
        // The interrupt handlers would not survive what is done to their rings.
        vm.interrupts.blocked = true;
        Self {
            end,
            kernel,
            empty,
            target,
            kernel_target,
            pages,
        }
    }

    /// Performs one action; the numbers after it are seeds.
    pub(crate) fn act(&mut self, fabric: &mut Fabric, input: &mut Input<'_>) {
        let vm = &mut fabric[VILLAIN];
        match input.below(48) {
            0..2 => self.write_register(vm, input.byte(), input.long()),
            2..6 => self.command(vm, input.byte(), &std::array::from_fn(|_| input.long())),
            6..10 => self.create(vm, input.byte(), input.byte(), input.long()),
            10..26 => self.request(vm, input.byte(), input.byte(), input.long()),
            26..28 => self.index(vm, input.byte(), input.long()),
            28..31 => self.ring(vm, input.byte(), input.byte(), input.long()),
            31..33 => self.poke(vm, input.byte(), input.half(), input.long()),
            33 => self.map(vm, input.byte(), input.byte()),
            34 => configure(vm, input.byte(), input.half()),
            35 => self.live(vm, input.byte()),
            36..44 => (0..input.byte()).for_each(|_| {
                fabric.step(VILLAIN);
            }),
            _ => fabric.pass(Duration::from_micros(input.half().into())),
        }
    }

    /// Writes a word anywhere in a page that the device knows.
    fn poke(&self, vm: &mut Guest, page: u8, at: u16, seed: u64) {
        let at = self.page(page) + u64::from(at) % PAGE / 8 * 8;
        vm.ram.write(at, &self.number(seed).to_le_bytes());
    }

    fn page(&self, seed: u8) -> u64 {
        self.pages[seed as usize % self.pages.len()]
    }

    /// Small numbers and handles, addresses, extremes, and arbitrary numbers.
    fn number(&self, seed: u64) -> u64 {
        let rest = seed >> 3;
        match seed % 8 {
            0 | 1 => rest % 20,
            2 if rest.is_multiple_of(2) => 1 << (rest % 64),
            2 => [self.kernel.mr.lkey, self.end.qp.handle][rest as usize % 2].into(),
            3 => self.page((rest >> 8) as u8) + [0, 0, 0, 8, 1, 4095][rest as usize % 6],
            4 => [self.end.mr.lkey, self.end.mr.rkey][rest as usize % 2].into(),
            5 => self.end.buffer.address + rest % 70_000,
            6 => [u64::MAX, u64::MAX - 7, RAM_BASE, RAM_BASE - 8, 1 << 31][rest as usize % 5],
            _ => rest,
        }
    }

    fn write_register(&self, vm: &mut Guest, register: u8, seed: u64) {
        // DSRHIGH and RESET end everything, so they are rare.
        let offset = match u64::from(register % 64) * 4 {
            8 if !seed.is_multiple_of(16) => return,
            offset => offset % 0x30,
        };
        let value = (self.number(seed) as u32).to_le_bytes();
        let now = Default::default();
        vm.device.write(BarRegion::Registers, offset, &value, now);
        let mut out = [0; 4];
        vm.device.read(BarRegion::Registers, offset, &mut out);
    }

    fn command(&self, vm: &mut Guest, code: u8, seeds: &[u64; 8]) {
        let mut slot = [0; REQUEST_BYTES];
        slot[8] = code % 22;
        let body = slot[HEADER_BYTES..].chunks_exact_mut(4);
        for (word, at) in body.zip(0..) {
            let seed = seeds[at % 8].rotate_left(at as u32 * 7);
            word.copy_from_slice(&(self.number(seed) as u32).to_le_bytes());
        }
        execute(vm, &slot);
    }

    /// Creates objects with correct parameters, except for one word.
    fn create(&self, vm: &mut Guest, kind: u8, word: u8, seed: u64) {
        use vrdma_driver::object::{QpShape, rights};
        use zerocopy::IntoBytes;
        if vm.driver_is_gone() {
            return;
        }
        let (context, pd) = (self.end.context, self.end.pd);
        let (code, mut body) = match kind % 4 {
            0 => (
                4,
                vm.mr_request(pd, &self.end.buffer, rights::ALL)
                    .0
                    .as_bytes()
                    .to_vec(),
            ),
            1 => (6, vm.cq_request(context, 64).0.as_bytes().to_vec()),
            2 => (17, vm.srq_request(pd, 16, 2).0.as_bytes().to_vec()),
            _ => {
                let cqs = (&self.end.send_cq, &self.end.recv_cq);
                (
                    9,
                    vm.qp_request(pd, cqs, None, QpShape::RC)
                        .0
                        .as_bytes()
                        .to_vec(),
                )
            }
        };
        let at = word as usize % (body.len() / 4) * 4;
        let value = self.number(seed) as u32;
        body[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let mut slot = [0; REQUEST_BYTES];
        slot[8] = code;
        slot[HEADER_BYTES..][..body.len()].copy_from_slice(&body);
        execute(vm, &slot);
    }

    fn request(&self, vm: &mut Guest, kind: u8, word: u8, seed: u64) {
        let end = if kind & 64 == 0 {
            &self.end
        } else {
            &self.kernel
        };
        let sge = end.sge(seed >> 32 & 0x3fff, (seed >> 16) as u32 & 0x3fff);
        let (addr, rkey) = if kind & 64 == 0 {
            self.target
        } else {
            self.kernel_target
        };
        let id = u64::from(word);
        let mut entry = match kind % 16 {
            0..3 => receive(id, &[sge]),
            3 | 4 => SendWork::send(id).sge(sge).encode(),
            5 | 6 => SendWork::write(id, addr, rkey).sge(sge).encode(),
            7 => SendWork::write(id, addr, rkey)
                .imm([kind; 4])
                .sge(sge)
                .solicited()
                .encode(),
            8 | 9 => SendWork::read(id, addr, rkey).sge(sge).encode(),
            10 => SendWork::fetch_add(id, addr + 5, rkey, seed)
                .sge(end.sge(0, 8))
                .encode(),
            11 => SendWork::compare_swap(id, addr + 5, rkey, 0, seed)
                .sge(end.sge(0, 8))
                .encode(),
            12 => SendWork::local_invalidate(id, self.number(seed) as u32).encode(),
            13 => SendWork::send(id).invalidating(rkey).sge(sge).encode(),
            14 => self.fast_register(id).encode(),
            _ => SendWork::send(id).sge(sge).unsignaled().encode(),
        };
        if seed.is_multiple_of(4) {
            let at = word as usize % (entry.len() / 4) * 4;
            entry[at..at + 4].copy_from_slice(&(self.number(seed) as u32).to_le_bytes());
        }
        let ring = match &end.qp.recv {
            Some(recv) if kind % 16 < 3 => recv,
            _ => &end.qp.send,
        };
        if ring.push(&vm.ram.view(), &entry).is_ok() {
            vm.ring_send(&end.qp);
            vm.ring_recv(&end.qp);
        }
    }

    fn fast_register(&self, id: u64) -> SendWork {
        let pages = &self.kernel.qp.directory;
        SendWork::fast_register(id, self.empty.rkey, pages, 0x1000, 4096, 15)
    }

    fn index(&self, vm: &mut Guest, which: u8, seed: u64) {
        let states = [
            self.end.qp.directory.pages[0],
            self.kernel.qp.directory.pages[0],
            self.end.send_cq.directory.pages[0],
            self.end.recv_cq.directory.pages[0],
        ];
        let at = states[which as usize % 4] + u64::from(which / 4 % 4) * 4;
        vm.ram.store(at, self.number(seed) as u32);
    }

    fn ring(&self, vm: &mut Guest, page: u8, doorbell: u8, seed: u64) {
        let doorbell = Doorbell::ALL[doorbell as usize % 3];
        let value = self.number(seed) as u32 | (seed as u32 >> 28) << 28;
        vm.ring(u32::from(page % 10).min(7), doorbell, value);
        vm.write_doorbell(u32::from(page % 10), doorbell, value);
    }

    fn map(&self, vm: &mut Guest, page: u8, how: u8) {
        let page = self.page(page);
        let protection = match how % 3 {
            0 => Protection::READ,
            _ => Protection::BOTH,
        };
        vm.isolate(page, protection).unwrap();
        if how % 3 == 1 {
            vm.dma().unmap(page, PAGE).unwrap();
        }
        vm.device.memory_changed();
    }

    fn live(&mut self, vm: &mut Guest, how: u8) {
        match how % 32 {
            0 => vm.device.reset(),
            1 => vm.set_bus_master(false),
            2..6 => vm.set_bus_master(true),
            6 => {
                vm.forget_driver();
                let _ = vm.probe();
            }
            _ => {}
        }
    }
}

fn configure(vm: &mut Guest, at: u8, value: u16) {
    let at = u64::from(at % 16);
    let now = Default::default();
    vm.device
        .write(BarRegion::Config, at, &value.to_le_bytes(), now);
}

fn execute(vm: &mut Guest, slot: &[u8; REQUEST_BYTES]) {
    if !vm.driver_is_gone() {
        vm.execute_raw(slot);
    }
}
