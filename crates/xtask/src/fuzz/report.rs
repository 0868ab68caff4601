//! The table at the end, and how to see again what was found.

use std::path::Path;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

use super::running::Figures;

pub(super) fn print(figures: &[Figures], as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", serde_json::to_string_pretty(&json(figures))?);
    } else {
        println!("{}", table(figures));
    }
    for (target, command) in figures.iter().flat_map(commands) {
        eprintln!("{target} fails again by: {command}");
    }
    Ok(())
}

pub(super) fn table(figures: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header(["target", "executions", "/s", "corpus", "crashes"]);
    let row = |name: &str, numbers: [u64; 4]| {
        let numbers = numbers.map(|number| number.to_string());
        [vec![name.to_owned()], numbers.to_vec()].concat()
    };
    for it in figures {
        let numbers = [
            it.executions,
            it.per_second,
            it.corpus,
            it.found.len() as u64,
        ];
        table.add_row(row(&it.target, numbers));
    }
    table.add_row(row("all", sums(figures)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn sums(figures: &[Figures]) -> [u64; 4] {
    let sum = |of: fn(&Figures) -> u64| figures.iter().map(of).sum();
    [
        sum(|it| it.executions),
        sum(|it| it.per_second),
        sum(|it| it.corpus),
        sum(|it| it.found.len() as u64),
    ]
}

fn json(figures: &[Figures]) -> serde_json::Value {
    let row = |it: &Figures| {
        json!({
            "target": it.target,
            "executions": it.executions,
            "executions_per_second": it.per_second,
            "corpus": it.corpus,
            "crashes": it.found,
        })
    };
    let rows: Vec<_> = figures.iter().map(row).collect();
    json!({ "targets": rows, "executions": sums(figures)[0], "crashes": sums(figures)[3] })
}

fn commands(figures: &Figures) -> impl Iterator<Item = (&str, String)> {
    let command = |file: &Path| format!("{} {}", figures.program.display(), file.display());
    figures
        .found
        .iter()
        .map(move |file| (figures.target.as_str(), command(file)))
}
