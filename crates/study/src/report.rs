//! One page: published numbers, ours, and the ratios that carry over.
//!
//! ```text
//!   Results + published::all() --model--> Page --html--> report.html (one file, no network)
//!                                          |----markdown--> report.md
//!                                          `----plot--> SVG inside the page
//! ```

mod html;
mod markdown;
mod model;
mod number;
mod plot;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::key::CellKey;
use crate::published;
use crate::record::{Folder, Results, write_bytes};
use crate::tables;
pub use model::Page;

/// Writes `report.html` and `report.md`; `run` is a run's folder or its `results.json`, `to` another folder for the
/// report. Returns what was written.
///
/// # Errors
/// When there are no results, or they are damaged, or the report cannot be written.
pub fn write(run: &Path, to: Option<&Path>) -> Result<Vec<PathBuf>> {
    let (results, own) = if run.is_file() {
        (Results::read(run)?, run.parent().unwrap_or(Path::new(".")))
    } else {
        let order: Vec<CellKey> = tables::all().into_iter().map(|cell| cell.key).collect();
        (Folder::at(run).gather(&order)?, run)
    };
    let folder = to.unwrap_or(own);
    let page = Page::new(&results, &published::all()?);
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
