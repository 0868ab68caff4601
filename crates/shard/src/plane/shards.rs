//! The control plane's end of all shards: which one has an adapter, and questions to one or all.

mod dropped;
mod following;
mod travelling;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vrdma_adapter::ShardId;
use vrdma_api::{AdapterKind, ObjectStates};
use vrdma_process::Admitted;
use vrdma_switch::{Kept, PortId, UplinkId};
use vrdma_uplink::PeerSpec;

use vrdma_inventory::AdapterSpec;
use vrdma_threads::uplink::UplinkEnd;
use vrdma_threads::{Inbox, Known, Line, NotDone, Reply, UplinkChange, UplinkSnapshot, Vital};

use super::{AdapterSnapshot, ShardCommand, ShardLoad};

/// Most adapters whose listeners are asked for at once: each takes the first shard a lookup.
const LISTENERS_AT_ONCE: usize = 256;

/// Which shard each adapter is at, and how many each shard has.
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

/// A handle of all shards; see the module.
#[derive(Clone, Debug)]
pub struct Shards {
    lines: Arc<[Line<ShardCommand>]>,
    places: Arc<Mutex<Places>>,
    known: Known,
}

impl Shards {
    /// Makes a handle, and the inbox of each shard's thread.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new(count: usize) -> io::Result<(Self, Vec<Inbox<ShardCommand>>)> {
        let pairs = (0..count).map(|number| Line::new(format!("shard {number}")));
        let pairs = pairs.collect::<io::Result<Vec<_>>>()?;
        let (lines, inboxes): (Vec<_>, _) = pairs.into_iter().unzip();
        let shards = Self {
            lines: lines.into(),
            places: Arc::new(Mutex::new(Places {
                shards: BTreeMap::new(),
                counts: vec![0; count],
            })),
            known: Known::default(),
        };
        Ok((shards, inboxes))
    }

    /// Returns the number of shards.
    pub fn count(&self) -> u16 {
        self.lines.len() as u16
    }

    /// Returns the threads' signs of life, by number.
    pub fn vitals(&self) -> impl Iterator<Item = &Arc<Vital>> {
        self.lines.iter().map(Line::vital)
    }

    /// Returns what the threads know together.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Sets who may use an adapter from now on. What is open stays open.
    pub fn admit(&self, port: PortId, admitted: Admitted) {
        self.known.processes.admission.set(port, admitted);
    }

    fn line(&self, shard: ShardId) -> Result<&Line<ShardCommand>, NotDone> {
        let line = self.lines.get(usize::from(shard.0));
        line.ok_or_else(|| NotDone::Refused(format!("there is no shard {}", shard.0)))
    }

    fn first(&self) -> &Line<ShardCommand> {
        &self.lines[0]
    }

    // A thread that panicked leaves a map that was changed or was not.
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shard that serves an adapter.
    pub fn shard_of(&self, port: PortId) -> Option<ShardId> {
        self.places().shards.get(&port).copied()
    }

    /// Returns how many adapters each shard has.
    pub fn adapter_counts(&self) -> Vec<u32> {
        self.places().counts.clone()
    }

    /// Returns the shard with the fewest adapters.
    fn least_loaded(&self) -> ShardId {
        let places = self.places();
        let counts = (0..).map(ShardId).zip(&places.counts);
        let least = counts.min_by_key(|(_, count)| **count);
        least.map_or(ShardId::FIRST, |(shard, _)| shard)
    }

    /// Serves an adapter from now on.
    ///
    /// # Errors
    /// A sentence; nothing has changed.
    pub async fn add_adapter(&self, spec: AdapterSpec) -> Result<(), NotDone> {
        let stated = spec.shard.map(ShardId);
        let shard = stated.unwrap_or_else(|| self.least_loaded());
        let port = spec.port;
        let is_announced = spec.kind == AdapterKind::Process && shard != ShardId::FIRST;
        let line = self.line(shard)?;
        self.admit(port, spec.admitted.clone());
        if is_announced {
            let announced = Box::new(spec.clone());
            let announce = |reply| ShardCommand::Announce(announced, reply);
            if let Err(refused) = flat(self.first().ask(announce).await) {
                self.known.processes.admission.remove(port);
                return Err(refused);
            }
        }
        let added = line.ask(|reply| ShardCommand::AddAdapter(spec, reply));
        let added = flat(added.await);
        match added {
            Ok(()) => self.places().put(port, shard),
            Err(_) => {
                self.known.processes.admission.remove(port);
                if is_announced {
                    self.retire(port).await?;
                }
            }
        }
        added
    }

    /// Restricts a VM's guest to these addresses from now on. A silent shard does so when it goes on.
    ///
    /// # Errors
    /// A sentence.
    pub async fn keep(&self, port: PortId, kept: Kept) -> Result<(), NotDone> {
        let shard = self.shard_of(port).unwrap_or(ShardId::FIRST);
        let keep = |reply| ShardCommand::Keep(port, kept, reply);
        self.line(shard)?.begin_last(keep)?.answer().await
    }

    /// Ends an adapter's service. After an error some of it may be left, until it is removed once more.
    ///
    /// # Errors
    /// A sentence.
    pub async fn remove_adapter(&self, port: PortId) -> Result<(), NotDone> {
        let Some(shard) = self.shard_of(port) else {
            return Ok(());
        };
        let remove = |reply| ShardCommand::RemoveAdapter(port, reply);
        let removed = self.line(shard)?.begin_last(remove)?;
        if shard != ShardId::FIRST {
            self.retire(port).await?;
        }
        removed.answer().await?;
        self.places().take(port);
        self.known.processes.admission.remove(port);
        Ok(())
    }

    async fn retire(&self, port: PortId) -> Result<(), NotDone> {
        let retire = |reply| ShardCommand::Retire(port, reply);
        self.first().begin_last(retire)?.answer().await
    }

    /// Has another shard serve an adapter. Its connections stay.
    ///
    /// # Errors
    /// A sentence; nothing has changed, unless the other shard is silent.
    pub async fn move_adapter(&self, port: PortId, to: ShardId) -> Result<(), NotDone> {
        let Some(from) = self.shard_of(port) else {
            let sentence = "it is a TAP: no shard serves it";
            return Err(NotDone::Refused(sentence.to_owned()));
        };
        let target = self.line(to)?;
        if from == to {
            return Ok(());
        }
        // The target must be alive to take what the other shard gives up.
        target.ask(ShardCommand::Load).await?;
        let send_away = |reply| ShardCommand::SendAway(port, to, reply);
        let moving = flat(self.line(from)?.ask(send_away).await)?;
        self.places().put(port, to);
        let adopt = |reply| ShardCommand::Adopt(moving, reply);
        target.begin_last(adopt)?.answer().await
    }

    /// Returns state and counters of all adapters, in the order of their ports.
    pub async fn snapshot(&self) -> Told<AdapterSnapshot> {
        let mut told: Told<_> = self.ask_all(ShardCommand::Snapshot).await.into();
        if self.count() > 1 {
            told.all.sort_by_key(|snapshot| snapshot.port);
            for some in told.all.chunks_mut(LISTENERS_AT_ONCE) {
                if let Err(silent) = self.add_what_is_offered(some).await {
                    told.missing = Some(silent);
                    break;
                }
            }
        }
        told
    }

    async fn add_what_is_offered(&self, snapshots: &mut [AdapterSnapshot]) -> Result<(), NotDone> {
        let ports = snapshots.iter().map(|snapshot| snapshot.port).collect();
        let offered = |reply| ShardCommand::Offered(ports, reply);
        let offered = self.first().ask(offered).await?;
        for (snapshot, offered) in snapshots.iter_mut().zip(offered) {
            snapshot.set_offered(offered);
        }
        Ok(())
    }

    /// Returns how busy each shard is, if it answers.
    pub async fn loads(&self) -> Vec<Option<ShardLoad>> {
        let loads = self.ask_all(ShardCommand::Load).await;
        loads.into_iter().map(Result::ok).collect()
    }

    /// Asks all shards at once, so that their time limits run in parallel and do not add up.
    async fn ask_all<T>(
        &self,
        command: impl Fn(Reply<T>) -> ShardCommand,
    ) -> Vec<Result<T, NotDone>> {
        let asked = self.lines.iter().map(|line| line.begin(&command));
        let mut answers = Vec::new();
        for asked in asked.collect::<Vec<_>>() {
            answers.push(match asked {
                Ok(asked) => asked.answer().await,
                Err(silent) => Err(silent),
            });
        }
        answers
    }

    /// Gives each shard its end of an uplink.
    ///
    /// # Errors
    /// A sentence; some shards may have their end.
    pub async fn add_uplink(&self, ends: Vec<UplinkEnd>) -> Result<(), NotDone> {
        for (line, end) in self.lines.iter().zip(ends) {
            change_uplink(line, UplinkChange::Add(Box::new(end))).await?;
        }
        Ok(())
    }

    /// Closes all ends of an uplink. Those of silent shards are closed when they go on.
    ///
    /// # Errors
    /// A sentence.
    pub async fn remove_uplink(&self, id: UplinkId) -> Result<(), NotDone> {
        let remove = |reply| ShardCommand::Uplink(UplinkChange::Remove(id), reply);
        let begun = self.lines.iter().map(|line| line.begin_last(remove));
        for begun in begun.collect::<Result<Vec<_>, _>>()? {
            flat(begun.answer().await)?;
        }
        Ok(())
    }

    /// Adds the other end of a tunnel. The ends of all shards have the same peers.
    ///
    /// # Errors
    /// A sentence; nothing has changed.
    pub async fn add_peer(&self, id: UplinkId, peer: PeerSpec) -> Result<(), NotDone> {
        let added = UplinkChange::AddPeer(id, Box::new(peer));
        change_uplink(self.first(), added).await?;
        self.measure_others(id).await
    }

    /// Forgets the other end of a tunnel.
    ///
    /// # Errors
    /// A sentence.
    pub async fn remove_peer(&self, id: UplinkId, peer: SocketAddr) -> Result<(), NotDone> {
        let change = UplinkChange::RemovePeer(id, peer);
        let remove = |reply| ShardCommand::Uplink(change, reply);
        flat(self.first().begin_last(remove)?.answer().await)?;
        self.measure_others(id).await
    }

    async fn measure_others(&self, id: UplinkId) -> Result<(), NotDone> {
        for line in &self.lines[1..] {
            change_uplink(line, UplinkChange::Measure(id)).await?;
        }
        Ok(())
    }

    /// Begins an adapter's trace, or fetches what it has got: the number of packets dropped so far as 8 bytes, highest
    /// first, then records of a pcap file.
    ///
    /// # Errors
    /// A sentence.
    pub async fn trace(&self, port: PortId) -> Result<Vec<u8>, NotDone> {
        let shard = self.shard_of(port).unwrap_or(ShardId::FIRST);
        let trace = |reply| ShardCommand::Trace(port, reply);
        self.line(shard)?.ask(trace).await
    }

    /// Returns the objects of an adapter.
    ///
    /// # Errors
    /// A sentence.
    pub async fn state(&self, port: PortId) -> Result<ObjectStates, NotDone> {
        let shard = self.shard_of(port).unwrap_or(ShardId::FIRST);
        let state = |reply| ShardCommand::State(port, reply);
        self.line(shard)?.ask(state).await
    }

    /// Returns the uplinks, each with the sums of all shards' ends.
    pub async fn uplinks(&self) -> Told<UplinkSnapshot> {
        let told: Told<UplinkSnapshot> = self.ask_all(ShardCommand::Uplinks).await.into();
        let mut sums: Vec<UplinkSnapshot> = Vec::new();
        for end in told.all {
            match sums.iter_mut().find(|sum| sum.id == end.id) {
                Some(sum) => sum.frames.add(&end.frames),
                None => sums.push(end),
            }
        }
        Told { all: sums, ..told }
    }

    /// Tells the threads to end; join them to wait for that.
    pub fn stop(&self) {
        for line in &*self.lines {
            line.tell_last(ShardCommand::Stop);
        }
    }
}

/// The answers of the shards that answer.
#[derive(Debug)]
pub struct Told<T> {
    /// All answers.
    pub all: Vec<T>,
    /// Why answers are missing, if any are.
    pub missing: Option<NotDone>,
}

impl<T> Told<T> {
    /// Returns all answers or none.
    ///
    /// # Errors
    /// Some answers are missing.
    pub fn whole(self) -> Result<Vec<T>, NotDone> {
        self.missing.map_or(Ok(self.all), Err)
    }
}

impl<T> From<Vec<Result<Vec<T>, NotDone>>> for Told<T> {
    fn from(answers: Vec<Result<Vec<T>, NotDone>>) -> Self {
        let (mut all, mut missing) = (Vec::new(), None);
        for answer in answers {
            match answer {
                Ok(some) => all.extend(some),
                Err(silent) => missing = Some(silent),
            }
        }
        Self { all, missing }
    }
}

async fn change_uplink(line: &Line<ShardCommand>, change: UplinkChange) -> Result<(), NotDone> {
    flat(line.ask(|reply| ShardCommand::Uplink(change, reply)).await)
}

/// Flattens a thread's refusal and a failure to reach the thread into one error.
fn flat<T>(answer: Result<Result<T, String>, NotDone>) -> Result<T, NotDone> {
    Ok(answer??)
}
