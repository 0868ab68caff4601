//! The plan of a seed: hosts, adapters, links, connections, and what happens to them.

use fastrand::Rng;
use vrdma_switch::GroupId;
use vrdma_uplink::{FaultSpec, Probability};
use vrdma_verbs::Time;
use vrdma_verbs::object::QpType;
use vrdma_wire::{Mtu, Psn};

use crate::network::LinkPlan;

/// How bad the network is, which decides what may fail. Adapters move in every weather.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weather {
    /// Frames are late, doubled and out of order, but none is lost: no reliable connection may fail.
    Fine,
    /// At most one frame in a hundred is lost: seven retries in vain do not happen.
    Mild,
    /// Anything happens, links are down for a while and queue pairs are given up: a connection may give up.
    Rough,
}

/// A change in the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Upheaval {
    /// An adapter moves to a host.
    Migrate { adapter: usize, host: usize },
    /// The owner takes a queue pair to ERR.
    Abort { end: usize },
}

/// Both ends of a connection, or two datagram queue pairs that write to each other.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionPlan {
    pub(crate) kind: QpType,
    pub(crate) adapters: [usize; 2],
    pub(crate) mtu: Mtu,
    pub(crate) psns: [Psn; 2],
    pub(crate) timeout: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) rd_atomic: u8,
    pub(crate) shared_receives: [bool; 2],
    pub(crate) signal_all: [bool; 2],
    /// Requests that each end posts.
    pub(crate) quotas: [usize; 2],
    /// Receives that each end keeps posted.
    pub(crate) depths: [usize; 2],
}

/// The uplinks of every host.
#[derive(Clone, Debug)]
pub(crate) struct UplinkPlan {
    /// Whether each of them is a tunnel.
    pub(crate) kinds: Vec<bool>,
    full: Vec<Full>,
}

/// A time during which an uplink takes nothing.
#[derive(Clone, Copy, Debug)]
struct Full {
    host: usize,
    uplink: usize,
    from: Time,
    to: Time,
}

impl UplinkPlan {
    /// Makes the plan of a host that reaches no other one.
    pub(crate) fn none() -> Self {
        Self {
            kinds: Vec::new(),
            full: Vec::new(),
        }
    }

    /// Whether an uplink of a host takes nothing at this time.
    pub(crate) fn is_full(&self, host: usize, uplink: usize, now: Time) -> bool {
        let mut full = self.full.iter();
        full.any(|full| {
            (full.host, full.uplink) == (host, uplink) && (full.from..full.to).contains(&now)
        })
    }

    /// When an uplink becomes full next, or takes frames again.
    pub(crate) fn next_change(&self, now: Time) -> Option<Time> {
        let changes = self.full.iter().flat_map(|full| [full.from, full.to]);
        changes.filter(|at| *at > now).min()
    }
}

pub(crate) struct Plan {
    pub(crate) weather: Weather,
    pub(crate) hosts: usize,
    /// Host and group of each adapter.
    pub(crate) adapters: Vec<(usize, GroupId)>,
    pub(crate) link: LinkPlan,
    pub(crate) uplinks: UplinkPlan,
    pub(crate) connections: Vec<ConnectionPlan>,
    pub(crate) upheavals: Vec<(Time, Upheaval)>,
    /// Frames that a stranger sends for each thousand that pass.
    pub(crate) hostility: u32,
    /// Mean time between two turns of an owner.
    pub(crate) pause_ns: u64,
}

const MILLISECOND: u64 = 1_000_000;

impl Plan {
    pub(crate) fn of(random: &mut Rng) -> Self {
        let weather = [Weather::Fine, Weather::Mild, Weather::Rough][random.usize(..3)];
        let hosts = random.usize(1..=3);
        let groups = random.u32(1..=2);
        let mut adapters = Vec::new();
        for group in 0..groups {
            for _ in 0..random.usize(2..=3) {
                adapters.push((random.usize(..hosts), GroupId(group)));
            }
        }
        let connections = (0..random.usize(1..=4))
            .map(|_| connection(random, &adapters, weather))
            .collect::<Vec<_>>();
        let upheavals = upheavals(random, weather, hosts, adapters.len(), connections.len());
        Self {
            weather,
            hosts,
            link: link(random, weather),
            uplinks: uplinks(random, weather, hosts),
            adapters,
            connections,
            upheavals,
            hostility: random.u32(..300) * u32::from(random.bool()),
            pause_ns: random.u64(1000..200_000),
        }
    }
}

fn connection(random: &mut Rng, adapters: &[(usize, GroupId)], weather: Weather) -> ConnectionPlan {
    let first = random.usize(..adapters.len());
    let others: Vec<_> = (0..adapters.len())
        .filter(|&other| other != first && adapters[other].1 == adapters[first].1)
        .collect();
    let second = others[random.usize(..others.len())];
    let mut twice = |one: fn(&mut Rng) -> usize| [one(random), one(random)];
    let quotas = twice(|random| random.usize(1..=40));
    let depths = twice(|random| random.usize(1..=16));
    let timeout = match weather {
        Weather::Fine | Weather::Mild => random.u8(13..=15),
        Weather::Rough => random.u8(8..=14),
    };
    ConnectionPlan {
        kind: [QpType::Rc, QpType::Rc, QpType::Rc, QpType::Uc, QpType::Ud][random.usize(..5)],
        adapters: [first, second],
        mtu: Mtu::from_code(random.u32(1..=5)).unwrap_or_default(),
        psns: [(); 2].map(|()| first_psn(random)),
        timeout,
        rnr_retry: if random.u8(..4) == 0 {
            random.u8(0..7)
        } else {
            7
        },
        rd_atomic: random.u8(1..=8),
        shared_receives: [(); 2].map(|()| random.u8(..4) == 0),
        signal_all: [(); 2].map(|()| random.bool()),
        quotas,
        depths,
    }
}

/// Chooses a first PSN, often near the end of the number space.
fn first_psn(random: &mut Rng) -> Psn {
    let start = if random.bool() {
        0xff_ffe0
    } else {
        random.u32(..1 << 24)
    };
    Psn::new(start + random.u32(..32))
}

pub(crate) fn link(random: &mut Rng, weather: Weather) -> LinkPlan {
    let mut share = |most: u32| match random.bool() {
        true => Probability::per_million(random.u32(..=most)),
        false => Probability::default(),
    };
    let (loss, corrupt) = match weather {
        Weather::Fine => (0, 0),
        Weather::Mild => (7000, 3000),
        Weather::Rough => (200_000, 50_000),
    };
    let faults = FaultSpec {
        loss: share(loss),
        corrupt: share(corrupt),
        duplicate: share(50_000),
        reorder: share(50_000),
        delay_ns: random.u64(..200_000) * u64::from(random.bool()),
        jitter_ns: random.u64(..200_000) * u64::from(random.bool()),
        seed: random.u64(..),
    };
    let rough = weather == Weather::Rough;
    LinkPlan {
        faults,
        latency_ns: random.u64(500..50_000),
        ns_per_kilobyte: [0, 80, 800, 8000][random.usize(..4)],
        queue_ns: if rough {
            random.u64(20_000..MILLISECOND)
        } else {
            100 * MILLISECOND
        },
        down: if rough { flaps(random) } else { Vec::new() },
        notices: None,
    }
}

/// Makes one uplink or two, and times when they are full. These are so short that no connection gives up while it
/// waits, except in rough weather.
pub(crate) fn uplinks(random: &mut Rng, weather: Weather, hosts: usize) -> UplinkPlan {
    let kinds: Vec<_> = (0..random.usize(1..=2)).map(|_| random.bool()).collect();
    let longest = match weather {
        Weather::Fine | Weather::Mild => 20 * MILLISECOND,
        Weather::Rough => 2000 * MILLISECOND,
    };
    let full = (0..random.usize(..4)).map(|_| {
        let from = random.u64(..10 * MILLISECOND);
        Full {
            host: random.usize(..hosts),
            uplink: random.usize(..kinds.len()),
            from: Time(from),
            to: Time(from + random.u64(..longest)),
        }
    });
    UplinkPlan {
        full: full.collect(),
        kinds,
    }
}

/// Makes times when links are down: from blinks to longer than most retries last.
fn flaps(random: &mut Rng) -> Vec<(Time, Time)> {
    let longest = [MILLISECOND, 30 * MILLISECOND, 500 * MILLISECOND][random.usize(..3)];
    let flap = |random: &mut Rng| {
        let start = random.u64(..20 * MILLISECOND);
        (Time(start), Time(start + random.u64(..longest)))
    };
    (0..random.usize(..3)).map(|_| flap(random)).collect()
}

fn upheavals(
    random: &mut Rng,
    weather: Weather,
    hosts: usize,
    adapters: usize,
    connections: usize,
) -> Vec<(Time, Upheaval)> {
    let mut all: Vec<_> = (0..random.usize(..4))
        .map(|_| {
            let upheaval = if weather == Weather::Rough && random.u8(..4) == 0 {
                Upheaval::Abort {
                    end: random.usize(..2 * connections),
                }
            } else {
                Upheaval::Migrate {
                    adapter: random.usize(..adapters),
                    host: random.usize(..hosts),
                }
            };
            (Time(random.u64(..10 * MILLISECOND)), upheaval)
        })
        .collect();
    all.sort_by_key(|(at, _)| *at);
    all
}
