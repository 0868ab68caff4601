//! A cluster in one thread: adapters and switches on real RoCEv2 frames, a clock that only the run
//! moves, and a network that misbehaves by a seed.
//!
//! ```text
//!   seed ─► Plan ─► World ─┬─ owners post requests          (owner)
//!                          ├─ Cluster: Host, Adapter, Network (cluster, member, port, network)
//!                          └─ every completion is judged    (judge, finish) ─► Summary or Violation
//! ```
//!
//! One seed is one run, to the byte: `vrdma-sim --seed N --trace` shows it line by line. Whether the
//! checkers see anything at all is shown by breaking adapters on purpose ([`Sabotage`]).
#![forbid(unsafe_code)]

mod border;
mod build;
mod cluster;
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

use vrdma_verbs::Time;
use world::World;

/// What a run is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Which run.
    pub seed: u64,
    /// Keep a line for everything that happens, and every frame.
    pub trace: bool,
    /// Break every adapter.
    pub sabotage: Option<Sabotage>,
}

/// A run that is over.
#[derive(Debug)]
pub struct Report {
    /// What happened, or the first promise that was broken.
    pub outcome: Result<Summary, Violation>,
    /// When it was over, on the run's clock.
    pub ended: Time,
    /// The lines of a trace.
    pub trace: Vec<String>,
    /// The frames of a trace as they were sent, before anything befell them.
    pub frames: Vec<(Time, Vec<u8>)>,
}

/// Runs one seed to its end.
pub fn run(options: Options) -> Report {
    let Options {
        seed,
        trace,
        sabotage,
    } = options;
    let mut world = match World::new(seed, trace, sabotage) {
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
    let outcome = world.run().map(|()| Summary::of(&world));
    let ended = world.cluster.now;
    let (trace, frames) = world.cluster.log.take_trace().into_parts();
    Report {
        outcome,
        ended,
        trace,
        frames,
    }
}
