//! Contents of a report.

use super::*;
use crate::cell::Unit;
use crate::key::{CellKey, Study};
use crate::machine::Machine;
use crate::plan::Scale;
use crate::record::{CellRecord, Header, Repetition};
use crate::tool::Figure;

fn results() -> Results {
    let cell = |configuration: &str, values: &[f64]| {
        let mut record = CellRecord::new(
            CellKey::new(Study::S4, "write-lat", configuration),
            Unit::Microseconds,
        );
        for &value in values {
            record.push(Repetition {
                at: 0,
                seconds: 1.0,
                busy_before: 0.9,
                figures: vec![Figure {
                    size: "2".to_owned(),
                    value,
                    mean: None,
                }],
                failure: None,
            });
        }
        record
    };
    let mut failed = cell("A", &[]);
    failed.reason = Some("no <card>\nand a log".to_owned());
    Results {
        header: Header::new(Machine::default(), Scale::Short, 2, 0),
        cells: vec![cell("native", &[3.0, 5.0]), cell("F", &[20.0]), failed],
    }
}

fn page() -> Page {
    Page::new(&results(), &published::all().unwrap())
}

/// The row of the list for this configuration.
fn row(configuration: &str) -> Vec<String> {
    let page = page();
    let rows = &page.studies[4].list.rows;
    rows.iter()
        .find(|row| row[..2] == ["write-lat", configuration])
        .unwrap()
        .clone()
}

#[test]
fn published_and_ours_stand_beside_each_other_with_their_ratios() {
    assert_eq!(
        row("F")[..8],
        [
            "write-lat",
            "F",
            "2 B",
            "us",
            "5.00",
            "4.17 × native",
            "20.0",
            "5.00 × native",
        ]
    );
    assert_eq!(row("native")[4..8], ["1.20", "", "4.00 (3.00 to 5.00)", ""]);
}

#[test]
fn ratios_that_are_worse_than_published_are_told_in_words() {
    assert_eq!(
        page().studies[4].worse,
        ["write-lat, F: 5.00 × native here and 4.17 × published."]
    );
    let mut better = results();
    better.cells[1].figures.clear();
    let better = Page::new(&better, &published::all().unwrap());
    assert!(better.studies[4].worse.is_empty());
}

#[test]
fn what_has_no_figure_has_a_reason() {
    assert_eq!(row("A")[6..8], ["–", ""]);
    assert!(row("A")[8].ends_with("; ours: no <card>"), "{:?}", row("A"));
    assert!(row("D")[8].ends_with("; ours: not part of this run"));
    assert_eq!(page().studies[4].not_run[0].1, "no <card>\nand a log");
}

#[test]
fn every_published_figure_is_in_the_report_with_a_value_or_a_reason() {
    let page = page();
    let text = markdown::page(&page);
    for publication in published::all().unwrap() {
        for figure in publication.figures {
            let number = figure.number.map(|number| number.text).unwrap_or_default();
            assert!(
                text.contains(&number),
                "{}: {number} is missing",
                figure.key
            );
        }
    }
    for section in &page.studies {
        let reasons = section.list.rows.iter();
        assert!(
            reasons
                .clone()
                .all(|row| row[6] != "–" || !row[8].is_empty()),
            "{}",
            section.title
        );
    }
}

#[test]
fn a_page_needs_no_network_and_quotes_safely() {
    let text = html::page(&page()).unwrap();
    assert!(text.contains("no &lt;card&gt;") && !text.contains("<card>"));
    for word in ["src=", "href=", "@import", "url("] {
        assert!(!text.contains(word), "{word}");
    }
    assert!(text.contains("<svg"));
    assert!(text.contains("Before 3 of 3 turns other programs"));
}

#[test]
fn a_report_of_nothing_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let error = read(folder.path()).unwrap_err();
    let sentence = format!("{error:#}");
    assert!(
        sentence.contains("begin one with `vrdma study run`"),
        "{sentence}"
    );
}

#[test]
fn weak_scaling_is_drawn_over_the_ranks() {
    let page = page();
    let drawn = &page.studies[3].lines;
    let cavity = drawn
        .iter()
        .find(|lines| lines.title == "s3 cavity")
        .unwrap();
    let line = |name: &str| {
        let found = cavity.series.iter().find(|series| series.name == name);
        found
            .unwrap()
            .points
            .iter()
            .map(|point| point.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(line("tcp, published"), [40.0, 80.0, 160.0]);
    let others = &page.studies[4].lines;
    assert!(
        others.iter().all(|lines| lines.title != "s4 write-lat"),
        "it has no ranks"
    );
}

#[test]
fn a_quote_says_what_its_figures_are_worth() {
    let noisy = quote(&results(), &published::all().unwrap());
    assert!(noisy.contains("2 of 3 "), "{noisy}");
    assert!(
        noisy.contains("Before 3 of 3 turns") && noisy.contains("little about speed"),
        "{noisy}"
    );

    let mut calm = results();
    let native = calm.cells[0].repetitions[0].clone();
    calm.cells[0].repetitions.extend(vec![native; 5]);
    for turn in calm.cells.iter_mut().flat_map(|cell| &mut cell.repetitions) {
        turn.busy_before = 0.0;
    }
    calm.cells[0].repetitions[0].busy_before = 0.9;
    let calm = quote(&calm, &published::all().unwrap());
    assert!(
        calm.contains("Before 1 of 8 turns") && !calm.contains("little about speed"),
        "{calm}"
    );
}

#[test]
fn one_turn_has_no_spread() {
    let row = |results: &Results| {
        let text = quote(results, &published::all().unwrap());
        let row = text.lines().find(|line| line.contains("paravirtual"));
        row.unwrap().to_owned()
    };
    let mut results = results();
    assert!(row(&results).ends_with("| 5.00 | – |"), "{}", row(&results));
    let again = Repetition {
        figures: vec![Figure {
            size: "2".to_owned(),
            value: 30.0,
            mean: None,
        }],
        ..results.cells[1].repetitions[0].clone()
    };
    results.cells[1].push(again);
    assert!(
        row(&results).ends_with("| 4.00 to 10.0 |"),
        "{}",
        row(&results)
    );
}
