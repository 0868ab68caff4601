//! Refusals about uplinks and peers.

use std::net::SocketAddr;

use vrdma_api::{Endpoint, MacAddress, Name, Vni};
use vrdma_uplink::SpecError;

use super::{Field, Kind, Refusal, known_groups};
use crate::spec::Medium;

impl Refusal {
    pub(in crate::inventory) fn vni_taken(vni: Vni, owner: &Name) -> Self {
        let sentence = format!(
            "VNI {vni} belongs to the port group {:?} already, perhaps by its VLAN; choose another VNI",
            owner.as_str()
        );
        Self::new(Kind::Conflict, Field::Vni, sentence)
    }

    pub(in crate::inventory) fn uplink_exists(name: &Name) -> Self {
        let sentence = format!(
            "there is an uplink {:?} already; choose another name",
            name.as_str()
        );
        Self::new(Kind::Conflict, Field::Name, sentence)
    }

    pub(in crate::inventory) fn no_uplink<'a>(
        name: &Name,
        known: impl Iterator<Item = &'a Name>,
        field: Field,
    ) -> Self {
        let sentence = format!(
            "there is no uplink {:?}; {}",
            name.as_str(),
            known_groups(known)
        );
        Self::new(Kind::Missing, field, sentence)
    }

    pub(in crate::inventory) fn medium_taken(medium: &Medium, owner: &Name) -> Self {
        let owner = owner.as_str();
        let (field, sentence) = match medium {
            Medium::Raw { interface } => (
                Field::Interface,
                format!(
                    "the interface {interface} belongs to the uplink {owner:?} already; choose another"
                ),
            ),
            Medium::Tunnel { listen } => (
                Field::Listen,
                format!(
                    "the uplink {owner:?} listens at {listen} already; choose another address or port"
                ),
            ),
        };
        Self::new(Kind::Conflict, field, sentence)
    }

    pub(in crate::inventory) fn both_untagged(first: &Name, second: &Name, field: Field) -> Self {
        let sentence = format!(
            "the port groups {:?} and {:?} have no VLAN and would be one network on a raw uplink; give one of them a VLAN",
            first.as_str(),
            second.as_str()
        );
        Self::new(Kind::Conflict, field, sentence)
    }

    pub(in crate::inventory) fn raw_needs_interface(name: &Name) -> Self {
        let sentence = format!(
            "the raw uplink {:?} needs an interface, such as eth1, and no address to listen at",
            name.as_str()
        );
        Self::new(Kind::Invalid, Field::Kind, sentence)
    }

    pub(in crate::inventory) fn tunnel_needs_listen(name: &Name) -> Self {
        let sentence = format!(
            "the tunnel {:?} needs an address to listen at, such as 192.0.2.1:4789, and no interface",
            name.as_str()
        );
        Self::new(Kind::Invalid, Field::Kind, sentence)
    }

    pub(in crate::inventory) fn raw_has_no_key(name: &Name) -> Self {
        let sentence = format!(
            "the uplink {:?} is raw, whose frames are not sealed; leave the key out, or use a tunnel",
            name.as_str()
        );
        Self::new(Kind::Invalid, Field::Key, sentence)
    }

    pub(in crate::inventory) fn key_file(sentence: String) -> Self {
        Self::new(Kind::Invalid, Field::Key, sentence)
    }

    pub(in crate::inventory) fn not_faults(error: &SpecError) -> Self {
        Self::new(Kind::Invalid, Field::Faults, error.to_string())
    }

    pub(in crate::inventory) fn raw_has_no_peers(name: &Name) -> Self {
        let sentence = format!(
            "the uplink {:?} is raw and finds its peers by itself; only tunnels have configured ones",
            name.as_str()
        );
        Self::new(Kind::Invalid, Field::Uplink, sentence)
    }

    pub(in crate::inventory) fn peer_exists(uplink: &Name, address: Endpoint) -> Self {
        let sentence = format!(
            "the uplink {:?} has the peer {address} already",
            uplink.as_str()
        );
        Self::new(Kind::Conflict, Field::Address, sentence)
    }

    pub(in crate::inventory) fn no_peer(uplink: &Name, address: Endpoint) -> Self {
        let sentence = format!(
            "the uplink {:?} has no peer {address}; `vrdma peer list` shows those that exist",
            uplink.as_str()
        );
        Self::new(Kind::Missing, Field::Address, sentence)
    }

    pub(in crate::inventory) fn station_taken(
        station: MacAddress,
        peer: Endpoint,
        address: Endpoint,
    ) -> Self {
        let sentence = if peer == address {
            format!("the station {station} is named twice; name it once")
        } else {
            format!(
                "the station {station} is behind the peer {peer} already; name it for one peer only"
            )
        };
        Self::new(Kind::Conflict, Field::Stations, sentence)
    }

    pub(in crate::inventory) fn peer_is_nobody(address: Endpoint) -> Self {
        let sentence =
            format!("{address} is no other host; name the address that the peer listens at");
        Self::new(Kind::Invalid, Field::Address, sentence)
    }

    pub(in crate::inventory) fn peer_speaks_other(address: Endpoint, listen: SocketAddr) -> Self {
        let sentence = format!(
            "the peer {address} and the tunnel's own end {listen} are not of one IP version; use addresses of one version"
        );
        Self::new(Kind::Invalid, Field::Address, sentence)
    }
}
