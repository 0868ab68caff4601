//! Taking back what was begun, so that the VM runs on at the source.
//!
//! ```text
//!   contexts forgotten ─► adapters thawed ─► migration cancelled, VM running ──► capabilities and
//!   (destination)         (source)           (source)                            parameters as before
//! ```
//!
//! The adapters are thawed before the VM runs: a guest that runs beside a frozen one waits for its first command. Each
//! step is tried whatever became of the one before it. The destination's QEMU is left to who started it.
//!
//! Who began a migration takes it back. One whose orchestrator has died is taken back by another program, which does not
//! know how far it came and tries it all.

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

/// Between two looks at a migration that is being cancelled, when no event comes.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What was tried, hence must be taken back: it may have happened though it failed.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    pub(crate) tracked: bool,
    pub(crate) frozen: bool,
    pub(crate) context: bool,
    pub(crate) capabilities: bool,
    /// What the source's parameters were, if that is known.
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

    /// What could not be taken back, in sentences.
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
            // One that refused to track has nothing to thaw either.
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
            // For the next migration of somebody else, who would wait for us.
            let _ = source.reset_capabilities(copying);
        }
        let files = self.file.as_ref().map(|file| &file.parameters);
        for before in self.parameters.iter().chain(files) {
            let _ = source.execute("migrate-set-parameters", before.clone());
        }
        if let Some(file) = &self.file {
            // It may have been withdrawn.
            let _ = source.withdraw(file);
        }
        left
    }
}

/// Where a VM runs whose orchestrator had died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recovered {
    /// What was begun is taken back.
    AtSource,
    /// It had gone by post-copy, and what was left to do is done.
    AtDestination,
}

/// Takes back a migration whose orchestrator died before the source had given the adapter up. The destination may be gone.
/// Where nothing is to be taken back, nothing changes, unless the VM was paused: it runs afterwards. A VM that has gone by
/// post-copy is not taken back: the migration is brought to its end.
///
/// # Errors
/// [`Error::Unfit`] when the source does not answer or has given the adapter up, [`Error::Unrecovered`] with what
/// could not be taken back, and [`Error::Released`] with where a VM is that has gone.
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

/// Whether the VM may have run at the destination, by post-copy: what it has written there is not here.
fn has_gone(source: &mut Machine) -> Result<bool, Cause> {
    let status = source.migration()?.status;
    let may_have = status.starts_with("postcopy") || status == "completed";
    Ok(may_have && source.has_capability(POST_COPY)?)
}

/// Cancels and waits until the VM runs. QEMU resumes it by itself unless all had been sent.
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
