//! The process socket, used by a program that breaks all rules: any requests with descriptors of all kinds, any bytes
//! in the rings of a working queue pair, any bits in the doorbell page.
//!
//! ```text
//!   script ── packets, descriptors ──► Sessions ──► two adapters, and what carries units between them
//!         └── rings, doorbells ──────────────────────┘
//! ```
//! The program is this process, so it registers only memory in an arena, or where nothing is ever mapped: everything
//! else would be memory of the fuzzer. When all sessions are gone, the adapters have no objects left.

mod arena;
mod client;
mod host;
pub mod kept;
mod parts;

use client::Client;
use host::World;

use crate::input::Input;

/// Sessions of the script: the first two are connected to each other.
const CLIENTS: usize = 2;

fn clients(world: &mut World) -> Vec<Client> {
    let clients = (0..CLIENTS as u8).filter_map(|number| Client::open(world, number));
    clients.collect()
}

/// Runs an input as a script.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut world = World::new();
    let mut clients = clients(&mut world);
    client::connect(&mut world, &mut clients);
    while !input.is_empty() {
        let at = input.below(CLIENTS);
        clients[at].act(&mut world, &mut input);
        world.carry();
    }
    for client in clients {
        client.close(&mut world);
    }
    world.check_empty();
}
