//! Lines to standard error that nobody may be there to read.

use std::fmt;
use std::io::{self, Write};

/// Writes a line to standard error if that has a reader. `eprintln!` panics when it has none, as after the end of whoever
/// collected the log, and would take the daemon with it.
pub fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
