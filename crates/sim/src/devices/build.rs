//! Makes the parts of a seed's run: hosts, their guests, connected programs, journeys.

use std::time::Duration;

use fastrand::Rng;
use vrdma_driver::object::{Connection, QpShape, rights};
use vrdma_driver::{Clock, DeviceMember, Fabric, Guest};
use vrdma_pvrdma::DeviceConfig;
use vrdma_switch::{GroupId, PortId};
use vrdma_uplink::{FaultSpec, Probability};
use vrdma_verbs::Time;

use super::Devices;
use super::crashes::Crashes;
use super::journey::Journey;
use super::program::{BUFFER_BYTES, Objects, Program, Role, source_seed};
use crate::Journeys;
use crate::cluster::{Cluster, Endpoint};
use crate::log::Log;
use crate::network::Network;
use crate::plan::{Weather, link, uplinks};
use crate::stranger::Stranger;
use crate::trace::Trace;
use crate::violation::Violation;

const MILLISECOND: u64 = 1_000_000;

/// Offset of a program's buffer in its first page: aligned for atomics, but not for pages.
const BUFFER_OFFSET: u64 = 0x128;

const CQ_ENTRIES: u32 = 64;

/// Time-out exponent and retries of connections whose peers are away for long: three times 17 ms, up to four times as
/// long where round trips are long.
const IMPATIENT: (u8, u8) = (12, 2);

impl Devices {
    pub(crate) fn new(seed: u64, trace: bool, kind: Journeys) -> Result<Self, Violation> {
        let mut random = Rng::with_seed(seed);
        let weather = [Weather::Fine, Weather::Mild][random.usize(..2)];
        let mut hosts = random.usize(1..=3);
        if kind != Journeys::Short {
            hosts = hosts.max(2);
        }
        let guests = random.usize(2..=4);
        let uplinks = uplinks(&mut random, weather, hosts);
        let mut links = link(&mut random, weather);
        if kind != Journeys::Short {
            links.notices = Some(troubles(seed));
        }
        let network = Network::new(hosts, uplinks.kinds.len(), links);
        let hostility = random.u32(..100) * u32::from(random.bool());
        let stranger = Stranger::new(random.u64(..), hostility);
        let log = Log::new(Trace::new(trace));
        let mut devices = Self {
            cluster: Cluster::new(hosts, uplinks, network, stranger, log),
            hosts,
            clock: Clock::default(),
            programs: Vec::new(),
            turns: Vec::new(),
            pause_ns: random.u64(1000..300_000),
            journeys: match kind {
                Journeys::Short => journeys(&mut random, hosts, guests).into(),
                Journeys::Long | Journeys::LongUntold => long_journeys(seed, hosts, guests).into(),
            },
            kind,
            stops: (0..guests).map(|_| None).collect(),
            moves: 0,
            thaws: 0,
            moments: 0,
            progress: (Time(0), 0),
            crashes: Crashes::of(seed, hosts),
            random,
        };
        if kind != Journeys::Short {
            // A process that follows another does not know which peers stand still.
            devices.crashes.spare_all();
        }
        for number in 0..guests {
            devices.add_guest(number)?;
        }
        for _ in 0..devices.random.usize(1..=4) {
            devices.connect(guests)?;
        }
        Ok(devices)
    }

    /// Adds a guest: every host has its adapter, and all but one of these are away.
    fn add_guest(&mut self, number: usize) -> Result<(), Violation> {
        let identity = Fabric::identity(number as u8 + 1);
        let config = DeviceConfig::new(identity);
        let home = self.random.usize(..self.hosts);
        let gid = vrdma_wire::Gid::link_local(identity.mac);
        let place = Endpoint {
            host: home,
            port: PortId(number as u32),
            group: GroupId(0),
            mac: identity.mac,
            gids: [gid; 2],
        };
        self.cluster.places.push(place);
        for host in 0..self.hosts {
            let guest = Guest::new(config, self.clock.clone()).map_err(Violation::from_error)?;
            self.cluster.attach(place, host, DeviceMember::new(guest))?;
            let is_away = host != home;
            let now = self.cluster.now;
            self.cluster
                .carrier(host)
                .set_away(place.port, is_away, now);
        }
        let guest = self.guest(number);
        guest.probe().map_err(Violation::from_error)?;
        guest.bind_gid(0, gid).map_err(Violation::from_error)?;
        let now = self.cluster.now;
        self.cluster.carrier(home).follow_gids(place.port, now);
        Ok(())
    }

    fn connect(&mut self, guests: usize) -> Result<(), Violation> {
        let first = self.random.usize(..guests);
        let second = (first + self.random.usize(1..guests)) % guests;
        let number = self.programs.len();
        for (side, guest) in [first, second].into_iter().enumerate() {
            let quota = self.random.usize(1..=80);
            let program = self.program(Role {
                number: number + side,
                peer: number + 1 - side,
                guest,
                quota,
            });
            let program = program.map_err(Violation::from_error)?;
            self.programs.push(program);
            let first_turn = Time(self.random.u64(..self.pause_ns));
            self.turns.push(Some(first_turn));
        }
        let mtu = self.random.u32(1..=3);
        for (end, peer) in [(number, number + 1), (number + 1, number)] {
            let peer = &self.programs[peer];
            let gid = self.cluster.places[peer.guest].gids[0];
            let mut connection = Connection {
                mtu,
                ..Connection::to(peer.qp.qpn, gid)
            };
            if self.kind != Journeys::Short {
                (connection.timeout, connection.retries) = IMPATIENT;
            }
            let (guest, qp) = (self.programs[end].guest, self.programs[end].qp.clone());
            let connected = self.guest(guest).connect(&qp, &connection);
            connected.map_err(Violation::from_error)?;
        }
        Ok(())
    }

    fn program(&mut self, role: Role) -> Result<Program, vrdma_driver::CommandError> {
        let vm = self.guest(role.guest);
        let context = vm.open()?;
        let pd = vm.create_pd(context)?;
        let send_cq = vm.create_cq(context, CQ_ENTRIES)?;
        let recv_cq = vm.create_cq(context, CQ_ENTRIES)?;
        let qp = vm.create_qp(pd, (&send_cq, &recv_cq), None, QpShape::RC)?;
        let buffer = vm.buffer_at(BUFFER_OFFSET, BUFFER_BYTES);
        let mr = vm.register(pd, &buffer, rights::ALL)?;
        buffer.fill(&vm.ram, source_seed(role.number));
        let program = Program::new(
            role,
            Objects {
                qp,
                send_cq,
                recv_cq,
                buffer,
                mr,
            },
        );
        program.clear_word(&vm.ram);
        Ok(program)
    }
}

/// Returns the faults for notices: enough that many are lost, but rarely all that say the same.
fn troubles(seed: u64) -> FaultSpec {
    FaultSpec {
        loss: Probability::per_million(50_000),
        corrupt: Probability::per_million(20_000),
        duplicate: Probability::per_million(200_000),
        reorder: Probability::per_million(200_000),
        delay_ns: 0,
        jitter_ns: 5 * MILLISECOND,
        seed,
    }
}

fn journeys(random: &mut Rng, hosts: usize, guests: usize) -> Vec<(Time, Journey)> {
    let mut all: Vec<_> = (0..random.usize(..6))
        .map(|_| {
            let journey = Journey {
                guest: random.usize(..guests),
                to: random.usize(..hosts),
                pause_ns: random.u64(..20 * MILLISECOND) / random.u64(1..100),
                aborts: random.u8(..4) == 0,
            };
            let at = Time(0) + Duration::from_nanos(random.u64(..5 * MILLISECOND));
            (at, journey)
        })
        .collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

/// Makes several journeys for each guest, one after the other, with time to work between them. They take longer than
/// the connections wait, which are [`IMPATIENT`].
fn long_journeys(seed: u64, hosts: usize, guests: usize) -> Vec<(Time, Journey)> {
    let mut random = Rng::with_seed(seed ^ 0xa7a7);
    let mut all = Vec::new();
    for guest in 0..guests {
        let mut at = 0;
        for _ in 0..random.usize(..4) {
            at += random.u64(..2 * MILLISECOND);
            let journey = Journey {
                guest,
                to: random.usize(..hosts),
                pause_ns: random.u64(300 * MILLISECOND..900 * MILLISECOND),
                aborts: random.u8(..4) == 0,
            };
            all.push((Time(at), journey));
            at += journey.pause_ns;
        }
    }
    all.sort_by_key(|(at, _)| *at);
    all
}
