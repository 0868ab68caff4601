//! Paravirtual RDMA for high-performance computing (2021): OpenFOAM, and, to check the set-up, the device's properties
//! and a bandwidth.

use super::{PROCESSES, VMS, cell, own, perftest};
use crate::cell::{Cell, Setting, Transport, Unit, Work};
use crate::key::Study;
use crate::tool::Tool;

/// Configuration, size, ranks.
const CAVITY: &[(&str, u32)] = &[
    ("pvrdma", 20),
    ("passthrough", 40),
    ("tcp", 40),
    ("rxe", 40),
];

/// Two ranks on a mesh that small machines solve in seconds.
const SMALL: [(&str, Setting); 5] = [
    ("pvrdma", VMS),
    ("tcp", VMS.over(Transport::Tcp)),
    ("rxe", VMS.over(Transport::Rxe)),
    ("native-rdma", PROCESSES),
    ("native-tcp", PROCESSES.over(Transport::Tcp)),
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
    let small = SMALL.iter().map(|&(configuration, setting)| {
        cell(
            Study::S3,
            "cavity-small",
            configuration,
            Unit::Seconds,
            own::cavity(setting),
        )
    });
    let properties = cell(
        Study::S3,
        "device",
        "pvrdma",
        Unit::Count,
        Work::Run(VMS, Tool::Properties),
    );
    let checks = std::iter::once(properties).chain(bandwidth);
    checks.chain(cavity).chain(small).collect()
}
