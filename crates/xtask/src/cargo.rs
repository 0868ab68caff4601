//! The cargo that runs this program, for what else has to be built.

use std::env;
use std::path::Path;
use std::process::Command;

/// What cargo tells a program that it runs of the program's package, and what build scripts look at: ring would be built
/// anew for each package that asks for it, and all above it.
const OF_PACKAGE: [&str; 7] = [
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_LINKS",
    "CARGO_PKG_NAME",
    "CARGO_PKG_VERSION_MAJOR",
    "CARGO_PKG_VERSION_MINOR",
    "CARGO_PKG_VERSION_PATCH",
    "CARGO_PKG_VERSION_PRE",
];

/// Cargo, at the root of the workspace and as if from a shell.
pub(crate) fn command() -> Command {
    of(Command::new(
        env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
    ))
}

/// The same of a command that starts cargo.
pub(crate) fn of(mut command: Command) -> Command {
    for name in OF_PACKAGE {
        command.env_remove(name);
    }
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command
}
