//! What the control plane asks of the shard, and how devices' GIDs reach the fabric.

use vrdma_adapter::GidChange;
use vrdma_api::AdapterKind;
use vrdma_switch::PortId;

use super::Shard;
use super::adapter::Adapter;
use super::poller::Key;
use super::stats::stats;
use super::wire;
use crate::plane::{AdapterSnapshot, AdapterSpec, ShardCommand};
use crate::vm::{Vm, fresh_seed};
use vrdma_process::{Process, ProcessSpec, ShardId};

impl Shard {
    /// Carries out every waiting command. An asker that is gone is no error.
    pub(super) fn obey(&mut self) {
        self.inbox.clear();
        while let Some(command) = self.inbox.take() {
            match command {
                ShardCommand::AddAdapter(spec, reply) => {
                    let _ = reply.send(self.add(spec).map_err(|error| format!("{error:#}")));
                }
                ShardCommand::RemoveAdapter(port, reply) => {
                    self.remove(port);
                    let _ = reply.send(());
                }
                ShardCommand::Snapshot(reply) => {
                    let _ = reply.send(self.snapshot());
                }
                ShardCommand::Uplink(change, reply) => {
                    let _ = reply.send(self.change_uplink(change));
                }
                ShardCommand::Trace(port, reply) => {
                    let now = self.clock.now();
                    let _ = reply.send(self.wires.traces.fetch(port, now));
                }
                ShardCommand::Uplinks(reply) => {
                    let wires = self.wires.wires.iter().flatten();
                    let _ = reply.send(wires.map(|wire| wire::snapshot(wire)).collect());
                }
                ShardCommand::Stop => self.stopping = true,
            }
        }
    }

    pub(super) fn add(&mut self, spec: AdapterSpec) -> anyhow::Result<()> {
        let (port, group, mac) = (spec.port, spec.group, spec.mac);
        let segment = spec.segment;
        let adapter = self.make(spec)?;
        self.fabric.attach(port, group, mac)?;
        if let Adapter::Vm(vm) = &adapter {
            self.poller.watch(vm.listener(), Key::Listener(port));
        }
        let slot = port.0 as usize;
        if self.adapters.len() <= slot {
            self.adapters.resize_with(slot + 1, || None);
        }
        self.attach_to_cm(&adapter);
        if let Adapter::Process { process, .. } = &adapter {
            self.registry.directory.add(process.spec(), ShardId(0));
        }
        self.adapters[slot] = Some(adapter);
        self.wires.segments.plug(port, group, segment);
        self.rewire();
        self.follow_gids(port);
        Ok(())
    }

    fn make(&self, spec: AdapterSpec) -> anyhow::Result<Adapter> {
        Ok(match spec.kind {
            AdapterKind::Vm => Adapter::Vm(Box::new(Vm::new(spec, self.clock)?)),
            AdapterKind::Process => {
                let process = Process::new(process_spec(&spec), fresh_seed())?;
                Adapter::Process {
                    spec: Box::new(spec),
                    process: Box::new(process),
                }
            }
            AdapterKind::Tap => anyhow::bail!("a TAP has no RDMA device"),
        })
    }

    fn remove(&mut self, port: PortId) {
        self.close_sessions_of(port);
        self.cm.detach(port);
        self.registry.directory.remove(port);
        if let Some(slot) = self.adapters.get_mut(port.0 as usize) {
            *slot = None;
            self.fabric.detach(port);
            self.wires.forget(port);
        }
    }

    /// Tells the fabric which GIDs a guest took or gave up. One that another adapter of the group
    /// holds stays with that one: the newcomer's messages from it are refused as spoofed.
    pub(super) fn follow_gids(&mut self, port: PortId) {
        let adapter = self.adapters.get_mut(port.0 as usize);
        let Some(adapter) = adapter.and_then(Option::as_mut) else {
            return;
        };
        while let Some(change) = adapter.take_gid_change() {
            match change {
                GidChange::Bound(gid) => {
                    if let Err(error) = self.fabric.bind_gid(port, gid) {
                        tracing::warn!(adapter = %adapter.spec().name, "GID {gid} is not usable: {error}");
                    }
                }
                GidChange::Unbound(gid) => self.fabric.unbind_gid(port, gid),
                GidChange::Cleared => self.fabric.clear_gids(port),
            }
        }
    }

    fn snapshot(&self) -> Vec<AdapterSnapshot> {
        let (adapters, now) = (self.adapters.iter().flatten(), self.clock.now());
        let snapshot = |adapter: &Adapter| {
            let port = adapter.spec().port;
            let mut rdma = stats(adapter);
            rdma.listeners = self.cm.listeners(port);
            rdma.fault = rdma.fault.or_else(|| self.wires.fault(port, now));
            AdapterSnapshot { port, rdma }
        };
        adapters.map(snapshot).collect()
    }
}

fn process_spec(spec: &AdapterSpec) -> ProcessSpec {
    ProcessSpec {
        name: spec.name.to_string(),
        portgroup: spec.portgroup.to_string(),
        port: spec.port,
        group: spec.group,
        mac: spec.mac,
        ip: spec.ip,
    }
}
