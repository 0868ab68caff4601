//! A run whose adapters are PVRDMA devices of guests, some of which go to another host while their
//! programs write to each other.
//!
//! ```text
//!   Devices ─┬─ programs post, and judge each completion       (program)
//!            ├─ guests stop, and go on there or where they were (journey)
//!            └─ Cluster of driver::DeviceMember: the shipped device behind the shipped carrier
//! ```
//! No connection may notice a journey, except by its time: the network is never so bad that a connection gives up. In
//! some runs guests are away for longer than connections wait, and their peers are told ([`Journeys`]).

mod build;
mod crashes;
mod journey;
mod program;

use std::collections::VecDeque;

use fastrand::Rng;
use vrdma_driver::{Clock, DeviceMember, Guest};
use vrdma_verbs::Time;

use crate::Journeys;
use crate::cluster::Cluster;
use crate::summary::Summary;
use crate::violation::{Violation, check};
use crashes::Crashes;
use journey::{Journey, Stop};
use program::Program;

/// As in runs with engines: something is done within this many nanoseconds, or never.
const SILENCE_MAX: u64 = 5_000_000_000;

pub(crate) struct Devices {
    pub(crate) cluster: Cluster<DeviceMember>,
    hosts: usize,
    clock: Clock,
    random: Rng,
    programs: Vec<Program>,
    /// When each program looks again.
    turns: Vec<Option<Time>>,
    pause_ns: u64,
    journeys: VecDeque<(Time, Journey)>,
    kind: Journeys,
    /// The stop of each guest, while it is stopped.
    stops: Vec<Option<Stop>>,
    moves: u64,
    thaws: u64,
    crashes: Crashes,
    moments: u64,
    /// When something was done last, and how much had been done by then.
    progress: (Time, usize),
}

impl Devices {
    /// Runs to the end of all work.
    pub(crate) fn run(&mut self) -> Result<Summary, Violation> {
        self.begin_records();
        self.carried(|devices| devices.cluster.run_until_quiet())?;
        while let Some(next) = self.next() {
            self.moments += 1;
            self.arm();
            self.carried(|devices| devices.cluster.advance(next))?;
            self.clock.reach(self.cluster.now);
            self.judge()?;
            self.judge_silence()?;
            self.disarmed(Self::travel)?;
            self.disarmed(Self::take_turns)?;
            self.carried(|devices| devices.cluster.run_until_quiet())?;
            self.judge()?;
        }
        self.disarmed(Self::finish)?;
        Ok(self.summary())
    }

    fn next(&self) -> Option<Time> {
        let stops = self.stops.iter().flatten().map(|stop| stop.until).min();
        if stops.is_none() && self.programs.iter().all(Program::is_finished) {
            return None;
        }
        let turns = self.turns.iter().flatten().copied().min();
        let journey = self.journeys.front().map(|(at, _)| *at);
        let all = [self.cluster.next(), turns, journey, stops];
        all.into_iter().flatten().min()
    }

    fn judge_silence(&mut self) -> Result<(), Violation> {
        let now = self.cluster.now;
        let programs = self.programs.iter();
        let done = programs.map(|program| program.done + program.arrived).sum();
        if done != self.progress.1 {
            self.progress = (now, done);
        }
        check(now.0 - self.progress.0.0 < SILENCE_MAX, || {
            let stuck = self.programs.iter().filter(|it| !it.is_finished());
            let stuck: Vec<_> = stuck.map(Program::describe).collect();
            format!("deadlock: {}", stuck.join(", "))
        })
    }

    /// Returns a guest at its current host, without waking its device.
    fn seen(&self, guest: usize) -> &Guest {
        &self.cluster.member(guest).guest
    }

    /// Returns a guest in order to do something with it.
    fn guest(&mut self, guest: usize) -> &mut Guest {
        let host = self.cluster.places[guest].host;
        self.guest_at(host, guest)
    }

    /// Returns the guest of an adapter at a host: the guest itself, or one that waits for it.
    ///
    /// # Panics
    /// If the host has no such adapter.
    fn guest_at(&mut self, host: usize, guest: usize) -> &mut Guest {
        let (port, now) = (self.cluster.places[guest].port, self.cluster.now);
        let member = self.cluster.carrier(host).touch(port, now);
        &mut member.expect("every host has every adapter").guest
    }

    fn summary(&self) -> Summary {
        let fates = self.cluster.network.fates;
        let programs = || self.programs.iter();
        Summary {
            runs: 1,
            requests: programs().map(|program| program.done as u64).sum(),
            messages: programs().map(|program| program.arrived as u64).sum(),
            frames: fates.sent,
            lost: fates.lost,
            overflowed: fates.overflowed + self.cluster.overrun(),
            marked: fates.marked,
            refused: self.cluster.refused(),
            held_up: self.cluster.held_up,
            foreign: self.cluster.stranger.sent,
            device_moves: self.moves,
            device_thaws: self.thaws,
            notices: fates.notices,
            device_crashes: self.crashes.count,
            moments: self.moments,
            ..Summary::default()
        }
    }
}
