//! The table at the end, and how to reproduce what was found.

use std::path::Path;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;

use super::running::Figures;
use super::totals::Totals;

pub(super) fn print(figures: &[Figures], totals: &Totals, as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", serde_json::to_string_pretty(&json(figures, totals))?);
    } else {
        println!("{}", table(figures, totals));
        let sums = of_all_runs(totals);
        println!(
            "All runs here: {} executions of {} targets, {} crashes.",
            sums[0],
            totals.len(),
            sums[1]
        );
    }
    for (target, command) in figures.iter().flat_map(commands) {
        eprintln!("{target} fails again by: {command}");
    }
    Ok(())
}

pub(super) fn table(figures: &[Figures], totals: &Totals) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "target",
        "executions",
        "/s",
        "of all runs",
        "corpus",
        "crashes",
    ]);
    let row = |name: &str, numbers: [u64; 5]| {
        let numbers = numbers.map(|number| number.to_string());
        [vec![name.to_owned()], numbers.to_vec()].concat()
    };
    let rows = figures.iter().map(|it| numbers(it, totals));
    let rows: Vec<_> = rows.collect();
    for (it, numbers) in figures.iter().zip(&rows) {
        table.add_row(row(&it.target, *numbers));
    }
    table.add_row(row("all", sums(&rows)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A target's numbers in the table.
fn numbers(it: &Figures, totals: &Totals) -> [u64; 5] {
    let total = totals.get(&it.target).copied().unwrap_or_default();
    [
        it.executions,
        it.per_second,
        total.executions,
        it.corpus,
        it.found.len() as u64,
    ]
}

fn sums(rows: &[[u64; 5]]) -> [u64; 5] {
    let mut sums = [0; 5];
    for row in rows {
        for (sum, number) in sums.iter_mut().zip(row) {
            *sum += number;
        }
    }
    sums
}

/// Executions and crashes of all targets that ever ran, including those that this run left out.
fn of_all_runs(totals: &Totals) -> [u64; 2] {
    let sum = totals.values().fold((0, 0), |(executions, crashes), it| {
        (executions + it.executions, crashes + it.crashes)
    });
    sum.into()
}

fn json(figures: &[Figures], totals: &Totals) -> serde_json::Value {
    let row = |it: &Figures| {
        let [executions, per_second, of_all_runs, corpus, _] = numbers(it, totals);
        json!({
            "target": it.target,
            "executions": executions,
            "executions_per_second": per_second,
            "executions_of_all_runs": of_all_runs,
            "corpus": corpus,
            "crashes": it.found,
        })
    };
    let all: Vec<_> = figures.iter().map(|it| numbers(it, totals)).collect();
    let [executions, .., crashes] = sums(&all);
    let rows: Vec<_> = figures.iter().map(row).collect();
    let [executions_of_all_runs, crashes_of_all_runs] = of_all_runs(totals);
    json!({
        "targets": rows,
        "executions": executions,
        "crashes": crashes,
        "executions_of_all_runs": executions_of_all_runs,
        "crashes_of_all_runs": crashes_of_all_runs,
    })
}

fn commands(figures: &Figures) -> impl Iterator<Item = (&str, String)> {
    let command = |file: &Path| format!("{} {}", figures.program.display(), file.display());
    figures
        .found
        .iter()
        .map(move |file| (figures.target.as_str(), command(file)))
}
