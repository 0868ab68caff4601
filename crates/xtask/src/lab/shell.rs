//! `lab shell` and `lab stop`: the pair that `lab pair --keep` left.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use vrdma_lab::guest::{Control, Running};
use vrdma_lab::pair::{KeptPair, Side};

use super::exit_code;

/// Time for a command's last event after its output; the output itself has no limit.
const END_LIMIT: Duration = Duration::from_secs(30);

#[derive(Args)]
pub(crate) struct Arguments {
    /// Which guest
    guest: Which,
    /// A shell command to run there, instead of a shell
    command: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    A,
    B,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let side = match arguments.guest {
        Which::A => Side::A,
        Which::B => Side::B,
    };
    let guest = kept_pair()?.guest(side)?;
    match &arguments.command {
        Some(command) => follow(&guest.spawn(&format!("{{ {command}\n}} 2>&1"))?),
        None => shell(&guest),
    }
}

pub(crate) fn stop() -> Result<ExitCode> {
    kept_pair()?.stop()?;
    Ok(ExitCode::SUCCESS)
}

fn kept_pair() -> Result<KeptPair> {
    KeptPair::find()?.context("no pair is running: start one with lab pair --keep")
}

/// Runs a shell. `script` gives it a terminal in the guest; the terminal here passes on every key meanwhile.
fn shell(guest: &Control) -> Result<ExitCode> {
    let size = stty(&["size"])?;
    let size = size
        .split_once(' ')
        .context("standard input is no terminal")?;
    let term = std::env::var("TERM").unwrap_or_else(|_| "linux".to_owned());
    let (rows, columns) = size;
    let inside = format!("stty rows {rows} cols {columns}; exec env TERM={term} bash -i");
    let running =
        Arc::new(guest.spawn_with_input(&format!("exec script -qefc '{inside}' /dev/null"))?);
    let _raw = RawTerminal::enter()?;
    let keys = Arc::clone(&running);
    thread::spawn(move || pass_keys(&keys));
    follow(&running)
}

fn pass_keys(to: &Running) {
    let mut keys = [0; 256];
    while let Ok(count @ 1..) = stdin().read(&mut keys) {
        if to.write(&keys[..count]).is_err() {
            return;
        }
    }
}

pub(super) fn follow(running: &Running) -> Result<ExitCode> {
    let mut seen = 0;
    while let Some(news) = running.next_output(seen)? {
        seen += news.len();
        let mut screen = stdout().lock();
        screen.write_all(&news)?;
        screen.flush()?;
    }
    Ok(exit_code(running.wait_status(END_LIMIT)?))
}

/// A terminal without echo or line editing, until dropped.
struct RawTerminal {
    before: String,
}

impl RawTerminal {
    fn enter() -> Result<Self> {
        let before = stty(&["-g"])?;
        stty(&["raw", "-echo"])?;
        Ok(Self { before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // If the terminal has gone, it needs no settings.
        let _ = stty(&[&self.before]);
    }
}

fn stty(arguments: &[&str]) -> Result<String> {
    anyhow::ensure!(
        stdin().is_terminal(),
        "a shell needs a terminal; give a command instead"
    );
    let output = Command::new("stty")
        .args(arguments)
        .stdin(Stdio::inherit())
        .output()?;
    anyhow::ensure!(
        output.status.success(),
        "stty: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
