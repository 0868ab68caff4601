//! Objects that the daemon holds for each guest.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use vrdma_lab::pair::Pair;

use crate::counters;

/// How long a guest may take to release the objects of an ended program.
const QUIET_LIMIT: Duration = Duration::from_secs(20);

/// How long programs may take to connect: those in guests with 160 queue pairs take half a minute on emulated
/// processors.
const CONNECT_LIMIT: Duration = Duration::from_secs(120);

/// More messages than connecting takes.
const FLOWING: u64 = 1000;

/// The same for long messages, of which a slow machine takes seconds for a thousand: a program that runs for a limited
/// time would be over.
const FLOWING_BYTES: u64 = 32 << 20;

/// Interval between two looks.
const POLL: Duration = Duration::from_millis(50);

/// Objects of all adapters, as the control API reports them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Objects(Vec<Value>);

impl Objects {
    /// Reads the present objects by the command line program.
    pub(super) fn of(pair: &Pair, vrdma: &Path) -> Result<Self> {
        let adapters = counters::adapters(pair, vrdma)?;
        Ok(Self(counters::objects(&adapters)))
    }
}

/// Waits until the adapters hold these objects again.
pub(super) fn wait_for(pair: &Pair, vrdma: &Path, wanted: &Objects) -> Result<()> {
    let deadline = Instant::now() + QUIET_LIMIT;
    loop {
        let now = Objects::of(pair, vrdma)?;
        if now == *wanted {
            return Ok(());
        }
        if Instant::now() > deadline {
            bail!(
                "objects are left: {:?} where idle guests have {:?}",
                now.0,
                wanted.0
            );
        }
        thread::sleep(POLL);
    }
}

/// Waits until messages flow: by then both sides have connected.
pub(crate) fn wait_for_traffic(pair: &Pair, vrdma: &Path) -> Result<()> {
    let start = Sent::of(pair, vrdma)?;
    let deadline = Instant::now() + CONNECT_LIMIT;
    while !Sent::of(pair, vrdma)?.flows_since(&start) {
        ensure!(Instant::now() < deadline, "no messages flow");
        thread::sleep(POLL);
    }
    Ok(())
}

/// What all adapters have sent.
struct Sent {
    messages: u64,
    bytes: u64,
}

impl Sent {
    fn of(pair: &Pair, vrdma: &Path) -> Result<Self> {
        let adapters = counters::adapters(pair, vrdma)?;
        Ok(Self {
            messages: counters::rdma_sum(&adapters, "tx_messages"),
            bytes: counters::rdma_sum(&adapters, "tx_bytes"),
        })
    }

    fn flows_since(&self, start: &Self) -> bool {
        self.messages >= start.messages + FLOWING || self.bytes >= start.bytes + FLOWING_BYTES
    }
}

/// Messages that all adapters have sent.
pub(crate) fn messages(pair: &Pair, vrdma: &Path) -> Result<u64> {
    Ok(Sent::of(pair, vrdma)?.messages)
}
