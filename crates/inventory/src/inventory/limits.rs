//! Limits of adapters and port groups, which the data path follows at once.

use vrdma_api::{
    Adapter, AdapterChange, AdapterKind, AdapterRequest, Limits, LimitsChange, Name, OpsRate,
    PortGroup, PortGroupChange, Rate, Throttled, Weight,
};
use vrdma_switch::{Limit, Policy};

use super::{Inventory, Refusal};

/// Effects of the limits of an adapter or a port group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limited {
    /// Waits of the adapter as a sender.
    pub out: Throttled,
    /// Waits of adapters that send to it.
    pub inward: Throttled,
    /// Packets that were dropped.
    pub drops: u64,
}

impl Limited {
    pub(super) fn by(policy: &Policy) -> Self {
        let throttled = |limits: &[Limit]| {
            let effects = policy.effects(limits);
            Throttled {
                times: effects.waits,
                us: effects.waited_ns / 1000,
            }
        };
        Self {
            out: throttled(&Limit::OUT),
            inward: throttled(&Limit::IN),
            drops: policy.effects(&Limit::ALL).drops,
        }
    }
}

/// Sets a policy to these limits.
pub(super) fn enforce(policy: &Policy, limits: &Limits) {
    let bits = |rate: Option<Rate>| rate.map(Rate::bits);
    let ops = |rate: Option<OpsRate>| rate.map(OpsRate::get);
    policy.set_rate(Limit::OutBits, bits(limits.limit_out));
    policy.set_rate(Limit::InBits, bits(limits.limit_in));
    policy.set_rate(Limit::OutOps, ops(limits.limit_out_ops));
    policy.set_rate(Limit::InOps, ops(limits.limit_in_ops));
    policy.set_guarantee(Limit::OutBits, bits(limits.guarantee_out));
    policy.set_guarantee(Limit::InBits, bits(limits.guarantee_in));
    policy.set_guarantee(Limit::OutOps, ops(limits.guarantee_out_ops));
    policy.set_guarantee(Limit::InOps, ops(limits.guarantee_in_ops));
}

/// Checks that no guarantee exceeds its limit.
pub(super) fn check_guarantee(limits: &Limits) -> Result<(), Refusal> {
    match limits.contradiction() {
        Some(found) => Err(Refusal::contradiction(&found)),
        None => Ok(()),
    }
}

/// Checks the limits of a new adapter. Only RDMA is limited.
pub(super) fn check(request: &AdapterRequest) -> Result<(), Refusal> {
    let asks = request.limits != Limits::default() || request.weight != Weight::default();
    match request.kind {
        AdapterKind::Tap if asks => Err(Refusal::no_limit_for_tap()),
        _ => check_guarantee(&request.limits),
    }
}

/// The same for a change.
pub(super) fn check_change(adapter: &Adapter, change: &AdapterChange) -> Result<(), Refusal> {
    let asks = change.limits != LimitsChange::default() || change.weight.is_some();
    match adapter.kind {
        AdapterKind::Tap if asks => Err(Refusal::no_limit_for_tap()),
        _ => check_guarantee(&adapter.limits.changed(&change.limits)),
    }
}

impl Inventory {
    /// Changes the limits and the weight of a port group.
    pub fn change_portgroup(
        &mut self,
        name: &Name,
        change: &PortGroupChange,
    ) -> Result<PortGroup, Refusal> {
        if let Some(group) = self.groups.get_mut(name) {
            let limits = group.limits.changed(&change.limits);
            check_guarantee(&limits)?;
            group.limits = limits;
            enforce(&group.policy, &group.limits);
            group.weight = change.weight.unwrap_or(group.weight);
            group.policy.set_weight(group.weight.get());
        }
        self.portgroup(name)
    }

    /// Returns the effects of an adapter's limits, and of those of its port group on it.
    pub fn limited(&self, name: &Name) -> Limited {
        let plugged = self.adapters.get(name);
        plugged.map_or_else(Limited::default, |it| Limited::by(&it.policy))
    }
}
