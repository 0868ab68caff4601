//! The house plan's targets for processes, and the values that were measured.

use super::one_thread;
use super::table::Line;
use super::{
    COPIES, INITIATOR, LARGE, LATENCY, MEMCPY, ORDINARY, PINNED_SEND, PINNED_WRITE, RING, SMALL,
    TCP, TINY, TINY_BYTES, UCX_NAME, UNCACHED, WRITE,
};
use crate::bench::finding::{Finding, Target};

/// The ratio of two ways.
struct Ratio {
    what: &'static str,
    /// Cell and name.
    over: [&'static str; 2],
    under: [&'static str; 2],
    target: Option<Target>,
}

const RATIOS: &[Ratio] = &[
    Ratio {
        what: "TCP's latency beside that of ib_write_lat",
        over: [LATENCY, TCP],
        under: [LATENCY, WRITE],
        target: Some(Target::AtLeast(10.0)),
    },
    Ratio {
        what: "the same, daemon on a core of its own",
        over: [LATENCY, TCP],
        under: [LATENCY, PINNED_WRITE],
        target: Some(Target::AtLeast(10.0)),
    },
    Ratio {
        what: "ib_write_lat beside a bare ring",
        over: [LATENCY, WRITE],
        under: [LATENCY, RING],
        target: None,
    },
    Ratio {
        what: "the same, carried out by the initiator (--fast-local)",
        over: [LATENCY, INITIATOR],
        under: [LATENCY, RING],
        target: Some(Target::Below(3.0)),
    },
    Ratio {
        what: "ib_write_bw, 64 B, beside UCX over shared memory",
        over: [TINY, ORDINARY],
        under: [TINY, UCX_NAME],
        target: None,
    },
    Ratio {
        what: "ib_write_bw, 64 KiB, beside memcpy",
        over: [SMALL, ORDINARY],
        under: [SMALL, MEMCPY],
        target: Some(Target::AtLeast(0.8)),
    },
    Ratio {
        what: "ib_write_bw, 1 MiB, beside memcpy",
        over: [LARGE, ORDINARY],
        under: [LARGE, MEMCPY],
        target: Some(Target::AtLeast(0.8)),
    },
    Ratio {
        what: "ib_write_bw, 64 MiB, beside memcpy",
        over: [UNCACHED, ORDINARY],
        under: [UNCACHED, MEMCPY],
        target: Some(Target::AtLeast(0.8)),
    },
    Ratio {
        what: "ib_write_bw, 1 MiB, beside the copies that memory takes where it is not moved",
        over: [LARGE, ORDINARY],
        under: [LARGE, COPIES],
        target: Some(Target::AtLeast(0.9)),
    },
];

/// Most microseconds of a WRITE and a SEND where the daemon has a core for itself.
const WRITE_US: f64 = 1.0;
const SEND_US: f64 = 1.5;
const PINNED_LIMITS: [(&str, f64); 4] = [
    (PINNED_WRITE, WRITE_US),
    (PINNED_SEND, SEND_US),
    (one_thread::WRITE, WRITE_US),
    (one_thread::SEND, SEND_US),
];

/// Fewest million writes of 64 B a second for a pair of programs.
const WRITES_MIN: f64 = 2.0;

pub(super) fn findings(lines: &[Line]) -> Vec<Finding> {
    let value = |[cell, name]: [&str; 2]| {
        let mut lines = lines.iter();
        let line = lines.find(|line| line.cell == cell && line.name == name)?;
        Some(line.typical.median)
    };
    let ratios = RATIOS.iter().filter_map(|ratio| {
        let times = value(ratio.over)? / value(ratio.under)?;
        Some(Finding::new(
            ratio.what.to_owned(),
            times,
            "times",
            ratio.target,
        ))
    });
    let latencies = PINNED_LIMITS.into_iter().filter_map(|(name, limit)| {
        let us = value([LATENCY, name])?;
        let target = Target::AtMost(limit);
        Some(Finding::new(
            format!("{LATENCY}, {name}"),
            us,
            "us",
            Some(target),
        ))
    });
    let writes = value([TINY, ORDINARY]).map(|mbytes| {
        let target = Target::AtLeast(WRITES_MIN);
        let writes = mbytes / TINY_BYTES;
        Finding::new("ib_write_bw, 64 B".to_owned(), writes, "M/s", Some(target))
    });
    ratios.chain(latencies).chain(writes).collect()
}
