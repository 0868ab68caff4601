//! The shares of two greedy tenants with weights 1:3 that send at the same time.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vrdma_lab::pair::Side;
use vrdma_lab::place::{Job, Place};

use super::host::{Host, ONE, THREE, Tools};
use crate::bench::finding::{Finding, Target};
use crate::demo::{Measure, Samples, perftest};

/// Duration of a run; perftest leaves out two seconds at the beginning and two at the end.
const SECONDS: u32 = 9;

/// Ten times as long.
const RUN_LIMIT: Duration = Duration::from_secs(90);

/// 1:3 within 5 %.
const TARGETS: [Target; 2] = [Target::AtLeast(2.85), Target::Below(3.15)];

/// The program of both tenants.
pub(super) struct Shares {
    pub(super) name: &'static str,
    program: &'static str,
    measure: Measure,
}

pub(super) const ALL: [Shares; 2] = [
    Shares {
        name: "shares of bytes",
        program: "ib_write_bw -F -x 1 -s 1048576 -t 128",
        measure: Measure::Bandwidth,
    },
    Shares {
        name: "shares of small messages",
        program: "ib_write_bw -F -x 1 -s 64 -q 16 -t 1024",
        measure: Measure::Messages,
    },
];

/// Rates of the two tenants.
pub(super) struct Rates {
    pub(super) one: f64,
    pub(super) three: f64,
}

pub(super) fn measure(tools: &Tools, shares: &Shares) -> Result<Rates> {
    let host = Host::start(tools)?;
    host.set_weight(THREE, 3)?;
    let command = |port: u16| format!("{} -D {SECONDS} -p {port}", shares.program);
    let [port, other] = [18_600, 18_601];
    let (a1, b1) = (host.place(ONE, Side::A)?, host.place(ONE, Side::B)?);
    let (a3, b3) = (host.place(THREE, Side::A)?, host.place(THREE, Side::B)?);
    let servers = [a1.start(&command(port))?, a3.start(&command(other))?];
    for server in &servers {
        server.wait_ready()?;
    }
    let one = b1.start(&format!("{} $A", command(port)))?;
    let three = b3.start(&format!("{} $A", command(other)))?;
    Ok(Rates {
        one: rate(one, shares.measure)?,
        three: rate(three, shares.measure)?,
    })
}

fn rate(client: Box<dyn Job + '_>, measure: Measure) -> Result<f64> {
    let output = client.end(RUN_LIMIT)?;
    let text = output.stdout_text();
    ensure!(output.status == 0, "status {}:\n{text}", output.status);
    Ok(perftest::figure(measure, &text)?.value)
}

/// The median with its targets, and the spread.
pub(super) fn findings(name: &str, ratios: Vec<f64>) -> Result<Vec<Finding>> {
    let samples = Samples::of(ratios).context("there are repetitions")?;
    let finding =
        |what: &str, value, target| Finding::new(format!("{name}, {what}"), value, "times", target);
    let [least, most] = TARGETS;
    Ok(vec![
        finding("weight 3 / weight 1", samples.median, Some(least)),
        finding("the same", samples.median, Some(most)),
        finding("least of all repetitions", samples.minimum, None),
        finding("most of all repetitions", samples.maximum, None),
    ])
}
