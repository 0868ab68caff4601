//! Uplinks and peers: changes and what is told of them.

use vrdma_api::{Endpoint, Name, Origin, Peer, PeerRequest, Uplink, UplinkRequest};

use std::collections::HashMap;
use std::net::SocketAddr;

use vrdma_switch::UplinkId;
use vrdma_wire::Mac;

use super::Control;
use super::answer::Problem;
use crate::inventory::{Inventory, stations_of};
use crate::plane::{UplinkChange, UplinkSnapshot, UplinkSpec};
use crate::uplink::{self, UplinkEnds};

impl Control {
    /// Opens an uplink and tells the data path. The error is a sentence and leaves nothing behind.
    pub async fn plug_uplink(&self, spec: &UplinkSpec) -> Result<(), String> {
        let UplinkEnds { roce, rest } = uplink::open(spec, self.shards.count())?;
        let rest = UplinkChange::Add(Box::new(rest));
        self.ethernet.change_uplink(rest).await?;
        let added = self.shards.add_uplink(roce);
        if let Err(sentence) = added.await {
            self.unplug_uplink(spec.id).await?;
            return Err(sentence);
        }
        tracing::info!("uplink {} is open", spec.name);
        Ok(())
    }

    async fn unplug_uplink(&self, id: UplinkId) -> Result<(), String> {
        let shard = self.shards.remove_uplink(id).await;
        self.ethernet
            .change_uplink(UplinkChange::Remove(id))
            .await?;
        shard
    }

    /// Tells the data path of the other end of a tunnel; both threads or none.
    pub async fn plug_peer(
        &self,
        id: UplinkId,
        peer: SocketAddr,
        stations: &[Mac],
    ) -> Result<(), String> {
        let add = UplinkChange::AddPeer(id, peer, stations.to_vec());
        self.ethernet.change_uplink(add).await?;
        let added = self.shards.add_peer(id, peer, stations.to_vec()).await;
        if added.is_err() {
            let take_back = UplinkChange::RemovePeer(id, peer);
            self.ethernet.change_uplink(take_back).await?;
        }
        added
    }

    async fn unplug_peer(&self, id: UplinkId, peer: SocketAddr) -> Result<(), String> {
        let shard = self.shards.remove_peer(id, peer).await;
        let remove = UplinkChange::RemovePeer(id, peer);
        self.ethernet.change_uplink(remove).await?;
        shard
    }

    pub(super) async fn add_uplink(&self, request: &UplinkRequest) -> Result<Uplink, Problem> {
        let mut inventory = self.inventory.lock().await;
        let spec = inventory.add_uplink(request, Origin::Runtime)?;
        if let Err(sentence) = self.plug_uplink(&spec).await {
            inventory.remove_uplink(&request.name)?;
            return Err(Problem::conflict(sentence));
        }
        let mut uplink = inventory.uplink(&request.name)?;
        Self::complete(spec.id, &mut uplink, &self.seen().await?);
        Ok(uplink)
    }

    pub(super) async fn remove_uplink(&self, name: &Name) -> Result<(), Problem> {
        let mut inventory = self.inventory.lock().await;
        let id = inventory.uplink_id(name)?;
        self.unplug_uplink(id).await.map_err(Problem::internal)?;
        inventory.remove_uplink(name)?;
        tracing::info!("uplink {name} removed");
        Ok(())
    }

    pub(super) async fn uplink(&self, name: &Name) -> Result<Uplink, Problem> {
        let inventory = self.inventory.lock().await;
        let id = inventory.uplink_id(name)?;
        let mut uplink = inventory.uplink(name)?;
        Self::complete(id, &mut uplink, &self.seen().await?);
        Ok(uplink)
    }

    pub(super) async fn uplinks(&self) -> Result<Vec<Uplink>, Problem> {
        let inventory = self.inventory.lock().await;
        self.all_uplinks(&inventory).await
    }

    pub(super) async fn all_uplinks(&self, inventory: &Inventory) -> Result<Vec<Uplink>, Problem> {
        let seen = self.seen().await?;
        let uplinks = inventory.uplinks().map(|(id, mut uplink)| {
            Self::complete(id, &mut uplink, &seen);
            uplink
        });
        Ok(uplinks.collect())
    }

    /// What the threads tell of their ends.
    async fn seen(&self) -> Result<Seen, Problem> {
        let shard = self.shards.uplinks().await.map_err(Problem::internal)?;
        let ethernet = self.ethernet.uplinks().await.map_err(Problem::internal)?;
        let by_id = |ends: Vec<UplinkSnapshot>| ends.into_iter().map(|end| (end.id, end)).collect();
        Ok(Seen {
            roce: by_id(shard),
            rest: by_id(ethernet),
        })
    }

    fn complete(id: UplinkId, uplink: &mut Uplink, seen: &Seen) {
        if let Some(end) = seen.roce.get(&id) {
            uplink.mtu = end.mtu;
            uplink.stats.roce = end.frames.clone();
        }
        if let Some(end) = seen.rest.get(&id) {
            uplink.stats.ethernet = end.frames.clone();
        }
    }

    pub(super) async fn add_peer(&self, request: &PeerRequest) -> Result<Peer, Problem> {
        let mut inventory = self.inventory.lock().await;
        let id = inventory.add_peer(request, Origin::Runtime)?;
        let address = request.address;
        let stations = stations_of(&request.stations);
        if let Err(sentence) = self.plug_peer(id, address.get(), &stations).await {
            inventory.remove_peer(&request.uplink, address)?;
            return Err(Problem::conflict(sentence));
        }
        Ok(Peer {
            uplink: request.uplink.clone(),
            address,
            stations: request.stations.clone(),
            origin: Origin::Runtime,
        })
    }

    pub(super) async fn remove_peer(
        &self,
        uplink: &Name,
        address: Endpoint,
    ) -> Result<(), Problem> {
        let mut inventory = self.inventory.lock().await;
        let id = inventory.remove_peer(uplink, address)?;
        let removed = self.unplug_peer(id, address.get()).await;
        removed.map_err(Problem::internal)
    }

    pub(super) async fn peers(&self) -> Vec<Peer> {
        self.inventory.lock().await.peers()
    }
}

/// The threads' ends by uplink.
struct Seen {
    roce: HashMap<UplinkId, UplinkSnapshot>,
    rest: HashMap<UplinkId, UplinkSnapshot>,
}
