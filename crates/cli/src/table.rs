//! Tables without lines, as wide as they need to be, for people, `grep` and `awk` alike.

use comfy_table::{Cell, CellAlignment, Table, presets};

/// A column's alignment and heading.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    /// Words, left-aligned.
    Text(&'static str),
    /// Numbers, right-aligned.
    Number(&'static str),
}

/// Formats a table under its headings, or only `empty` if there are no rows.
pub(crate) fn table(columns: &[Column], rows: Vec<Vec<String>>, empty: &str) -> String {
    if rows.is_empty() {
        return empty.to_owned();
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(
        columns
            .iter()
            .map(|column| cell(*column, heading(*column).to_owned())),
    );
    for row in rows {
        table.add_row(
            columns
                .iter()
                .zip(row)
                .map(|(column, text)| cell(*column, text)),
        );
    }
    trimmed(&table)
}

/// Formats facts one per line: name, then value.
pub(crate) fn facts(rows: Vec<(&str, String)>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    for (name, value) in rows {
        table.add_row([name.to_owned(), value]);
    }
    trimmed(&table)
}

fn heading(column: Column) -> &'static str {
    let (Column::Text(heading) | Column::Number(heading)) = column;
    heading
}

fn cell(column: Column, text: String) -> Cell {
    Cell::new(text).set_alignment(match column {
        Column::Text(_) => CellAlignment::Left,
        Column::Number(_) => CellAlignment::Right,
    })
}

/// Formats the table without trailing blanks.
fn trimmed(table: &Table) -> String {
    let lines: Vec<_> = table
        .lines()
        .map(|line| {
            line.strip_prefix(' ')
                .unwrap_or(&line)
                .trim_end()
                .to_owned()
        })
        .collect();
    lines.join("\n")
}

/// Formats bytes for people: about three digits and the unit.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let step = (count.ilog2() / 10) as usize;
    let value = count as f64 / (1u64 << (10 * step)) as f64;
    format!("{value:.1} {}", UNITS[step - 1])
}

/// "yes" and "no".
pub(crate) fn yes_no(yes: bool) -> String {
    (if yes { "yes" } else { "no" }).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short() {
        let shown = [0, 1023, 1024, 1536, 1 << 20, u64::MAX].map(bytes);
        assert_eq!(
            shown,
            ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "16.0 EiB"]
        );
    }

    #[test]
    fn a_table_without_rows_is_a_sentence() {
        assert_eq!(table(&[Column::Text("NAME")], vec![], "none"), "none");
    }
}
