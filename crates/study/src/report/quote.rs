//! The ratios of a run that a text quotes, such as docs/figures.md from the newest kept run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::model::{NOTHING, noise};
use super::number::three_digits;
use crate::key::Key;
use crate::plan::Scale;
use crate::published::{self, Publication};
use crate::record::Results;
use crate::tables;

/// Key, and a description for readers who have not seen the study.
const ROWS: &[(&str, &str)] = &[
    (
        "s0/send-lat-polling/virtual/2",
        "send latency, 2 B, polling, VM / native",
    ),
    (
        "s0/read-lat-polling/virtual/2",
        "read latency, 2 B, polling, VM / native",
    ),
    (
        "s1/qperf-rc_bw/container/-",
        "send bandwidth, container / host",
    ),
    (
        "s1/qperf-rc_lat/container/-",
        "send latency, container / host",
    ),
    (
        "s1/mpi-send/host-tcp-one/1GB",
        "1 GB by MPI on a host, TCP / RDMA",
    ),
    (
        "s1/mpi-send/vm-rdma-one/1GB",
        "1 GB by MPI over RDMA, VM / host",
    ),
    (
        "s2/verbs-lat-blocking/virtual/1",
        "send latency, 1 B, events, VM / native",
    ),
    (
        "s2/ip-lat/virtual/1",
        "TCP request and response, VM / native",
    ),
    ("s2/message-rate/virtual/-", "message rate, VM / native"),
    (
        "s4/write-lat/E/2",
        "write latency, rxe between VMs of one host / native",
    ),
    (
        "s4/write-lat/F/2",
        "write latency, paravirtual adapter / native",
    ),
];

/// Marks above and below the quoted rows.
pub const MARKS: [&str; 2] = [
    "<!-- study: begin, written by vrdma study report --quote -->\n",
    "<!-- study: end -->\n",
];

/// A table in Markdown: ratios, published and ours.
#[must_use]
pub fn quote(results: &Results, publications: &[Publication]) -> String {
    let mut text = String::from(
        "| study | ratio | published | ours | spread of ours |\n|---|---|---:|---:|---:|\n",
    );
    for (key, title) in ROWS {
        let Ok(key) = key.parse::<Key>() else {
            continue;
        };
        let mut beside = key.clone();
        beside.cell.configuration = tables::baseline(key.cell.study, &key.cell.measure).to_owned();
        let shown = |ratio: Option<f64>| ratio.map_or_else(|| NOTHING.to_owned(), three_digits);
        let published = shown(published::ratio(publications, &key, &beside));
        let ours = ours(results, &key, &beside);
        let spread = ours.and_then(|(_, spread)| spread).map_or_else(
            || NOTHING.to_owned(),
            |(low, high)| format!("{} to {}", three_digits(low), three_digits(high)),
        );
        let ours = shown(ours.map(|(median, _)| median));
        text.push_str(&format!(
            "| {} | {title} | {published} | {ours} | {spread} |\n",
            key.cell.study
        ));
    }
    text.push_str(&format!(
        "\n{}. {}",
        results.header.machine,
        extent(results)
    ));
    if let Some(noise) = noise(results) {
        text.push_str(&format!(" {noise}"));
    }
    text.push('\n');
    text
}

/// The extent of the run.
fn extent(results: &Results) -> String {
    let all = results.cells.len();
    let measured = results.cells.iter().filter(|cell| !cell.figures.is_empty());
    let length = match results.header.scale {
        Scale::Full => "A full run",
        Scale::Short => "A short run",
    };
    format!(
        "{length} of at most {} repetitions: {} of {all} cells have figures, the others a reason.",
        results.header.repetitions,
        measured.count()
    )
}

/// Ratio of the medians, and the least and the most that the repetitions permit if there are several.
fn ours(results: &Results, key: &Key, beside: &Key) -> Option<(f64, Option<(f64, f64)>)> {
    let samples = |key: &Key| results.cell(&key.cell)?.figures.get(&key.size);
    let (own, other) = (samples(key)?, samples(beside)?);
    let several = own.values.len() > 1 && other.values.len() > 1;
    let spread = (own.minimum / other.maximum, own.maximum / other.minimum);
    Some((own.median / other.median, several.then_some(spread)))
}

/// Writes the rows between the [`MARKS`] of a file.
///
/// # Errors
/// When the file cannot be read or written, or has no marks.
pub fn quote_into(file: &Path, results: &Results) -> Result<()> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let rows = quote(results, &published::all()?);
    let marks = || format!("{} has no line {:?}", file.display(), MARKS[0].trim());
    let quoted = quoted(&text, &rows).with_context(marks)?;
    fs::write(file, quoted).with_context(|| format!("cannot write {}", file.display()))
}

/// The text with the rows between the [`MARKS`]; `None` if there are no marks.
#[must_use]
pub fn quoted(text: &str, rows: &str) -> Option<String> {
    let [begin, end] = MARKS;
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{rows}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::find;

    #[test]
    fn every_quoted_row_is_published() {
        let all = published::all().unwrap();
        for (key, title) in ROWS {
            assert!(find(&all, &key.parse().unwrap()).is_some(), "{title}");
        }
    }

    #[test]
    fn the_guide_quotes_the_newest_kept_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let results = Results::read(&root.join("docs/results/results.json")).unwrap();
        let text = fs::read_to_string(root.join("docs/figures.md")).unwrap();
        let rows = quote(&results, &published::all().unwrap());
        assert!(
            quoted(&text, &rows).unwrap() == text,
            "run vrdma study report --out docs/results --quote docs/figures.md"
        );
    }

    #[test]
    fn a_file_without_marks_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.md");
        fs::write(&file, "nothing\n").unwrap();
        let results = Results {
            header: crate::record::Header::new(
                crate::machine::Machine::default(),
                Scale::Short,
                1,
                0,
            ),
            cells: Vec::new(),
        };
        let error = quote_into(&file, &results).unwrap_err().to_string();
        assert!(error.contains("has no line"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "nothing\n");
    }

    #[test]
    fn rows_are_put_between_the_marks() {
        let [begin, end] = MARKS;
        let text = format!("a\n{begin}old\n{end}b\n");
        assert_eq!(
            quoted(&text, "new\n").unwrap(),
            format!("a\n{begin}new\n{end}b\n")
        );
        assert_eq!(quoted("a", "new"), None);
    }
}
