//! One of the two QEMUs: a migration's queries and commands, typed.
//!
//! States have the names of QEMU 11.1.3. The source is `running`, then `finish-migrate` from pre-switchover on, and
//! `postmigrate` once everything is sent. A destination that was started with `-S -incoming defer` is `inmigrate` until
//! everything is loaded, then `paused`. A source that is cancelled in pre-switchover runs again by itself; from
//! `postmigrate` it needs a `cont`.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::blocks::{self, RamBlock};
use crate::copying::Copying;
use crate::error::Cause;
use crate::pci::{self, Address, ConfigSpace, PortWrite};
use crate::qmp::{Event, Monitor, QmpError, Version};
use crate::relay::{Offered, Relay};

/// QEMU's `query-migrate`, as far as it is used here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct MigrationInfo {
    /// Empty if there was no migration.
    pub(crate) status: String,
    pub(crate) error_desc: Option<String>,
    pub(crate) expected_downtime: Option<u64>,
    pub(crate) ram: Ram,
}

/// Counters of its memory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Ram {
    pub(crate) total: u64,
    pub(crate) remaining: u64,
    pub(crate) transferred: u64,
    pub(crate) normal: u64,
    pub(crate) duplicate: u64,
    pub(crate) dirty_sync_count: u64,
    pub(crate) pages_per_second: u64,
}

impl MigrationInfo {
    /// Whether no migration is under way.
    pub(crate) fn is_over(&self) -> bool {
        matches!(
            self.status.as_str(),
            "" | "none" | "completed" | "failed" | "cancelled"
        )
    }
}

/// A `memory-backend-*` object.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct MemoryBackend {
    #[serde(default)]
    pub(crate) id: Option<String>,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) share: bool,
}

impl MemoryBackend {
    pub(crate) fn name(&self) -> &str {
        self.id.as_deref().unwrap_or("without an id")
    }
}

/// An adapter as QEMU sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) address: Address,
    /// Guest address of BAR 0, where its MSI-X table is; `None` while QEMU waits for a VM.
    pub(crate) table: Option<u64>,
}

/// Which of the two QEMUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Source,
    Destination,
    /// The only QEMU: its state goes into files, or comes from files.
    Alone,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Alone => "VM",
        }
    }
}

pub(crate) struct Machine {
    monitor: Monitor,
    side: Side,
}

impl Machine {
    pub(crate) fn new(monitor: Monitor, side: Side) -> Self {
        Self { monitor, side }
    }

    pub(crate) fn side(&self) -> Side {
        self.side
    }

    pub(crate) fn version(&self) -> Version {
        self.monitor.version()
    }

    fn cause(&self, error: &QmpError) -> Cause {
        Cause::new(format!("the {}'s {error}", self.side.name()))
    }

    pub(crate) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, Cause> {
        let answer = self.monitor.execute(command, arguments);
        answer.map_err(|error| self.cause(&error))
    }

    /// Returns the next event, if one comes within that time.
    pub(crate) fn next_event(&mut self, patience: Duration) -> Result<Option<Event>, Cause> {
        let event = self.monitor.next_event(patience);
        event.map_err(|error| self.cause(&error))
    }

    fn ask<T: DeserializeOwned>(&mut self, command: &str) -> Result<T, Cause> {
        let answer = self.execute(command, json!({}))?;
        T::deserialize(answer).map_err(|error| {
            let side = self.side.name();
            Cause::new(format!(
                "the {side}'s QEMU answers {command} in a way that is not known ({error}); use QEMU 11"
            ))
        })
    }

    /// Returns the VM's state: `running`, `inmigrate`, `paused` and so on.
    pub(crate) fn state(&mut self) -> Result<String, Cause> {
        #[derive(Deserialize)]
        struct Status {
            status: String,
        }
        Ok(self.ask::<Status>("query-status")?.status)
    }

    pub(crate) fn migration(&mut self) -> Result<MigrationInfo, Cause> {
        self.ask("query-migrate")
    }

    /// Whether a capability for migrations is on.
    pub(crate) fn has_capability(&mut self, name: &str) -> Result<bool, Cause> {
        #[derive(Deserialize)]
        struct Capability {
            capability: String,
            state: bool,
        }
        let all: Vec<Capability> = self.ask("query-migrate-capabilities")?;
        Ok(all.iter().any(|it| it.state && it.capability == name))
    }

    pub(crate) fn memory_backends(&mut self) -> Result<Vec<MemoryBackend>, Cause> {
        let mut backends: Vec<MemoryBackend> = self.ask("query-memdev")?;
        backends.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(backends)
    }

    /// Returns its blocks of memory, including those of devices and firmware.
    pub(crate) fn ram_blocks(&mut self) -> Result<Vec<RamBlock>, Cause> {
        let said = self.monitor_command(blocks::QUESTION)?;
        blocks::parse(&said).ok_or_else(|| self.not_understood("its blocks of memory", &said))
    }

    /// Returns its process, if it runs on this host.
    pub(crate) fn process(&self) -> Option<u32> {
        self.monitor.process()
    }

    /// Returns the adapters that this QEMU shows. While it waits, those are on the root bus: bridges have no numbers
    /// yet.
    pub(crate) fn adapters(&mut self) -> Result<Vec<Function>, Cause> {
        let buses: Vec<Value> = self.ask("query-pci")?;
        let mut found = Vec::new();
        buses.iter().for_each(|bus| adapters_below(bus, &mut found));
        Ok(found)
    }

    /// Sets capabilities and parameters for a migration. Returns the earlier values of the parameters.
    pub(crate) fn set_up(&mut self, copying: &Copying) -> Result<Value, Cause> {
        let before = self.ask("query-migrate-parameters")?;
        let before = copying.parameters_before(self.side, &before);
        self.execute("migrate-set-capabilities", copying.capabilities(true))?;
        self.execute("migrate-set-parameters", copying.parameters(self.side))?;
        Ok(before)
    }

    /// Switches on events of migrations, and switches off the rest that a migration to another host would need.
    pub(crate) fn tell_of_migrations(&mut self) -> Result<(), Cause> {
        self.reset_capabilities(&Copying::by(""))
    }

    /// Lifts the limit on bandwidth, as [`Machine::set_up`] does for another host. Returns the earlier parameters.
    pub(crate) fn lift_bandwidth_limit(&mut self) -> Result<Value, Cause> {
        let copying = Copying::by("");
        let before = self.ask("query-migrate-parameters")?;
        let before = copying.parameters_before(Side::Source, &before);
        self.execute("migrate-set-parameters", copying.parameters(Side::Source))?;
        Ok(before)
    }

    /// Has the source write its stream into the relay's file, if there is one.
    pub(crate) fn offer(&mut self, relay: &Relay) -> Result<Option<Offered>, Cause> {
        let offered = relay.offer(&mut self.monitor);
        offered.map_err(|error| self.cause(&error))
    }

    /// Takes the file from QEMU.
    pub(crate) fn withdraw(&mut self, offered: &Offered) -> Result<(), Cause> {
        let withdrawn = offered.withdraw(&mut self.monitor);
        withdrawn.map_err(|error| self.cause(&error))
    }

    /// Switches the capabilities off again.
    pub(crate) fn reset_capabilities(&mut self, copying: &Copying) -> Result<(), Cause> {
        let off = copying.capabilities(false);
        self.execute("migrate-set-capabilities", off).map(drop)
    }

    /// Runs a command of the human monitor, and returns its output.
    fn monitor_command(&mut self, command: &str) -> Result<String, Cause> {
        let said = self.monitor_commands(&[command])?;
        Ok(said.into_iter().next().unwrap_or_default())
    }

    /// Runs several of them, one after the other, and returns their outputs.
    fn monitor_commands(&mut self, commands: &[impl AsRef<str>]) -> Result<Vec<String>, Cause> {
        let arguments = commands
            .iter()
            .map(|command| json!({ "command-line": command.as_ref() }));
        let arguments: Vec<Value> = arguments.collect();
        let said = self
            .monitor
            .execute_each("human-monitor-command", &arguments);
        let said = said.map_err(|error| self.cause(&error))?;
        let text = |said: Value| said.as_str().unwrap_or_default().to_owned();
        Ok(said.into_iter().map(text).collect())
    }

    /// Reads QEMU's MSI-X table of the adapter, which the daemon never sees.
    pub(crate) fn msix_table(
        &mut self,
        address: u32,
    ) -> Result<[u32; vrdma_api::MSIX_TABLE_WORDS], Cause> {
        let said = self.monitor_command(&pci::read_table(address))?;
        pci::table(&said).ok_or_else(|| self.not_understood("its MSI-X table", &said))
    }

    fn write_ports(&mut self, writes: &[PortWrite]) -> Result<(), Cause> {
        let commands: Vec<String> = writes.iter().map(ToString::to_string).collect();
        let said = self.monitor_commands(&commands)?;
        self.check_written(&said)
    }

    /// Checks outputs of port writes: they are empty, unless a write failed.
    fn check_written(&self, said: &[String]) -> Result<(), Cause> {
        let mut said = said.iter().map(|said| said.trim());
        match said.find(|said| !said.is_empty()) {
            None => Ok(()),
            Some(said) => Err(self.not_understood("a write to its PCI configuration", said)),
        }
    }

    /// Gives this QEMU the configuration, if the adapter is at this address. The address port is kept for the guest: it
    /// may have been stopped between its two accesses, and QEMU has loaded what it wrote.
    pub(crate) fn configure(
        &mut self,
        address: Address,
        config: &ConfigSpace,
    ) -> Result<(), Cause> {
        let select = address.select_identity().to_string();
        let said = self.monitor_commands(&[pci::READ_LATCH, &select, pci::READ_DATA])?;
        let value = |said: &String| {
            let value = pci::port_value(said);
            value.ok_or_else(|| self.not_understood("its PCI configuration", said))
        };
        let latch = value(&said[0])?;
        self.check_written(&said[1..=1])?;
        if value(&said[2])? != pci::IDENTITY {
            self.write_ports(&[PortWrite::latch(latch)])?;
            return Err(Cause::new(format!(
                "the {}'s QEMU has no adapter at PCI address {address}; start it with the options that the VM had before",
                self.side.name()
            )));
        }
        let mut writes = config.replay(address);
        writes.push(PortWrite::latch(latch));
        self.write_ports(&writes)
    }

    fn not_understood(&self, what: &str, said: &str) -> Cause {
        let (side, said) = (self.side.name(), said.trim());
        Cause::new(format!(
            "the {side}'s QEMU says {said:?} of {what}; use QEMU 11 with the monitor's commands i, o and xp"
        ))
    }
}

/// Collects the adapters of a bus: a bus has devices, and a device that is a bridge has a bus.
fn adapters_below(bus: &Value, found: &mut Vec<Function>) {
    let number = |value: &Value| value.as_u64().and_then(|value| u8::try_from(value).ok());
    for device in bus["devices"].as_array().into_iter().flatten() {
        let id = |what: &str| device["id"][what].as_u64().unwrap_or_default();
        let place = ["bus", "slot", "function"].map(|what| number(&device[what]));
        if let ([Some(bus), Some(slot), Some(function)], true) = (
            place,
            id("device") << 16 | id("vendor") == u64::from(pci::IDENTITY),
        ) {
            found.push(Function {
                address: Address {
                    bus,
                    slot,
                    function,
                },
                table: bar_0(device),
            });
        }
        adapters_below(&device["pci_bridge"], found);
    }
}

/// Returns the address of BAR 0; QEMU reports -1 for an unmapped one.
fn bar_0(device: &Value) -> Option<u64> {
    let mut regions = device["regions"].as_array()?.iter();
    let region = regions.find(|region| region["bar"] == 0)?;
    region["address"].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_found_behind_bridges_too() {
        let device = |bus: u8, slot: u8, id: u32| {
            let id = json!({ "vendor": id & 0xffff, "device": id >> 16 });
            let regions = json!([
                { "bar": 1, "address": 0xfebd_5000_u32 },
                { "bar": 0, "address": if slot == 0 { 0xfebd_4000_i64 } else { -1 } },
            ]);
            json!({ "bus": bus, "slot": slot, "function": 1, "id": id, "regions": regions })
        };
        let mut bridge = device(0, 1, 1);
        bridge["pci_bridge"] = json!({ "bus": {}, "devices": [device(1, 0, pci::IDENTITY)] });
        let root =
            json!({ "bus": 0, "devices": [bridge, device(0, 5, pci::IDENTITY), device(0, 6, 7)] });
        let mut found = Vec::new();
        adapters_below(&root, &mut found);
        let places: Vec<_> = found.iter().map(|it| it.address.to_string()).collect();
        assert_eq!(places, ["01:00.1", "00:05.1"]);
        let tables: Vec<_> = found.iter().map(|it| it.table).collect();
        assert_eq!(tables, [Some(0xfebd_4000), None]);
    }
}
