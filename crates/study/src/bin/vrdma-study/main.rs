//! `vrdma-study`: the published studies on this machine; `vrdma study` starts it. It needs no daemon; it starts its
//! own.

#![forbid(unsafe_code)]

mod arguments;

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Error, Result};
use clap::Parser;
use serde::Serialize;
use serde_json::json;
use vrdma_api::{ApiError, installation};
use vrdma_study::record::{Folder, Results};
use vrdma_study::run::End;
use vrdma_study::{Options, compare, list, report, run};

use arguments::{Arguments, Command, ReportOptions, RunOptions};

/// Set by the first Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// Exit status of a command that an interrupt ended, as in shells.
const INTERRUPTED: u8 = 130;

/// Result of a command, for programs and for people.
struct Output {
    json: String,
    text: String,
    status: ExitCode,
}

impl Output {
    /// Makes an output from a value and its text, which ends without a newline.
    fn new(value: &impl Serialize, text: impl Into<String>) -> Result<Self> {
        Ok(Self {
            json: serde_json::to_string_pretty(value)?,
            text: text.into(),
            status: ExitCode::SUCCESS,
        })
    }

    /// Prints the output. A reader that has seen enough (`vrdma study list | head`) is no failure.
    fn print(self, json: bool) -> Result<ExitCode> {
        let form = if json { self.json } else { self.text };
        match writeln!(std::io::stdout(), "{form}") {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot write the result")
            }
            _ => Ok(self.status),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = command(&arguments.command).and_then(|output| output.print(arguments.json));
    outcome.unwrap_or_else(|error| {
        if arguments.json {
            let error = format!("{error:#}");
            eprintln!("{}", json!(ApiError { error }));
        } else {
            eprintln!("vrdma study: {error:#}");
        }
        ExitCode::FAILURE
    })
}

fn command(command: &Command) -> Result<Output> {
    match command {
        Command::List { names } => listed(names),
        Command::Run(options) => measured(options),
        Command::Report(options) => reported(options),
        Command::Compare { a, b } => compared(a, b),
    }
}

fn listed(names: &[String]) -> Result<Output> {
    let rows = list(names)?;
    let text: Vec<String> = rows.iter().map(ToString::to_string).collect();
    Output::new(&rows, text.join("\n"))
}

fn compared(a: &Path, b: &Path) -> Result<Output> {
    let compared = compare::compare(&Results::read(a)?, &Results::read(b)?);
    Output::new(&compared, compared.to_string())
}

fn reported(options: &ReportOptions) -> Result<Output> {
    let (results, own) = report::read(&options.out)?;
    let mut written = report::write(&results, options.to.as_deref().unwrap_or(&own))?;
    if let Some(file) = &options.quote {
        report::quote_into(file, &results)?;
        written.push(file.clone());
    }
    let paths: Vec<String> = written
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Output::new(&paths, paths.join("\n"))
}

fn measured(options: &RunOptions) -> Result<Output> {
    let library = installation::library(options.library.as_deref()).map_err(Error::msg)?;
    wait_for_interrupts()?;
    let options = Options {
        names: options.names.clone(),
        short: options.short,
        repetitions: options.repetitions,
        folder: Folder::at(&options.out),
        library,
        time: options
            .minutes
            .map(|minutes| Duration::from_secs(60 * minutes)),
    };
    let outcome = run(&options, &STOP)?;
    let path = options.folder.results().display().to_string();
    let value = json!({ "results": path, "cells": outcome.cells, "failed": outcome.failed });
    let output = Output::new(&value, format!("{outcome}\n{path}"))?;
    let status = match outcome.end {
        End::Complete | End::OutOfTime => ExitCode::SUCCESS,
        End::Interrupted => ExitCode::from(INTERRUPTED),
    };
    Ok(Output { status, ..output })
}

/// Handles interrupts: the first ends the run in order, the second at once; guests end with this process.
fn wait_for_interrupts() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot wait for signals")?;
    thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if STOP.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED.into());
                }
                eprintln!("ending after this turn; Ctrl-C again to end at once");
            }
        });
    });
    Ok(())
}
