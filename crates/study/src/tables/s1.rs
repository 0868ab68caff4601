//! RDMA in a multi-tenant environment (2015): hosts, containers and VMs, TCP and RDMA.

use super::own::{cp, cp_together, mpi, netpipe};
use super::{CONTAINERS, PROCESSES, VMS, cell, qperf};
use crate::cell::{Cell, Setting, Transport, Unit};
use crate::key::Study;
use crate::tool::NetPipe;

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
            let work = qperf(setting.over(transport), test, options, "-");
            cell(Study::S1, measure, configuration, unit, work)
        })
    };
    let rdma = RDMA
        .iter()
        .flat_map(|fact| row(fact, "-cm1", Transport::Vrdma));
    let tcp = TCP.iter().flat_map(|fact| row(fact, "", Transport::Tcp));
    let sizes = rdma.chain(tcp).chain(netpipes());
    transfers().chain(copies()).chain(sizes).collect()
}

/// The rates of the transfers at smaller sizes.
fn netpipes() -> impl Iterator<Item = Cell> {
    let carriers = [("rdma", Transport::Vrdma), ("tcp", Transport::Tcp)];
    [("host", PROCESSES), ("vm", VMS)]
        .into_iter()
        .flat_map(move |(place, setting)| {
            carriers.map(|(carrier, transport)| {
                let work = netpipe(setting.over(transport), NetPipe::Bandwidth);
                let configuration = format!("{place}-{carrier}-one");
                cell(
                    Study::S1,
                    "netpipe-bw",
                    &configuration,
                    Unit::Megabytes,
                    work,
                )
            })
        })
}

/// 10^9 bytes in pieces for which guests have memory; a tenth of it in a short run. The median of three: the first time
/// connects and registers, which for the tenth takes as long as its bytes.
const ONE: [&str; 2] = [
    "transfer --bytes 1000000000 --piece 64M -n 3",
    "transfer --bytes 100000000 --piece 64M --name 1GB -n 3",
];
const FOUR: [&str; 2] = [
    "transfer --bytes 1000000000 --piece 16M --pairs 4 -n 1",
    "transfer --bytes 100000000 --piece 16M --pairs 4 --name 1GB -n 1",
];

const BYTES: [&str; 2] = ["1000000000", "100000000"];

/// Seconds of one transfer and of four at once, about.
const TAKES: [u64; 2] = [12, 30];

/// Number of tenants.
const TENANTS: u8 = 4;
const EACH: [&str; 2] = [
    "transfer --bytes 1000000000 --piece 16M -n 1 --name 1GB.$TENANT --gate $GATE",
    "transfer --bytes 100000000 --piece 16M -n 1 --name 1GB.$TENANT --gate $GATE",
];

fn transfers() -> impl Iterator<Item = Cell> {
    let carriers = [("rdma", Transport::Vrdma), ("tcp", Transport::Tcp)];
    let cell =
        |configuration: &str, work| cell(Study::S1, "mpi-send", configuration, Unit::Seconds, work);
    let pairs = PLACES.into_iter().flat_map(move |(place, setting)| {
        carriers.into_iter().flat_map(move |(carrier, transport)| {
            let setting = setting.over(transport);
            let one = mpi(setting, 1, ONE, TAKES[0]);
            let four = mpi(setting, 4, FOUR, TAKES[1]);
            [("one", one), ("four", four)]
                .map(|(count, work)| cell(&format!("{place}-{carrier}-{count}"), work))
        })
    });
    let tenants = [("vms", VMS), ("containers", CONTAINERS)];
    let tenants = tenants.into_iter().flat_map(move |(place, setting)| {
        carriers.map(|(carrier, transport)| {
            let setting = setting.over(transport).tenants(TENANTS);
            let work = mpi(setting, 1, EACH, TAKES[1]);
            cell(&format!("{place}-{carrier}-four"), work)
        })
    });
    pairs.chain(tenants)
}

fn copies() -> impl Iterator<Item = Cell> {
    let cell =
        |configuration: &str, work| cell(Study::S1, "cp", configuration, Unit::Seconds, work);
    let one = PLACES.map(|(place, setting)| cell(&format!("{place}-rdma-one"), cp(setting, BYTES)));
    let four = [("vms", VMS), ("containers", CONTAINERS)].map(|(place, setting)| {
        let work = cp_together(setting.tenants(TENANTS), BYTES);
        cell(&format!("{place}-rdma-four"), work)
    });
    one.into_iter().chain(four)
}
