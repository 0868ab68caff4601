//! A cluster in one thread: adapters and switches on real RoCEv2 frames, a clock that only the run moves, and a network
//! that misbehaves as the seed says.
//!
//! ```text
//!   seed ─► Plan ─► World ─┬─ owners post requests          (owner)
//!                          ├─ Cluster: Host, Adapter, Network (cluster, member, port, network)
//!                          └─ every completion is judged    (judge, finish) ─► Summary or Violation
//! ```
//!
//! One seed is one run, exact to the byte: `vrdma-sim --seed N --trace` shows it line by line. Adapters that are broken
//! on purpose show whether the checkers see anything at all ([`Sabotage`]).
//!
//! Other kinds of runs have PVRDMA devices of guests as adapters, which go to other hosts while they work (`devices`),
//! or adapters that want more than they can get, each with a weight, a limit or a guarantee (`crowd`).
#![forbid(unsafe_code)]

mod border;
mod build;
mod cluster;
mod crowd;
mod devices;
mod end;
mod finish;
mod judge;
mod log;
mod member;
mod memory;
mod network;
mod owner;
mod plan;
mod port;
mod stranger;
mod summary;
mod trace;
mod violation;
mod world;

pub use border::Sabotage;
pub use summary::Summary;
pub use violation::Violation;

use crowd::Crowd;
use devices::Devices;
use log::Log;
use vrdma_verbs::Time;
use world::World;

/// The subject of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Messages arrive whole and once, whatever happens to networks and hosts.
    #[default]
    Engines,
    /// Adapters are PVRDMA devices of guests that go to other hosts.
    Devices,
    /// Adapters share a host by weights, limits and guarantees.
    Crowds,
}

/// The settings of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The number that the whole run follows from.
    pub seed: u64,
    /// Keep a line for everything that happens, and every frame.
    pub trace: bool,
    /// The kind of the run.
    pub kind: Kind,
    /// How long guests of devices are away.
    pub journeys: Journeys,
    /// Break every adapter, in runs of the kind that notices it.
    pub sabotage: Option<Sabotage>,
}

/// How long guests are away, and whether their peers are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Journeys {
    /// At most as long as any connection waits. Peers are told, too.
    #[default]
    Short,
    /// Longer than connections wait that are not told. Notices are lost, delayed and duplicated more than other frames.
    Long,
    /// As long as that, and peers are not told.
    LongUntold,
}

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// What happened, or the first violation of a promise.
    pub outcome: Result<Summary, Violation>,
    /// When the run was over, on its own clock.
    pub ended: Time,
    /// The lines of a trace.
    pub trace: Vec<String>,
    /// The frames of a trace as they were sent, before any fault changed them.
    pub frames: Vec<(Time, Vec<u8>)>,
}

/// Runs one seed to its end.
pub fn run(options: Options) -> Report {
    let Options {
        seed,
        trace,
        kind,
        journeys,
        sabotage,
    } = options;
    match kind {
        Kind::Engines => {
            let world = World::new(seed, trace, sabotage);
            let run = |world: &mut World| world.run().map(|()| Summary::of(world));
            report(world, run, |world| (world.cluster.now, &world.cluster.log))
        }
        Kind::Devices => {
            let world = Devices::new(seed, trace, journeys);
            report(world, Devices::run, |world| {
                (world.cluster.now, &world.cluster.log)
            })
        }
        Kind::Crowds => {
            let world = Crowd::new(seed, trace, sabotage);
            report(world, Crowd::run, |world| {
                (world.cluster.now, &world.cluster.log)
            })
        }
    }
}

fn report<W>(
    world: Result<W, Violation>,
    run: impl FnOnce(&mut W) -> Result<Summary, Violation>,
    end: impl FnOnce(&W) -> (Time, &Log),
) -> Report {
    let mut world = match world {
        Ok(world) => world,
        Err(violation) => {
            return Report {
                outcome: Err(violation),
                ended: Time(0),
                trace: Vec::new(),
                frames: Vec::new(),
            };
        }
    };
    let outcome = run(&mut world);
    let (ended, log) = end(&world);
    let (trace, frames) = log.take_trace().into_parts();
    Report {
        outcome,
        ended,
        trace,
        frames,
    }
}
