//! Which port groups, adapters and uplinks exist, and the rules among them.
//!
//! This is bookkeeping: configuration and requests pass through the same checks, and no socket or thread of the daemon
//! is touched here. Names of users are looked up at the host.

mod adapters;
mod address;
mod coming;
mod groups;
mod key_file;
mod limits;
mod numbers;
mod people;
mod refusal;
mod uplinks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use vrdma_api::{
    Adapter, AdapterChange, AdapterKind, AdapterRequest, Addresses, MacAddress, Name, Origin,
};
use vrdma_process::Admitted;
use vrdma_switch::{GroupId, MAX_PORTS, Policy, PortId};
use vrdma_wire::Mac;

use adapters::Adapters;
pub use coming::Coming;
use groups::Group;
pub(crate) use key_file::read as read_keys;
pub use limits::Limited;
use people::People;
pub use refusal::{Field, Kind, Refusal};
use uplinks::Linked;
pub use uplinks::{PEERS_MAX, STATIONS_MAX, UPLINKS_MAX};

use crate::socket_path;
use crate::sockets::Sockets;
use crate::spec::{AdapterSpec, Segment};

/// Most port groups: as many as there are VLANs, since each usually stands for one.
pub const PORTGROUPS_MAX: usize = 4094;
/// Most adapters: each is a port of the switch. An unused one costs some 4 KiB; one of a VM takes four descriptors
/// besides, and one of processes takes one for its socket.
pub const ADAPTERS_MAX: usize = MAX_PORTS;

#[derive(Clone, Debug)]
struct Plugged {
    port: PortId,
    /// The adapter's limits, shared with the data path.
    policy: Arc<Policy>,
    adapter: Adapter,
    /// Users and groups named for the adapter itself, if any; otherwise those of its port group apply.
    people: People,
}

/// Port groups, adapters and uplinks by name.
#[derive(Clone, Debug)]
pub struct Inventory {
    run_dir: Arc<Path>,
    shards: u16,
    groups: BTreeMap<Name, Group>,
    adapters: Adapters,
    uplinks: BTreeMap<Name, Linked>,
    coming: Option<Coming>,
}

impl Inventory {
    /// Makes an empty inventory for a daemon with this number of shards, whose adapters' sockets lie in `run_dir`.
    pub fn new(run_dir: &Path, shards: u16) -> Self {
        Self {
            run_dir: run_dir.into(),
            shards,
            groups: BTreeMap::new(),
            adapters: Adapters::default(),
            uplinks: BTreeMap::new(),
            coming: None,
        }
    }

    /// Adds an adapter, and returns what the data path must now be told.
    pub fn add_adapter(
        &mut self,
        request: &AdapterRequest,
        origin: Origin,
    ) -> Result<AdapterSpec, Refusal> {
        let name = &request.name;
        if self.adapters.get(name).is_some() {
            return Err(Refusal::adapter_exists(name));
        }
        let group = self
            .groups
            .get(&request.portgroup)
            .ok_or_else(|| self.no_portgroup(&request.portgroup))?;
        let (people, of_group) = (own_people(request)?, group.people.clone());
        let of_all = Arc::clone(&group.policy);
        let (group, segment) = (group.id, group.segment());
        let mac = request
            .mac
            .unwrap_or_else(|| MacAddress::derived_from(name));
        self.check_mac(mac)?;
        limits::check(request)?;
        self.check_shard(request)?;
        if request.away && request.kind != AdapterKind::Vm {
            return Err(Refusal::only_vms_travel());
        }
        if self.adapters.len() == ADAPTERS_MAX {
            return Err(Refusal::full(format!(
                "there are {ADAPTERS_MAX} adapters already"
            )));
        }
        let ip = self.choose_ip(request, mac)?;
        let mut adapter = self.new_adapter(request, mac, ip, origin);
        let admitted = people.admit(&of_group, &mut adapter);
        let sockets = self.sockets(name);
        socket_path::check_length(&sockets.longest()).map_err(Refusal::path_too_long)?;
        let mut may_send_roce = false;
        if let Some(group) = self.groups.get_mut(&request.portgroup) {
            group.adapters.insert(name.clone());
            may_send_roce = group.allow_roce_frames;
        }
        let (port, policy) = self.adapters.insert(adapter.clone(), people, of_all);
        Ok(AdapterSpec {
            policy,
            admitted,
            may_send_roce,
            ..spec(&adapter, port, group, segment, sockets)
        })
    }

    /// Returns all adapters as the data path needs them, by number.
    pub fn adapter_specs(&self) -> Vec<AdapterSpec> {
        let all = self.adapters.iter();
        let mut specs: Vec<_> = all
            .filter_map(|(name, it)| self.spec_of(name, it))
            .collect();
        specs.sort_by_key(|spec| spec.port);
        specs
    }

    fn spec_of(&self, name: &Name, plugged: &Plugged) -> Option<AdapterSpec> {
        let group = self.groups.get(&plugged.adapter.portgroup)?;
        let sockets = self.sockets(name);
        Some(AdapterSpec {
            policy: Arc::clone(&plugged.policy),
            admitted: self.admitted(name).ok()?,
            may_send_roce: group.allow_roce_frames,
            ..spec(
                &plugged.adapter,
                plugged.port,
                group.id,
                group.segment(),
                sockets,
            )
        })
    }

    fn new_adapter(
        &self,
        request: &AdapterRequest,
        mac: MacAddress,
        ip: Addresses,
        origin: Origin,
    ) -> Adapter {
        let sockets = self.sockets(&request.name);
        let of = |kind| (request.kind == kind).then_some(&sockets);
        Adapter {
            name: request.name.clone(),
            portgroup: request.portgroup.clone(),
            mac,
            doorbells: request.doorbells,
            origin,
            kind: request.kind,
            ip,
            shard: request.shard,
            away: request.away,
            limits: request.limits,
            weight: request.weight,
            users: Vec::new(),
            groups: Vec::new(),
            vfio_user_socket: of(AdapterKind::Vm).map(Sockets::vfio_user),
            ethernet_socket: of(AdapterKind::Vm).map(Sockets::ethernet),
            process_socket: of(AdapterKind::Process).map(Sockets::process),
        }
    }

    fn sockets(&self, name: &Name) -> Sockets {
        Sockets::new(Arc::clone(&self.run_dir), name.clone())
    }

    fn check_mac(&self, mac: MacAddress) -> Result<(), Refusal> {
        match self.adapters.with_mac(mac) {
            Some(owner) => Err(Refusal::mac_taken(mac, owner)),
            None => Ok(()),
        }
    }

    /// Checks that an adapter can have the shard that it asks for.
    fn check_shard(&self, request: &AdapterRequest) -> Result<(), Refusal> {
        match request.shard {
            None => Ok(()),
            Some(_) if request.kind == AdapterKind::Tap => Err(Refusal::no_shard_for_tap()),
            Some(shard) => self.check_shard_number(shard),
        }
    }

    /// Checks that there is a shard of that number.
    pub fn check_shard_number(&self, shard: u16) -> Result<(), Refusal> {
        match shard < self.shards {
            true => Ok(()),
            false => Err(Refusal::no_shard(shard, self.shards)),
        }
    }

    /// Records that the VM of an adapter goes to another host, or comes from there.
    pub fn set_away(&mut self, name: &Name, away: bool) {
        self.adapters.set_away(name, away);
    }

    /// Records that another shard serves an adapter from now on.
    pub fn place(&mut self, name: &Name, shard: Option<u16>) {
        self.adapters.place(name, shard);
    }

    /// Removes an adapter. Its port number can then go to the next one, so the data path must forget the adapter first.
    pub fn remove_adapter(&mut self, name: &Name) -> Result<PortId, Refusal> {
        let removed = self.adapters.remove(name);
        let Plugged { port, adapter, .. } = removed.ok_or_else(|| Refusal::no_adapter(name))?;
        if let Some(group) = self.groups.get_mut(&adapter.portgroup) {
            group.adapters.remove(name);
        }
        Ok(port)
    }

    /// Checks that an adapter can be changed in this way.
    pub fn check_change(&self, name: &Name, change: &AdapterChange) -> Result<(), Refusal> {
        self.changed_people(name, change)?;
        limits::check_change(&self.plugged(name)?.adapter, change)?;
        let ip = change.ip.as_ref();
        ip.map_or(Ok(()), |ip| self.check_new_addresses(name, ip))
    }

    /// Changes an adapter. Limits take effect in the data path at once, addresses when it is told of them.
    pub fn change_adapter(
        &mut self,
        name: &Name,
        change: &AdapterChange,
    ) -> Result<Adapter, Refusal> {
        self.check_change(name, change)?;
        let people = self.changed_people(name, change)?;
        if let Some(ip) = &change.ip {
            self.adapters.keep_to(name, ip);
        }
        self.adapters.limit(name, change);
        if let Some(people) = people {
            self.change_people(name, people);
        }
        self.adapter(name)
    }

    /// Returns one adapter.
    pub fn adapter(&self, name: &Name) -> Result<Adapter, Refusal> {
        self.plugged(name).map(|plugged| plugged.adapter.clone())
    }

    /// Returns the number of an adapter in the switch.
    pub fn port(&self, name: &Name) -> Result<PortId, Refusal> {
        self.plugged(name).map(|plugged| plugged.port)
    }

    fn plugged(&self, name: &Name) -> Result<&Plugged, Refusal> {
        let shown = self.adapters.get(name);
        shown
            .filter(|_| self.is_adapter_shown(name))
            .ok_or_else(|| Refusal::no_adapter(name))
    }

    /// Returns the numbers of all adapters in the switch, by name.
    pub fn ports(&self) -> impl Iterator<Item = (&Name, PortId)> {
        self.shown().map(|(name, plugged)| (name, plugged.port))
    }

    /// Returns all adapters, by name.
    pub fn adapters(&self) -> Vec<Adapter> {
        self.shown()
            .map(|(_, plugged)| plugged.adapter.clone())
            .collect()
    }

    fn shown(&self) -> impl Iterator<Item = (&Name, &Plugged)> {
        let all = self.adapters.iter();
        all.filter(|(name, _)| self.is_adapter_shown(name))
    }
}

/// Returns the lowest free number: the data path keeps tables by number, which therefore stay as small as the
/// inventory.
fn lowest_free(taken: impl Iterator<Item = u32>) -> u32 {
    let taken: BTreeSet<u32> = taken.collect();
    (0..)
        .zip(&taken)
        .find(|(number, taken)| number != *taken)
        .map_or(taken.len() as u32, |(number, _)| number)
}

fn own_people(request: &AdapterRequest) -> Result<People, Refusal> {
    let people = People::find(&request.users, &request.groups)?;
    match request.kind {
        AdapterKind::Tap if !people.is_empty() => Err(Refusal::no_users_for_tap()),
        _ => Ok(people),
    }
}

fn spec(
    adapter: &Adapter,
    port: PortId,
    group: GroupId,
    segment: Segment,
    sockets: Sockets,
) -> AdapterSpec {
    AdapterSpec {
        name: adapter.name.clone(),
        port,
        group,
        segment,
        mac: Mac(adapter.mac.octets()),
        may_send_roce: false,
        kind: adapter.kind,
        portgroup: adapter.portgroup.clone(),
        ip: adapter.ip.clone(),
        doorbells: adapter.doorbells,
        shard: adapter.shard,
        away: adapter.away,
        policy: Arc::default(),
        admitted: Admitted::default(),
        sockets,
    }
}

#[cfg(test)]
mod tests;
