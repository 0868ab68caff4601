//! The house plan's targets for the wire, compared with TCP and rxe over the same wire.

use super::contender::Figures;
use super::table;
use crate::bench::finding::{Finding, Target};

const GUESTS: &str = "vrdma, raw";
const PROCESSES: &str = "vrdma processes, raw";
const TUNNELLED: &str = "vrdma processes, tunnel";
const RXE: &str = "rxe";
const TCP_OF_GUESTS: &str = "TCP in vrdma, raw guests";
const TCP_OF_HOSTS: &str = "TCP of the hosts";

const WRITES: &str = "write latency, 2 B";
const SENDS: &str = "send latency, 2 B";
const SMALL: &str = "message rate, 64 B";
const MIDDLE: &str = "write bandwidth, 64 KiB";
const LARGE: &str = "write bandwidth, 1 MiB";
const LATENCY: &str = "TCP latency";
const BANDWIDTH: &str = "TCP bandwidth";

/// The ratio of a contender's cell to another's.
struct Ratio {
    ours: [&'static str; 2],
    theirs: [&'static str; 2],
    target: Target,
}

impl Ratio {
    const fn at_least(ours: [&'static str; 2], theirs: [&'static str; 2], times: f64) -> Self {
        let target = Target::AtLeast(times);
        Self {
            ours,
            theirs,
            target,
        }
    }

    const fn at_most(ours: [&'static str; 2], theirs: [&'static str; 2], times: f64) -> Self {
        let target = Target::AtMost(times);
        Self {
            ours,
            theirs,
            target,
        }
    }
}

const RATIOS: &[Ratio] = &[
    Ratio::at_least([GUESTS, MIDDLE], [TCP_OF_GUESTS, BANDWIDTH], 1.5),
    Ratio::at_least([GUESTS, MIDDLE], [RXE, MIDDLE], 3.0),
    Ratio::at_least([GUESTS, LARGE], [TCP_OF_GUESTS, BANDWIDTH], 1.0),
    Ratio::at_least([GUESTS, LARGE], [RXE, LARGE], 3.0),
    Ratio::at_least([GUESTS, SMALL], [RXE, SMALL], 5.0),
    Ratio::at_least([PROCESSES, MIDDLE], [TCP_OF_HOSTS, BANDWIDTH], 1.5),
    Ratio::at_least([PROCESSES, LARGE], [TCP_OF_HOSTS, BANDWIDTH], 1.0),
    Ratio::at_least([TUNNELLED, MIDDLE], [TCP_OF_HOSTS, BANDWIDTH], 1.5),
    Ratio::at_least([TUNNELLED, LARGE], [TCP_OF_HOSTS, BANDWIDTH], 1.0),
    Ratio::at_most([GUESTS, WRITES], [TCP_OF_GUESTS, LATENCY], 1.0),
    Ratio::at_most([GUESTS, SENDS], [TCP_OF_GUESTS, LATENCY], 1.0),
    Ratio::at_most([PROCESSES, WRITES], [TCP_OF_HOSTS, LATENCY], 1.5),
    Ratio::at_most([PROCESSES, SENDS], [TCP_OF_HOSTS, LATENCY], 1.5),
];

/// Contenders whose daemons' processor time is reported.
const COSTLY: [&str; 4] = [GUESTS, "vrdma, tunnel", PROCESSES, TUNNELLED];

pub(super) fn of(figures: &[Figures]) -> Vec<Finding> {
    let ratios = RATIOS.iter().filter_map(|ratio| {
        let median = |[who, cell]: [&str; 2]| table::median(figures, who, cell);
        let times = median(ratio.ours)? / median(ratio.theirs)?;
        let unit = match ratio.target {
            Target::AtLeast(_) => "times as good",
            Target::AtMost(_) | Target::Below(_) => "times as long",
        };
        let [who, cell] = ratio.ours;
        let what = format!("{who}: {cell}, beside {}", ratio.theirs[0]);
        Some(Finding::new(what, times, unit, Some(ratio.target)))
    });
    let costs = COSTLY.into_iter().filter_map(|name| {
        let cell = format!("both daemons, {MIDDLE}");
        let seconds = table::median(figures, name, &cell)?;
        let what = format!("{name}: {cell}");
        Some(Finding::new(what, seconds, "s of processor a GiB", None))
    });
    ratios.chain(costs).collect()
}
