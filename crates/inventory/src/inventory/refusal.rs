//! Reasons why the inventory refuses: each is one sentence that says how to correct the request.

mod uplinks;

use std::fmt;
use std::net::IpAddr;

use vrdma_api::{
    AdapterKind, Addresses, Contradiction, Guarantee, MacAddress, Name, UnixName, Vlan,
};

/// Kind of answer that a client gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The request makes no sense, now or ever.
    Invalid,
    /// The request names something that does not exist.
    Missing,
    /// The request contradicts something that exists.
    Conflict,
}

/// Field of the request that is wrong, so that the configuration can point at its line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// `name`
    Name,
    /// `portgroup`
    PortGroup,
    /// `mac`
    Mac,
    /// `ip`
    Ip,
    /// `vlan`
    Vlan,
    /// `vni`
    Vni,
    /// `kind`
    Kind,
    /// `interface`
    Interface,
    /// `listen`
    Listen,
    /// One of the limits, or `weight`
    Limit,
    /// A guarantee
    Guarantee(Guarantee),
    /// `faults`
    Faults,
    /// `uplink`
    Uplink,
    /// `address`
    Address,
    /// `key`
    Key,
    /// `stations`
    Stations,
    /// `shard`
    Shard,
    /// `users`
    Users,
    /// `groups`
    Groups,
}

/// A refused change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Kind of answer.
    pub kind: Kind,
    /// Field that is wrong.
    pub field: Field,
    sentence: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    fn new(kind: Kind, field: Field, sentence: String) -> Self {
        Self {
            kind,
            field,
            sentence,
        }
    }

    pub(super) fn no_shard(shard: u16, count: u16) -> Self {
        let sentence = match count {
            1 => format!(
                "there is no shard {shard}: the daemon has one, number 0; it has more with `shards` or `cores` in [daemon] of its configuration"
            ),
            _ => format!(
                "there is no shard {shard}; choose one of 0 to {}",
                count - 1
            ),
        };
        Self::new(Kind::Invalid, Field::Shard, sentence)
    }

    pub(super) fn no_shard_for_tap() -> Self {
        let sentence = "shards serve RDMA, which a TAP has none of; leave the shard out";
        Self::new(Kind::Invalid, Field::Shard, sentence.to_owned())
    }

    pub(super) fn only_vms_travel() -> Self {
        let sentence = "only VMs come from another host; leave `away` out";
        Self::new(Kind::Invalid, Field::Kind, sentence.to_owned())
    }

    pub(super) fn no_limit_for_tap() -> Self {
        let sentence = "limits, guarantees and weights are for RDMA, which a TAP has none of; limit its interface with `tc` instead";
        Self::new(Kind::Invalid, Field::Limit, sentence.to_owned())
    }

    pub(super) fn contradiction(found: &Contradiction) -> Self {
        Self::new(Kind::Invalid, Field::Guarantee(found.of), found.to_string())
    }

    pub(super) fn no_user(name: &UnixName) -> Self {
        let sentence = format!(
            "this host has no user {:?}; correct the name or write the user's number",
            name.as_str()
        );
        Self::new(Kind::Invalid, Field::Users, sentence)
    }

    pub(super) fn no_group(name: &UnixName) -> Self {
        let sentence = format!(
            "this host has no group {:?}; correct the name or write the group's number",
            name.as_str()
        );
        Self::new(Kind::Invalid, Field::Groups, sentence)
    }

    pub(super) fn too_many_names(field: Field, most: usize) -> Self {
        let sentence = format!("at most {most} can be named; make a group of the host for them");
        Self::new(Kind::Invalid, field, sentence)
    }

    pub(super) fn no_users_for_tap() -> Self {
        let sentence = "users are for RDMA, which a TAP has none of; leave them out";
        Self::new(Kind::Invalid, Field::Users, sentence.to_owned())
    }

    pub(super) fn portgroup_exists(name: &Name) -> Self {
        let sentence = format!(
            "there is a port group {name:?} already; choose another name",
            name = name.as_str()
        );
        Self::new(Kind::Conflict, Field::Name, sentence)
    }

    pub(super) fn vlan_taken(vlan: Vlan, owner: &Name) -> Self {
        let sentence = format!(
            "VLAN {vlan} belongs to the port group {:?} already; choose another VLAN or plug the adapters into that group",
            owner.as_str()
        );
        Self::new(Kind::Conflict, Field::Vlan, sentence)
    }

    pub(super) fn no_portgroup<'a>(name: &Name, known: impl Iterator<Item = &'a Name>) -> Self {
        let sentence = format!(
            "there is no port group {:?}; {}",
            name.as_str(),
            known_groups(known)
        );
        Self::new(Kind::Missing, Field::PortGroup, sentence)
    }

    pub(super) fn in_use(name: &Name, adapters: &[Name]) -> Self {
        let sentence = format!(
            "the port group {:?} still has {}; remove its adapters first",
            name.as_str(),
            some_of(adapters.iter(), adapters.len())
        );
        Self::new(Kind::Conflict, Field::Name, sentence)
    }

    pub(super) fn adapter_exists(name: &Name) -> Self {
        let sentence = format!(
            "there is an adapter {:?} already; choose another name",
            name.as_str()
        );
        Self::new(Kind::Conflict, Field::Name, sentence)
    }

    pub(super) fn no_adapter(name: &Name) -> Self {
        let sentence = format!(
            "there is no adapter {:?}; `vrdma adapter list` shows those that exist",
            name.as_str()
        );
        Self::new(Kind::Missing, Field::Name, sentence)
    }

    pub(super) fn mac_taken(mac: MacAddress, owner: &Name) -> Self {
        let sentence = format!(
            "the MAC {mac} belongs to the adapter {:?} already; choose another",
            owner.as_str()
        );
        Self::new(Kind::Conflict, Field::Mac, sentence)
    }

    pub(super) fn unusable_address(ip: IpAddr) -> Self {
        let sentence = format!(
            "{ip} is no address of one adapter that others can send to; choose one such as 10.0.0.5"
        );
        Self::new(Kind::Invalid, Field::Ip, sentence)
    }

    pub(super) fn address_twice(ip: IpAddr) -> Self {
        let sentence = format!("the address {ip} is stated twice; state it once");
        Self::new(Kind::Invalid, Field::Ip, sentence)
    }

    pub(super) fn too_many_addresses() -> Self {
        let sentence = format!(
            "an adapter is kept to {} addresses at most; state fewer, or none to let the guest take any",
            Addresses::MAX
        );
        Self::new(Kind::Invalid, Field::Ip, sentence)
    }

    pub(super) fn one_address(kind: AdapterKind) -> Self {
        let sentence =
            format!("an adapter of kind {kind} has one address; state one, or use kind vm");
        Self::new(Kind::Invalid, Field::Ip, sentence)
    }

    pub(super) fn learns_nothing(kind: AdapterKind) -> Self {
        let sentence = format!(
            "an adapter of kind {kind} learns no address, since no guest chooses one; state it, or use kind vm"
        );
        Self::new(Kind::Invalid, Field::Ip, sentence)
    }

    pub(super) fn fixed_address(kind: AdapterKind) -> Self {
        let sentence = format!(
            "the address of an adapter of kind {kind} stays as it was added; remove the adapter and add it with another"
        );
        Self::new(Kind::Invalid, Field::Ip, sentence)
    }

    pub(super) fn address_taken(ip: IpAddr, owner: &Name) -> Self {
        let sentence = format!(
            "the address {ip} belongs to the adapter {:?} of that port group already; choose another",
            owner.as_str()
        );
        Self::new(Kind::Conflict, Field::Ip, sentence)
    }

    pub(super) fn path_too_long(sentence: String) -> Self {
        Self::new(Kind::Invalid, Field::Name, sentence)
    }

    pub(super) fn full(what: String) -> Self {
        let sentence = format!("{what}, which is the limit; remove some first");
        Self::new(Kind::Conflict, Field::Name, sentence)
    }
}

fn known_groups<'a>(known: impl Iterator<Item = &'a Name>) -> String {
    let known: Vec<_> = known.collect();
    match known.len() {
        0 => "there is none yet, so add it first".to_owned(),
        count => format!(
            "add it first or use one of {}",
            some_of(known.into_iter(), count)
        ),
    }
}

/// Lists some of the names: however many there are, the sentence stays one sentence.
fn some_of<'a>(names: impl Iterator<Item = &'a Name>, count: usize) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<_> = names.take(SHOWN).map(Name::as_str).collect();
    let rest = if count > SHOWN {
        format!(" and {} more", count - SHOWN)
    } else {
        String::new()
    };
    shown.join(", ") + &rest
}
