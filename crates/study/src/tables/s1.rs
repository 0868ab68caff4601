//! RDMA in a multi-tenant environment (2015): hosts, containers and VMs, TCP and RDMA.

use super::{CONTAINERS, PROCESSES, VMS, cell, qperf};
use crate::cell::{Cell, Setting, Transport, Unit};
use crate::key::Study;

/// Measure, test.
type Fact = (&'static str, &'static str, Unit);

/// Over `rdma_cm` (`-cm1`), as RoCE needs.
const RDMA: &[Fact] = &[
    ("qperf-rc_bw", "rc_bw", Unit::Gigabytes),
    ("qperf-rc_rdma_read_bw", "rc_rdma_read_bw", Unit::Gigabytes),
    (
        "qperf-rc_rdma_write_bw",
        "rc_rdma_write_bw",
        Unit::Gigabytes,
    ),
    ("qperf-rc_bi_bw", "rc_bi_bw", Unit::Gigabytes),
    ("qperf-rc_lat", "rc_lat", Unit::Microseconds),
    (
        "qperf-rc_rdma_read_lat",
        "rc_rdma_read_lat",
        Unit::Microseconds,
    ),
    (
        "qperf-rc_rdma_write_lat",
        "rc_rdma_write_lat",
        Unit::Microseconds,
    ),
];

const TCP: &[Fact] = &[
    ("qperf-tcp_bw", "tcp_bw", Unit::Gigabytes),
    ("qperf-tcp_lat", "tcp_lat", Unit::Microseconds),
];

const PLACES: [(&str, Setting); 3] = [("host", PROCESSES), ("container", CONTAINERS), ("vm", VMS)];

pub(super) fn cells() -> Vec<Cell> {
    let row = |&(measure, test, unit): &Fact, options: &'static str, transport: Transport| {
        PLACES.map(|(configuration, setting)| {
            let setting = Setting {
                transport,
                ..setting
            };
            let work = qperf(setting, test, options, "-");
            cell(Study::S1, measure, configuration, unit, work)
        })
    };
    let rdma = RDMA
        .iter()
        .flat_map(|fact| row(fact, "-cm1", Transport::Vrdma));
    let tcp = TCP.iter().flat_map(|fact| row(fact, "", Transport::Tcp));
    rdma.chain(tcp).collect()
}
