//! Paravirtual RDMA for high-performance computing (2021): OpenFOAM, and a bandwidth as set-up check.

use super::{VMS, cell, own, perftest};
use crate::cell::{Cell, Transport, Unit, Work};
use crate::key::Study;

/// Configuration, size, ranks.
const CAVITY: &[(&str, u32)] = &[
    ("pvrdma", 20),
    ("passthrough", 40),
    ("tcp", 40),
    ("rxe", 40),
];

pub(super) fn cells() -> Vec<Cell> {
    let bandwidth = [("pvrdma", VMS.between_hosts()), ("pvrdma-one-host", VMS)].map(
        |(configuration, setting)| {
            let work = perftest(
                setting,
                "ib_send_bw",
                "-s 65536 -m 1024 -t 128",
                [5000, 500],
            );
            cell(Study::S3, "send-bw", configuration, Unit::Megabytes, work)
        },
    );
    let cavity = CAVITY.iter().map(|&(configuration, ranks)| {
        cell(
            Study::S3,
            "cavity",
            configuration,
            Unit::Seconds,
            Work::Ranks(ranks),
        )
    });
    let small = [
        ("native-rdma", Transport::Vrdma),
        ("native-tcp", Transport::Tcp),
    ]
    .map(|(configuration, transport)| {
        let work = own::cavity(transport);
        cell(
            Study::S3,
            "cavity-small",
            configuration,
            Unit::Seconds,
            work,
        )
    });
    bandwidth.into_iter().chain(cavity).chain(small).collect()
}
