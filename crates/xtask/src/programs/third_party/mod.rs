//! `cargo xtask programs --third-party`: third-party programs, from the registries, in containers over our library.
//!
//! ```text
//!   registries --> root with Debian's packages (crates/lab, in the cache) --> row: server on host-a, client on host-b
//!             \--> what is built from sources, Python's wheels, a library's tests: folders that the row sees
//!   then: the daemon lives and has no objects; a table, or --json; --write-page: docs/programs.md
//! ```
//!
//! The host itself gets none of the packages.

mod crates;
mod origin;
mod page;
mod stage;
mod table;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::table::Program;
use super::{Arguments, Stage as _};
use crate::named::{self, Known};
use stage::Stage;
use table::Row;

/// Rows that fail, and why we cannot fix that.
const KNOWN: &[Known] = &[];

/// The outcome of a row.
#[derive(Debug, Serialize)]
struct Told {
    name: &'static str,
    program: &'static str,
    registry: &'static str,
    version: String,
    does: &'static str,
    checked: &'static str,
    passed: bool,
    seconds: f64,
    /// The message of a failure.
    words: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let names: Vec<&str> = table::rows(arguments.short).map(|row| row.name).collect();
    arguments.only.check(&names)?;
    let rows = table::rows(arguments.short).filter(|row| arguments.only.means(row.name));
    let rows: Vec<&Row> = rows.collect();
    if arguments.list {
        rows.iter().for_each(|row| println!("{}", row.name));
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(
        !arguments.write_page || rows.len() == table::ROWS.len(),
        "the page tells of all rows: leave out --short and --only"
    );
    let stage = Stage::start(rows.iter().any(|row| row.is_built()))?;
    let told = rows.iter().enumerate().map(|(index, row)| {
        let told = tell(row, &stage);
        progress(index + 1, rows.len(), &told);
        told
    });
    let told: Vec<Told> = told.collect();
    let failed = told.iter().filter(|told| told.is_unexpected()).count();
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&told)?),
        false => println!(
            "{}\n{} rows, {failed} failed",
            page::table(&told),
            told.len()
        ),
    }
    if arguments.write_page {
        page::write(&told)?;
    }
    Ok(ExitCode::from(u8::from(failed > 0)))
}

impl Told {
    fn is_unexpected(&self) -> bool {
        !self.passed && named::reason(KNOWN, self.name).is_none()
    }
}

/// Runs a row and returns its outcome.
fn tell(row: &'static Row, stage: &Stage) -> Told {
    let start = Instant::now();
    let version = row.version(stage.root());
    let outcome = match &version {
        Ok(_) => perform(row, stage),
        Err(error) => Err(anyhow::anyhow!("cannot be installed: {error:#}")),
    };
    Told {
        name: row.name,
        program: row.origin.name(),
        registry: row.origin.registry(),
        version: version.unwrap_or_default(),
        does: row.does,
        checked: row.checked,
        passed: outcome.is_ok(),
        seconds: start.elapsed().as_secs_f64(),
        words: outcome.err().map(|error| format!("{error:#}")),
    }
}

fn perform(row: &Row, stage: &Stage) -> Result<()> {
    let program = Program {
        name: row.name.to_owned(),
        server: row.server.to_owned(),
        client: row.client.to_owned(),
        expect: row.expect.to_vec(),
        // A client that needs no server cannot have come too early for it.
        together: row.server.is_empty(),
    };
    let ran = super::check_within(row.limit, &program, stage.places());
    ran.and_then(|()| stage.settles())
        .map_err(|error| error.context(stage.logs()))
}

/// Prints a line for each row as it ends, to standard error, so that neither the table nor the JSON is disturbed.
fn progress(number: usize, of: usize, told: &Told) {
    let known = named::reason(KNOWN, told.name);
    let word = named::word(told.passed, known);
    eprintln!(
        "[{number:>2}/{of}] {word} {} {} ({:.1} s)",
        told.name, told.version, told.seconds
    );
    match (&told.words, known) {
        (Some(_), Some(reason)) => eprintln!("{reason}"),
        (Some(words), None) => eprintln!("{words}"),
        (None, _) => {}
    }
}
