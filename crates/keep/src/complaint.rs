//! Lines to standard error, which may have no reader.

use std::fmt;
use std::io::{self, Write};

/// Writes a line to standard error if that has a reader. `eprintln!` panics when there is none, as after the end of the
/// program that collected the log, and would end the daemon too.
pub fn complain(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
