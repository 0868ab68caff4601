//! Uplinks and peers: changes to them, and reports.

use vrdma_api::{Endpoint, Name, Origin, Peer, PeerRequest, Uplink, UplinkRequest};

use std::net::SocketAddr;

use vrdma_inventory::{Coming, Object, UplinkSpec};
use vrdma_switch::UplinkId;
use vrdma_threads::uplink::{self, UplinkEnds};
use vrdma_threads::{NotDone, UplinkChange};
use vrdma_uplink::PeerSpec;

use super::Control;
use super::answer::Problem;

impl Control {
    /// Opens an uplink and tells the data path. The error is a sentence, and nothing is left behind.
    pub async fn plug_uplink(&self, spec: &UplinkSpec) -> Result<(), NotDone> {
        let UplinkEnds { roce, rest } =
            uplink::open(spec, self.shards.count(), &self.facts.interfaces)?;
        let rest = UplinkChange::Add(Box::new(rest));
        self.ethernet.change_uplink(rest).await?;
        let added = self.shards.add_uplink(roce);
        if let Err(not_done) = added.await {
            self.unplug_uplink(spec.id).await?;
            return Err(not_done);
        }
        tracing::info!("uplink {} is open", spec.name);
        Ok(())
    }

    async fn unplug_uplink(&self, id: UplinkId) -> Result<(), NotDone> {
        let shard = self.shards.remove_uplink(id).await;
        self.ethernet.take_back(UplinkChange::Remove(id)).await?;
        shard
    }

    /// Tells the data path of the other end of a tunnel: both threads, or none.
    pub async fn plug_peer(&self, id: UplinkId, peer: PeerSpec) -> Result<(), NotDone> {
        let address = peer.address;
        let add = UplinkChange::AddPeer(id, Box::new(peer.clone()));
        self.ethernet.change_uplink(add).await?;
        let added = self.shards.add_peer(id, peer).await;
        if added.is_err() {
            let take_back = UplinkChange::RemovePeer(id, address);
            self.ethernet.take_back(take_back).await?;
        }
        added
    }

    async fn unplug_peer(&self, id: UplinkId, peer: SocketAddr) -> Result<(), NotDone> {
        let shard = self.shards.remove_peer(id, peer).await;
        let remove = UplinkChange::RemovePeer(id, peer);
        self.ethernet.take_back(remove).await?;
        shard
    }

    pub(super) async fn add_uplink(&self, request: &UplinkRequest) -> Result<Uplink, Problem> {
        let change = self.changes.lock().await;
        let spec = {
            let mut inventory = self.inventory();
            let spec = inventory.add_uplink(request, Origin::Runtime)?;
            inventory.hide(Coming::Uplink(request.name.clone()));
            spec
        };
        let plugged = self.plug_uplink(&spec).await;
        self.inventory().show();
        if let Err(not_done) = plugged {
            self.inventory().remove_uplink(&request.name)?;
            return Err(Problem::of(not_done, Problem::conflict));
        }
        let mut uplink = {
            let inventory = self.inventory();
            self.keep(&Object::Uplink(request.name.clone()), &inventory);
            inventory.uplink(&request.name)?
        };
        drop(change);
        self.all_seen().await?.complete(spec.id, &mut uplink);
        Ok(uplink)
    }

    pub(super) async fn remove_uplink(&self, name: &Name) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let id = self.inventory().uplink_id(name)?;
        self.unplug_uplink(id).await?;
        let mut inventory = self.inventory();
        let mut peers = inventory.peers();
        peers.retain(|peer| peer.request.uplink == *name);
        inventory.remove_uplink(name)?;
        self.keep(&Object::Uplink(name.clone()), &inventory);
        for peer in peers {
            self.keep(
                &Object::Peer(name.clone(), peer.request.address),
                &inventory,
            );
        }
        tracing::info!("uplink {name} removed");
        Ok(())
    }

    pub(super) async fn uplink(&self, name: &Name) -> Result<Uplink, Problem> {
        self.inventory().uplink_id(name)?;
        let seen = self.all_seen().await?;
        let inventory = self.inventory();
        let mut uplink = inventory.uplink(name)?;
        seen.complete(inventory.uplink_id(name)?, &mut uplink);
        Ok(uplink)
    }

    pub(super) async fn uplinks(&self) -> Result<Vec<Uplink>, Problem> {
        let seen = self.all_seen().await?;
        Ok(seen.all_uplinks(&self.inventory()))
    }

    pub(super) async fn add_peer(&self, request: &PeerRequest) -> Result<Peer, Problem> {
        let _change = self.changes.lock().await;
        let (id, spec) = {
            let mut inventory = self.inventory();
            let added = inventory.add_peer(request, Origin::Runtime)?;
            inventory.hide(Coming::Peer(request.uplink.clone(), request.address));
            added
        };
        let sealed = spec.keys.is_some();
        let plugged = self.plug_peer(id, spec).await;
        let mut inventory = self.inventory();
        inventory.show();
        if let Err(not_done) = plugged {
            inventory.remove_peer(&request.uplink, request.address)?;
            return Err(Problem::of(not_done, Problem::conflict));
        }
        let object = Object::Peer(request.uplink.clone(), request.address);
        self.keep(&object, &inventory);
        Ok(Peer {
            request: request.clone(),
            sealed,
            origin: Origin::Runtime,
        })
    }

    pub(super) async fn remove_peer(
        &self,
        uplink: &Name,
        address: Endpoint,
    ) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let id = {
            let mut inventory = self.inventory();
            let id = inventory.remove_peer(uplink, address)?;
            self.keep(&Object::Peer(uplink.clone(), address), &inventory);
            id
        };
        Ok(self.unplug_peer(id, address.get()).await?)
    }

    pub(super) fn peers(&self) -> Vec<Peer> {
        self.inventory().peers()
    }
}
