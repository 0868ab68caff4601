//! Several guests in one process, and what the daemon's shard does between their devices.
//!
//! ```text
//!   poll ─► next_request ─► route by destination GID ─► deliver ─► response ─► respond
//! ```

use std::collections::HashMap;
use std::io;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

use vrdma_adapter::GidChange;
use vrdma_memory::Region;
use vrdma_pvrdma::DeviceConfig;
use vrdma_verbs::object::Identity;
use vrdma_verbs::unit::{Request, Response};
use vrdma_verbs::{Pace, Source};
use vrdma_wire::{Gid, Mac};

use crate::clock::Clock;
use crate::guest::Guest;

/// Rounds of one pump: more than any test needs, so a livelock fails instead of hanging.
const ROUNDS_MAX: usize = 200_000;

/// What is under way between two devices.
#[derive(Clone, Copy, Debug)]
pub enum Unit<'a> {
    /// To the responder.
    Request(&'a Request<Region>),
    /// Back to the requester.
    Response(&'a Response<Region>),
}

type Loses = Box<dyn FnMut(Unit<'_>) -> bool>;

/// Guests and the paths between them.
pub struct Fabric {
    guests: Vec<Guest>,
    clock: Clock,
    gids: HashMap<Gid, usize>,
    loses: Loses,
}

impl Default for Fabric {
    fn default() -> Self {
        Self::new()
    }
}

impl Index<usize> for Fabric {
    type Output = Guest;

    fn index(&self, guest: usize) -> &Guest {
        &self.guests[guest]
    }
}

impl IndexMut<usize> for Fabric {
    fn index_mut(&mut self, guest: usize) -> &mut Guest {
        &mut self.guests[guest]
    }
}

impl Fabric {
    /// Without guests, losing nothing.
    pub fn new() -> Self {
        Self {
            guests: Vec::new(),
            clock: Clock::default(),
            gids: HashMap::new(),
            loses: Box::new(|_| false),
        }
    }

    /// The clock of all guests.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Two guests at once.
    ///
    /// # Panics
    /// When they are the same.
    pub fn both(&mut self, a: usize, b: usize) -> [&mut Guest; 2] {
        let guests = self.guests.get_disjoint_mut([a, b]);
        guests.expect("two guests of this fabric")
    }

    /// An identity that differs from guest to guest.
    pub fn identity(number: u8) -> Identity {
        Identity {
            mac: Mac([0x52, 0x54, 0, 0, 0, number]),
            seed: u64::from(number) << 32 | 0x5eed,
        }
    }

    /// Adds a guest with the usual device, probed, with its link-local GID bound at index 0.
    pub fn add(&mut self) -> usize {
        let identity = Self::identity(self.guests.len() as u8 + 1);
        self.add_with(DeviceConfig::new(identity))
    }

    /// The same with another device.
    pub fn add_with(&mut self, config: DeviceConfig) -> usize {
        let guest = self.add_bare(config).expect("memory for a guest");
        self[guest].probe().expect("the device accepts the driver");
        self.bind(guest);
        guest
    }

    /// Adds a guest that has not probed its device.
    pub fn add_bare(&mut self, config: DeviceConfig) -> io::Result<usize> {
        self.guests.push(Guest::new(config, self.clock.clone())?);
        Ok(self.guests.len() - 1)
    }

    /// Binds a guest's link-local GID at index 0.
    pub fn bind(&mut self, guest: usize) {
        let gid = self[guest].gid();
        let bound = self[guest].bind_gid(0, gid);
        bound.expect("an empty table takes a GID");
    }

    /// Units for which `loses` is true disappear.
    pub fn lose(&mut self, loses: impl FnMut(Unit<'_>) -> bool + 'static) {
        self.loses = Box::new(loses);
    }

    /// Moves everything until nothing is left to do at this instant.
    ///
    /// # Panics
    /// If that never happens.
    pub fn pump(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let mut busy = false;
            for guest in 0..self.guests.len() {
                busy |= self.step(guest);
            }
            if !busy {
                self.guests.iter_mut().for_each(Guest::handle_interrupts);
                return;
            }
        }
        panic!("the devices never come to rest");
    }

    /// Lets time pass, with everything that is due on the way.
    pub fn pass(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        self.pump();
        loop {
            let deadlines = self
                .guests
                .iter()
                .filter_map(|guest| guest.device.next_deadline());
            let next = deadlines.min().filter(|next| *next <= end);
            self.clock.reach(next.unwrap_or(end));
            self.pump();
            if next.is_none() {
                return;
            }
        }
    }

    /// One turn of one device, with at most one request carried; true if anything was done.
    pub fn step(&mut self, from: usize) -> bool {
        self.take_gid_changes(from);
        let now = self.clock.now();
        let space = Arc::clone(self[from].dma());
        let view = space.view();
        let busy = self[from].device.poll(&view, now);
        let Some(request) = self[from].device.next_request(&view, now, &mut Pace::Local) else {
            return busy || self[from].device.activity().runnable;
        };
        self.carry(from, &request);
        true
    }

    fn take_gid_changes(&mut self, guest: usize) {
        while let Some(change) = self.guests[guest].device.take_gid_change() {
            match change {
                GidChange::Bound(gid) => drop(self.gids.insert(gid, guest)),
                GidChange::Unbound(gid) => drop(self.gids.remove(&gid)),
                GidChange::Cleared => self.gids.retain(|_, owner| *owner != guest),
            }
        }
    }

    /// Delivers a request and takes the answer back, unless one of them is lost.
    fn carry(&mut self, from: usize, request: &Request<Region>) {
        let Some(to) = self.destination(request) else {
            return;
        };
        let now = self.clock.now();
        let spaces = [from, to].map(|guest| Arc::clone(self[guest].dma()));
        let [source, target] = [spaces[0].view(), spaces[1].view()];
        if (self.loses)(Unit::Request(request)) {
            return;
        }
        let responder = &mut self.guests[to].device;
        let response = responder.deliver(&target, request, Source::Memory(&source), now);
        if let Some(response) = response
            && !(self.loses)(Unit::Response(&response))
        {
            let requester = &mut self.guests[from].device;
            requester.respond(&source, &response, Source::Memory(&target), now);
        }
    }

    fn destination(&mut self, request: &Request<Region>) -> Option<usize> {
        for guest in 0..self.guests.len() {
            self.take_gid_changes(guest);
        }
        self.gids.get(&request.route.dgid).copied()
    }
}
