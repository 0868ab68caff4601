//! The table of figures.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::contender::Figures;

/// The median of a contender's cell.
pub(super) fn median(figures: &[Figures], contender: &str, cell: &str) -> Option<f64> {
    let found = figures
        .iter()
        .find(|figures| figures.contender == contender && figures.cell == cell);
    found?.samples.as_ref().map(|samples| samples.median)
}

/// The table with one line a figure: the contenders of a wire do not share their cells.
pub(super) fn render(figures: &[Figures]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(UTF8_FULL_CONDENSED)
        .set_header(["what", "by", "median", "least", "most", "unit"]);
    let mut sorted: Vec<&Figures> = figures.iter().collect();
    sorted.sort_by_key(|figure| position(figures, &figure.cell));
    table.add_rows(sorted.into_iter().map(row));
    for index in 2..5 {
        if let Some(numbers) = table.column_mut(index) {
            numbers.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub(super) fn notes(mtu: u16, repetitions: u32) -> String {
    format!(
        "Medians of {repetitions}, between two network namespaces joined by a veth pair of MTU {mtu}. Guests are on\n\
         emulated processors; the hosts' TCP is not, and passes segments of 64 KiB that no real wire would carry.\n\
         Limit: a byte is copied five times and hashed twice (to a frame, into the kernel, out of it, to a unit, to memory), and\n\
         a client that polls takes a core of its own: on two cores both daemons and all of the kernel share the other."
    )
}

fn position(figures: &[Figures], cell: &str) -> Option<usize> {
    figures.iter().position(|figure| figure.cell == cell)
}

fn row(figures: &Figures) -> [String; 6] {
    let numbers = match (&figures.samples, &figures.failure) {
        (Some(samples), _) => [samples.median, samples.minimum, samples.maximum].map(digits),
        (None, failure) => {
            let failure = failure.as_deref().unwrap_or_default();
            let line = failure.lines().next().unwrap_or_default();
            [format!("failed: {line}"), "-".to_owned(), "-".to_owned()]
        }
    };
    let [median, least, most] = numbers;
    [
        figures.cell.clone(),
        figures.contender.clone(),
        median,
        least,
        most,
        figures.unit.to_owned(),
    ]
}

/// Formats three digits, which is all that such a run can tell.
fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::Samples;

    fn figures(contender: &str, cell: &str, values: Vec<f64>) -> Figures {
        Figures {
            contender: contender.to_owned(),
            cell: cell.to_owned(),
            unit: "MB/s",
            failure: values.is_empty().then(|| "gone\nmore".to_owned()),
            samples: Samples::of(values),
        }
    }

    #[test]
    fn cells_stand_together_and_failures_are_told() {
        let all = [
            figures("x", "one", vec![1.0, 3.0, 2.0]),
            figures("x", "two", vec![200.0]),
            figures("y", "one", vec![]),
        ];
        let text = render(&all).to_string();
        let place = |words: &str| text.find(words).unwrap();
        assert!(place("failed: gone") < place("two"), "{text}");
        assert_eq!(median(&all, "x", "one"), Some(2.0));
        assert_eq!(median(&all, "y", "one"), None);
    }
}
