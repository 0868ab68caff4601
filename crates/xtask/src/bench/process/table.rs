//! Summarises all repetitions of a row in one line.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::Told;
use crate::demo::Samples;

/// One way in one cell.
#[derive(Clone, Debug, Serialize)]
pub(in crate::bench) struct Line {
    pub(in crate::bench) cell: String,
    pub(in crate::bench) name: String,
    pub(in crate::bench) unit: String,
    pub(in crate::bench) typical: Samples,
    pub(in crate::bench) p99: Option<Samples>,
    pub(in crate::bench) p999: Option<Samples>,
}

/// Lines in the order of first mention, those of a cell together.
pub(in crate::bench) fn lines(told: &[Told]) -> Vec<Line> {
    let mut cells: Vec<&str> = Vec::new();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for one in told {
        if !cells.contains(&one.cell.as_str()) {
            cells.push(&one.cell);
        }
        if !names.contains(&(&one.cell, &one.name)) {
            names.push((&one.cell, &one.name));
        }
    }
    names.sort_by_key(|(cell, _)| cells.iter().position(|known| known == cell));
    names
        .into_iter()
        .filter_map(|(cell, name)| line(told, cell, name))
        .collect()
}

fn line(told: &[Told], cell: &str, name: &str) -> Option<Line> {
    let runs = told
        .iter()
        .filter(|one| one.cell == cell && one.name == name);
    let samples = |of: fn(&Told) -> Option<f64>| Samples::of(runs.clone().filter_map(of).collect());
    Some(Line {
        cell: cell.to_owned(),
        name: name.to_owned(),
        unit: runs.clone().next()?.unit.clone(),
        typical: samples(|one| Some(one.typical))?,
        p99: samples(|one| one.p99),
        p999: samples(|one| one.p999),
    })
}

pub(in crate::bench) fn render(lines: &[Line]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header([
        "what",
        "by",
        "typical",
        "least - most",
        "99 %",
        "99.9 %",
        "unit",
    ]);
    table.add_rows(lines.iter().map(row));
    for index in 2..6 {
        if let Some(numbers) = table.column_mut(index) {
            numbers.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn row(line: &Line) -> [String; 7] {
    let tail = |samples: &Option<Samples>| {
        samples
            .as_ref()
            .map_or_else(|| "-".to_owned(), |samples| digits(samples.median))
    };
    let Samples {
        median,
        minimum,
        maximum,
        ..
    } = line.typical;
    [
        line.cell.clone(),
        line.name.clone(),
        digits(median),
        format!("{} - {}", digits(minimum), digits(maximum)),
        tail(&line.p99),
        tail(&line.p999),
        line.unit.clone(),
    ]
}

/// Formats three digits, which is all that such a run can tell.
fn digits(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(cell: &str, name: &str, typical: f64, p99: Option<f64>) -> Told {
        Told {
            cell: cell.to_owned(),
            name: name.to_owned(),
            unit: "us".to_owned(),
            typical,
            p99,
            p999: None,
        }
    }

    #[test]
    fn repetitions_become_medians_and_cells_stand_together() {
        let runs = [
            told("one", "x", 3.0, Some(9.0)),
            told("two", "x", 1.0, None),
            told("one", "y", 0.5, None),
            told("one", "x", 1.0, Some(7.0)),
            told("one", "x", 2.0, Some(8.0)),
        ];
        let lines = lines(&runs);
        let names: Vec<_> = lines
            .iter()
            .map(|line| (line.cell.as_str(), line.name.as_str()))
            .collect();
        assert_eq!(names, [("one", "x"), ("one", "y"), ("two", "x")]);
        assert_eq!(lines[0].typical.median, 2.0);
        assert_eq!(lines[0].p99.as_ref().unwrap().median, 8.0);
        assert!(render(&lines).to_string().contains("1.00 - 3.00"));
    }
}
