//! `vrdma upgrade`: the daemon continues with the program that is installed now.
//!
//! The keeper does it all. This command asks it by SIGHUP and waits until the daemon reports an attempt that it has not
//! reported before.

use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use vrdma_api::{Keeper, Status, Upgrade, UpgradeOutcome, paths};
use vrdma_api_client::Client;

use crate::failure::Failure;
use crate::report::Report;

/// How long to wait for the outcome: longer than the keeper takes for an answer, an end and a trial.
const PATIENCE: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_millis(10);

/// What was done, for `--json`.
#[derive(Debug, Serialize)]
struct Upgraded {
    /// Release that served before.
    from: String,
    /// Release that serves now.
    to: String,
    /// Time from the request to the first answer, including the question to the new program.
    milliseconds: u64,
}

pub(crate) fn run(client: &Client) -> Result<Report, Failure> {
    let before: Status = client.get(paths::STATUS)?;
    let keeper = before.keeper.as_ref().ok_or_else(|| {
        Failure::new(
            "this daemon has no keeper, so nobody could go on for it; write supervise = true into [daemon] of its \
             configuration and restart it, or restart it to get the new program",
        )
    })?;
    let began = Instant::now();
    ask(keeper)?;
    let (after, upgrade) = outcome(client, keeper, began)?;
    let release = |status: &Status| format!("vrdmad {}", status.version);
    match upgrade.outcome {
        UpgradeOutcome::Done => {
            let milliseconds = began.elapsed().as_millis() as u64;
            let text = format!("{} serves after {milliseconds} ms", release(&after));
            let upgraded = Upgraded {
                from: before.version,
                to: after.version,
                milliseconds,
            };
            Ok(Report::new(&upgraded, text))
        }
        UpgradeOutcome::Refused => Err(Failure::new(format!(
            "the program that is installed cannot go on, and nothing was changed: {}",
            upgrade.reason
        ))),
        UpgradeOutcome::WentBack => Err(Failure::new(format!(
            "the program that is installed failed, and {} serves again: {}",
            release(&after),
            upgrade.reason
        ))),
    }
}

fn ask(keeper: &Keeper) -> Result<(), Failure> {
    let process = i32::try_from(keeper.pid).ok().and_then(Pid::from_raw);
    let asked = process
        .ok_or(Errno::SRCH)
        .and_then(|process| kill_process(process, Signal::HUP));
    asked.map_err(|error| {
        let pid = keeper.pid;
        let hint = match error {
            Errno::PERM => "; do it as the daemon's user or root",
            _ => "",
        };
        Failure::new(format!(
            "the keeper, process {pid}, cannot be asked: {error}{hint}"
        ))
    })
}

/// Waits for the attempt after those that `keeper` knows of.
fn outcome(client: &Client, keeper: &Keeper, began: Instant) -> Result<(Status, Upgrade), Failure> {
    let known = number(keeper);
    loop {
        // Between two workers nothing answers.
        let told = client.get::<Status>(paths::STATUS);
        let last = told.as_ref().ok().and_then(|status| status.keeper.as_ref());
        if let Some(last) = last.filter(|last| number(last) > known)
            && let Some(upgrade) = last.last_upgrade.clone()
        {
            return Ok((told?, upgrade));
        }
        if began.elapsed() >= PATIENCE {
            told?;
            return Err(Failure::new(format!(
                "the keeper, process {}, has not answered within {} s; see the daemon's log",
                keeper.pid,
                PATIENCE.as_secs()
            )));
        }
        thread::sleep(LOOK);
    }
}

fn number(keeper: &Keeper) -> u32 {
    keeper
        .last_upgrade
        .as_ref()
        .map_or(0, |upgrade| upgrade.number)
}
