//! The table of measurements.

use serde::Serialize;

/// The meaning of a figure, which decides its unit and whether more or less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// Microseconds a message, one way; less is better.
    OneWay,
    /// Microseconds of a round trip; less is better.
    RoundTrip,
    /// Megabytes (10^6) a second; more is better.
    Bandwidth,
    /// Thousands of messages a second; more is better.
    Messages,
}

impl Measure {
    pub(super) fn is_latency(self) -> bool {
        matches!(self, Self::OneWay | Self::RoundTrip)
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::OneWay | Self::RoundTrip => "us",
            Self::Bandwidth => "MB/s",
            Self::Messages => "k/s",
        }
    }
}

/// One row: a perftest program with its options, the same for guests a and b.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) title: &'static str,
    pub(super) measure: Measure,
    program: &'static str,
    /// Messages of one repetition over vrdma.
    iterations: u32,
    /// The same over rxe, which takes ten times as long for latency and far longer for bandwidth.
    rxe_iterations: u32,
}

const fn cell(
    title: &'static str,
    measure: Measure,
    program: &'static str,
    iterations: u32,
    rxe_iterations: u32,
) -> Cell {
    Cell {
        title,
        measure,
        program,
        iterations,
        rxe_iterations,
    }
}

/// Bandwidth runs send enough that filling the send queue for the first time does not matter.
pub(super) const CELLS: &[Cell] = &[
    cell(
        "write latency, 2 B, polling",
        Measure::OneWay,
        "ib_write_lat",
        1000,
        300,
    ),
    cell(
        "send latency, 2 B, polling",
        Measure::OneWay,
        "ib_send_lat",
        1000,
        300,
    ),
    cell(
        "send latency, 2 B, events",
        Measure::OneWay,
        "ib_send_lat -e",
        1000,
        300,
    ),
    cell(
        "read round trip, 2 B, polling",
        Measure::RoundTrip,
        "ib_read_lat",
        1000,
        300,
    ),
    cell(
        "write bandwidth, 64 KiB",
        Measure::Bandwidth,
        "ib_write_bw -s 65536",
        5000,
        100,
    ),
    cell(
        "write bandwidth, 1 MiB",
        Measure::Bandwidth,
        "ib_write_bw -s 1048576",
        2000,
        20,
    ),
];

impl Cell {
    /// The server's command; the client's is the same with the server's address added. Index 1 is the GID of the IPv4
    /// address; `-F` accepts that the processor's clock is not what perftest expects.
    pub(super) fn command(&self, over_rxe: bool) -> String {
        let iterations = if over_rxe {
            self.rxe_iterations
        } else {
            self.iterations
        };
        format!("{} -x 1 -F -n {iterations}", self.program)
    }
}
