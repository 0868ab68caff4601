//! A guest that does anything: the device never panics, never hangs, and never touches another guest.
//!
//! ```text
//!   villain ── a connection, datagrams ──► victim ◄── a connection ──► witness
//! ```
//!
//! The villain changes registers, commands, rings, requests, doorbells, page directories and its memory map. Afterwards
//! the connection between victim and witness must still work, memory of the victim that it never shared must be
//! unchanged, and the villain's device must work again after a reset.

mod villain;

use std::time::Duration;

use vrdma_driver::object::{Buffer, pattern, rights};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Fabric, Pair, PairOptions};
use vrdma_memory::Protection;
use vrdma_pvrdma::{DeviceConfig, DeviceState};

use crate::input::Input;
use villain::Villain;

const SECRET_BYTES: usize = 20_000;

/// Most restarts of the villain within one test: the victim's tables hold its connections.
const LIVES: usize = 4;

struct World {
    pair: Pair,
    villain: Villain,
    secret: Buffer,
}

fn world(maps_doorbells: bool) -> World {
    let mut fabric = Fabric::new();
    for number in 1..4 {
        let mut config = DeviceConfig::new(Fabric::identity(number));
        config.maps_doorbells = maps_doorbells;
        // Tables are small, so that random numbers hit entries.
        let limits = &mut config.limits;
        (limits.uar_pages, limits.qps, limits.cqs, limits.srqs) = (8, 32, 32, 8);
        (limits.mrs, limits.pds, limits.gids) = (64, 32, 8);
        fabric.add_with(config);
    }
    let (fabric, villain) = villain(fabric);
    let mut pair = Pair::between(fabric, (1, 2), PairOptions::default());
    let secret = hide_secret(&mut pair);
    World {
        pair,
        villain,
        secret,
    }
}

/// Makes a villain with two new connections to the victim.
fn villain(fabric: Fabric) -> (Fabric, Villain) {
    let kernel = PairOptions {
        kernel: true,
        ..PairOptions::default()
    };
    let program = Pair::between(fabric, (0, 1), PairOptions::default());
    let mut kernel = Pair::between(program.fabric, (0, 1), kernel);
    let vm = &mut kernel.fabric[0];
    let villain = Villain::new(vm, (program.a, &program.b), (kernel.a, &kernel.b));
    (kernel.fabric, villain)
}

/// Registers memory of the victim, but not in the domain that the villain can reach.
fn hide_secret(pair: &mut Pair) -> Buffer {
    let vm = &mut pair.fabric[1];
    let buffer = vm.buffer(SECRET_BYTES as u64);
    vm.register(pair.a.pd, &buffer, rights::ALL).unwrap();
    buffer.write(&vm.ram, 0, &pattern(99, SECRET_BYTES));
    buffer
}

impl World {
    fn check(&mut self) {
        let read = self.secret.read(&self.pair.fabric[1].ram, 0, SECRET_BYTES);
        assert!(
            read == pattern(99, SECRET_BYTES),
            "the secret was written to"
        );
        self.pair.sent();
        self.pair.received();
        for id in 0..4 {
            self.pair.receive(id, 0, 4096);
            self.pair
                .send(&SendWork::send(id).sge(self.pair.a.sge(id, 4096)));
            self.pair.fabric.pass(Duration::from_millis(1));
            assert_eq!(self.pair.sent().last().unwrap().status, 0);
            assert_eq!(self.pair.received().last().unwrap().status, 0);
            assert_eq!(
                self.pair.bytes_of_b(0, 4096),
                self.pair.bytes_of_a(id, 4096)
            );
        }
        self.villain_reforms();
    }

    /// In any state of the device, a reset and a new driver make it work.
    fn villain_reforms(&mut self) {
        let vm = &mut self.pair.fabric[0];
        vm.forget_driver();
        vm.device.reset();
        let page = vm.ram.take();
        vm.isolate(page, Protection::BOTH).unwrap();
        vm.interrupts.blocked = false;
        vm.probe().unwrap();
        self.pair.fabric.bind(0);
        let fabric = std::mem::take(&mut self.pair.fabric);
        (self.pair.fabric, self.villain) = villain(fabric);
        assert_eq!(self.pair.fabric[0].device.snapshot().counts.qps, 2);
    }
}

/// Runs an input as a script of actions; its first byte selects how doorbells come.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut world = world(input.is_odd());
    let mut at = 0;
    while !input.is_empty() {
        world.villain.act(&mut world.pair.fabric, &mut input);
        let state = world.pair.fabric[0].device.snapshot().state;
        if at % 32 == 31 && at < 32 * LIVES && state != DeviceState::Active {
            world.villain_reforms();
        }
        at += 1;
    }
    world.pair.fabric.pass(Duration::from_millis(100));
    world.check();
}
