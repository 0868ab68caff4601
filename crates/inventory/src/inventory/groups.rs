//! Port groups, and which of them would share a network outside the host.

use std::collections::BTreeSet;
use std::sync::Arc;

use vrdma_api::{Limits, Name, Origin, PortGroup, PortGroupRequest, Vlan, Vni, Weight};
use vrdma_switch::{GroupId, Policy};

use super::limits::{Limited, check_guarantee, enforce};
use super::people::People;
use super::{Inventory, PORTGROUPS_MAX, Refusal, lowest_free};
use crate::spec::Segment;

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) id: GroupId,
    pub(super) vlan: Option<Vlan>,
    pub(super) vni: Option<Vni>,
    /// Whether guests' own cards may send RoCEv2.
    pub(super) allow_roce_frames: bool,
    origin: Origin,
    pub(super) adapters: BTreeSet<Name>,
    /// Users and groups that may use those adapters that name none themselves.
    pub(super) people: People,
    /// Limits that all its adapters share; the data path has them, too.
    pub(super) policy: Arc<Policy>,
    pub(super) limits: Limits,
    pub(super) weight: Weight,
}

impl Group {
    /// Returns the mark of its frames outside the host.
    pub(super) fn segment(&self) -> Segment {
        Segment {
            vlan: self.vlan,
            vni: network(self.vlan, self.vni),
        }
    }
}

/// Returns the VXLAN network of a group: its own, or the one with the number of its VLAN.
fn network(vlan: Option<Vlan>, vni: Option<Vni>) -> Option<Vni> {
    vni.or(vlan.map(Vni::from))
}

impl Inventory {
    /// Adds a port group.
    pub fn add_portgroup(
        &mut self,
        request: &PortGroupRequest,
        origin: Origin,
    ) -> Result<PortGroup, Refusal> {
        let name = &request.name;
        if self.groups.contains_key(name) {
            return Err(Refusal::portgroup_exists(name));
        }
        self.check_vlan(request.vlan)?;
        self.check_vni(network(request.vlan, request.vni))?;
        self.check_untagged(name, request.vlan)?;
        if self.groups.len() == PORTGROUPS_MAX {
            return Err(Refusal::full(format!(
                "there are {PORTGROUPS_MAX} port groups already"
            )));
        }
        check_guarantee(&request.limits)?;
        let people = People::find(&request.users, &request.groups)?;
        let policy = Arc::<Policy>::default();
        enforce(&policy, &request.limits);
        policy.set_weight(request.weight.get());
        let id = GroupId(lowest_free(self.groups.values().map(|group| group.id.0)));
        self.groups.insert(
            name.clone(),
            Group {
                id,
                vlan: request.vlan,
                vni: request.vni,
                allow_roce_frames: request.allow_roce_frames,
                origin,
                adapters: BTreeSet::new(),
                people,
                policy,
                limits: request.limits,
                weight: request.weight,
            },
        );
        self.portgroup(name)
    }

    /// Checks that the VLAN is free: two groups with one VLAN would be one network on an uplink, whatever their names
    /// promise.
    fn check_vlan(&self, vlan: Option<Vlan>) -> Result<(), Refusal> {
        let Some(vlan) = vlan else { return Ok(()) };
        match self
            .groups
            .iter()
            .find(|(_, group)| group.vlan == Some(vlan))
        {
            Some((owner, _)) => Err(Refusal::vlan_taken(vlan, owner)),
            None => Ok(()),
        }
    }

    /// The same for VXLAN networks.
    fn check_vni(&self, vni: Option<Vni>) -> Result<(), Refusal> {
        let Some(vni) = vni else { return Ok(()) };
        let mut groups = self.groups.iter();
        match groups.find(|(_, group)| group.segment().vni == Some(vni)) {
            Some((owner, _)) => Err(Refusal::vni_taken(vni, owner)),
            None => Ok(()),
        }
    }

    /// Removes a port group that no adapter uses.
    pub fn remove_portgroup(&mut self, name: &Name) -> Result<(), Refusal> {
        let group = self.portgroup(name)?;
        if !group.adapters.is_empty() {
            return Err(Refusal::in_use(name, &group.adapters));
        }
        self.groups.remove(name);
        Ok(())
    }

    /// Returns one port group.
    pub fn portgroup(&self, name: &Name) -> Result<PortGroup, Refusal> {
        let group = self
            .groups
            .get(name)
            .ok_or_else(|| self.no_portgroup(name))?;
        Ok(self.describe(name, group))
    }

    /// Returns the number of a port group in the switch.
    pub fn group_id(&self, name: &Name) -> Result<GroupId, Refusal> {
        let group = self.groups.get(name);
        let group = group.ok_or_else(|| self.no_portgroup(name))?;
        Ok(group.id)
    }

    /// Returns all port groups, by name.
    pub fn portgroups(&self) -> Vec<PortGroup> {
        self.groups
            .iter()
            .map(|(name, group)| self.describe(name, group))
            .collect()
    }

    pub(super) fn no_portgroup(&self, name: &Name) -> Refusal {
        Refusal::no_portgroup(name, self.groups.keys())
    }

    /// Returns the request that would make a port group again, and its origin.
    pub(crate) fn portgroup_request(&self, name: &Name) -> Option<(PortGroupRequest, Origin)> {
        let group = self.groups.get(name)?;
        let request = PortGroupRequest {
            name: name.clone(),
            vlan: group.vlan,
            vni: group.vni,
            allow_roce_frames: group.allow_roce_frames,
            users: group.people.users.clone(),
            groups: group.people.groups.clone(),
            limits: group.limits,
            weight: group.weight,
        };
        Some((request, group.origin))
    }

    fn describe(&self, name: &Name, group: &Group) -> PortGroup {
        let adapters = group
            .adapters
            .iter()
            .filter(|name| self.is_adapter_shown(name));
        let Limited { out, inward, drops } = Limited::by(&group.policy);
        PortGroup {
            name: name.clone(),
            vlan: group.vlan,
            vni: group.vni,
            allow_roce_frames: group.allow_roce_frames,
            origin: group.origin,
            users: group.people.users.clone(),
            groups: group.people.groups.clone(),
            adapters: adapters.cloned().collect(),
            limits: group.limits,
            weight: group.weight,
            throttled: out,
            throttled_in: inward,
            over_limit: drops,
            drops: None,
        }
    }
}
