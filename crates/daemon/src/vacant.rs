//! A shard without devices, for tests of the control plane: takes every command and serves nobody.

use std::thread::{self, JoinHandle};

use vrdma_api::{ObjectStates, RdmaStats};
use vrdma_process::cm::Offered;
use vrdma_switch::PortId;
use vrdma_threads::Inbox;

use vrdma_shard::plane::{AdapterSnapshot, MigrationStep, ShardCommand, ShardLoad};

const NO_DEVICES: &str = "this shard has no devices";

/// Runs until it is told to stop. A callback sees each command before it is carried out.
pub(crate) fn start(
    inbox: Inbox<ShardCommand>,
    mut look: impl FnMut(&ShardCommand) + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name("shard".to_owned())
        .spawn(move || {
            let mut ports = Vec::new();
            while let Some(command) = inbox.wait() {
                inbox.beat();
                look(&command);
                match command {
                    ShardCommand::Stop => break,
                    other => obey(&mut ports, other),
                }
            }
        })
}

fn obey(ports: &mut Vec<PortId>, command: ShardCommand) {
    match command {
        ShardCommand::AddAdapter(spec, reply) => {
            ports.push(spec.port);
            let _ = reply.send(Ok(()));
        }
        ShardCommand::RemoveAdapter(port, reply) => {
            ports.retain(|known| *known != port);
            let _ = reply.send(());
        }
        ShardCommand::Snapshot(reply) => {
            let snapshot = |port: &PortId| AdapterSnapshot {
                port: *port,
                rdma: RdmaStats::default(),
            };
            let _ = reply.send(ports.iter().map(snapshot).collect());
        }
        ShardCommand::Uplink(_, reply) => {
            let _ = reply.send(Ok(()));
        }
        ShardCommand::Trace(_, reply) => {
            let _ = reply.send(vec![0; 8]);
        }
        ShardCommand::State(_, reply) => {
            let _ = reply.send(ObjectStates::default());
        }
        ShardCommand::Uplinks(reply) => {
            let _ = reply.send(Vec::new());
        }
        ShardCommand::GroupDrops(_, reply) => {
            let _ = reply.send(Default::default());
        }
        ShardCommand::Migration(_, step) => refuse(step),
        ShardCommand::SendAway(_, _, reply) => {
            let _ = reply.send(Err(NO_DEVICES.to_owned()));
        }
        ShardCommand::Load(reply) => {
            let _ = reply.send(ShardLoad::default());
        }
        ShardCommand::Offered(asked, reply) => {
            let _ = reply.send(vec![Offered::default(); asked.len()]);
        }
        ShardCommand::Announce(_, reply) => {
            let _ = reply.send(Ok(()));
        }
        ShardCommand::Adopt(_, reply)
        | ShardCommand::GoOn(reply)
        | ShardCommand::Retire(_, reply)
        | ShardCommand::Keep(_, _, reply) => {
            let _ = reply.send(());
        }
        ShardCommand::Stop => {}
    }
}

fn refuse(step: MigrationStep) {
    match step {
        MigrationStep::Track(reply) => {
            let _ = reply.send(Err(NO_DEVICES.to_owned()));
        }
        MigrationStep::Thaw(reply)
        | MigrationStep::TakeMade(_, reply)
        | MigrationStep::Release(reply)
        | MigrationStep::Activate(reply) => {
            let _ = reply.send(Err(NO_DEVICES.to_owned()));
        }
        MigrationStep::Freeze(reply) => {
            let _ = reply.send(Err(NO_DEVICES.to_owned()));
        }
        MigrationStep::Resend(resending) => {
            let _ = resending.reply.send(Err(NO_DEVICES.to_owned()));
        }
        MigrationStep::SetAway(_, reply) => {
            let _ = reply.send(());
        }
        MigrationStep::Memory(reply)
        | MigrationStep::TrackedMemory(reply)
        | MigrationStep::FrozenMemory(reply) => {
            let _ = reply.send(Err(NO_DEVICES.to_owned()));
        }
        // No device was restored.
        MigrationStep::Discard(reply) => {
            let _ = reply.send(Ok(()));
        }
        MigrationStep::IsRestored(reply) => {
            let _ = reply.send(Err(NO_DEVICES.to_owned()));
        }
        MigrationStep::Restore(restoring) => {
            let _ = restoring.reply.send(Err(NO_DEVICES.to_owned()));
        }
    }
}
