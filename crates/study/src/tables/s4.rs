//! RDMA for vSphere (2012): what a write costs by each way of giving a VM RDMA.

use super::{PROCESSES, VMS, cell, perftest};
use crate::cell::{Cell, Endpoint, Setting, Transport, Unit, Work};
use crate::key::Study;

const RXE: Setting = Setting::new(Endpoint::Vm, Transport::Rxe);

/// As the slides' native row: no guest, and hardware.
const HCA: Setting = Setting::new(Endpoint::Process, Transport::Hca);

/// Guests with hardware of their own.
const fn lent(transport: Transport) -> Setting {
    Setting::new(Endpoint::Vm, transport)
}

const OURS: [u32; 2] = [5000, 1000];
/// A message takes ten times as long.
const SOFT_ROCE: [u32; 2] = [1000, 300];

const NO_MIGRATION: &str = "vrdmad does not migrate adapters yet";

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

fn migration() -> impl Iterator<Item = Cell> {
    let rows = [
        ("precopy", "tcp", Unit::Pages),
        ("precopy", "rdma", Unit::Pages),
        ("destination-cpu", "rdma", Unit::Percent),
        ("source-cpu", "rdma", Unit::Percent),
    ];
    rows.into_iter().map(|(measure, configuration, unit)| {
        cell(
            Study::S4,
            measure,
            configuration,
            unit,
            Work::Never(NO_MIGRATION),
        )
    })
}
