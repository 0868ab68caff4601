//! The page as one HTML file: style and drawings inside, nothing from a network.

use anyhow::Result;

use super::model::{Page, Section, Table};
use super::plot;

const STYLE: &str = include_str!("report.css");

pub(super) fn page(page: &Page) -> Result<String> {
    let mut body =
        String::from("<h1>Published studies on this machine</h1>\n<ul class=\"notes\">\n");
    for note in &page.notes {
        body.push_str(&format!("<li>{}</li>\n", escaped(note)));
    }
    body.push_str("</ul>\n");
    for section in &page.studies {
        body.push_str(&study(section)?);
    }
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>vRDMA study</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    ))
}

fn study(section: &Section) -> Result<String> {
    let mut text = format!(
        "<section>\n<h2>{}</h2>\n<p>{}</p>\n",
        escaped(&section.title),
        escaped(&section.setting)
    );
    if !section.claims.is_empty() {
        let claims = section
            .claims
            .iter()
            .map(|claim| format!("<li>{}</li>\n", escaped(claim)));
        text.push_str(&format!(
            "<p>It says:</p>\n<ul>\n{}</ul>\n",
            claims.collect::<String>()
        ));
    }
    text.push_str("<div class=\"plots\">\n");
    for bars in &section.bars {
        text.push_str(&figure(&plot::bars(bars)?));
    }
    for lines in &section.lines {
        text.push_str(&figure(&plot::lines(lines)?));
    }
    text.push_str("</div>\n");
    text.push_str(&table(&section.list));
    for curve in &section.curves {
        let rows = table(curve);
        text.push_str(&format!(
            "<details><summary>{}</summary>\n{rows}</details>\n",
            escaped(&curve.title)
        ));
    }
    text.push_str(&worse(section));
    text.push_str(&not_run(section));
    text.push_str("</section>\n");
    Ok(text)
}

fn figure(svg: &str) -> String {
    format!("<figure>{svg}</figure>\n")
}

fn worse(section: &Section) -> String {
    if section.worse.is_empty() {
        return String::new();
    }
    let items = section.worse.iter();
    let items: String = items
        .map(|sentence| format!("<li>{}</li>\n", escaped(sentence)))
        .collect();
    format!("<h3>Ratios that are worse than published</h3>\n<ul>\n{items}</ul>\n")
}

fn not_run(section: &Section) -> String {
    if section.not_run.is_empty() {
        return String::new();
    }
    let row = |(cell, reason): &(String, String)| {
        format!("<dt>{}</dt><dd>{}</dd>\n", escaped(cell), escaped(reason))
    };
    let rows: String = section.not_run.iter().map(row).collect();
    format!("<h3>Not run, and why</h3>\n<dl>\n{rows}</dl>\n")
}

fn table(table: &Table) -> String {
    if table.rows.is_empty() {
        return String::new();
    }
    let class = |column: usize, cell: &str| {
        let is_number =
            cell.starts_with(|first: char| first.is_ascii_digit() || "-–".contains(first));
        if column >= table.words && is_number {
            " class=\"number\""
        } else {
            ""
        }
    };
    let head: String = table
        .head
        .iter()
        .map(|head| format!("<th>{}</th>", escaped(head)))
        .collect();
    let row = |row: &Vec<String>| {
        let cells = row.iter().enumerate();
        let cells: String = cells
            .map(|(column, cell)| format!("<td{}>{}</td>", class(column, cell), escaped(cell)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = table.rows.iter().map(row).collect();
    format!(
        "<div class=\"table\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// Escapes text: reasons quote the output of programs, which is not trusted in a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
