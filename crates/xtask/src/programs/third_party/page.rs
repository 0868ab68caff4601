//! The results, as a table for a terminal and as `docs/programs.md`.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use comfy_table::Table;

use super::{KNOWN, Told};
use crate::named;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/programs.md");

const HEAD: &str = "# Programs

Programs of others that run over vRDMA in containers, unmodified. `cargo xtask programs --third-party` gets them from
their registries, runs each pair on two adapters of one daemon, and wrote this page (`--write-page`). After each row the daemon
lives and has no objects left. rdma-core's own tests have a command of their own, `cargo xtask pyverbs`, with `--newest` for those of
Debian's unstable release and `--guest` in a VM; QEMU's `rdma:` migration is among the rows of `cargo xtask programs`.

";

const COLUMNS: [&str; 6] = [
    "row",
    "program",
    "version",
    "what is run",
    "how data is checked",
    "result",
];

pub(super) fn table(told: &[Told]) -> String {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
    table.set_header(COLUMNS);
    for told in told {
        table.add_row(cells(told));
    }
    table.to_string()
}

fn cells(told: &Told) -> [String; 6] {
    let result = match (told.passed, named::reason(KNOWN, told.name)) {
        (true, _) => "ok".to_owned(),
        (false, Some(reason)) => format!("fails: {reason}"),
        (false, None) => "fails".to_owned(),
    };
    let plain = [told.name, &told.version, told.does, told.checked];
    let [name, version, does, checked] = plain.map(str::to_owned);
    let program = format!("{} ({})", told.program, told.registry);
    [name, program, version, does, checked, result]
}

pub(super) fn write(told: &[Told]) -> Result<()> {
    fs::write(PAGE, page(told)).with_context(|| format!("cannot write {PAGE}"))
}

fn page(told: &[Told]) -> String {
    let mut page = HEAD.to_owned();
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    page += &line(&COLUMNS.map(str::to_owned));
    page += "|---|---|---|---|---|---|\n";
    for told in told {
        // An unescaped pipe would end the cell.
        let cells = cells(told).map(|cell| cell.replace('|', "\\|"));
        let _ = write!(page, "{}", line(&cells));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::super::table::ROWS;
    use super::*;

    #[test]
    fn the_page_has_a_line_for_each_row() {
        let page = fs::read_to_string(PAGE).unwrap();
        for row in ROWS {
            assert!(
                page.contains(&format!("\n| {} | {} (", row.name, row.origin.name())),
                "{} is not on the page: cargo xtask programs --third-party --write-page",
                row.name
            );
        }
    }

    #[test]
    fn pipes_do_not_end_cells() {
        let told = Told {
            name: "a|b",
            program: "p",
            registry: "R",
            version: "1".to_owned(),
            does: "it",
            checked: "by itself",
            passed: true,
            seconds: 0.0,
            words: None,
        };
        assert!(page(&[told]).ends_with("\n| a\\|b | p (R) | 1 | it | by itself | ok |\n"));
    }
}
