//! The control plane's commands to the shard.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vrdma_api::{AdapterKind, ObjectStates};
use vrdma_host::{Attachment, Counts, ShardId};
use vrdma_inventory::AdapterSpec;
use vrdma_process::{Entrance, OnDemand, OpenSession, Process, ProcessSpec, Revived};
use vrdma_switch::{GroupId, Kept, PortId};
use vrdma_threads::uplink::marks_of;
use vrdma_threads::{Reply, UplinkChange};
use vrdma_verbs::Time;
use vrdma_vfio_user::Listener;

use super::Shard;
use super::adapter::Adapter;
use super::poller::{Key, Ready};
use super::rdma_cm;
use super::state;
use super::uplinks;
use crate::plane::{ShardCommand, ShardLoad};
use crate::process_socket;
use crate::vm::{Vm, fresh_seed};

/// Most commands in one turn; the others wait for messages once more.
const COMMANDS_A_TURN: usize = 4;

impl Shard {
    /// Carries out waiting commands, some of them in one turn. What a command has made is taken back if its caller has
    /// given up meanwhile.
    pub(super) fn obey(&mut self) {
        self.from.inbox.clear();
        for _ in 0..COMMANDS_A_TURN {
            let Some(command) = self.from.inbox.take() else {
                return;
            };
            match command {
                command if command.is_withdrawn() => {}
                ShardCommand::AddAdapter(spec, reply) => {
                    let port = spec.port;
                    let added = self.add(spec).map_err(|error| format!("{error:#}"));
                    if let Err(Ok(())) = reply.send(added) {
                        self.remove(port);
                    }
                }
                ShardCommand::RemoveAdapter(port, reply) => {
                    self.remove(port);
                    let _ = reply.send(());
                }
                ShardCommand::Announce(spec, reply) => {
                    if let Err(Ok(())) = reply.send(self.announce(&spec)) {
                        self.retire(spec.port);
                    }
                }
                ShardCommand::Retire(port, reply) => {
                    self.retire(port);
                    let _ = reply.send(());
                }
                ShardCommand::SendAway(port, to, reply) => self.send_away(port, to, reply),
                ShardCommand::Adopt(moving, reply) => {
                    self.adopt(*moving);
                    let _ = reply.send(());
                }
                ShardCommand::Keep(port, kept, reply) => {
                    self.host.keep(port, &kept);
                    let _ = reply.send(());
                }
                ShardCommand::Migration(port, step) => self.migrate(port, step),
                ShardCommand::Load(reply) => {
                    let _ = reply.send(self.load());
                }
                ShardCommand::Offered(ports, reply) => {
                    let offered = ports.into_iter().map(|port| self.cm.offered(port));
                    let _ = reply.send(offered.collect());
                }
                ShardCommand::GoOn(reply) => self.go_on(reply),
                ShardCommand::Snapshot(reply) => self.snapshots.begin(reply),
                ShardCommand::Uplink(change, reply) => self.change_uplink_for(change, reply),
                ShardCommand::Trace(port, reply) => self.tell_trace(port, reply),
                ShardCommand::State(port, reply) => self.tell_state(port, reply),
                ShardCommand::Uplinks(reply) => {
                    let all = self.host.uplinks();
                    let _ = reply.send(all.map(uplinks::snapshot).collect());
                }
                ShardCommand::GroupDrops(group, reply) => self.tell_drops(group, reply),
                ShardCommand::Stop => self.stopping = true,
            }
        }
        self.ready.push_back(Ready::commands());
    }

    fn tell_drops(&self, group: GroupId, reply: Reply<Counts>) {
        let counts = self.host.group_counts(group);
        let _ = reply.send(counts.cloned().unwrap_or_default());
    }

    fn tell_state(&self, port: PortId, reply: Reply<ObjectStates>) {
        let state = self.host.member(port).map(state::objects);
        let _ = reply.send(state.unwrap_or_default());
    }

    fn tell_trace(&mut self, port: PortId, reply: Reply<Vec<u8>>) {
        let now = self.clock.now();
        // The caller may be gone.
        let _ = reply.send(self.host.fetch_trace(port, clock_at_start(now), now));
    }

    fn change_uplink_for(&mut self, change: UplinkChange, reply: Reply<Result<(), String>>) {
        let undo = change.undo();
        let changed = self.change_uplink(change);
        if let (Err(Ok(())), Some(undo)) = (reply.send(changed), undo) {
            let _ = self.change_uplink(undo);
        }
    }

    pub(super) fn add(&mut self, spec: AdapterSpec) -> anyhow::Result<()> {
        let attachment = attachment(&spec);
        let is_announced = self.id == ShardId::FIRST && spec.kind == AdapterKind::Process;
        if is_announced {
            self.announce(&spec).map_err(anyhow::Error::msg)?;
        }
        let (kept, is_away) = (spec.kept(), spec.away);
        let made = self.make(spec);
        let added = made.and_then(|(adapter, sessions)| {
            self.host.add(attachment, adapter)?;
            Ok(sessions)
        });
        let sessions = match added {
            Ok(sessions) => sessions,
            Err(error) => {
                if is_announced {
                    self.retire(attachment.port);
                }
                return Err(error);
            }
        };
        for session in sessions {
            self.adopt_session(attachment.port, session);
        }
        if kept != Kept::Any {
            self.host.keep(attachment.port, &kept);
        }
        if is_away {
            self.host.set_away(attachment.port, true, self.clock.now());
        }
        match self.host.member(attachment.port) {
            Some(Adapter::Vm(vm)) => {
                let key = Key::Listener(attachment.port);
                self.poller.watch(vm.listener(), key);
                self.watch_connection(attachment.port, vm);
                // A connection that goes on tells QEMU what it has to know without waiting for QEMU's next message.
                self.busy.insert(attachment.port);
            }
            Some(Adapter::Process { process, .. }) => {
                self.registry.directory.add(process.spec(), self.id);
            }
            None => {}
        }
        let now = self.clock.now();
        self.host.follow_gids(attachment.port, now);
        self.take_events();
        Ok(())
    }

    /// Announces an adapter of processes that is served here or by another shard: this shard accepts its clients and
    /// knows the adapter in rdma_cm. The error is a sentence.
    fn announce(&mut self, spec: &AdapterSpec) -> Result<(), String> {
        let port = spec.port;
        let process = process_spec(spec);
        let (listener, file) = {
            let path = spec.sockets.process();
            let left = self.legacy.listener(&path);
            process_socket::bind_own(&path, &spec.admitted, left)?
        };
        if !self.waits_for_adapters {
            let key = Key::ProcessListener(Entrance::Of(port));
            self.poller.watch(&listener, key);
        }
        self.sessions.open_entrance(&process, listener);
        self.process_sockets.insert(port, file);
        self.cm.attach(rdma_cm::spec(&process));
        Ok(())
    }

    fn retire(&mut self, port: PortId) {
        if let Some(listener) = self.sessions.close_entrance(port) {
            self.poller.unwatch(&listener);
            self.disposal.close(listener);
        }
        self.process_sockets.remove(&port);
        self.cm.detach(port);
    }

    /// Makes an adapter; with the sessions of one of processes that goes on for a worker that has ended.
    fn make(&self, spec: AdapterSpec) -> anyhow::Result<(Adapter, Vec<OpenSession>)> {
        let adapter = match spec.kind {
            AdapterKind::Vm => Adapter::Vm(Box::new(self.make_vm(spec)?)),
            AdapterKind::Process => {
                let (process, sessions) = self.make_process(process_spec(&spec))?;
                let spec = Box::new(spec);
                return Ok((Adapter::Process { spec, process }, sessions));
            }
            AdapterKind::Tap => anyhow::bail!("a TAP has no RDMA device"),
        };
        Ok((adapter, Vec::new()))
    }

    fn make_vm(&self, spec: AdapterSpec) -> anyhow::Result<Vm> {
        let admission = Arc::clone(&self.registry.admission);
        let disposal = self.disposal.clone();
        let path = spec.sockets.vfio_user();
        let listen = |left| Listener::follow(path.clone(), left, disposal.closing());
        let left = self.legacy.listener(&path);
        let mut listener = listen(left)?;
        if let Some(past) = self.legacy.revive_vm(&spec.name.shared()) {
            let name = spec.name.clone();
            let (admission, disposal) = (Arc::clone(&admission), disposal.clone());
            match Vm::resume(
                spec.clone(),
                listener,
                self.clock,
                disposal,
                admission,
                past,
            ) {
                Ok(vm) => {
                    tracing::info!(adapter = %name, "the VM goes on");
                    return Ok(vm);
                }
                Err(error) => {
                    tracing::warn!(adapter = %name, "the VM loses its adapter: {error:#}");
                    listener = listen(None)?;
                }
            }
        }
        let recorder = self.legacy.recorder(self.id, &spec.name.shared());
        Vm::new(
            spec,
            listener,
            self.clock,
            disposal.clone(),
            admission,
            recorder,
        )
    }

    fn make_process(&self, spec: ProcessSpec) -> anyhow::Result<(OnDemand, Vec<OpenSession>)> {
        let seed = fresh_seed();
        match self.legacy.revive(&spec, &self.registry, seed) {
            Some(Ok(Revived { process, sessions })) => {
                tracing::info!(adapter = %spec.name, clients = sessions.len(), "the adapter goes on");
                return Ok((OnDemand::revived(process), sessions));
            }
            Some(Err(lost)) => {
                tracing::warn!(adapter = %spec.name, "the adapter's clients are let go: {lost}");
            }
            None => {}
        }
        let records = self.legacy.records(self.id);
        Ok((OnDemand::new(spec, seed, records)?, Vec::new()))
    }

    fn remove(&mut self, port: PortId) {
        self.end_records_of(port);
        self.close_sessions_of(port);
        self.retire(port);
        self.registry.directory.remove(port);
        if let Some(adapter) = self.host.remove(port) {
            self.unwatch_vm(&adapter);
            match adapter {
                Adapter::Vm(vm) => self.disposal.free(vm.hang_up()),
                adapter @ Adapter::Process { .. } => self.disposal.free(adapter),
            }
        }
    }

    /// Ends an adapter's records, before the descriptors that they name are closed.
    fn end_records_of(&mut self, port: PortId) {
        let now = self.clock.now();
        match self.host.touch(port, now) {
            Some(Adapter::Process { process, .. }) => {
                process.get_mut().into_iter().for_each(Process::end_records);
            }
            Some(Adapter::Vm(vm)) => vm.end_records(),
            None => {}
        }
    }

    fn load(&mut self) -> ShardLoad {
        ShardLoad {
            busy: self.load.percent(self.clock.now()),
            transfers: self.lanes.sent(),
        }
    }
}

/// Returns where an adapter is plugged in.
pub(super) fn attachment(spec: &AdapterSpec) -> Attachment {
    Attachment {
        port: spec.port,
        group: spec.group,
        marks: marks_of(spec.segment),
        mac: spec.mac,
    }
}

/// Returns the time of day when the shard's clock began.
fn clock_at_start(now: Time) -> Duration {
    let today = SystemTime::now().duration_since(UNIX_EPOCH);
    today
        .unwrap_or_default()
        .saturating_sub(Duration::from_nanos(now.0))
}

fn process_spec(spec: &AdapterSpec) -> ProcessSpec {
    ProcessSpec {
        name: spec.name.shared(),
        portgroup: spec.portgroup.shared(),
        port: spec.port,
        group: spec.group,
        mac: spec.mac,
        ip: spec.only_ip(),
    }
}
