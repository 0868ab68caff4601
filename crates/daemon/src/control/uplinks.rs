//! Uplinks and peers: changes and what is told of them.

use vrdma_api::{Endpoint, Name, Origin, Peer, PeerRequest, Uplink, UplinkRequest};

use super::Control;
use super::answer::Problem;

impl Control {
    pub(super) async fn add_uplink(&self, request: &UplinkRequest) -> Result<Uplink, Problem> {
        let mut inventory = self.inventory.lock().await;
        inventory.add_uplink(request, Origin::Runtime)?;
        tracing::info!("uplink {} added", request.name);
        Ok(inventory.uplink(&request.name)?)
    }

    pub(super) async fn remove_uplink(&self, name: &Name) -> Result<(), Problem> {
        let mut inventory = self.inventory.lock().await;
        inventory.remove_uplink(name)?;
        tracing::info!("uplink {name} removed");
        Ok(())
    }

    pub(super) async fn uplink(&self, name: &Name) -> Result<Uplink, Problem> {
        Ok(self.inventory.lock().await.uplink(name)?)
    }

    pub(super) async fn uplinks(&self) -> Result<Vec<Uplink>, Problem> {
        let inventory = self.inventory.lock().await;
        Ok(inventory.uplinks().map(|(_, uplink)| uplink).collect())
    }

    pub(super) async fn add_peer(&self, request: &PeerRequest) -> Result<Peer, Problem> {
        let mut inventory = self.inventory.lock().await;
        inventory.add_peer(request, Origin::Runtime)?;
        Ok(Peer {
            uplink: request.uplink.clone(),
            address: request.address,
            origin: Origin::Runtime,
        })
    }

    pub(super) async fn remove_peer(
        &self,
        uplink: &Name,
        address: Endpoint,
    ) -> Result<(), Problem> {
        let mut inventory = self.inventory.lock().await;
        inventory.remove_peer(uplink, address)?;
        Ok(())
    }

    pub(super) async fn peers(&self) -> Vec<Peer> {
        self.inventory.lock().await.peers()
    }
}
