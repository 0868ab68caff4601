//! The border between the control plane and the RDMA data path: plain values over a channel.
//!
//! The control plane decides names, numbers and policy; the shard thread owns devices, engines and
//! the RDMA half of the switch. Nothing here is shared memory: the shard answers by message.

mod migration;
mod shards;

use vrdma_adapter::ShardId;
use vrdma_api::{ObjectStates, RdmaStats};
use vrdma_host::Counts;
use vrdma_inventory::AdapterSpec;
use vrdma_process::cm::Offered;
use vrdma_switch::{GroupId, Kept, PortId};
use vrdma_threads::{Reply, UplinkChange, UplinkSnapshot, is_withdrawn};

use crate::shard::Moving;

pub use migration::MigrationStep;
pub use shards::{Shards, Told};

/// How busy a shard is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardLoad {
    /// Percentage of the last second in which it had something to do.
    pub busy: u8,
    /// Number of units, answers and packets that it has handed to other shards so far.
    pub transfers: u64,
}

/// A shard's report on one adapter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdapterSnapshot {
    /// The adapter.
    pub port: PortId,
    /// The adapter's state and counters.
    pub rdma: RdmaStats,
}

impl AdapterSnapshot {
    /// Sets what `rdma_cm` knows of the adapter.
    pub(crate) fn set_offered(&mut self, offered: Offered) {
        self.rdma.listeners = offered.listeners;
        self.rdma.half_open_calls = offered.calls.half_open as u32;
        self.rdma.refused_calls = offered.calls.refused;
    }
}

/// The control plane's commands to a shard, which takes them in order.
#[derive(Debug)]
pub enum ShardCommand {
    /// Bind the vfio-user socket, plug the adapter into the fabric and serve it. An error leaves
    /// nothing behind and is a sentence for the user.
    AddAdapter(AdapterSpec, Reply<Result<(), String>>),
    /// Drop the guest's connection, the socket and all state. Unknown ports are fine.
    RemoveAdapter(PortId, Reply<()>),
    /// To the first shard: announce an adapter of processes that another shard serves.
    Announce(Box<AdapterSpec>, Reply<Result<(), String>>),
    /// To the first shard: withdraw the announcement. Unknown ports are fine.
    Retire(PortId, Reply<()>),
    /// Give up an adapter, with its clients, as soon as no other shard reads its memory.
    SendAway(PortId, ShardId, Reply<Result<Box<Moving>, String>>),
    /// Serve an adapter that another shard gave up.
    Adopt(Box<Moving>, Reply<()>),
    /// Restrict a VM's guest to these addresses from now on.
    Keep(PortId, Kept, Reply<()>),
    /// Take one step of a VM's adapter that goes to another host, or comes from there.
    Migration(PortId, MigrationStep),
    /// Tell how busy the shard is.
    Load(Reply<ShardLoad>),
    /// To the first shard: tell how many listeners of rdma_cm these adapters have.
    Offered(Vec<PortId>, Reply<Vec<Offered>>),
    /// Begin to serve: all adapters of the start are there, with all shards.
    GoOn(Reply<()>),
    /// Tell state and counters of all adapters, in any order.
    Snapshot(Reply<Vec<AdapterSnapshot>>),
    /// Tell the objects of one adapter; none if it is gone.
    State(PortId, Reply<ObjectStates>),
    /// Add, change or remove an uplink. An error is a sentence and changes nothing.
    Uplink(UplinkChange, Reply<Result<(), String>>),
    /// Tell the new records of an adapter's trace; the first time begins it.
    Trace(PortId, Reply<Vec<u8>>),
    /// Tell the shard's ends of all uplinks, in any order.
    Uplinks(Reply<Vec<UplinkSnapshot>>),
    /// Tell what the uplinks dropped for a port group and no adapter counts.
    GroupDrops(GroupId, Reply<Counts>),
    /// Drop everything and end the thread.
    Stop,
}

impl ShardCommand {
    /// Whether it is not to be begun, since the caller has given up. Commands that take something away are carried out
    /// all the same.
    pub fn is_withdrawn(&self) -> bool {
        match self {
            Self::AddAdapter(_, reply) | Self::Announce(_, reply) => is_withdrawn(reply),
            Self::SendAway(_, _, reply) => is_withdrawn(reply),
            Self::Uplink(change, reply) => change.undo().is_some() && is_withdrawn(reply),
            Self::Trace(_, reply) => is_withdrawn(reply),
            Self::State(_, reply) => is_withdrawn(reply),
            Self::Snapshot(reply) => is_withdrawn(reply),
            Self::Migration(_, step) => step.is_withdrawn(),
            Self::RemoveAdapter(..)
            | Self::Retire(..)
            | Self::Adopt(..)
            | Self::Keep(..)
            | Self::Load(_)
            | Self::Offered(..)
            | Self::GoOn(_)
            | Self::Uplinks(_)
            | Self::GroupDrops(..)
            | Self::Stop => false,
        }
    }
}
