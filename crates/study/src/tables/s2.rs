//! SR-IOV on InfiniBand clusters (2013): semantics and ways of waiting, native and virtual.

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
    verbs.chain(ip).chain(rate).collect()
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
