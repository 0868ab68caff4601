//! The control plane's end of all shards: which one has an adapter, and what is asked of one or of all.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vrdma_adapter::ShardId;
use vrdma_api::AdapterKind;
use vrdma_process::{Admission, Admitted};
use vrdma_switch::{PortId, UplinkId};
use vrdma_wire::Mac;

use super::{
    AdapterSnapshot, AdapterSpec, Inbox, Outbox, ShardCommand, ShardLoad, UplinkChange,
    UplinkSnapshot, ask, mailbox,
};
use crate::uplink::UplinkEnd;

/// Adapters whose listeners are asked for at once: each takes the first shard a lookup.
const LISTENERS_AT_ONCE: usize = 256;

/// Where each adapter is, and how many each shard has.
#[derive(Debug)]
struct Places {
    shards: BTreeMap<PortId, ShardId>,
    counts: Vec<u32>,
}

impl Places {
    fn put(&mut self, port: PortId, shard: ShardId) {
        self.take(port);
        self.shards.insert(port, shard);
        self.counts[usize::from(shard.0)] += 1;
    }

    fn take(&mut self, port: PortId) -> Option<ShardId> {
        let shard = self.shards.remove(&port)?;
        self.counts[usize::from(shard.0)] -= 1;
        Some(shard)
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Shards {
    outboxes: Arc<[Outbox<ShardCommand>]>,
    places: Arc<Mutex<Places>>,
    admission: Arc<Admission>,
}

impl Shards {
    /// A handle, and the inbox of each shard's thread.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new(count: usize) -> io::Result<(Self, Vec<Inbox<ShardCommand>>)> {
        let pairs = (0..count).map(|_| mailbox());
        let pairs = pairs.collect::<io::Result<Vec<_>>>()?;
        let (outboxes, inboxes): (Vec<_>, _) = pairs.into_iter().unzip();
        let shards = Self {
            outboxes: outboxes.into(),
            places: Arc::new(Mutex::new(Places {
                shards: BTreeMap::new(),
                counts: vec![0; count],
            })),
            admission: Arc::default(),
        };
        Ok((shards, inboxes))
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.outboxes.len() as u16
    }

    /// Who may use which adapter: what the threads go by.
    pub fn admission(&self) -> Arc<Admission> {
        Arc::clone(&self.admission)
    }

    /// Who may use an adapter from now on. What is open stays open.
    pub fn admit(&self, port: PortId, admitted: Admitted) {
        self.admission.set(port, admitted);
    }

    fn outbox(&self, shard: ShardId) -> Result<&Outbox<ShardCommand>, String> {
        let outbox = self.outboxes.get(usize::from(shard.0));
        outbox.ok_or_else(|| format!("there is no shard {}", shard.0))
    }

    fn first(&self) -> &Outbox<ShardCommand> {
        &self.outboxes[0]
    }

    // What a thread that panicked left is a map that was changed or was not.
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shard that serves an adapter.
    pub fn shard_of(&self, port: PortId) -> Option<ShardId> {
        self.places().shards.get(&port).copied()
    }

    /// How many adapters each shard has.
    pub fn adapter_counts(&self) -> Vec<u32> {
        self.places().counts.clone()
    }

    /// The shard with the fewest adapters.
    fn least_loaded(&self) -> ShardId {
        let places = self.places();
        let counts = (0..).map(ShardId).zip(&places.counts);
        let least = counts.min_by_key(|(_, count)| **count);
        least.map_or(ShardId::FIRST, |(shard, _)| shard)
    }

    /// Serves an adapter from now on.
    ///
    /// # Errors
    /// A sentence; nothing was changed.
    pub async fn add_adapter(&self, spec: AdapterSpec) -> Result<(), String> {
        let stated = spec.shard.map(ShardId);
        let shard = stated.unwrap_or_else(|| self.least_loaded());
        let port = spec.port;
        let is_announced = spec.kind == AdapterKind::Process && shard != ShardId::FIRST;
        let outbox = self.outbox(shard)?;
        self.admit(port, spec.admitted.clone());
        if is_announced {
            let announced = Box::new(spec.clone());
            let announce = |reply| ShardCommand::Announce(announced, reply);
            let announced = ask(self.first(), announce).await;
            if let Err(sentence) = announced.and_then(|announced| announced) {
                self.admission.remove(port);
                return Err(sentence);
            }
        }
        let added = ask(outbox, |reply| ShardCommand::AddAdapter(spec, reply)).await;
        let added = added.and_then(|added| added);
        match added {
            Ok(()) => self.places().put(port, shard),
            Err(_) => {
                self.admission.remove(port);
                if is_announced {
                    self.retire(port).await?;
                }
            }
        }
        added
    }

    /// Ends an adapter's service.
    ///
    /// # Errors
    /// A sentence.
    pub async fn remove_adapter(&self, port: PortId) -> Result<(), String> {
        let Some(shard) = self.places().take(port) else {
            return Ok(());
        };
        if shard != ShardId::FIRST {
            self.retire(port).await?;
        }
        let remove = |reply| ShardCommand::RemoveAdapter(port, reply);
        let removed = ask_last(self.outbox(shard)?, remove).await;
        self.admission.remove(port);
        removed
    }

    async fn retire(&self, port: PortId) -> Result<(), String> {
        ask_last(self.first(), |reply| ShardCommand::Retire(port, reply)).await
    }

    /// Has another shard serve an adapter. Its connections stay.
    ///
    /// # Errors
    /// A sentence; nothing was changed.
    pub async fn move_adapter(&self, port: PortId, to: ShardId) -> Result<(), String> {
        let Some(from) = self.shard_of(port) else {
            return Err("it is a TAP: no shard serves it".to_owned());
        };
        let target = self.outbox(to)?;
        if from == to {
            return Ok(());
        }
        let send_away = |reply| ShardCommand::SendAway(port, to, reply);
        let moving = ask(self.outbox(from)?, send_away).await??;
        self.places().put(port, to);
        ask_last(target, |reply| ShardCommand::Adopt(moving, reply)).await
    }

    /// State and counters of all adapters, in the order of their ports.
    ///
    /// # Errors
    /// A sentence.
    pub async fn snapshot(&self) -> Result<Vec<AdapterSnapshot>, String> {
        let mut all = Vec::new();
        for outbox in &*self.outboxes {
            all.append(&mut ask(outbox, ShardCommand::Snapshot).await?);
        }
        if self.count() > 1 {
            all.sort_by_key(|snapshot| snapshot.port);
            for some in all.chunks_mut(LISTENERS_AT_ONCE) {
                self.count_listeners(some).await?;
            }
        }
        Ok(all)
    }

    async fn count_listeners(&self, snapshots: &mut [AdapterSnapshot]) -> Result<(), String> {
        let ports = snapshots.iter().map(|snapshot| snapshot.port).collect();
        let listeners = |reply| ShardCommand::Listeners(ports, reply);
        let listeners = ask(self.first(), listeners).await?;
        for (snapshot, count) in snapshots.iter_mut().zip(listeners) {
            snapshot.rdma.listeners = count;
        }
        Ok(())
    }

    /// How busy each is.
    ///
    /// # Errors
    /// A sentence.
    pub async fn loads(&self) -> Result<Vec<ShardLoad>, String> {
        let mut all = Vec::new();
        for outbox in &*self.outboxes {
            all.push(ask(outbox, ShardCommand::Load).await?);
        }
        Ok(all)
    }

    /// Gives each shard its end of an uplink.
    ///
    /// # Errors
    /// A sentence; some shards may have theirs.
    pub async fn add_uplink(&self, ends: Vec<UplinkEnd>) -> Result<(), String> {
        for (outbox, end) in self.outboxes.iter().zip(ends) {
            change_uplink(outbox, UplinkChange::Add(Box::new(end))).await?;
        }
        Ok(())
    }

    /// Closes all ends of an uplink.
    ///
    /// # Errors
    /// A sentence.
    pub async fn remove_uplink(&self, id: UplinkId) -> Result<(), String> {
        for outbox in &*self.outboxes {
            change_uplink(outbox, UplinkChange::Remove(id)).await?;
        }
        Ok(())
    }

    /// Adds the other end of a tunnel, with all stations that may be behind it. The ends of all shards have
    /// the same peers.
    ///
    /// # Errors
    /// A sentence; nothing was changed.
    pub async fn add_peer(
        &self,
        id: UplinkId,
        peer: SocketAddr,
        stations: Vec<Mac>,
    ) -> Result<(), String> {
        let added = UplinkChange::AddPeer(id, peer, stations);
        change_uplink(self.first(), added).await?;
        self.measure_others(id).await
    }

    /// Forgets the other end of a tunnel.
    ///
    /// # Errors
    /// A sentence.
    pub async fn remove_peer(&self, id: UplinkId, peer: SocketAddr) -> Result<(), String> {
        change_uplink(self.first(), UplinkChange::RemovePeer(id, peer)).await?;
        self.measure_others(id).await
    }

    async fn measure_others(&self, id: UplinkId) -> Result<(), String> {
        for outbox in &self.outboxes[1..] {
            change_uplink(outbox, UplinkChange::Measure(id)).await?;
        }
        Ok(())
    }

    /// Begins an adapter's trace, or fetches what it has got: packets dropped so far as 8 bytes,
    /// highest first, then records of a pcap file.
    ///
    /// # Errors
    /// A sentence.
    pub async fn trace(&self, port: PortId) -> Result<Vec<u8>, String> {
        let shard = self.shard_of(port).unwrap_or(ShardId::FIRST);
        ask(self.outbox(shard)?, |reply| {
            ShardCommand::Trace(port, reply)
        })
        .await
    }

    /// The shards' ends of all uplinks, added up.
    ///
    /// # Errors
    /// A sentence.
    pub async fn uplinks(&self) -> Result<Vec<UplinkSnapshot>, String> {
        let mut all = ask(self.first(), ShardCommand::Uplinks).await?;
        for outbox in &self.outboxes[1..] {
            for other in ask(outbox, ShardCommand::Uplinks).await? {
                if let Some(uplink) = all.iter_mut().find(|uplink| uplink.id == other.id) {
                    uplink.frames.add(&other.frames);
                }
            }
        }
        Ok(all)
    }

    /// Tells the threads to end; wait for them by joining.
    pub fn stop(&self) {
        for outbox in &*self.outboxes {
            outbox.send_last(ShardCommand::Stop);
        }
    }
}

async fn change_uplink(outbox: &Outbox<ShardCommand>, change: UplinkChange) -> Result<(), String> {
    ask(outbox, |reply| ShardCommand::Uplink(change, reply)).await?
}

/// Sends a command that must not get lost, and waits for its answer.
async fn ask_last<T>(
    outbox: &Outbox<ShardCommand>,
    command: impl FnOnce(super::Reply<T>) -> ShardCommand,
) -> Result<T, String> {
    let (reply, answer) = tokio::sync::oneshot::channel();
    outbox.send_last(command(reply));
    answer
        .await
        .map_err(|_| "a shard of the daemon has stopped; restart the daemon".to_owned())
}
