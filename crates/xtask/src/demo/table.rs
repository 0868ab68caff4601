//! The table of the demo.

use std::collections::BTreeSet;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::cells::Measure;
use super::measure::{Comparison, Entry};

const HEADER: [&str; 6] = [
    "two VMs on one host",
    "vrdma",
    "rxe",
    "TCP",
    "beside rxe",
    "beside TCP",
];

/// Formats all rows.
pub(super) fn render(rows: &[Comparison]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(HEADER);
    table.add_rows(rows.iter().map(row));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The explanation of the table.
pub(super) fn notes(repetitions: u32) -> String {
    format!(
        "Medians of {repetitions} runs. A latency is perftest's t_typical, the median message of a run, and in \
         brackets the\nmean of all: where guests poll on as many cores as there are guests, some messages wait \
         for a scheduler's\ntick. Writes and sends count half a round trip; a read counts the whole, and is put \
         beside twice TCP's.\nTCP is qperf over the same network card, blocking: half a round trip, mean only. rxe \
         is Linux's software RoCE\nover that card. Bandwidth sends one buffer again and again, as perftest does, so \
         it lies in the cache.\n\"beside\" says how many times as good vrdma's figure is."
    )
}

/// Reasons why entries have no figure, each once: guests that do not start fail all their cells.
pub(super) fn failures(rows: &[Comparison]) -> Vec<String> {
    let mut told = BTreeSet::new();
    let failures = rows.iter().flat_map(row_failures);
    failures
        .filter(|(_, reason)| told.insert(*reason))
        .map(|(what, reason)| format!("* {what}: {}", reason.trim_end()))
        .collect()
}

fn row_failures(row: &Comparison) -> impl Iterator<Item = (String, &str)> {
    let entries = [("vrdma", &row.vrdma), ("rxe", &row.rxe), ("TCP", &row.tcp)];
    entries
        .into_iter()
        .filter_map(|(name, entry)| Some((format!("{name}: {}", entry.command), entry.failure()?)))
}

fn figure(measure: Measure, entry: &Entry) -> Option<String> {
    let value = with_unit(measure, entry.samples()?.median);
    let mean = entry.mean();
    let mean = mean.map(|mean| format!(" ({})", three_digits(mean.median)));
    Some(value + &mean.unwrap_or_default())
}

fn row(row: &Comparison) -> [String; 6] {
    let entries = [&row.vrdma, &row.rxe, &row.tcp];
    let [vrdma, rxe, tcp] =
        entries.map(|entry| figure(row.measure, entry).unwrap_or_else(|| "failed".to_owned()));
    let ratio = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), times);

    [
        row.title.to_owned(),
        vrdma,
        rxe,
        tcp,
        ratio(row.beside_rxe),
        ratio(row.beside_tcp),
    ]
}

fn times(ratio: f64) -> String {
    match ratio {
        ..100.0 => format!("{ratio:.1} x"),
        _ => format!("{ratio:.0} x"),
    }
}

/// Formats three digits, which is all that such a run can tell.
fn with_unit(measure: Measure, value: f64) -> String {
    match measure {
        Measure::OneWay | Measure::RoundTrip => format!("{} us", three_digits(value)),
        Measure::Bandwidth if value >= 1000.0 => format!("{} GB/s", three_digits(value / 1000.0)),
        Measure::Bandwidth | Measure::Messages => {
            format!("{} {}", three_digits(value), measure.unit())
        }
    }
}

fn three_digits(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!(with_unit(Measure::OneWay, 32.404), "32.4 us");
        assert_eq!(with_unit(Measure::RoundTrip, 480.3), "480 us");
        assert_eq!(with_unit(Measure::Bandwidth, 16.66), "16.7 MB/s");
        assert_eq!(with_unit(Measure::Bandwidth, 6463.2), "6.46 GB/s");
    }
}
