//! SR-IOV on InfiniBand clusters (2013): semantics and ways of waiting, native and virtual.

use super::own::{mpi, netpipe, spread};
use super::{PROCESSES, VMS, cell, perftest, qperf};
use crate::cell::{Cell, Setting, Transport, Unit, Work};
use crate::key::Study;
use crate::tool::{Column, NetPipe, Perftest, Tool};

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
        let work = qperf(setting.over(Transport::Tcp), "tcp_lat", "", "1");
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
    let pipes = PLACES.map(|(configuration, setting)| {
        let work = netpipe(setting, NetPipe::Latency);
        let unit = Unit::Microseconds;
        cell(Study::S2, "netpipe-lat", configuration, unit, work)
    });
    let cells = verbs.chain(ip).chain(rate).chain(messages).chain(pipes);
    cells.chain(collectives()).chain(searches()).collect()
}

/// Seconds of a test, about.
const MPI_TAKES: u64 = 15;

/// Measure, unit, test in a full run and in a short one. In the blocking rows the program polls for a while and then
/// sleeps between polls, as the library of the slides did.
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
    ("mpi-barrier", ["barrier -n 200", "barrier -n 50"]),
    (
        "mpi-bcast",
        ["bcast -s 8:64K -n 200", "bcast -s 8:8K -n 20"],
    ),
    (
        "mpi-allreduce",
        ["allreduce -s 8:64K -n 200", "allreduce -s 8:8K -n 20"],
    ),
    (
        "mpi-allgather",
        ["allgather -s 8:64K -n 200", "allgather -s 8:8K -n 20"],
    ),
    (
        "mpi-alltoall",
        ["alltoall -s 8:64K -n 200", "alltoall -s 8:8K -n 20"],
    ),
];

/// Four ranks with a processor each: in guests of one processor, of two, or of four.
const PLACEMENTS: [(&str, Setting); 4] = [
    ("native", PROCESSES.spread(2, 2)),
    ("vm-core", VMS.spread(4, 1)),
    ("vm-socket", VMS.spread(2, 2)),
    ("vm-node", VMS.spread(1, 4)),
];

/// The same, up to the ranks that fit on a machine as large as those of the slides.
const AS_PUBLISHED: [(&str, Setting); 4] = [
    ("native-28", PROCESSES.spread(2, 14)),
    ("vm-core-28", VMS.spread(28, 1)),
    ("vm-socket-28", VMS.spread(4, 7)),
    ("vm-node-28", VMS.spread(1, 28)),
];

fn collectives() -> impl Iterator<Item = Cell> {
    COLLECTIVES.iter().flat_map(|&(measure, test)| {
        let large = (measure == "mpi-allreduce").then_some(AS_PUBLISHED);
        let settings = PLACEMENTS.into_iter().chain(large.into_iter().flatten());
        settings.map(move |(configuration, setting)| {
            let work = spread(setting, test, COLLECTIVE_TAKES);
            cell(Study::S2, measure, configuration, Unit::Microseconds, work)
        })
    })
}

const COLLECTIVE_TAKES: u64 = 30;

/// Eight ranks and as many processors, in an increasing number of guests.
const SEARCHED: [(&str, Setting); 5] = [
    ("native", PROCESSES.spread(2, 4)),
    ("vms-1", VMS.spread(1, 8)),
    ("vms-2", VMS.spread(2, 4)),
    ("vms-4", VMS.spread(4, 2)),
    ("vms-8", VMS.spread(8, 1)),
];

const SEARCH: [&str; 2] = ["bfs", "bfs --scale 12 --roots 4"];

fn searches() -> impl Iterator<Item = Cell> {
    SEARCHED.into_iter().map(|(configuration, setting)| {
        let work = spread(setting, SEARCH, COLLECTIVE_TAKES);
        cell(Study::S2, "bfs", configuration, Unit::Seconds, work)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the guests would not be the only difference.
    #[test]
    fn rivals_have_as_many_processors() {
        for (settings, processors) in [
            (&PLACEMENTS[..], 4),
            (&AS_PUBLISHED[..], 28),
            (&SEARCHED[..], 8),
        ] {
            for (configuration, setting) in settings {
                assert_eq!(setting.processors_in_all(), processors, "{configuration}");
            }
        }
    }
}
