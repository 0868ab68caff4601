//! Developer commands, as `cargo xtask COMMAND`.

#![forbid(unsafe_code)]

mod bench;
mod cargo;
mod check;
mod compiled;
mod counters;
mod demo;
mod fuzz;
mod guests;
mod lab;
mod library;
mod miri;
mod named;
mod nightly;
mod process_host;
mod programs;
mod pyverbs;
mod rxe;
mod sanitize;

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
    /// Figures of the targets, as tables and JSON
    Bench(bench::Arguments),
    /// Two VMs, RDMA between them, one table that compares it with rxe and TCP
    Demo(demo::Arguments),
    /// Unmodified programs in stock guests: all that must work
    Guests(guests::Arguments),
    /// The same programs as processes of this host and in containers
    Programs(programs::Arguments),
    /// Link libibverbs.so.1 and librdmacm.so.1
    Library(library::Arguments),
    /// rdma-core's own tests on this host, over the library and a daemon
    Pyverbs(pyverbs::Arguments),
    /// Coverage-guided fuzzing of what guests, programs and other hosts may write
    Fuzz(fuzz::Arguments),
    /// Unit tests under Miri, for errors that the machine does not notice; needs the nightly toolchain
    Miri(miri::Arguments),
    /// Tests of the daemon under AddressSanitizer or ThreadSanitizer; needs the nightly toolchain
    Sanitize(sanitize::Arguments),
    /// The house rules that a program can check, all findings at once
    Check(check::Arguments),
    /// Only the check that each room uses only the rooms below it
    Layers,
}

fn main() -> ExitCode {
    let outcome = match Xtask::parse().command {
        Command::Lab(command) => command.run(),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Guests(arguments) => guests::run(&arguments),
        Command::Programs(arguments) => programs::run(&arguments),
        Command::Library(arguments) => library::run(&arguments).map(|()| ExitCode::SUCCESS),
        Command::Pyverbs(arguments) => pyverbs::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Miri(arguments) => miri::run(&arguments),
        Command::Sanitize(arguments) => sanitize::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Layers => check::run(&check::Arguments::layers()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
