//! The processor time of a daemon while its guests do nothing.
//!
//! Two guests are booted and their drivers probed. First no program uses RDMA, and the shard may block. Then one
//! program in each guest holds a completion queue and a queue pair and waits for a connection, so that its doorbell
//! page has to be read now and then.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use vrdma_lab::guest::Running;
use vrdma_lab::pair::{Network, Pair, PairConfig, Side};
use vrdma_lab::steps::Steps;

use super::Measured;
use super::finding::{Finding, Target};
use super::processor::processor_time;
use crate::lab::daemon;

const WATCHED: Duration = Duration::from_secs(20);

/// Time for the guests to finish their boot, which has nothing to do with being idle.
const SETTLING: Duration = Duration::from_secs(5);

/// In percent of one core.
const TARGET: Target = Target::Below(1.0);

/// Makes its queue pair, then waits for a client that never comes.
const WAITING_PROGRAM: &str = "ibv_rc_pingpong -g 1";

pub(super) fn run() -> Result<Measured> {
    let steps = Steps::default();
    let pair = booted(&steps)?;
    let daemon = pair
        .daemons()
        .first()
        .context("the pair has a daemon")?
        .process_id();
    let unused = watched(&steps, "no program", daemon)?;
    let _programs = [program(&pair, Side::A)?, program(&pair, Side::B)?];
    let waiting = watched(&steps, "a waiting program in each guest", daemon)?;
    let finding =
        |what: &str, value| Finding::new(what.to_owned(), value, "% of a core", Some(TARGET));
    Ok(Measured {
        findings: vec![
            finding("two guests, no verbs program", unused),
            finding("two guests, a verbs program that waits in each", waiting),
        ],
        details: json!({ "seconds": WATCHED.as_secs(), "program": WAITING_PROGRAM }),
        table: None,
    })
}

fn booted(steps: &Steps) -> Result<Pair> {
    let step = steps.start("boot two vrdma guests");
    let pair = Pair::start(&PairConfig::new(Network::Daemon(daemon(true)?)))?;
    step.done();
    Ok(pair)
}

fn program(pair: &Pair, side: Side) -> Result<Running> {
    let guest = pair.guest(side);
    let running = guest.spawn(WAITING_PROGRAM)?;
    guest.wait_settled(&running)?;
    anyhow::ensure!(
        running.status().is_none(),
        "{WAITING_PROGRAM} does not wait"
    );
    Ok(running)
}

/// Percent of one core that the process uses.
fn watched(steps: &Steps, what: &str, process: u32) -> Result<f64> {
    let step = steps.start(&format!("watch the daemon: {what}"));
    sleep(SETTLING);
    let (before, since) = (processor_time(process)?, Instant::now());
    sleep(WATCHED);
    let spent = processor_time(process)?.saturating_sub(before);
    let share = spent.as_secs_f64() / since.elapsed().as_secs_f64();
    step.done();
    Ok(100.0 * share)
}
