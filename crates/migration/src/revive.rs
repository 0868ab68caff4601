//! Takes a migration back, so that the VM runs on at the source.
//!
//! ```text
//!   contexts forgotten ─► adapters thawed ─► migration cancelled, VM running ──► capabilities and
//!   (destination)         (source)           (source)                            parameters as before
//! ```
//!
//! The adapters are thawed before the VM runs: a guest beside a frozen adapter would wait at its first command. Each
//! step is tried whether or not the earlier ones succeeded. The destination's QEMU is left to whoever started it.
//!
//! The program that began a migration takes it back. If that program has died, another one does; it does not know how
//! far the migration came, and tries all steps.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::adapter::AdapterHandle;
use crate::checks;
use crate::copying::{Copying, POST_COPY};
use crate::error::{Cause, Error};
use crate::machine::{Machine, Side};
use crate::progress::Watcher;
use crate::qmp::EventKind;
use crate::relay::Offered;
use crate::{Host, Hosts, Options, Transfer, flow};

/// How long QEMU may take to cancel a migration.
pub(crate) const CANCEL_LIMIT: Duration = Duration::from_secs(20);

/// Interval of polling a migration that is being cancelled, when no event comes.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Steps that were tried and must therefore be taken back: a step may have been done even if it failed.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    pub(crate) tracked: bool,
    pub(crate) frozen: bool,
    pub(crate) context: bool,
    pub(crate) capabilities: bool,
    /// Earlier values of the source's parameters, if known.
    pub(crate) parameters: Option<Value>,
    pub(crate) migrating: bool,
    /// The relay's file, which the source's QEMU has.
    pub(crate) file: Option<Offered>,
}

impl Undo {
    const ALL: Self = Self {
        tracked: true,
        frozen: true,
        context: true,
        capabilities: true,
        parameters: None,
        migrating: true,
        file: None,
    };

    /// Takes the steps back. Returns sentences about what could not be taken back.
    pub(crate) fn undo(
        &self,
        source: &mut Host,
        destination: &[AdapterHandle],
        copying: &Copying,
    ) -> Vec<String> {
        let mut left = Vec::new();
        if self.context {
            for adapter in destination {
                // A daemon that refused the context has none to forget.
                let _ = adapter.forget_context();
            }
        }
        if self.tracked {
            let thawed = source.adapters.iter().map(|it| (it.name(), it.thaw()));
            let failed = thawed.filter_map(|(name, thawed)| Some((name, thawed.err()?)));
            // An adapter that could not be tracked has nothing to thaw either.
            left.extend(failed.filter(|_| self.frozen).map(|(name, why)| {
                format!(
                    "the adapter {name} may stand still at the source ({why}), restart its daemon"
                )
            }));
        }
        let source = &mut source.machine;
        if self.migrating
            && let Err(why) = revive(source)
        {
            left.push(format!(
                "the VM may stand still at the source ({why}), cont lets it run"
            ));
        }
        if self.capabilities {
            // For a later migration by another program, which would otherwise wait for us.
            let _ = source.reset_capabilities(copying);
        }
        let files = self.file.as_ref().map(|file| &file.parameters);
        for before in self.parameters.iter().chain(files) {
            let _ = source.execute("migrate-set-parameters", before.clone());
        }
        if let Some(file) = &self.file {
            // The file may have been withdrawn already.
            let _ = source.withdraw(file);
        }
        left
    }
}

/// Where a VM runs after a recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovered {
    /// The migration was taken back.
    AtSource,
    /// The VM had left by post-copy, and the migration was completed.
    AtDestination,
}

/// Takes back a migration whose orchestrator died before the source had given the adapter up. The destination may be
/// gone. If there is nothing to take back, nothing changes, except that a paused VM runs afterwards. A VM that has left
/// by post-copy is not taken back: its migration is completed.
///
/// # Errors
/// [`Error::Unfit`] when the source does not answer or has given the adapter up, [`Error::Unrecovered`] with what could
/// not be taken back, and [`Error::Released`] with the place of a VM that has left.
pub fn recover(options: &Options, watcher: &mut dyn Watcher) -> Result<Recovered, Error> {
    checks::check_options(options)?;
    let names = &options.adapters;
    let mut source = Host::connect(&options.source, names, Side::Source)?;
    for adapter in &source.adapters {
        check_is_here(adapter)?;
    }
    if has_gone(&mut source.machine)? {
        let destination = Host::connect(&options.destination, names, Side::Destination)?;
        let transfer = Transfer {
            hosts: Hosts {
                source,
                destination,
            },
            options: options.clone(),
            functions: Vec::new(),
            relay: None,
            destinations: Vec::new(),
        };
        return flow::recover_post_copy(transfer, watcher).map(|()| Recovered::AtDestination);
    }
    let control = &options.destination.control;
    let destination = AdapterHandle::all(control, names, Side::Destination)?;
    let left = Undo::ALL.undo(&mut source, &destination, &options.memory);
    match left.is_empty() {
        true => Ok(Recovered::AtSource),
        false => Err(Error::Unrecovered { left }),
    }
}

fn check_is_here(adapter: &AdapterHandle) -> Result<(), Error> {
    if adapter.look()?.away {
        let name = adapter.name();
        return Err(Error::Unfit(format!(
            "the source has given the adapter {name} up, so the VM cannot go on there with its connections; if the destination's adapter is not away, let the VM run there with cont, and quit the source's QEMU"
        )));
    }
    Ok(())
}

/// Whether the VM may have run at the destination, by post-copy: its writes there are missing here.
fn has_gone(source: &mut Machine) -> Result<bool, Cause> {
    let status = source.migration()?.status;
    let may_have = status.starts_with("postcopy") || status == "completed";
    Ok(may_have && source.has_capability(POST_COPY)?)
}

/// Cancels the migration and waits until the VM runs. QEMU resumes it by itself unless everything had been sent.
fn revive(source: &mut Machine) -> Result<(), Cause> {
    let deadline = Instant::now() + CANCEL_LIMIT;
    if !source.migration()?.is_over() {
        source.execute("migrate_cancel", json!({}))?;
        while !source.migration()?.is_over() {
            if Instant::now() > deadline {
                return Err(Cause::new("QEMU does not cancel the migration"));
            }
            wait_for_status(source)?;
        }
    }
    if source.state()? == "running" {
        return Ok(());
    }
    source.execute("cont", json!({})).map(drop)
}

fn wait_for_status(source: &mut Machine) -> Result<(), Cause> {
    while let Some(event) = source.next_event(LOOK_EVERY)? {
        if matches!(event.kind, EventKind::Migration(_)) {
            break;
        }
    }
    Ok(())
}
