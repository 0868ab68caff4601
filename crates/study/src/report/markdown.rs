//! The page as Markdown, without the drawings.

use super::model::{Page, Section, Table};

pub(super) fn page(page: &Page) -> String {
    let mut text = String::from("# Published studies on this machine\n\n");
    for note in &page.notes {
        text.push_str(&format!("* {note}\n"));
    }
    for section in &page.studies {
        text.push_str(&study(section));
    }
    text
}

fn study(section: &Section) -> String {
    let mut text = format!("\n## {}\n\n{}\n\n", section.title, section.setting);
    for claim in &section.claims {
        text.push_str(&format!("* {claim}\n"));
    }
    text.push_str(&table(&section.list));
    for curve in &section.curves {
        text.push_str(&table(curve));
    }
    if !section.worse.is_empty() {
        text.push_str("\n### Ratios that are worse than published\n\n");
    }
    for sentence in &section.worse {
        text.push_str(&format!("* {sentence}\n"));
    }
    if !section.not_run.is_empty() {
        text.push_str("\n### Not run, and why\n\n");
    }
    for (cell, reason) in &section.not_run {
        let reason = reason.lines().next().unwrap_or_default();
        text.push_str(&format!("* `{cell}`: {reason}\n"));
    }
    text
}

fn table(table: &Table) -> String {
    if table.rows.is_empty() {
        return String::new();
    }
    let line = |cells: &[String]| {
        format!(
            "| {} |\n",
            cells
                .iter()
                .map(|cell| escaped(cell))
                .collect::<Vec<_>>()
                .join(" | ")
        )
    };
    let rule =
        (0..table.head.len()).map(|column| if column < table.words { "---" } else { "---:" });
    let mut text = match table.title.as_str() {
        "" => "\n".to_owned(),
        title => format!("\n### {title}\n\n"),
    };
    text.push_str(&line(&table.head));
    text.push_str(&format!("|{}|\n", rule.collect::<Vec<_>>().join("|")));
    text.extend(table.rows.iter().map(|row| line(row)));
    text
}

fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}
