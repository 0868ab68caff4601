//! The cost of protections: each figure with a protection and without it, in turns.
//!
//! ```text
//!   sandbox          programs of this host, over a daemon that gave up its rights and one that has them
//!   key              programs of two hosts, through a tunnel with a key and one without
//!   overflow checks  instructions of a local WRITE: none, as shipped, in every room
//!   interrupts       instructions of one: as guarded against eventfds that block, and a bare write
//! ```

mod pair;

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;
use vrdma_lab::steps::Steps;
use vrdma_lab::wire::Uplink;

use super::example::{built, built_with};
use super::finding::Finding;
use super::instructions::{self, Counts};
use super::process::table::{self, Line};
use super::process::{LARGE, LATENCY, SMALL, Told, perftest};
use super::{Arguments, Measured};
use pair::Pair;

const SANDBOX: &str = "sandbox";
const KEY: &str = "key";
const OVERFLOW: &str = "overflow checks";
const INTERRUPTS: &str = "interrupts";

/// Cell and program. Memory that is not adopted is reached by system calls, whose filter is what costs here.
type Cell = (&'static str, &'static str);

const SANDBOX_CELLS: &[Cell] = &[
    (LATENCY, "VRDMA_ADOPT=0 ib_write_lat -n 20000"),
    (LATENCY, "ib_send_lat -n 5000 -e"),
    (SMALL, "VRDMA_ADOPT=0 ib_write_bw -s 65536 -D 3 -f 1"),
    (SMALL, "ib_write_bw -s 65536 -D 3 -f 1"),
];

const KEY_CELLS: &[Cell] = &[
    (LATENCY, "ib_send_lat -n 2000"),
    (LATENCY, "ib_write_lat -n 300"),
    (SMALL, "ib_write_bw -s 65536 -D 3 -f 1"),
    (LARGE, "ib_write_bw -s 1048576 -D 3 -f 1"),
];

/// Switches off the checks of the one room with checks that the example passes through, as shipped.
const UNCHECKED: &str = "profile.release.package.vrdma-switch.overflow-checks=false";
const CHECKED: &str = "profile.release.overflow-checks=true";

/// Interrupts in each of the two runs.
const RAISED: [u64; 2] = [1_000, 101_000];

pub(super) fn rows() -> Vec<String> {
    [SANDBOX, KEY, OVERFLOW, INTERRUPTS]
        .map(str::to_owned)
        .to_vec()
}

pub(super) fn run(arguments: &Arguments) -> Result<Measured> {
    let means = |row: &str| arguments.only.means(row);
    let steps = Steps::default();
    let mut told = Vec::new();
    let mut findings = Vec::new();
    if means(SANDBOX) {
        let ways = [
            ("sandbox", Pair::confined(true)?),
            ("no sandbox", Pair::confined(false)?),
        ];
        let of = compare(&ways, SANDBOX_CELLS, arguments.repetitions, &steps)?;
        findings.extend(costs(&table::lines(&of), ways.each_ref().map(|way| way.0)));
        told.extend(of);
    }
    if means(KEY) {
        let ways = [
            ("tunnel with a key", Pair::tunnelled(Uplink::Sealed)?),
            ("tunnel", Pair::tunnelled(Uplink::Tunnel)?),
        ];
        let of = compare(&ways, KEY_CELLS, arguments.repetitions, &steps)?;
        findings.extend(costs(&table::lines(&of), ways.each_ref().map(|way| way.0)));
        told.extend(of);
    }
    if means(OVERFLOW) {
        findings.extend(overflow_checks(&steps)?);
    }
    if means(INTERRUPTS) {
        findings.extend(interrupts(&steps)?);
    }
    let lines = table::lines(&told);
    Ok(Measured {
        findings,
        details: json!({ "lines": lines, "runs": told }),
        table: (!lines.is_empty()).then(|| table::render(&lines).to_string()),
    })
}

/// Measures both ways in turns. Repetitions are the outer loop, so that a machine that gets slower does so for both.
fn compare(
    ways: &[(&str, Pair); 2],
    cells: &[Cell],
    repetitions: u32,
    steps: &Steps,
) -> Result<Vec<Told>> {
    let mut told = Vec::new();
    for repetition in 1..=repetitions {
        let step = steps.start(&format!("{}, repetition {repetition}", ways[0].0));
        for &(cell, program) in cells {
            for (way, pair) in ways {
                let name = name(program, way);
                let once = perftest(pair.places(), cell, &name, program);
                told.push(once.with_context(|| format!("{program}, {way}"))?);
            }
        }
        step.done();
    }
    Ok(told)
}

fn name(program: &str, way: &str) -> String {
    format!("{program}: {way}")
}

/// For each cell, the typical figure with the protection in percent of that without it.
fn costs(lines: &[Line], [with, without]: [&str; 2]) -> Vec<Finding> {
    let typical = |cell: &str, name: String| {
        let found = lines
            .iter()
            .find(|line| line.cell == cell && line.name == name);
        found.map(|line| line.typical.median)
    };
    let protected = lines
        .iter()
        .filter_map(|line| Some((line, line.name.strip_suffix(with)?.strip_suffix(": ")?)));
    protected
        .filter_map(|(line, program)| {
            let bare = typical(&line.cell, name(program, without))?;
            let what = format!("{}, {program}: {with}, beside {without}", line.cell);
            let cost = 100.0 * line.typical.median / bare;
            Some(Finding::new(what, cost, "%", None))
        })
        .collect()
}

fn overflow_checks(steps: &Steps) -> Result<Vec<Finding>> {
    let example = "shard_rate";
    let target = crate::library::target_folder()?;
    let built_apart =
        |setting: &str, folder: &str| built_with(&[setting], &target.join(folder), example);
    let step = steps.start("build the engine without overflow checks, and with them everywhere");
    let programs = [
        ("none", built_apart(UNCHECKED, "bench-unchecked")?),
        ("as shipped", built(example)?),
        ("everywhere", built_apart(CHECKED, "bench-checked")?),
    ];
    step.done();
    programs
        .iter()
        .map(|(checks, program)| {
            let what = format!("{}, overflow checks {checks}", instructions::WHAT);
            let each = instructions::of_a_write(program)?;
            Ok(Finding::new(what, each, "instructions", None))
        })
        .collect()
}

fn interrupts(steps: &Steps) -> Result<Vec<Finding>> {
    let program = built("interrupts")?;
    let step = steps.start("count instructions of interrupts");
    let of = |way: &str| -> Result<f64> {
        let counts = Counts::of(RAISED, |number| {
            let mut command = Command::new(&program);
            command.args([way, &number.to_string()]);
            command
        });
        Ok(counts?.each(1))
    };
    let [guarded, bare] = [of("signal")?, of("write")?];
    step.done();
    let row = |what: &str, each| Finding::new(what.to_owned(), each, "instructions", None);
    Ok(vec![
        row("an interrupt, guarded, without the kernel's", guarded),
        row("a bare write to an eventfd, the same", bare),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_of_one_program_and_cell() {
        let told = |name: String, typical| Told {
            cell: SMALL.to_owned(),
            name,
            unit: "MB/s".to_owned(),
            typical,
            p99: None,
            p999: None,
        };
        let told = [
            told(name("a -n 1", "tunnel with a key"), 50.0),
            told(name("a -n 1", "tunnel"), 200.0),
            told(name("b", "tunnel with a key"), 1.0),
        ];
        let costs = costs(&table::lines(&told), ["tunnel with a key", "tunnel"]);
        let [cost] = &costs[..] else {
            panic!("{costs:?}")
        };
        assert_eq!((cost.value, cost.unit.as_str()), (25.0, "%"));
        assert!(cost.what.contains("a -n 1: tunnel with a key"), "{cost:?}");
    }
}
