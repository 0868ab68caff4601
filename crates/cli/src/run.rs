//! `vrdma run`: a program with our libibverbs in front of the system's.
//!
//! ```text
//!   adapter named ─────────────────────────────► program ──► its exit status
//!   none ──► throw-away adapter ──► program ──► removed
//! ```
//!
//! Signals that would end this process end the program first, so that the adapter is removed. If this process is
//! killed, the daemon removes the adapter when the program and its children have ended too.

mod cores;

use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};

use rustix::io::FdFlags;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use vrdma_api::{
    Adapter, AdapterKind, AdapterRequest, DoorbellMode, Name, Status, installation, paths,
};
use vrdma_api_client::Client;

use crate::arguments::RunOptions;
use crate::failure::Failure;

/// Added to a signal's number for the exit status of a program that the signal ended, as shells do.
const SIGNALLED: i32 = 128;

/// Runs the program and returns its exit status.
pub(crate) fn run(client: &Client, options: &RunOptions) -> Result<ExitCode, Failure> {
    let library = installation::library(options.library.as_deref()).map_err(Failure::new)?;
    let status: Status = client.get(paths::STATUS)?;
    let cores = status.shards.iter().filter_map(|shard| shard.core);
    cores.for_each(cores::keep_off);
    if let Some(name) = &options.adapter {
        return launch(options, &library, usable(&status, name)?);
    }
    let adapter: Adapter = client.post(paths::ADAPTERS, &throw_away(&status, options)?)?;
    // `_hold` is closed after the adapter is removed: closing it removes the adapter too.
    let (outcome, _hold) = match hold(client, &adapter.name) {
        Ok(hold) => (launch(options, &library, &adapter), Some(hold)),
        Err(failure) => (Err(failure), None),
    };
    let removed = client.delete(&paths::adapter(&adapter.name));
    let code = outcome?;
    removed?;
    Ok(code)
}

/// Returns a socket that removes the adapter when this process and all that it starts from here on are gone.
fn hold(client: &Client, adapter: &Name) -> Result<UnixStream, Failure> {
    let hold = client.hold(adapter)?;
    rustix::io::fcntl_setfd(&hold, FdFlags::empty()).map_err(|error| {
        Failure::new(format!("cannot pass the adapter on to programs: {error}"))
    })?;
    Ok(hold)
}

/// Returns an adapter that processes can open.
pub(crate) fn usable<'a>(status: &'a Status, name: &Name) -> Result<&'a Adapter, Failure> {
    let adapter = status.adapters.iter().find(|adapter| adapter.name == *name);
    match adapter {
        Some(adapter) if adapter.kind == AdapterKind::Process => Ok(adapter),
        Some(_) => Err(Failure::new(format!(
            "the adapter {name} is not for processes; add one with `vrdma adapter add NAME --portgroup GROUP --kind process`"
        ))),
        None => Err(Failure::new(format!(
            "there is no adapter {name}; `vrdma adapter list` shows those that exist"
        ))),
    }
}

/// An adapter for this program alone, in the named port group or the only one.
fn throw_away(status: &Status, options: &RunOptions) -> Result<AdapterRequest, Failure> {
    let only = || match status.portgroups.as_slice() {
        [only] => Ok(only.name.clone()),
        [] => Err("there is no port group; add one with `vrdma portgroup add NAME`"),
        _ => Err("there are several port groups; name one with --portgroup"),
    };
    let portgroup = options.portgroup.clone().map_or_else(only, Ok);
    let name = format!("run-{}", std::process::id());
    Ok(AdapterRequest {
        name: name
            .parse()
            .map_err(|error| Failure::new(format!("{error}")))?,
        portgroup: portgroup.map_err(Failure::new)?,
        mac: None,
        doorbells: DoorbellMode::default(),
        kind: AdapterKind::Process,
        ip: options.ip.into_iter().collect(),
        shard: None,
        away: false,
        limits: Default::default(),
        weight: Default::default(),
        users: Vec::new(),
        groups: Vec::new(),
    })
}

/// The variables by which the program finds our library: preloaded in place of the system's, and in a folder with both
/// of its names for programs that load it at run time.
fn library_variables(library: &Path) -> [(&'static str, OsString); 2] {
    let folder = library.parent().unwrap_or(Path::new("/"));
    let places = [("LD_PRELOAD", library), ("LD_LIBRARY_PATH", folder)];
    places.map(|(name, ours)| (name, before(ours, std::env::var_os(name))))
}

/// A list of paths: `ours` first, then what was there.
fn before(ours: &Path, others: Option<OsString>) -> OsString {
    let mut value = ours.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

fn launch(options: &RunOptions, library: &Path, adapter: &Adapter) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot wait: {error}")))?;
    let [program, arguments @ ..] = options.command.as_slice() else {
        return Err(Failure::new("name a program behind --"));
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(library_variables(library))
        .env(paths::ADAPTER_VARIABLE, adapter.name.as_str());
    if let Some(socket) = &adapter.process_socket {
        command.env(paths::PROCESS_SOCKET_VARIABLE, socket);
    }
    if options.fast_local {
        command.env(paths::FAST_LOCAL_VARIABLE, "1");
    }
    if options.no_adopt {
        command.env(paths::ADOPT_VARIABLE, "0");
    }
    let status = runtime.block_on(async {
        // Handlers first: a signal before they are set must not leave the adapter behind.
        let signals = Signals::take()?;
        let child = command.spawn()?;
        wait(child, signals).await
    });
    let status = status
        .map_err(|error| Failure::new(format!("cannot run {}: {error}", program.display())))?;
    Ok(code(status))
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
}

impl Signals {
    fn take() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}

/// Waits for the program. A terminal interrupts the program too; other signals are passed on.
async fn wait(mut child: Child, mut signals: Signals) -> std::io::Result<ExitStatus> {
    let pid = Pid::from_child(&child);
    let mut ended = tokio::task::spawn_blocking(move || child.wait());
    loop {
        let passed_on = tokio::select! {
            status = &mut ended => return status.map_err(std::io::Error::other)?,
            _ = signals.interrupt.recv() => None,
            _ = signals.terminate.recv() => Some(Signal::TERM),
            _ = signals.hang_up.recv() => Some(Signal::HUP),
        };
        if let Some(signal) = passed_on {
            // The program may have ended this moment; then nothing is to be done.
            let _ = kill_process(pid, signal);
        }
    }
}

fn code(status: ExitStatus) -> ExitCode {
    let signalled = || SIGNALLED + status.signal().unwrap_or_default();
    ExitCode::from(status.code().unwrap_or_else(signalled) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_those_of_a_shell() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), ExitCode::from(3));
        assert_eq!(code(ExitStatus::from_raw(9)), ExitCode::from(137));
    }
}
