//! What the control plane asks of the shard, and how devices' GIDs reach the fabric.

use vrdma_pvrdma::GidChange;
use vrdma_switch::PortId;

use super::Shard;
use super::poller::Key;
use super::stats::stats;
use crate::plane::{AdapterSnapshot, AdapterSpec, ShardCommand};
use crate::vm::Vm;

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
                ShardCommand::Stop => self.stopping = true,
            }
        }
    }

    fn add(&mut self, spec: AdapterSpec) -> anyhow::Result<()> {
        let (port, group, mac) = (spec.port, spec.group, spec.mac);
        let vm = Box::new(Vm::new(spec, self.clock)?);
        self.fabric.attach(port, group, mac)?;
        let slot = port.0 as usize;
        if self.vms.len() <= slot {
            self.vms.resize_with(slot + 1, || None);
        }
        self.poller.watch(vm.listener(), Key::Listener(port));
        self.vms[slot] = Some(vm);
        Ok(())
    }

    fn remove(&mut self, port: PortId) {
        if let Some(slot) = self.vms.get_mut(port.0 as usize) {
            *slot = None;
            self.fabric.detach(port);
        }
    }

    /// Tells the fabric which GIDs a guest took or gave up. One that another adapter of the group
    /// holds stays with that one: the newcomer's messages from it are refused as spoofed.
    pub(super) fn follow_gids(&mut self, port: PortId) {
        let Some(vm) = self
            .vms
            .get_mut(port.0 as usize)
            .and_then(Option::as_deref_mut)
        else {
            return;
        };
        while let Some(change) = vm.device().take_gid_change() {
            match change {
                GidChange::Bound(gid) => {
                    if let Err(error) = self.fabric.bind_gid(port, gid) {
                        tracing::warn!(adapter = %vm.spec().name, "GID {gid} is not usable: {error}");
                    }
                }
                GidChange::Unbound(gid) => self.fabric.unbind_gid(port, gid),
                GidChange::Cleared => self.fabric.clear_gids(port),
            }
        }
    }

    fn snapshot(&self) -> Vec<AdapterSnapshot> {
        let adapters = self.vms.iter().flatten();
        adapters
            .map(|vm| AdapterSnapshot {
                port: vm.spec().port,
                rdma: stats(vm),
            })
            .collect()
    }
}
