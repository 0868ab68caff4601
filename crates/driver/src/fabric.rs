//! Guests of one host, whose units the daemon's carrier moves from device to device.
//!
//! ```text
//!   pump ─► turn ─► Host::turn ─► DeviceMember ─► pvrdma::Device
//! ```

use std::cell::RefCell;
use std::io;
use std::ops::{Index, IndexMut};
use std::rc::Rc;
use std::time::Duration;

use vrdma_host::{Among, Attachment, Host, Marks};
use vrdma_pvrdma::DeviceConfig;
use vrdma_switch::{GroupId, PortId};
use vrdma_verbs::object::Identity;
use vrdma_wire::Mac;

use crate::clock::Clock;
use crate::guest::Guest;
use crate::member::{DeviceMember, Loses, NoUplink, Unit};

/// Most rounds of one pump: more than any test needs, so a livelock fails instead of hanging.
const ROUNDS_MAX: usize = 200_000;

/// The port group of all guests.
const GROUP: GroupId = GroupId(0);

/// Guests and the carrier between them.
pub struct Fabric {
    host: Host<DeviceMember, NoUplink>,
    guests: usize,
    clock: Clock,
    loses: Option<Loses>,
}

impl Default for Fabric {
    fn default() -> Self {
        Self::new()
    }
}

impl Index<usize> for Fabric {
    type Output = Guest;

    fn index(&self, guest: usize) -> &Guest {
        let member = self.host.member(port(guest));
        &member.expect("a guest of this fabric").guest
    }
}

impl IndexMut<usize> for Fabric {
    fn index_mut(&mut self, guest: usize) -> &mut Guest {
        &mut self.member(guest).guest
    }
}

fn port(guest: usize) -> PortId {
    PortId(guest as u32)
}

impl Fabric {
    /// A fabric without guests, which loses no units.
    pub fn new() -> Self {
        Self::with(Host::new(0), 0)
    }

    /// One of several shards; its guests are numbered from `first`, and those of other shards differently.
    pub fn among(among: Among, first: usize) -> Self {
        Self::with(Host::among(among, 0), first)
    }

    fn with(host: Host<DeviceMember, NoUplink>, guests: usize) -> Self {
        Self {
            host,
            guests,
            clock: Clock::default(),
            loses: None,
        }
    }

    /// Continues in another process after the one that carried and served the devices ended: `revive` puts another
    /// device into each guest. Units under way between them are lost.
    ///
    /// # Panics
    /// If a guest was lost with the carrier.
    pub fn reborn(mut self, mut revive: impl FnMut(usize, &mut Guest)) -> Self {
        let mut fabric = Self::new();
        fabric.clock = self.clock.clone();
        for number in 0..self.guests {
            let mut guest = self.take(number);
            revive(number, &mut guest);
            let added = fabric.attach(guest);
            added.expect("the same guests fit");
        }
        fabric
    }

    /// Removes a guest, so that another carrier can serve its device.
    ///
    /// # Panics
    /// If there is no such guest.
    pub fn take(&mut self, guest: usize) -> Guest {
        let member = self.host.remove(port(guest));
        member.expect("a guest of this fabric").guest
    }

    /// The carrier, for callers that move its transfers to other shards.
    pub fn carrier(&mut self) -> &mut Host<DeviceMember, NoUplink> {
        &mut self.host
    }

    /// The clock of all guests.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A guest, touched so that the carrier looks at it.
    fn member(&mut self, guest: usize) -> &mut DeviceMember {
        let member = self.host.touch(port(guest), self.clock.now());
        member.expect("a guest of this fabric")
    }

    /// A different identity for each guest.
    pub fn identity(number: u8) -> Identity {
        Identity {
            mac: Mac([0x52, 0x54, 0, 0, 0, number]),
            seed: u64::from(number) << 32 | 0x5eed,
        }
    }

    /// Adds a guest with the usual device, probed, with its link-local GID bound at index 0.
    pub fn add(&mut self) -> usize {
        let identity = Self::identity(self.guests as u8 + 1);
        self.add_with(DeviceConfig::new(identity))
    }

    /// Like [`add`](Self::add), with another device.
    pub fn add_with(&mut self, config: DeviceConfig) -> usize {
        let guest = self.add_bare(config).expect("memory for a guest");
        self[guest].probe().expect("the device accepts the driver");
        self.bind(guest);
        guest
    }

    /// Adds a guest that has not probed its device.
    pub fn add_bare(&mut self, config: DeviceConfig) -> io::Result<usize> {
        self.attach(Guest::new(config, self.clock.clone())?)
    }

    fn attach(&mut self, guest: Guest) -> io::Result<usize> {
        let number = self.guests;
        let attachment = Attachment {
            port: port(number),
            group: GROUP,
            marks: Marks::default(),
            mac: guest.device.config().identity.mac,
        };
        let mut member = DeviceMember::new(guest);
        member.loses.clone_from(&self.loses);
        let added = self.host.add(attachment, member);
        added.map_err(io::Error::other)?;
        self.guests += 1;
        Ok(number)
    }

    /// Binds a guest's link-local GID at index 0.
    pub fn bind(&mut self, guest: usize) {
        let gid = self[guest].gid();
        let bound = self[guest].bind_gid(0, gid);
        bound.expect("an empty table takes a GID");
    }

    /// Loses the units for which `loses` is true.
    pub fn lose(&mut self, loses: impl FnMut(Unit<'_>) -> bool + 'static) {
        let loses: Loses = Rc::new(RefCell::new(loses));
        for guest in 0..self.guests {
            self.member(guest).loses = Some(Rc::clone(&loses));
        }
        self.loses = Some(loses);
    }

    /// Moves units until nothing is left to do at this instant.
    ///
    /// # Panics
    /// If there is always something left.
    pub fn pump(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if !self.turn() {
                return self.handle_interrupts();
            }
        }
        panic!("the devices never come to rest");
    }

    /// Runs the handlers of the guests that were interrupted.
    fn handle_interrupts(&mut self) {
        for guest in 0..self.guests {
            if self[guest].is_interrupted() {
                self[guest].handle_interrupts();
            }
        }
    }

    /// Lets time pass, and does everything that is due meanwhile.
    pub fn pass(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        self.pump();
        loop {
            let next = self.host.next_deadline().filter(|next| *next <= end);
            self.clock.reach(next.unwrap_or(end));
            self.pump();
            if next.is_none() {
                return;
            }
        }
    }

    /// Runs one turn of the carrier; true if anything was done.
    pub fn turn(&mut self) -> bool {
        let now = self.clock.now();
        (0..self.guests).for_each(|guest| self.host.follow_gids(port(guest), now));
        let worked = self.host.turn(now);
        // No guest needs to hear of another MTU than the one that its device began with.
        while self.host.poll_event().is_some() {}
        worked
    }

    /// Runs one turn in which one device sends at most one request, and no other sends any; true if anything was done.
    pub fn step(&mut self, from: usize) -> bool {
        for guest in 0..self.guests {
            self.member(guest).requests_left = Some(u32::from(guest == from));
        }
        let worked = self.turn();
        (0..self.guests).for_each(|guest| self.member(guest).requests_left = None);
        worked
    }
}
