//! Runs the same by several tenants at the same time.
//!
//! ```text
//!   tenant 1: start, connect, create $GATE.ready, wait ---+              +--> measure --> figures
//!   tenant 2: start, connect, create $GATE.ready, wait ---+-- all ready -+--> measure --> figures
//!                                                           touch $GATE.go
//! ```
//!
//! Without the gate mpirun's start would take longer than the measurement, and tenants would come one by one. Programs
//! that wait at the gate nap: the others still need the processors.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vrdma_lab::guest::Output;
use vrdma_lab::place::{Job, Place};

use super::{Stage, said};
use crate::cell::Setting;
use crate::tool::{Commands, Tool};

/// Limit of a command that only touches a file, and is killed after that.
const TOUCH_LIMIT: Duration = Duration::from_secs(60);

/// Waits for a tenant, polling rarely enough to take nothing from tenants that are still starting.
const LOOK: &str = "until [ -e $GATE.ready ]; do sleep 0.5; done";

/// A tenant's two sides and the prefix of its files.
struct TenantSides<'a> {
    number: u8,
    server: &'a dyn Place,
    place: &'a dyn Place,
    words: String,
}

/// Returns the output of all tenants; figures are distinguished by `$TENANT`.
pub(super) fn run(
    stage: &dyn Stage,
    setting: Setting,
    tool: &Tool,
    commands: &Commands,
    limit: Duration,
) -> Result<String> {
    let tenants = tenants(stage, setting, tool)?;
    let end = Instant::now() + limit;
    let left = || end.saturating_duration_since(Instant::now());
    let servers = tenants.iter().map(|tenant| tenant.serve(&commands.server));
    let servers: Vec<_> = servers.collect::<Result<_>>()?;
    let mut jobs = Vec::new();
    for tenant in &tenants {
        tenant.finish("rm -f $GATE.ready $GATE.go", TOUCH_LIMIT)?;
        // A client that fails creates the file too, since it will never be more ready.
        let client = format!(
            "{}{{ {}; }}; status=$?; touch $GATE.ready; exit $status",
            tenant.words, commands.client
        );
        jobs.push(tenant.place.start(&client)?);
    }
    for tenant in &tenants {
        let ready = tenant.finish(LOOK, left());
        ready.with_context(|| format!("tenant {} has not started and connected", tenant.number))?;
    }
    // Starts all as simultaneously as possible.
    let go: Result<Vec<_>> = tenants
        .iter()
        .map(|tenant| tenant.start("touch $GATE.go"))
        .collect();
    for touch in go? {
        ended_well("touch", touch.end(TOUCH_LIMIT)?)?;
    }
    let ended = jobs.into_iter().map(|job: Box<dyn Job>| {
        let client = job.end(left())?;
        said(tool, &commands.client, &client, &stage.logs())
    });
    // All are waited for before the first failure is returned; otherwise the others would continue.
    let ended: Vec<Result<String>> = ended.collect();
    for server in servers.into_iter().flatten() {
        if !server.finished()? {
            server.kill()?;
        }
        server.end(TOUCH_LIMIT)?;
    }
    ended.into_iter().collect()
}

fn tenants<'a>(
    stage: &'a dyn Stage,
    setting: Setting,
    tool: &Tool,
) -> Result<Vec<TenantSides<'a>>> {
    let tenant = |number: u8| {
        let words = match tool.own() {
            Some(own) => stage.prepare(setting, number, own)?,
            None => String::new(),
        };
        let [server, place] = stage.places(setting.endpoint, number);
        let number = number + 1;
        Ok(TenantSides {
            number,
            server,
            place,
            words: format!("{words}TENANT={number}; GATE=$PROGRAMS/gate{number}; "),
        })
    };
    (0..setting.tenants).map(tenant).collect()
}

impl<'a> TenantSides<'a> {
    /// Starts its server, if the tool has one.
    fn serve(&self, command: &str) -> Result<Option<Box<dyn Job + 'a>>> {
        if command.is_empty() {
            return Ok(None);
        }
        let server = self.server.start(&format!("{}{command}", self.words))?;
        server.wait_ready()?;
        Ok(Some(server))
    }

    fn start(&self, command: &str) -> Result<Box<dyn Job + '_>> {
        self.place.start(&format!("{}{command}", self.words))
    }

    fn finish(&self, command: &str, limit: Duration) -> Result<()> {
        ended_well(command, self.start(command)?.end(limit)?)
    }
}

fn ended_well(command: &str, output: Output) -> Result<()> {
    ensure!(
        output.status == 0,
        "{command} ended with status {}: {}{}",
        output.status,
        output.stdout_text(),
        output.stderr_text()
    );
    Ok(())
}
