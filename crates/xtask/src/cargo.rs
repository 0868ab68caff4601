//! The cargo that runs this program, for building other things.

use std::env;
use std::path::Path;
use std::process::Command;

/// Variables that cargo sets for a program that it runs, about the program's package. Build scripts read them: ring
/// would be rebuilt for each package that asks for it, and all above it.
const OF_PACKAGE: [&str; 7] = [
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_LINKS",
    "CARGO_PKG_NAME",
    "CARGO_PKG_VERSION_MAJOR",
    "CARGO_PKG_VERSION_MINOR",
    "CARGO_PKG_VERSION_PATCH",
    "CARGO_PKG_VERSION_PRE",
];

/// Cargo, at the root of the workspace, with the environment of a shell.
pub(crate) fn command() -> Command {
    of(Command::new(
        env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
    ))
}

/// The same for a command that starts cargo.
pub(crate) fn of(mut command: Command) -> Command {
    for name in OF_PACKAGE {
        command.env_remove(name);
    }
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}
