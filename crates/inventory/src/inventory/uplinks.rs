//! Which uplinks and peers exist, and the rules among them and the port groups.

use std::collections::BTreeMap;

use vrdma_api::{
    Endpoint, MacAddress, Name, Origin, Peer, PeerRequest, Uplink, UplinkKind, UplinkRequest,
    UplinkStats, Vlan,
};
use vrdma_switch::UplinkId;
use vrdma_uplink::{FaultSpec, Keys, PeerSpec, SpecError};
use vrdma_wire::Mac;

use super::refusal::{Field, Refusal};
use super::{Inventory, key_file, lowest_free};
use crate::spec::{Medium, UplinkSpec};

/// Most uplinks: hosts have a few ports, and each uplink costs four descriptors.
pub const UPLINKS_MAX: usize = 16;
/// Most peers of one tunnel: a frame for an unknown station goes to each of them.
pub const PEERS_MAX: usize = 256;
/// Most networks stated for a peer: as many as there may be port groups.
const VNIS_MAX: usize = 4094;
/// Most stations stated for all peers of one tunnel.
pub const STATIONS_MAX: usize = 16_384;

#[derive(Clone, Debug)]
pub(super) struct Linked {
    id: UplinkId,
    request: UplinkRequest,
    medium: Medium,
    faults: Option<FaultSpec>,
    origin: Origin,
    keys: Option<Keys>,
    peers: BTreeMap<Endpoint, Other>,
}

/// The other end of a tunnel.
#[derive(Clone, Debug)]
struct Other {
    peer: Peer,
    spec: PeerSpec,
}

/// Describes a peer for the data path.
fn peer_spec(request: &PeerRequest, keys: Option<Keys>) -> PeerSpec {
    let stations = request.stations.iter();
    let vnis = request.vnis.iter();
    PeerSpec {
        address: request.address.get(),
        any_port: request.any_port,
        stations: stations.map(|mac| Mac(mac.octets())).collect(),
        networks: vnis
            .filter_map(|vni| vrdma_uplink::Vni::new(vni.get()))
            .collect(),
        keys,
    }
}

impl Inventory {
    /// Adds an uplink, and returns what must now be opened and told to the data path.
    pub fn add_uplink(
        &mut self,
        request: &UplinkRequest,
        origin: Origin,
    ) -> Result<UplinkSpec, Refusal> {
        let name = &request.name;
        if self.uplinks.contains_key(name) {
            return Err(Refusal::uplink_exists(name));
        }
        let medium = medium(request)?;
        let keys = uplink_keys(request)?;
        let faults = faults(request)?;
        self.check_medium(&medium)?;
        if self.uplinks.len() == UPLINKS_MAX {
            return Err(Refusal::full(format!(
                "there are {UPLINKS_MAX} uplinks already"
            )));
        }
        let id = UplinkId(lowest_free(self.uplinks.values().map(|linked| linked.id.0)));
        let linked = Linked {
            id,
            request: request.clone(),
            medium,
            faults,
            keys,
            origin,
            peers: BTreeMap::new(),
        };
        let spec = spec(&linked);
        self.uplinks.insert(name.clone(), linked);
        Ok(spec)
    }

    /// Checks that the medium is free: an interface with two uplinks would take every frame twice, and a UDP port has
    /// one owner.
    fn check_medium(&self, medium: &Medium) -> Result<(), Refusal> {
        let mut others = self.uplinks.iter();
        if let Some((owner, _)) = others.find(|(_, other)| other.medium == *medium) {
            return Err(Refusal::medium_taken(medium, owner));
        }
        match (medium, self.untagged().as_slice()) {
            (Medium::Raw { .. }, [first, second, ..]) => {
                Err(Refusal::both_untagged(first, second, Field::Interface))
            }
            _ => Ok(()),
        }
    }

    fn untagged(&self) -> Vec<&Name> {
        let groups = self.groups.iter().filter(|(_, group)| group.vlan.is_none());
        groups.map(|(name, _)| name).collect()
    }

    /// Checks that no other group is without a VLAN: two such groups would be one network on a raw uplink.
    pub(super) fn check_untagged(&self, name: &Name, vlan: Option<Vlan>) -> Result<(), Refusal> {
        let is_raw = |linked: &Linked| linked.request.kind == UplinkKind::Raw;
        if vlan.is_some() || !self.uplinks.values().any(is_raw) {
            return Ok(());
        }
        match self.untagged().first() {
            Some(first) => Err(Refusal::both_untagged(first, name, Field::Name)),
            None => Ok(()),
        }
    }

    /// Removes an uplink and its peers. Its number can then go to the next one, so the data path must forget the uplink
    /// first.
    pub fn remove_uplink(&mut self, name: &Name) -> Result<UplinkId, Refusal> {
        let id = self.uplink_id(name)?;
        self.uplinks.remove(name);
        Ok(id)
    }

    /// Returns the number of an uplink in the switch.
    pub fn uplink_id(&self, name: &Name) -> Result<UplinkId, Refusal> {
        self.linked(name, Field::Name).map(|linked| linked.id)
    }

    /// Returns one uplink as far as it is known here: MTU and counters are the data path's.
    pub fn uplink(&self, name: &Name) -> Result<Uplink, Refusal> {
        self.linked(name, Field::Name).map(describe)
    }

    /// Returns the request that would make an uplink again.
    pub(crate) fn uplink_request(&self, name: &Name) -> Option<UplinkRequest> {
        self.uplinks.get(name).map(|linked| linked.request.clone())
    }

    /// Returns all uplinks as the data path needs them.
    pub fn uplink_specs(&self) -> Vec<UplinkSpec> {
        self.uplinks.values().map(spec).collect()
    }

    /// Returns all uplinks by name, with their numbers.
    pub fn uplinks(&self) -> impl Iterator<Item = (UplinkId, Uplink)> {
        let all = self.uplinks.iter();
        let shown = all.filter(|(name, _)| self.is_uplink_shown(name));
        shown.map(|(_, linked)| (linked.id, describe(linked)))
    }

    fn linked(&self, name: &Name, field: Field) -> Result<&Linked, Refusal> {
        let found = self.uplinks.get(name);
        let shown = found.filter(|_| self.is_uplink_shown(name));
        shown.ok_or_else(|| Refusal::no_uplink(name, self.uplinks.keys(), field))
    }

    /// Adds a peer to a tunnel.
    pub fn add_peer(
        &mut self,
        request: &PeerRequest,
        origin: Origin,
    ) -> Result<(UplinkId, PeerSpec), Refusal> {
        let linked = self.linked(&request.uplink, Field::Uplink)?;
        check_peer(linked, request)?;
        let id = linked.id;
        let keys = match &request.key {
            Some(file) => Some(key_file::read(file)?),
            None => linked.keys.clone(),
        };
        let peer = Peer {
            request: request.clone(),
            sealed: keys.is_some(),
            origin,
        };
        let spec = peer_spec(request, keys);
        if let Some(linked) = self.uplinks.get_mut(&request.uplink) {
            let spec = spec.clone();
            linked.peers.insert(request.address, Other { peer, spec });
        }
        Ok((id, spec))
    }

    /// Removes a peer from a tunnel.
    pub fn remove_peer(&mut self, uplink: &Name, address: Endpoint) -> Result<UplinkId, Refusal> {
        let id = self.linked(uplink, Field::Uplink)?.id;
        let linked = self.uplinks.get_mut(uplink);
        match linked.and_then(|linked| linked.peers.remove(&address)) {
            Some(_) => Ok(id),
            None => Err(Refusal::no_peer(uplink, address)),
        }
    }

    /// Returns all peers as the data path needs them.
    pub fn peer_specs(&self) -> Vec<(UplinkId, PeerSpec)> {
        let of_uplink = |linked: &Linked| {
            let id = linked.id;
            let peers = linked.peers.values();
            let specs = peers.map(|other| (id, other.spec.clone()));
            specs.collect::<Vec<_>>()
        };
        self.uplinks.values().flat_map(of_uplink).collect()
    }

    /// Returns all peers, by uplink and address.
    pub fn peers(&self) -> Vec<Peer> {
        let of_uplink = |(name, linked): (&Name, &Linked)| {
            let all = linked.peers.iter();
            let shown = all.filter(|(address, _)| self.is_peer_shown(name, **address));
            shown
                .map(|(_, other)| other.peer.clone())
                .collect::<Vec<_>>()
        };
        self.uplinks.iter().flat_map(of_uplink).collect()
    }
}

fn medium(request: &UplinkRequest) -> Result<Medium, Refusal> {
    match (request.kind, &request.interface, request.listen) {
        (UplinkKind::Raw, Some(interface), None) => Ok(Medium::Raw {
            interface: interface.clone(),
        }),
        (UplinkKind::Tunnel, None, Some(listen)) => Ok(Medium::Tunnel {
            listen: listen.get(),
        }),
        (UplinkKind::Raw, ..) => Err(Refusal::raw_needs_interface(&request.name)),
        (UplinkKind::Tunnel, ..) => Err(Refusal::tunnel_needs_listen(&request.name)),
    }
}

fn uplink_keys(request: &UplinkRequest) -> Result<Option<Keys>, Refusal> {
    match (&request.key, request.kind) {
        (None, _) => Ok(None),
        (Some(_), UplinkKind::Raw) => Err(Refusal::raw_has_no_key(&request.name)),
        (Some(file), UplinkKind::Tunnel) => key_file::read(file).map(Some),
    }
}

fn faults(request: &UplinkRequest) -> Result<Option<FaultSpec>, Refusal> {
    let text = request.faults.as_deref();
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|error: SpecError| Refusal::not_faults(&error))
}

fn check_peer(linked: &Linked, request: &PeerRequest) -> Result<(), Refusal> {
    let PeerRequest {
        uplink,
        address,
        stations,
        ..
    } = request;
    let Medium::Tunnel { listen } = linked.medium else {
        return Err(Refusal::raw_has_no_peers(uplink));
    };
    if linked.peers.contains_key(address) {
        Err(Refusal::peer_exists(uplink, *address))
    } else if address.get() == listen || address.get().ip().is_unspecified() {
        Err(Refusal::peer_is_nobody(*address))
    } else if address.get().is_ipv4() != listen.is_ipv4() {
        Err(Refusal::peer_speaks_other(*address, listen))
    } else if linked.peers.len() == PEERS_MAX {
        Err(Refusal::full(format!(
            "the uplink {:?} has {PEERS_MAX} peers already",
            uplink.as_str()
        )))
    } else if request.vnis.len() > VNIS_MAX {
        Err(Refusal::full(format!(
            "a peer takes part in at most {VNIS_MAX} networks"
        )))
    } else {
        check_stations(linked, *address, stations)
    }
}

/// Checks that each station is behind one peer only.
fn check_stations(
    linked: &Linked,
    address: Endpoint,
    stations: &[MacAddress],
) -> Result<(), Refusal> {
    let stated = linked.peers.values().map(|other| other.spec.stations.len());
    if stated.sum::<usize>() + stations.len() > STATIONS_MAX {
        return Err(Refusal::full(format!(
            "the peers of a tunnel have at most {STATIONS_MAX} stations"
        )));
    }
    let mut all = BTreeMap::new();
    for (peer, other) in &linked.peers {
        let stations = other.peer.request.stations.iter();
        all.extend(stations.map(|mac| (*mac, *peer)));
    }
    for mac in stations {
        if let Some(peer) = all.insert(*mac, address) {
            return Err(Refusal::station_taken(*mac, peer, address));
        }
    }
    Ok(())
}

fn describe(linked: &Linked) -> Uplink {
    let request = linked.request.clone();
    Uplink {
        name: request.name,
        kind: request.kind,
        interface: request.interface,
        listen: request.listen,
        key: request.key,
        faults: request.faults,
        origin: linked.origin,
        mtu: 0,
        peers: linked.peers.keys().copied().collect(),
        stats: UplinkStats::default(),
    }
}

fn spec(linked: &Linked) -> UplinkSpec {
    UplinkSpec {
        id: linked.id,
        name: linked.request.name.clone(),
        medium: linked.medium.clone(),
        faults: linked.faults,
    }
}

#[cfg(test)]
mod tests;
