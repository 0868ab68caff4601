//! SR-IOV on InfiniBand clusters (2013): semantics and ways of waiting, native and virtual.

use super::own::mpi;
use super::{PROCESSES, VMS, cell, perftest, qperf};
use crate::cell::{Cell, Setting, Transport, Unit, Work};
use crate::key::Study;
use crate::tool::{Column, Perftest, Tool};

/// Measure, program, options, messages in a full run and in a short one.
type Fact = (&'static str, &'static str, &'static str, [u32; 2]);

const VERBS: &[Fact] = &[
    ("verbs-send-lat", "ib_send_lat", "-s 2", [5000, 1000]),
    ("verbs-write-lat", "ib_write_lat", "-s 2", [5000, 1000]),
    ("verbs-lat-polling", "ib_send_lat", "-s 1", [5000, 1000]),
    ("verbs-lat-blocking", "ib_send_lat", "-s 1 -e", [5000, 1000]),
];

const PLACES: [(&str, Setting); 2] = [("native", PROCESSES), ("virtual", VMS)];

pub(super) fn cells() -> Vec<Cell> {
    let verbs = VERBS
        .iter()
        .flat_map(|&(measure, program, options, iterations)| {
            PLACES.map(|(configuration, setting)| {
                let work = perftest(setting, program, options, iterations);
                cell(Study::S2, measure, configuration, Unit::Microseconds, work)
            })
        });
    let ip = PLACES.map(|(configuration, setting)| {
        let setting = Setting {
            transport: Transport::Tcp,
            ..setting
        };
        let work = qperf(setting, "tcp_lat", "", "1");
        cell(Study::S2, "ip-lat", configuration, Unit::Microseconds, work)
    });
    let rate = PLACES.map(|(configuration, setting)| {
        let unit = Unit::MegaMessages;
        cell(
            Study::S2,
            "message-rate",
            configuration,
            unit,
            rate(setting),
        )
    });
    let messages = MPI.iter().flat_map(|&(measure, unit, test)| {
        PLACES.map(|(configuration, setting)| {
            let work = mpi(setting, 1, test, MPI_TAKES);
            cell(Study::S2, measure, configuration, unit, work)
        })
    });
    let cells = verbs.chain(ip).chain(rate).chain(messages);
    cells.chain(collectives()).chain(searches()).collect()
}

/// Seconds, about.
const MPI_TAKES: u64 = 15;

/// Measure, unit, test in a full run and in a short one. In the blocking rows the program looks for a while
/// and then sleeps between looks, as the library of the slides did.
const MPI: &[(&str, Unit, [&str; 2])] = &[
    (
        "mpi-lat-polling",
        Unit::Microseconds,
        ["latency -s 1:1", "latency -s 1:1 -n 200"],
    ),
    (
        "mpi-lat-blocking",
        Unit::Microseconds,
        ["latency -s 1:1 --nap", "latency -s 1:1 --nap -n 200"],
    ),
    (
        "get-lat",
        Unit::Microseconds,
        ["get -s 1:1", "get -s 1:1 -n 200"],
    ),
    ("mpi-lat", Unit::Microseconds, ["latency", "latency -n 100"]),
    ("mpi-bw", Unit::Megabytes, ["bandwidth", "bandwidth -n 20"]),
    (
        "mpi-rate",
        Unit::MegaMessages,
        ["rate -s 1:1K", "rate -s 1:1K -n 20"],
    ),
];

const COLLECTIVES: &[(&str, [&str; 2])] = &[
    ("mpi-barrier", ["barrier", "barrier -n 100"]),
    ("mpi-bcast", ["bcast -s 1:64K", "bcast -s 8:8K -n 50"]),
    (
        "mpi-allreduce",
        ["allreduce -s 8:64K", "allreduce -s 8:8K -n 50"],
    ),
    (
        "mpi-allgather",
        ["allgather -s 1:64K", "allgather -s 8:8K -n 50"],
    ),
    (
        "mpi-alltoall",
        ["alltoall -s 1:64K", "alltoall -s 8:8K -n 50"],
    ),
];

/// A guest has one processor, so a VM per core is one rank in each.
fn collectives() -> impl Iterator<Item = Cell> {
    let rows = COLLECTIVES.iter().flat_map(|&(measure, test)| {
        [("native", PROCESSES), ("vm-core", VMS)].map(|(configuration, setting)| {
            let work = mpi(setting, 1, test, MPI_TAKES);
            cell(Study::S2, measure, configuration, Unit::Microseconds, work)
        })
    });
    let placements = ["vm-socket", "vm-node"].map(|configuration| {
        let work = Work::Never(ONE_PROCESSOR);
        cell(
            Study::S2,
            "mpi-allreduce",
            configuration,
            Unit::Microseconds,
            work,
        )
    });
    rows.chain(placements)
}

const ONE_PROCESSOR: &str =
    "the lab's guests have one processor each, so ranks cannot share one by socket or node";
const TWO_GUESTS: &str = "the lab boots two guests";
const SEARCH: [&str; 2] = ["bfs", "bfs --scale 12 --roots 4"];

fn searches() -> impl Iterator<Item = Cell> {
    let run = |setting| mpi(setting, 1, SEARCH, MPI_TAKES);
    let rows = [
        ("native", run(PROCESSES)),
        ("vms-2", run(VMS)),
        ("vms-1", Work::Never(ONE_PROCESSOR)),
        ("vms-4", Work::Never(TWO_GUESTS)),
        ("vms-8", Work::Never(TWO_GUESTS)),
    ];
    rows.into_iter()
        .map(|(configuration, work)| cell(Study::S2, "bfs", configuration, Unit::Seconds, work))
}

fn rate(setting: Setting) -> Work {
    let tool = Perftest {
        program: "ib_send_bw",
        options: "-s 1",
        iterations: [200_000, 50_000],
        column: Column::Messages,
        point: Some("-"),
    };
    Work::Run(setting, Tool::Perftest(tool))
}
