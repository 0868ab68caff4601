//! What the API reports about the data path. It is asked for before the inventory is locked, so that a thread that does
//! not answer holds up nobody else.

use std::collections::{BTreeMap, HashMap, HashSet};

use rustix::fs::Access;
use vrdma_api::{
    AdapterState, AdapterStats, EthernetStats, Name, PortGroup, PortGroupDrops, RdmaStats,
    ShardStatus, Status, Uplink,
};
use vrdma_inventory::{Inventory, Limited};
use vrdma_switch::{PortId, UplinkId};
use vrdma_threads::{NotDone, UplinkSnapshot, Vital};

use super::Control;
use super::answer::Problem;

/// Counters of adapters, as the threads report them.
struct Counted {
    rdma: HashMap<PortId, RdmaStats>,
    ethernet: HashMap<PortId, EthernetStats>,
}

/// The threads' view of their ends of uplinks.
#[derive(Default)]
pub(super) struct Seen {
    roce: HashMap<UplinkId, UplinkSnapshot>,
    rest: HashMap<UplinkId, UplinkSnapshot>,
}

impl Control {
    pub(super) async fn stats(&self) -> Result<Vec<AdapterStats>, Problem> {
        let (counted, missing) = self.counted().await;
        missing.map_or(Ok(()), Err)?;
        let mut stats = counted.of(&self.inventory());
        self.memory().counts.add_before(&mut stats);
        Ok(stats)
    }

    /// Takes the counts before this worker gives way to another one, which goes on from them.
    pub async fn tell_counts(&self) {
        if let Err(problem) = self.stats().await {
            tracing::warn!("counters will go on from what was told last: {problem:?}");
        }
    }

    pub(super) async fn adapter_stats(&self, name: &Name) -> Result<AdapterStats, Problem> {
        self.inventory().adapter(name)?;
        let mut stats = self.stats().await?.into_iter();
        stats
            .find(|stats| stats.name == *name)
            .ok_or_else(|| Problem::internal("the adapter has no counters".to_owned()))
    }

    /// Returns a port group, with its drops if all threads that count them answer.
    pub(super) async fn portgroup(&self, name: &Name) -> Result<PortGroup, Problem> {
        let id = self.inventory().group_id(name)?;
        let (stats, of_uplinks) = tokio::join!(self.stats(), self.shards.group_drops(id));
        let mut group = self.inventory().portgroup(name)?;
        if let (Ok(stats), Ok(rdma)) = (stats, of_uplinks) {
            group.drops = Some(dropped(&group, &stats, rdma));
        }
        Ok(group)
    }

    pub(super) async fn adapter_state(&self, name: &Name) -> Result<AdapterState, Problem> {
        let port = self.inventory().port(name)?;
        let stats = self.adapter_stats(name).await?;
        Ok(AdapterState {
            name: name.clone(),
            rdma: stats.rdma,
            objects: self.shards.state(port).await?,
        })
    }

    pub(super) async fn trace(&self, name: &Name) -> Result<Vec<u8>, Problem> {
        let port = self.inventory().port(name)?;
        Ok(self.shards.trace(port).await?)
    }

    /// Returns the counters of the threads that answer, and why something is missing.
    async fn counted(&self) -> (Counted, Option<NotDone>) {
        let (shards, ethernet) = tokio::join!(self.shards.snapshot(), self.ethernet.snapshot());
        let (ethernet, silent) = match ethernet {
            Ok(ethernet) => (ethernet, None),
            Err(silent) => (Vec::new(), Some(silent)),
        };
        let rdma = shards.all.into_iter();
        let counted = Counted {
            rdma: rdma.map(|told| (told.port, told.rdma)).collect(),
            ethernet: ethernet.into_iter().collect(),
        };
        (counted, shards.missing.or(silent))
    }

    /// Returns the uplink ends of the threads that answer, and why something is missing.
    async fn seen(&self) -> (Seen, Option<NotDone>) {
        let (shards, ethernet) = tokio::join!(self.shards.uplinks(), self.ethernet.uplinks());
        let (ethernet, silent) = match ethernet {
            Ok(ethernet) => (ethernet, None),
            Err(silent) => (Vec::new(), Some(silent)),
        };
        let by_id = |ends: Vec<UplinkSnapshot>| ends.into_iter().map(|end| (end.id, end)).collect();
        let seen = Seen {
            roce: by_id(shards.all),
            rest: by_id(ethernet),
        };
        (seen, shards.missing.or(silent))
    }

    /// The same, but an error if a thread does not answer.
    pub(super) async fn all_seen(&self) -> Result<Seen, Problem> {
        let (seen, missing) = self.seen().await;
        Ok(missing.map_or(Ok(seen), Err)?)
    }

    async fn shard_status(&self) -> Vec<ShardStatus> {
        let loads = self.shards.loads().await.into_iter();
        let counts = self.shards.adapter_counts();
        let shards = loads.zip(counts).zip(self.shards.vitals());
        let status = shards.zip(&self.facts.shards.cores);
        let status = status.map(|(((load, adapters), vital), core)| {
            let load = load.unwrap_or_default();
            ShardStatus {
                core: *core,
                adapters,
                busy_percent: load.busy,
                transfers: load.transfers,
                silent_ms: silent_ms(vital),
            }
        });
        status.collect()
    }

    /// Returns the status. It names threads that do not answer; values that only they know are zero.
    pub(super) async fn status(&self) -> Status {
        let (shards, (counted, _), (seen, _)) =
            tokio::join!(self.shard_status(), self.counted(), self.seen());
        let inventory = self.inventory();
        let mut stats = counted.of(&inventory);
        self.memory().counts.add_before(&mut stats);
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            keeper: self.facts.legacy.keeper(),
            uptime_seconds: self.facts.started.elapsed().as_secs(),
            config: self.facts.config.clone(),
            run_dir: self.facts.run_dir.clone(),
            shards,
            ethernet_silent_ms: silent_ms(self.ethernet.vital()),
            opens_interfaces: self.facts.interfaces.can_open(),
            hands_out_userfaultfd: self.facts.shards.hands_out_userfaultfd
                && may_open_userfaultfd(),
            protections: self.facts.protections.clone(),
            poll: self.facts.shards.poll,
            migration: self.facts.migration.as_ref().map(|spec| spec.listen),
            portgroups: inventory.portgroups(),
            uplinks: seen.all_uplinks(&inventory),
            adapters: inventory.adapters(),
            stats,
        }
    }
}

/// Whether the daemon may open userfaultfd: as when shards began, unless the device's mode was changed since.
fn may_open_userfaultfd() -> bool {
    let rights = Access::READ_OK | Access::WRITE_OK;
    rustix::fs::access("/dev/userfaultfd", rights).is_ok()
}

fn silent_ms(vital: &Vital) -> Option<u64> {
    vital.silence().map(|silence| silence.as_millis() as u64)
}

impl Counted {
    /// Joins the counters, in the order of the inventory.
    fn of(mut self, inventory: &Inventory) -> Vec<AdapterStats> {
        let stats = inventory.ports().map(|(name, port)| AdapterStats {
            name: name.clone(),
            rdma: limited(
                self.rdma.remove(&port).unwrap_or_default(),
                inventory.limited(name),
            ),
            ethernet: self.ethernet.remove(&port).unwrap_or_default(),
        });
        stats.collect()
    }
}

impl Seen {
    pub(super) fn all_uplinks(&self, inventory: &Inventory) -> Vec<Uplink> {
        let uplinks = inventory.uplinks().map(|(id, mut uplink)| {
            self.complete(id, &mut uplink);
            uplink
        });
        uplinks.collect()
    }

    pub(super) fn complete(&self, id: UplinkId, uplink: &mut Uplink) {
        if let Some(end) = self.roce.get(&id) {
            uplink.mtu = end.mtu;
            uplink.stats.roce = end.frames.clone();
        }
        if let Some(end) = self.rest.get(&id) {
            uplink.stats.ethernet = end.frames.clone();
        }
    }
}

/// Sums the drops of a port group: counts of its adapters, and what uplinks dropped for it besides.
fn dropped(
    group: &PortGroup,
    stats: &[AdapterStats],
    of_uplinks: BTreeMap<String, u64>,
) -> PortGroupDrops {
    let members: HashSet<_> = group.adapters.iter().collect();
    let mut drops = PortGroupDrops {
        rdma: of_uplinks,
        ..PortGroupDrops::default()
    };
    let stats = stats.iter().filter(|stats| members.contains(&stats.name));
    stats.for_each(|stats| drops.add(stats));
    drops
}

/// Adds the effects of limits, which the control plane counts.
fn limited(stats: RdmaStats, limited: Limited) -> RdmaStats {
    let mut stats = RdmaStats {
        throttled: limited.out,
        throttled_in: limited.inward,
        ..stats
    };
    if limited.drops > 0 {
        let drops = &mut stats.counters.drops;
        drops.insert("over-limit".to_owned(), limited.drops);
    }
    stats
}
