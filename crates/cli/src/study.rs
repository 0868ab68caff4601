//! `vrdma study`: starts `vrdma-study`, a separate program, so that this one need not contain the lab.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use vrdma_api::installation;

use crate::failure::Failure;

/// The program that runs studies.
const PROGRAM: &str = "vrdma-study";

/// How to get the program.
const REMEDY: &str =
    "build it in a checkout with `cargo build --release --package vrdma-study` and put it there";

#[derive(Debug, Args)]
pub(crate) struct StudyOptions {
    /// Command and options of vrdma-study; see `vrdma study --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes `vrdma-study`. Returns only on failure.
pub(crate) fn exec(options: &StudyOptions, json: bool) -> Failure {
    let program = match installation::program(PROGRAM) {
        Ok(program) => program,
        Err(sentence) => return Failure::new(format!("{sentence}; {REMEDY}")),
    };
    let mut command = Command::new(&program);
    if json {
        command.arg("--json");
    }
    let error = command.args(&options.arguments).exec();
    Failure::new(format!("cannot start {}: {error}", program.display()))
}
