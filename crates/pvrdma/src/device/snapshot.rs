//! The device as seen from outside: for `vrdma stats`, and for its thread.

use vrdma_verbs::counters::{Counters, Counts};
use vrdma_verbs::outline::Outline;
use vrdma_wire::Gid;

use super::{Device, Stage};
use crate::adapter::Violations;

/// The stages of the device's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceState {
    /// No driver uses it.
    Reset,
    /// A driver is probing.
    Configured,
    /// A driver uses it.
    Active,
    /// Stopped because its own rings or slots became unusable.
    Failed,
    /// Stopped because another device may go on in its place.
    Frozen,
}

/// The device at one moment.
#[derive(Clone, Debug)]
pub struct DeviceSnapshot {
    /// Stage of its life.
    pub state: DeviceState,
    /// Protocol version of the guest's driver, while active.
    pub driver_version: Option<u32>,
    /// Programs that have the device open.
    pub contexts: u32,
    /// Live objects.
    pub counts: Counts,
    /// Traffic in this life.
    pub counters: Counters,
    /// What the guest did wrong in this life.
    pub violations: Violations,
    /// Bound addresses with their indices.
    pub gids: Vec<(u8, Gid)>,
    /// Number of lives so far.
    pub lives: u64,
    /// Log lines that the guest caused and that were left out.
    pub log_lines_left_out: u64,
}

/// The facts that decide whether doorbell memory must be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// Contexts of programs with queue pairs or completion queues.
    pub live_contexts: u32,
    /// Whether work waits: [`Device::poll`] and [`Device::next_request`] have something to do.
    pub runnable: bool,
}

impl Device {
    /// Takes a snapshot of the device.
    pub fn snapshot(&self) -> DeviceSnapshot {
        let state = match &self.stage {
            _ if self.frozen => DeviceState::Frozen,
            Stage::Reset => DeviceState::Reset,
            Stage::Configured => DeviceState::Configured,
            Stage::Active(..) => DeviceState::Active,
            Stage::Failed => DeviceState::Failed,
        };
        let adapter = match &self.stage {
            Stage::Active(adapter, _) => Some(adapter),
            _ => None,
        };
        let log_limit = adapter.map_or(&self.log_limit, |adapter| &adapter.log_limit);
        DeviceSnapshot {
            state,
            driver_version: adapter.map(|adapter| adapter.driver_version),
            contexts: adapter.map_or(0, |adapter| adapter.contexts.live().len() as u32),
            counts: adapter.map_or_else(Counts::default, |adapter| adapter.core.hca.counts()),
            counters: adapter
                .map_or_else(Counters::default, |adapter| *adapter.core.hca.counters()),
            violations: adapter.map_or_else(Violations::default, |adapter| adapter.violations),
            gids: adapter.map_or_else(Vec::new, |adapter| adapter.gids.bound().collect()),
            lives: self.lives,
            log_lines_left_out: log_limit.left_out(),
        }
    }

    /// The contents of its engine, as [`Hca::outline`](vrdma_verbs::Hca::outline); empty without a driver.
    pub fn outline(&self, most: usize) -> Outline {
        match &self.stage {
            Stage::Active(adapter, _) => adapter.core.hca.outline(most),
            Stage::Reset | Stage::Configured | Stage::Failed => Outline::default(),
        }
    }

    /// The activity of the device; none without bus mastering, even if work waits.
    pub fn activity(&self) -> Activity {
        match &self.stage {
            Stage::Active(adapter, _) if self.may_work() => Activity {
                live_contexts: adapter.contexts.in_use(),
                runnable: adapter.core.is_runnable() || adapter.long.is_some(),
            },
            _ => Activity::default(),
        }
    }
}
