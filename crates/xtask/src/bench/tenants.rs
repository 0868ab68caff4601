//! Two tenants of one daemon, as perftest sees them.
//!
//! ```text
//!   shares      one:   ib_write_bw     weight 1     both at once; the rate of three / that of one
//!               three: ib_write_bw     weight 3
//!   neighbour   one:   ib_send_lat                  alone, beside a CPU hog, and beside what three does:
//!               three: something greedy             its 99 % / that beside the hog
//! ```

mod host;
mod neighbour;
mod shares;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vrdma_lab::steps::Steps;

use super::finding::Finding;
use super::process::table;
use super::{Arguments, Measured};
use host::Tools;

/// The name for all rows of `neighbour`: each is measured relative to others.
const NEIGHBOUR: &str = "neighbour";

pub(super) fn rows() -> Vec<String> {
    let shares = shares::ALL.iter().map(|shares| shares.name.to_owned());
    shares.chain([NEIGHBOUR.to_owned()]).collect()
}

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let tools = Tools::make()?;
    let steps = Steps::default();
    let mut findings = Vec::new();
    let mut rates = Vec::new();
    for shares in shares::ALL {
        if arguments.only.means(shares.name) {
            findings.extend(measure_shares(
                arguments, &tools, &shares, &steps, &mut rates,
            )?);
        }
    }
    let mut told = Vec::new();
    if arguments.only.means(NEIGHBOUR) {
        for repetition in 1..=arguments.repetitions {
            let step = steps.start(&format!("{NEIGHBOUR}, repetition {repetition}"));
            for neighbour in &neighbour::ALL {
                let measured = neighbour::measure(&tools, neighbour);
                told.push(measured.with_context(|| neighbour.name)?);
            }
            step.done();
        }
    }
    let lines = table::lines(&told);
    findings.extend(neighbour::findings(&lines)?);
    let table = (!lines.is_empty()).then(|| table::render(&lines).to_string());
    Ok(Measured {
        findings,
        details: json!({ "shares": rates, "lines": lines, "runs": told }),
        table,
    })
}

fn measure_shares(
    arguments: &Arguments,
    tools: &Tools,
    shares: &shares::Shares,
    steps: &Steps,
    rates: &mut Vec<Value>,
) -> Result<Vec<Finding>> {
    let mut ratios = Vec::new();
    for repetition in 1..=arguments.repetitions {
        let step = steps.start(&format!("{}, repetition {repetition}", shares.name));
        let measured = shares::measure(tools, shares).context(shares.name)?;
        ratios.push(measured.three / measured.one);
        rates.push(json!({ "name": shares.name, "one": measured.one, "three": measured.three }));
        step.done();
    }
    shares::findings(shares.name, ratios)
}
