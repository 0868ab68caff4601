//! Developer commands, as `cargo xtask COMMAND`.

mod lab;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of vRDMA.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Virtual machines to try vRDMA with
    #[command(subcommand)]
    Lab(lab::Lab),
}

fn main() -> ExitCode {
    let outcome = match Xtask::parse().command {
        Command::Lab(command) => command.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
