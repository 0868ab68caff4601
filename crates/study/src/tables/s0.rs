//! RDMA performance in VMs using QDR InfiniBand (2012): send and read from 2 B to 8 MiB.

use super::{PROCESSES, VMS, cell, perftest};
use crate::cell::{Cell, Derivation, Unit, Work};
use crate::key::Study;

/// Measure, program, options, messages of each size in a full run and in a short one.
type Fact = (&'static str, &'static str, &'static str, [u32; 2]);

const LATENCY: &[Fact] = &[
    ("send-lat-polling", "ib_send_lat", "-a", [1000, 100]),
    ("read-lat-polling", "ib_read_lat", "-a", [1000, 100]),
    ("send-lat-events", "ib_send_lat", "-a -e", [1000, 50]),
    ("read-lat-events", "ib_read_lat", "-a -e", [1000, 50]),
];

const BANDWIDTH: &[Fact] = &[
    ("send-bw-polling", "ib_send_bw", "-a", [2000, 200]),
    ("read-bw-polling", "ib_read_bw", "-a", [2000, 200]),
    ("send-bw-events", "ib_send_bw", "-a -e", [2000, 200]),
    ("read-bw-events", "ib_read_bw", "-a -e", [2000, 200]),
];

const DERIVED: &[(&str, Unit, Derivation)] = &[
    (
        "peak-send-bw-polling",
        Unit::Gigabits,
        Derivation::Peak("send-bw-polling"),
    ),
    (
        "peak-read-bw-polling",
        Unit::Gigabits,
        Derivation::Peak("read-bw-polling"),
    ),
    (
        "half-power-send-events",
        Unit::Bytes,
        Derivation::HalfPower("send-bw-events"),
    ),
    (
        "half-power-read-events",
        Unit::Bytes,
        Derivation::HalfPower("read-bw-events"),
    ),
];

/// The hypervisor of the note came in two builds; QEMU's interrupt path has only one.
const ONE_HYPERVISOR: &str = "the note compares two builds of one hypervisor; QEMU has one way for an adapter's interrupts, \
     and its figures are those of `read-lat-events/virtual`";

pub(super) fn cells() -> Vec<Cell> {
    let run = |facts: &[Fact], unit| -> Vec<Cell> {
        let both = facts
            .iter()
            .flat_map(|&(measure, program, options, iterations)| {
                let work = |setting| perftest(setting, program, options, iterations);
                [("native", PROCESSES), ("virtual", VMS)].map(|(configuration, setting)| {
                    cell(Study::S0, measure, configuration, unit, work(setting))
                })
            });
        both.collect()
    };
    let mut cells = run(LATENCY, Unit::Microseconds);
    cells.extend(["virtual-tuned", "virtual-released"].map(|configuration| {
        let work = Work::Never(ONE_HYPERVISOR);
        cell(
            Study::S0,
            "read-lat-events",
            configuration,
            Unit::Microseconds,
            work,
        )
    }));
    cells.extend(run(BANDWIDTH, Unit::Megabytes));
    cells.extend(DERIVED.iter().flat_map(|&(measure, unit, derivation)| {
        ["native", "virtual"].map(|configuration| {
            cell(
                Study::S0,
                measure,
                configuration,
                unit,
                Work::Derived(derivation),
            )
        })
    }));
    let overhead = Work::Derived(Derivation::Overhead("read-lat-polling"));
    cells.push(cell(
        Study::S0,
        "overhead-read-lat-polling",
        "virtual",
        Unit::Microseconds,
        overhead,
    ));
    cells
}
