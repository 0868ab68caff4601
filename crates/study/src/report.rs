//! A page with the published numbers, ours, and the ratios that can be compared between machines.
//!
//! ```text
//!   Results + published::all() --side, rows, drawings--> model::Page --html--> report.html (one file, no network)
//!                                          |----markdown--> report.md
//!                                          `----plot--> SVG inside the page
//! ```

mod drawings;
mod html;
mod markdown;
mod model;
mod number;
mod plot;
mod quote;
mod rows;
mod side;
mod worse;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::published;
use crate::record::{Folder, Results, write_bytes};
use crate::tables;
pub use model::Page;
pub use quote::{MARKS, quote, quote_into, quoted};

/// Reads the results in a run's folder, or in its `results.json`, and returns that folder too.
///
/// # Errors
/// When there are no results, or they are damaged.
pub fn read(run: &Path) -> Result<(Results, PathBuf)> {
    if run.is_file() {
        let folder = run.parent().unwrap_or(Path::new("."));
        return Ok((Results::read(run)?, folder.to_owned()));
    }
    let folder = Folder::at(run);
    let results = match folder.begun() {
        true => folder.gather(&tables::order())?,
        false => Results::read(&folder.results()).context(NO_RUN)?,
    };
    Ok((results, run.to_owned()))
}

const NO_RUN: &str = "no run is here: begin one with `vrdma study run`";

/// Writes `report.html` and `report.md` into a folder and returns their paths.
///
/// # Errors
/// When the report cannot be drawn or written.
pub fn write(results: &Results, folder: &Path) -> Result<Vec<PathBuf>> {
    let page = Page::new(results, &published::all()?);
    let files = [
        ("report.html", html::page(&page)?),
        ("report.md", markdown::page(&page)),
    ];
    let mut written = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        write_bytes(&path, text.as_bytes())?;
        written.push(path);
    }
    Ok(written)
}

#[cfg(test)]
mod tests;
