//! RDMA for vSphere (2012): the cost of a write for each way of giving a VM RDMA.

use super::{PROCESSES, VMS, cell, perftest};
use crate::cell::{Cell, Derivation, Endpoint, Setting, Transport, Unit, Work};
use crate::key::Study;
use crate::tool::{MemoryPath, Precopy, Told, Tool};

const RXE: Setting = Setting::new(Endpoint::Vm, Transport::Rxe);

/// The slides' native row: no guest, and hardware.
const HCA: Setting = Setting::new(Endpoint::Process, Transport::Hca);

/// Guests with hardware of their own.
const fn lent(transport: Transport) -> Setting {
    Setting::new(Endpoint::Vm, transport)
}

const OURS: [u32; 2] = [5000, 1000];
/// Fewer messages: each takes ten times as long.
const SOFT_ROCE: [u32; 2] = [1000, 300];

pub(super) fn cells() -> Vec<Cell> {
    let run = |setting, iterations| perftest(setting, "ib_write_lat", "", iterations);
    let options = [
        ("native", run(PROCESSES, OURS)),
        ("native-hca", run(HCA, OURS)),
        ("A", run(lent(Transport::Passthrough), OURS)),
        ("B", run(lent(Transport::Sriov), OURS)),
        ("C", run(lent(Transport::RxeSriov), SOFT_ROCE)),
        ("D", run(RXE.between_hosts(), SOFT_ROCE)),
        ("E", run(RXE, SOFT_ROCE)),
        ("F", run(VMS, OURS)),
    ];
    let mut cells: Vec<Cell> = options
        .map(|(option, work)| cell(Study::S4, "write-lat", option, Unit::Microseconds, work))
        .into();
    cells.extend(migration());
    cells
}

/// Costs that the slides do not separate: seconds for each GiB, of the two QEMUs and of the daemons.
const COSTS: [(&str, Told); 3] = [
    ("source-seconds", Told::Source),
    ("destination-seconds", Told::Destination),
    ("daemon-seconds", Told::Daemon),
];

/// The slides have two streams of TCP and one of RDMA; `rdma-hosts` is between two hosts, where ours is software.
/// `direct` is memory that relays place, as `vrdma migrate --memory direct:` does.
fn migration() -> Vec<Cell> {
    let tcp = PROCESSES.over(Transport::Tcp);
    let ways = [
        ("tcp", tcp, MemoryPath::Streams(2)),
        ("tcp-one", tcp, MemoryPath::Stream),
        ("rdma", PROCESSES, MemoryPath::Stream),
        ("rdma-hosts", PROCESSES.between_hosts(), MemoryPath::Stream),
        ("direct", PROCESSES, MemoryPath::Placed),
        (
            "direct-hosts",
            PROCESSES.between_hosts(),
            MemoryPath::Placed,
        ),
    ];
    let mut cells = Vec::new();
    let measures = [("precopy", Told::Pages)].into_iter().chain(COSTS);
    for (measure, told) in measures {
        let unit = match told {
            Told::Pages => Unit::Pages,
            _ => Unit::Seconds,
        };
        for (configuration, setting, way) in ways {
            // TCP uses no daemon.
            if told == Told::Daemon && setting.transport == Transport::Tcp {
                continue;
            }
            let work = Work::Run(setting, Tool::Precopy(Precopy { told, way }));
            cells.push(cell(Study::S4, measure, configuration, unit, work));
        }
    }
    let savings = [
        ("destination-cpu", "destination-seconds"),
        ("source-cpu", "source-seconds"),
    ];
    for (measure, of) in savings {
        cells.extend(["rdma", "direct"].map(|configuration| {
            let work = Work::Derived(Derivation::Saving(of));
            cell(Study::S4, measure, configuration, Unit::Percent, work)
        }));
    }
    cells
}
