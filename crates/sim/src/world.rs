//! A run: the cluster of a plan, owners that post work, and time.

use std::collections::{HashMap, VecDeque};

use fastrand::Rng;
use vrdma_verbs::Time;
use vrdma_verbs::object::{QpId, SrqId};

use crate::border::Sabotage;
use crate::build::Common;
use crate::cluster::Cluster;
use crate::end::{End, Pool};
use crate::log::Log;
use crate::network::Network;
use crate::plan::{Plan, Upheaval};
use crate::stranger::Stranger;
use crate::trace::Trace;
use crate::violation::{Violation, check};

/// Something completes within this many nanoseconds, or never: it is five times as long as the longest retries take.
const SILENCE_MAX: u64 = 5_000_000_000;

pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) cluster: Cluster,
    pub(crate) ends: Vec<End>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) srqs: HashMap<usize, SrqId>,
    pub(crate) ends_by_qp: HashMap<(usize, QpId), usize>,
    pub(crate) random: Rng,
    /// When each end's owner looks again.
    pub(crate) turns: Vec<Option<Time>>,
    upheavals: VecDeque<(Time, Upheaval)>,
    pub(crate) moments: u64,
    /// When something was done last, and how much had been done by then.
    progress: (Time, usize),
    pub(crate) migrations: u64,
    pub(crate) events: u64,
    pub(crate) common: Vec<Common>,
}

impl World {
    pub(crate) fn new(
        seed: u64,
        trace: bool,
        sabotage: Option<Sabotage>,
    ) -> Result<Self, Violation> {
        let mut random = Rng::with_seed(seed);
        let plan = Plan::of(&mut random);
        let uplinks = plan.uplinks.clone();
        let network = Network::new(plan.hosts, uplinks.kinds.len(), plan.link.clone());
        let log = Log::new(Trace::new(trace));
        let stranger = Stranger::new(random.u64(..), plan.hostility);
        let mut world = Self {
            cluster: Cluster::new(plan.hosts, uplinks, network, stranger, log),
            ends: Vec::new(),
            pools: Vec::new(),
            srqs: HashMap::new(),
            ends_by_qp: HashMap::new(),
            turns: Vec::new(),
            upheavals: plan.upheavals.iter().copied().collect(),
            moments: 0,
            progress: (Time(0), 0),
            migrations: 0,
            events: 0,
            common: Vec::new(),
            random,
            plan,
        };
        world.build(sabotage)?;
        Ok(world)
    }

    /// Runs to the end of all work.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        self.cluster.run_until_quiet()?;
        self.judge_outputs()?;
        while let Some(next) = self.next() {
            self.moments += 1;
            self.judge_silence(next)?;
            self.cluster.advance(next)?;
            self.judge_outputs()?;
            self.befall()?;
            self.take_turns()?;
            self.cluster.run_until_quiet()?;
            self.judge_outputs()?;
        }
        self.finish()
    }

    fn judge_silence(&mut self, now: Time) -> Result<(), Violation> {
        let done = self.ends.iter().map(|end| end.done + end.arrived).sum();
        if done != self.progress.1 {
            self.progress = (now, done);
        }
        let silent = now.0 - self.progress.0.0;
        check(silent < SILENCE_MAX, || {
            let stuck = self.ends.iter().filter(|end| !end.is_finished());
            let stuck: Vec<_> = stuck
                .map(|end| {
                    format!(
                        "e{} has done {} of {}",
                        end.number,
                        end.done,
                        end.works.len()
                    )
                })
                .collect();
            format!("deadlock: {}", stuck.join(", "))
        })
    }

    /// Returns the next moment, until everybody is finished and the network is empty.
    fn next(&self) -> Option<Time> {
        let turns = self.turns.iter().flatten().copied().min();
        let busy = turns.is_some() || !self.ends.iter().all(End::is_finished);
        if !busy && self.cluster.network.is_empty() {
            return None;
        }
        let upheaval = self.upheavals.front().map(|(at, _)| *at).filter(|_| busy);
        self.cluster
            .next()
            .into_iter()
            .chain(turns)
            .chain(upheaval)
            .min()
    }

    fn migrate(&mut self, adapter: usize, host: usize) -> Result<(), Violation> {
        if self.cluster.places[adapter].host == host {
            return Ok(());
        }
        self.migrations += 1;
        self.cluster.migrate(adapter, host)
    }

    fn befall(&mut self) -> Result<(), Violation> {
        while self
            .upheavals
            .front()
            .is_some_and(|(at, _)| *at <= self.cluster.now)
        {
            match self.upheavals.pop_front() {
                Some((_, Upheaval::Migrate { adapter, host })) => self.migrate(adapter, host)?,
                Some((_, Upheaval::Abort { end })) => self.abort(end)?,
                None => {}
            }
            self.judge_outputs()?;
        }
        Ok(())
    }
}
