//! Objects that programs leave behind at a daemon's adapters: any of them fails the row.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;
use vrdma_lab::daemon::Daemon;

use crate::counters;

/// How long a guest's kernel or the daemon may take to remove what an ended program had.
const GONE_LIMIT: Duration = Duration::from_secs(20);

const POLL: Duration = Duration::from_millis(20);

/// The objects that exist without a program.
pub(super) struct Remains {
    vrdma: PathBuf,
    idle: Vec<Value>,
}

impl Remains {
    /// Reads the objects of an idle daemon.
    pub(super) fn of_idle(daemon: &Daemon) -> Result<Self> {
        let vrdma = crate::lab::built("vrdma", true)?;
        let idle = counters::objects(&counters::asked(daemon, &vrdma)?);
        Ok(Self { vrdma, idle })
    }

    /// The counters of each adapter, to explain a failure.
    pub(super) fn counters(&self, daemon: &Daemon) -> String {
        let adapters = counters::asked(daemon, &self.vrdma).unwrap_or_default();
        let lines = adapters.iter().map(|adapter| {
            format!(
                "--- adapter {}: {}\n",
                adapter["name"], adapter["rdma"]["counters"]
            )
        });
        lines.collect()
    }

    /// Waits until no objects of an ended program are left.
    pub(super) fn wait_until_gone(&self, daemon: &Daemon) -> Result<()> {
        let deadline = Instant::now() + GONE_LIMIT;
        loop {
            let now = counters::objects(&counters::asked(daemon, &self.vrdma)?);
            if now == self.idle {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "objects are left: {now:?} where there were {:?}",
                self.idle
            );
            thread::sleep(POLL);
        }
    }
}
