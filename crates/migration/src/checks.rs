//! Checks before anything is changed.
//!
//! Stock QEMU takes no notice of the adapter when it migrates, so a mismatch would be found only after the VM was
//! stopped, or by the guest. So everything that can be asked is asked first. Each answer that does not fit becomes one
//! sentence.

use std::path::Path;

use serde::Serialize;
use vrdma_api::{Adapter, AdapterKind, Name};

use crate::adapter::AdapterHandle;
use crate::error::Cause;
use crate::machine::{Function, Machine, MemoryBackend};
use crate::pci::Address;
use crate::{Hosts, Options};

/// Results of the checks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Plan {
    /// The adapters, as they were named.
    pub adapters: Vec<PlannedAdapter>,
    /// PCI addresses at which the guest sees them, in QEMU's order.
    pub pci_addresses: Vec<String>,
    /// The release of both QEMUs.
    pub qemu: String,
    /// Bytes of the VM's memory.
    pub memory_bytes: u64,
    /// Whether the source's daemon brings the adapters' contexts to the destination's; otherwise this program does.
    pub daemon_to_daemon: bool,
}

/// One of the adapters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PlannedAdapter {
    /// Its name.
    pub name: String,
    /// Its port group, of the same name on both hosts.
    pub portgroup: String,
    /// Its MAC address.
    pub mac: String,
}

/// Checks the options before anything is connected to.
pub(crate) fn check_options(options: &Options) -> Result<(), Cause> {
    check_names(&options.adapters)?;
    let (source, destination) = (&options.source, &options.destination);
    if is_same(&source.control, &destination.control) {
        return Err(Cause::new(format!(
            "source and destination are the same daemon, {}; name the other one's control socket as destination",
            source.control.display()
        )));
    }
    if is_same(&source.qmp, &destination.qmp) {
        return Err(Cause::new(format!(
            "source and destination are the same QEMU, {}; start one with -S -incoming defer and name its QMP socket as destination",
            source.qmp.display()
        )));
    }
    match options.memory.conflict() {
        Some(sentence) => Err(Cause::new(sentence)),
        None => Ok(()),
    }
}

fn check_names(names: &[Name]) -> Result<(), Cause> {
    if names.is_empty() {
        return Err(Cause::new("name the adapters of the VM"));
    }
    let mut each = names.iter().enumerate();
    match each.find(|(at, name)| names[..*at].contains(name)) {
        None => Ok(()),
        Some((_, name)) => Err(Cause::new(format!(
            "the adapter {name} is named twice; name each adapter of the VM once"
        ))),
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(a) == real(b)
}

/// Checks both daemons and both QEMUs.
pub(crate) fn check(hosts: &mut Hosts) -> Result<(Plan, Vec<Function>), Cause> {
    let adapters = check_adapters(hosts)?;
    check_releases(hosts)?;
    check_states(hosts)?;
    let functions = check_devices(hosts)?;
    let memory_bytes = check_memory(&mut hosts.source.machine, &mut hosts.destination.machine)?;
    let plan = Plan {
        adapters,
        pci_addresses: functions.iter().map(|it| it.address.to_string()).collect(),
        qemu: hosts.source.machine.version().to_string(),
        memory_bytes,
        daemon_to_daemon: false,
    };
    Ok((plan, functions))
}

fn check_adapters(hosts: &Hosts) -> Result<Vec<PlannedAdapter>, Cause> {
    let both = hosts
        .source
        .adapters
        .iter()
        .zip(&hosts.destination.adapters);
    both.map(|(here, there)| check_adapter(here, there))
        .collect()
}

fn check_adapter(here: &AdapterHandle, there: &AdapterHandle) -> Result<PlannedAdapter, Cause> {
    let (source, destination) = (here.look()?, there.look()?);
    check_identity(&source, &destination)?;
    check_places(&source, &destination)?;
    Ok(PlannedAdapter {
        name: source.name.to_string(),
        portgroup: source.portgroup.to_string(),
        mac: source.mac.to_string(),
    })
}

fn check_identity(source: &Adapter, destination: &Adapter) -> Result<(), Cause> {
    let name = &source.name;
    for (adapter, side) in [(source, "source"), (destination, "destination")] {
        if adapter.kind != AdapterKind::Vm {
            return Err(Cause::new(format!(
                "the adapter {name} is of kind {} at the {side}; only those of kind vm migrate",
                adapter.kind
            )));
        }
    }
    if source.mac != destination.mac {
        return Err(Cause::new(format!(
            "the adapter {name} has the MAC address {} at the source and {} at the destination; add it there with --mac {}",
            source.mac, destination.mac, source.mac
        )));
    }
    if source.portgroup != destination.portgroup {
        return Err(Cause::new(format!(
            "the adapter {name} is in the port group {} at the source and {} at the destination; add it there to {}",
            source.portgroup, destination.portgroup, source.portgroup
        )));
    }
    Ok(())
}

fn check_places(source: &Adapter, destination: &Adapter) -> Result<(), Cause> {
    let name = &source.name;
    if source.away {
        return Err(Cause::new(format!(
            "the adapter {name} is away at the source: its VM is on another host, which has its addresses; migrate it from there"
        )));
    }
    if !destination.away {
        return Err(Cause::new(format!(
            "the adapter {name} is not away at the destination, so that host claims the addresses that the VM uses here; remove it there, and add it with --away"
        )));
    }
    Ok(())
}

fn check_releases(hosts: &Hosts) -> Result<(), Cause> {
    let source = hosts.source.machine.version();
    let destination = hosts.destination.machine.version();
    if source == destination {
        return Ok(());
    }
    Err(Cause::new(format!(
        "the source is QEMU {source} and the destination QEMU {destination}; start the destination with QEMU {source}"
    )))
}

fn check_states(hosts: &mut Hosts) -> Result<(), Cause> {
    let source = &mut hosts.source.machine;
    let under_way = source.migration()?;
    if !under_way.is_over() {
        return Err(Cause::new(format!(
            "the source's QEMU is in a migration already ({}); let it end, or take it back with vrdma migrate --recover if its orchestrator is gone",
            under_way.status
        )));
    }
    let state = source.state()?;
    if state != "running" {
        return Err(Cause::new(format!(
            "the VM does not run at the source, it is {state}; let it run with cont first, or with vrdma migrate --recover after a migration whose orchestrator is gone"
        )));
    }
    let destination = &mut hosts.destination.machine;
    let state = destination.state()?;
    let waits = state == "inmigrate" || state == "prelaunch";
    let began = destination.migration()?;
    // After a failed migration QEMU does not listen, and takes no second order to listen.
    let what = match (waits, began.is_over()) {
        (true, true) => return Ok(()),
        (true, false) => format!("it began with one ({})", began.status),
        (false, _) => format!("it is {state}"),
    };
    Err(Cause::new(format!(
        "the destination's QEMU does not wait for a migration, {what}; start it anew with -S -incoming defer"
    )))
}

/// Returns the PCI address of the only adapter of a VM, for a snapshot.
pub(crate) fn only_adapter(machine: &mut Machine) -> Result<Address, Cause> {
    match machine.adapters()?[..] {
        [only] => Ok(only.address),
        [] => Err(no_adapter(machine)),
        [..] => Err(Cause::new(
            "the VM has several adapters, and there are no snapshots of such VMs yet",
        )),
    }
}

fn no_adapter(machine: &Machine) -> Cause {
    Cause::new(format!(
        "the {}'s QEMU has no adapter (PCI device 15ad:0820); name the QMP socket of the VM that has it",
        machine.side().name()
    ))
}

/// Returns the VM's adapters, and checks that all of them are named.
fn check_devices(hosts: &mut Hosts) -> Result<Vec<Function>, Cause> {
    let named = hosts.source.adapters.len();
    let here = hosts.source.machine.adapters()?;
    if here.is_empty() {
        return Err(no_adapter(&hosts.source.machine));
    }
    if here.len() != named {
        return Err(Cause::new(format!(
            "the VM has {} adapters at the source, and {named} were named; name all adapters of this VM and no others",
            here.len()
        )));
    }
    let there = hosts.destination.machine.adapters()?;
    if are_at(&there, &here) {
        return Ok(here);
    }
    Err(Cause::new(format!(
        "the VM's adapters are {} at the source and {} at the destination; start that QEMU with the same options (vrdma adapter qemu-args --slot)",
        places(&here),
        places(&there)
    )))
}

/// Whether a waiting QEMU has the adapters at these addresses, as far as it shows them: devices behind a bridge show
/// only once bridges have numbers, and are checked before they are configured.
fn are_at(found: &[Function], wanted: &[Function]) -> bool {
    let is_in = |one: &Function, all: &[Function]| all.iter().any(|it| it.address == one.address);
    let shown = |one: &&Function| one.address.bus == 0;
    found.iter().all(|one| is_in(one, wanted))
        && wanted.iter().filter(shown).all(|one| is_in(one, found))
}

/// The same for one adapter.
pub(crate) fn is_at(found: &[Function], address: Address) -> bool {
    let wanted = Function {
        address,
        table: None,
    };
    are_at(found, &[wanted])
}

/// Names the places where adapters were found.
pub(crate) fn places(found: &[Function]) -> String {
    let found: Vec<_> = found.iter().map(|it| it.address.to_string()).collect();
    match found.len() {
        0 => "nowhere".to_owned(),
        _ => format!("at {}", found.join(" and ")),
    }
}

/// Returns the bytes of the VM's memory, which the daemons must be able to map.
fn check_memory(source: &mut Machine, destination: &mut Machine) -> Result<u64, Cause> {
    let here = source.memory_backends()?;
    let there = destination.memory_backends()?;
    check_shared(&here, "source")?;
    check_shared(&there, "destination")?;
    let bytes = |backends: &[MemoryBackend]| backends.iter().map(|backend| backend.size).sum();
    let (total, expected): (u64, u64) = (bytes(&there), bytes(&here));
    if total != expected {
        return Err(Cause::new(format!(
            "the VM has {expected} bytes of memory at the source and {total} at the destination; start that QEMU with the same size"
        )));
    }
    Ok(expected)
}

/// Checks pages for post-copy: with huge pages, the daemon cannot tell which are there.
pub(crate) fn check_pages(hosts: &mut Hosts) -> Result<(), Cause> {
    let blocks = hosts.destination.machine.ram_blocks()?;
    match blocks.iter().find(|block| !block.has_small_pages()) {
        None => Ok(()),
        Some(huge) => Err(Cause::new(format!(
            "the VM's memory {} is of huge pages, which post-copy does not take; leave --post-copy out, perhaps with --auto-converge for it",
            huge.name()
        ))),
    }
}

pub(crate) fn check_shared(backends: &[MemoryBackend], side: &str) -> Result<(), Cause> {
    const MEND: &str = "start QEMU with -object memory-backend-memfd,share=on and -machine memory-backend=, as vrdma adapter qemu-args prints them";
    if backends.is_empty() {
        return Err(Cause::new(format!(
            "the VM's memory at the {side} is of no memory backend, so the daemon cannot see it; {MEND}"
        )));
    }
    match backends.iter().find(|backend| !backend.share) {
        None => Ok(()),
        Some(private) => Err(Cause::new(format!(
            "the memory backend {} at the {side} is not shared, so the daemon cannot see it; {MEND}",
            private.name()
        ))),
    }
}
