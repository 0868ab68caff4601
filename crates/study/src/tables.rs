//! The experiments as tables: what every cell of every study runs.

mod own;
mod s0;
mod s1;
mod s2;
mod s3;
mod s4;

use crate::cell::{Cell, Endpoint, Setting, Transport, Unit, Work};
use crate::key::{CellKey, Study};
use crate::tool::{Column, Perftest, Qperf, Tool};

/// Two processes on adapters of one daemon.
const PROCESSES: Setting = Setting::new(Endpoint::Process, Transport::Vrdma);
/// Two virtual machines with PVRDMA adapters of one daemon.
const VMS: Setting = Setting::new(Endpoint::Vm, Transport::Vrdma);

/// Two containers on adapters of one daemon.
const CONTAINERS: Setting = Setting::new(Endpoint::Container, Transport::Vrdma);

/// All cells, in the order in which they are measured and shown.
#[must_use]
pub fn all() -> Vec<Cell> {
    [
        s0::cells(),
        s1::cells(),
        s2::cells(),
        s3::cells(),
        s4::cells(),
    ]
    .concat()
}

/// Keys of all cells, in that order.
#[must_use]
pub fn order() -> Vec<CellKey> {
    all().into_iter().map(|cell| cell.key).collect()
}

/// The configuration that a measure's others are compared with: published ratios and ours are relative to it.
#[must_use]
pub fn baseline(study: Study, measure: &str) -> &'static str {
    match (study, measure) {
        (Study::S0 | Study::S2 | Study::S4, _) => "native",
        (Study::S1, "mpi-send" | "cp" | "netpipe-bw") => "host-rdma-one",
        (Study::S1, _) => "host",
        (Study::S3, _) => "pvrdma",
    }
}

fn cell(study: Study, measure: &str, configuration: &str, unit: Unit, work: Work) -> Cell {
    Cell {
        key: CellKey::new(study, measure, configuration),
        unit,
        work,
    }
}

fn perftest(
    setting: Setting,
    program: &'static str,
    options: &'static str,
    iterations: [u32; 2],
) -> Work {
    let column = if program.ends_with("_lat") {
        Column::Latency
    } else {
        Column::Bandwidth
    };
    let tool = Perftest {
        program,
        options,
        iterations,
        column,
        point: None,
    };
    Work::Run(setting, Tool::Perftest(tool))
}

/// A cell with one figure.
const fn qperf(
    setting: Setting,
    test: &'static str,
    options: &'static str,
    point: &'static str,
) -> Work {
    Work::Run(
        setting,
        Tool::Qperf(Qperf {
            test,
            options,
            point,
        }),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::sources;

    #[test]
    fn keys_are_unique_and_can_be_read() {
        let cells = all();
        let keys: BTreeSet<String> = cells.iter().map(|cell| cell.key.to_string()).collect();
        assert_eq!(keys.len(), cells.len());
        for key in keys {
            assert!(key.parse::<CellKey>().is_ok(), "{key}");
        }
    }

    #[test]
    fn computed_cells_come_after_what_they_are_computed_from() {
        let cells = all();
        for (index, cell) in cells.iter().enumerate() {
            for source in sources(cell) {
                assert!(
                    cells[..index].iter().any(|earlier| earlier.key == source),
                    "{source}"
                );
            }
        }
    }
}
