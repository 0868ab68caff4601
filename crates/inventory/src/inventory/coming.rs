//! An object that is being added: it has its name, numbers and addresses, and is hidden until the data path has it.

use vrdma_api::{Endpoint, Name};

use super::Inventory;

/// An object that is being added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Coming {
    /// An adapter.
    Adapter(Name),
    /// An uplink.
    Uplink(Name),
    /// The other end of a tunnel.
    Peer(Name, Endpoint),
}

impl Inventory {
    /// Hides the object that has just been added. Only one is added at a time.
    pub fn hide(&mut self, coming: Coming) {
        self.coming = Some(coming);
    }

    /// Shows all objects, and lets them be removed.
    pub fn show(&mut self) {
        self.coming = None;
    }

    pub(super) fn is_adapter_shown(&self, name: &Name) -> bool {
        !matches!(&self.coming, Some(Coming::Adapter(coming)) if coming == name)
    }

    pub(super) fn is_uplink_shown(&self, name: &Name) -> bool {
        !matches!(&self.coming, Some(Coming::Uplink(coming)) if coming == name)
    }

    pub(super) fn is_peer_shown(&self, uplink: &Name, address: Endpoint) -> bool {
        let of = |coming: &Coming| matches!(coming, Coming::Peer(name, end) if name == uplink && *end == address);
        !self.coming.as_ref().is_some_and(of)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use vrdma_api::{Origin, PeerRequest, UplinkRequest};

    use super::*;

    #[test]
    fn what_is_coming_has_its_name_and_is_not_shown() {
        let mut inventory = Inventory::new(Path::new("/run/v"), 1);
        let uplink = r#"{ "name": "up0", "kind": "tunnel", "listen": "192.0.2.1" }"#;
        let uplink: UplinkRequest = serde_json::from_str(uplink).unwrap();
        inventory.add_uplink(&uplink, Origin::Runtime).unwrap();
        inventory.hide(Coming::Uplink(uplink.name.clone()));
        assert_eq!(inventory.uplinks().count(), 0);
        assert!(inventory.uplink(&uplink.name).is_err());
        assert!(inventory.add_uplink(&uplink, Origin::Runtime).is_err());
        inventory.show();
        assert_eq!(inventory.uplinks().count(), 1);
        let peer = r#"{ "uplink": "up0", "address": "192.0.2.2" }"#;
        let peer: PeerRequest = serde_json::from_str(peer).unwrap();
        inventory.add_peer(&peer, Origin::Runtime).unwrap();
        inventory.hide(Coming::Peer(peer.uplink.clone(), peer.address));
        assert!(inventory.peers().is_empty());
        inventory.show();
        assert_eq!(inventory.peers().len(), 1);
    }
}
