//! `vrdma`: asks and changes a running `vrdmad`.
//!
//! ```text
//!   arguments ──► command ──► client ──► daemon
//!                    │ Report: JSON and text
//!                    └──► standard output, the one that was asked for
//! ```
//!
//! It is a client like any other: it knows the control API and nothing of engines. `vrdma study` is a separate program,
//! which this one becomes. Commands return values; only this file prints and exits.

#![forbid(unsafe_code)]

mod adapter;
mod arguments;
mod doctor;
mod failure;
mod limits;
mod migrate;
mod portgroup;
mod qemu;
mod relay;
mod report;
mod run;
mod snapshot;
mod state;
mod stats;
mod status;
mod study;
mod table;
mod trace;
mod upgrade;
mod uplink;
mod user;

use std::process::ExitCode;

use clap::Parser;
use vrdma_api_client::Client;

use arguments::{Arguments, Command};
use failure::Failure;
use report::Report;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Command::Run(options) = &arguments.command {
        let client = Client::new(arguments.socket()).map_err(Failure::from);
        let code = client.and_then(|client| run::run(&client, options));
        return code.unwrap_or_else(|failure| failure.print(arguments.json));
    }
    if let Command::Study(options) = &arguments.command {
        return study::exec(options, arguments.json).print(arguments.json);
    }
    let outcome = run(&arguments);
    let printed = outcome.and_then(|report| report.print(arguments.json));
    printed.unwrap_or_else(|failure| failure.print(arguments.json))
}

/// Runs one command.
fn run(arguments: &Arguments) -> Result<Report, Failure> {
    let client = Client::new(arguments.socket())?;
    match &arguments.command {
        Command::Status => status::run(&client),
        Command::Portgroup(command) => portgroup::run(&client, command),
        Command::Adapter(command) => adapter::run(&client, command),
        Command::Uplink(command) => uplink::run(&client, command),
        Command::Peer(command) => uplink::run_peer(&client, command),
        Command::User(command) => user::run(&client, command),
        Command::Stats { adapter } => stats::run(&client, adapter.as_ref()),
        Command::Trace(options) => trace::run(&client, options),
        Command::Migrate(options) => migrate::run(&client, options),
        Command::Relay(options) => relay::run(&client, options),
        Command::Upgrade => upgrade::run(&client),
        Command::Doctor(options) => Ok(doctor::run(&client, options)),
        Command::Run(_) | Command::Study(_) => Err(Failure::new("it runs by itself")),
    }
}
