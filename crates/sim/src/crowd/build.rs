//! Makes the parts of a plan: adapters with their policies, and queue pairs to the sinks.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use fastrand::Rng;
use vrdma_switch::{GroupId, Limit, Policy, PortId};
use vrdma_verbs::attr::{Access, Address, AttrMask, QpAttr, QpState};
use vrdma_verbs::object::{Identity, MrKind, MrSpec, QpId, QpSpec, QpType};
use vrdma_verbs::work::Remote;
use vrdma_verbs::{Hca, Time};
use vrdma_wire::{Gid, Mac, Mtu, Psn, Qpn};

use super::judge::Judge;
use super::plan::{Plan, TenantPlan, Terms};
use super::{Crowd, Sender};
use crate::border::{Border, Sabotage};
use crate::build::{common, limits, mask};
use crate::cluster::{Cluster, Endpoint};
use crate::end::{Buffer, address_of};
use crate::log::Log;
use crate::member::{Adapter, Carried, Parts};
use crate::memory::{BUFFER_BYTES, Memory, Region};
use crate::network::Network;
use crate::plan::{UplinkPlan, Weather, link};
use crate::stranger::Stranger;
use crate::trace::Trace;
use crate::violation::Violation;

/// Bytes of a unit that no message exceeds, for engines that do not cut messages.
const LONG_UNIT: u32 = 16 << 20;

/// One end of a connection before it has a peer.
struct Half {
    adapter: usize,
    qp: QpId,
    qpn: Qpn,
    buffer: Buffer,
    slot: u64,
}

impl Crowd {
    pub(crate) fn new(
        seed: u64,
        trace: bool,
        sabotage: Option<Sabotage>,
    ) -> Result<Self, Violation> {
        let mut random = Rng::with_seed(seed);
        let plan = Plan::of(&mut random);
        let uplinks = UplinkPlan::none();
        let network = Network::new(1, 0, link(&mut random, Weather::Fine));
        let stranger = Stranger::new(random.u64(..), 0);
        let log = Log::new(Trace::new(trace));
        log.say(|| format!("{plan:?}"));
        let mut crowd = Self {
            cluster: Cluster::new(1, uplinks, network, stranger, log),
            judge: Judge::new(&plan),
            tenants: Vec::new(),
            random,
            turns: 0,
            requests: 0,
        };
        let unit_bytes = match sabotage {
            Some(Sabotage::LongUnits) => LONG_UNIT,
            _ => plan.unit_bytes,
        };
        for (number, group) in plan.groups.iter().enumerate() {
            let mut builder = Builder {
                cluster: &mut crowd.cluster,
                group: number,
                policy: Arc::new(policy(group.terms, None, sabotage)),
                sabotage,
                unit_bytes,
            };
            for tenant in &group.tenants {
                let tenant = builder.add(tenant, &mut crowd.random)?;
                crowd.tenants.push(tenant);
            }
        }
        Ok(crowd)
    }
}

/// Makes the policy that the carrier is told of; a broken run leaves some terms out.
fn policy(terms: Terms, group: Option<Arc<Policy>>, sabotage: Option<Sabotage>) -> Policy {
    let policy = group.map_or_else(Policy::default, Policy::in_group);
    let weight = NonZeroU32::new(terms.weight).unwrap_or(NonZeroU32::MIN);
    if sabotage != Some(Sabotage::FlatWeights) {
        policy.set_weight(weight);
    }
    if let Some((of, rate)) = terms.guarantee
        && sabotage != Some(Sabotage::NoGuarantees)
    {
        policy.set_guarantee(of, NonZeroU64::new(rate));
    }
    if let Some((limit, rate)) = terms.limit
        && sabotage != Some(Sabotage::NoLimits)
    {
        policy.set_rate(limit, NonZeroU64::new(rate));
    }
    policy
}

/// The builder of one group's adapters.
struct Builder<'a> {
    cluster: &'a mut Cluster,
    group: usize,
    policy: Arc<Policy>,
    sabotage: Option<Sabotage>,
    unit_bytes: u32,
}

impl Builder<'_> {
    /// Adds a tenant's adapter, and its sink: another adapter of the group. A limit or guarantee for arrivals is the
    /// sink's.
    fn add(&mut self, plan: &TenantPlan, random: &mut Rng) -> Result<Sender, Violation> {
        let (mut sends, mut takes) = (plan.terms, TERMS_OF_NOBODY);
        if let Some((limit, _)) = plan.terms.limit
            && Limit::IN.contains(&limit)
        {
            takes.limit = sends.limit.take();
        }
        if let Some((of, _)) = plan.terms.guarantee
            && Limit::IN.contains(&of)
        {
            takes.guarantee = sends.guarantee.take();
        }
        let length = plan.does.length();
        let [from, to] = [sends, takes].map(|terms| {
            let policy = policy(terms, Some(Arc::clone(&self.policy)), self.sabotage);
            self.half(policy, length, random)
        });
        let (from, to) = (from?, to?);
        self.bring_up(&from, &to)?;
        self.bring_up(&to, &from)?;
        Ok(Sender {
            adapter: from.adapter,
            qp: from.qp,
            does: plan.does,
            local: from.buffer.sge(from.slot, length),
            remote: Remote {
                addr: address_of(to.buffer.region, to.slot),
                rkey: to.buffer.keys.rkey,
            },
            seen: Carried::default(),
            posts_at: Time(random.u64(..1_000_000)),
        })
    }

    fn half(&mut self, policy: Policy, length: u32, random: &mut Rng) -> Result<Half, Violation> {
        let adapter = self.cluster.places.len();
        let mac = Mac([2, 0, 0, 0, 0, adapter as u8 + 1]);
        let place = Endpoint {
            host: 0,
            port: PortId(adapter as u32),
            group: GroupId(self.group as u32),
            mac,
            gids: [Gid::link_local(mac); 2],
        };
        let seed = random.u64(..);
        let mut hca = Hca::new(Identity { mac, seed }, limits());
        let memory = Memory::default();
        let half = half(&mut hca, &memory, adapter, length);
        let half = half.map_err(Violation::from_error)?;
        let parts = Parts {
            number: adapter,
            hca,
            memory: memory.clone(),
            border: Border::new(self.sabotage),
            log: self.cluster.log.clone(),
            unit_bytes: self.unit_bytes,
            policy: Some(Arc::new(policy)),
        };
        let adapter = Adapter::new(parts, &place.gids[..1])?;
        self.cluster.add(place, memory, adapter)?;
        Ok(half)
    }

    fn bring_up(&mut self, end: &Half, peer: &Half) -> Result<(), Violation> {
        let place = self.cluster.places[peer.adapter];
        let mut attr = QpAttr {
            access: RIGHTS,
            port: 1,
            address: Address {
                dgid: place.gids[0],
                hop_limit: 64,
                port: 1,
                dmac: place.mac.0,
                ..Address::default()
            },
            path_mtu: Mtu::B4096,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            min_rnr_timer: 8,
            dest_qpn: peer.qpn,
            ..QpAttr::default()
        };
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            attr.state = state;
            let mask = AttrMask::from_bits_retain(mask(QpType::Rc, state));
            let modified = self.cluster.hca(end.adapter).modify_qp(end.qp, &attr, mask);
            modified.map_err(Violation::from_error)?;
        }
        Ok(())
    }
}

const TERMS_OF_NOBODY: Terms = Terms {
    weight: 1,
    limit: None,
    guarantee: None,
};

const RIGHTS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ);

/// Makes a queue pair, and memory for one message.
fn half(
    hca: &mut Hca<Region>,
    memory: &Memory,
    adapter: usize,
    length: u32,
) -> Result<Half, vrdma_verbs::Error> {
    let common = common(hca)?;
    let region = memory.add();
    let spec = MrSpec {
        kind: MrKind::User,
        start: address_of(region, 0),
        length: BUFFER_BYTES,
        access: RIGHTS,
        region: Some(region),
    };
    let keys = hca.register(common.pd, spec)?;
    let spec = QpSpec::new(QpType::Rc, common.pd, common.send_cq, common.recv_cq);
    let qp = hca.create_qp(spec)?;
    let qpn = hca.qpn(qp).ok_or(vrdma_verbs::Error::InvalidHandle)?;
    Ok(Half {
        adapter,
        qp,
        qpn,
        buffer: Buffer { region, keys },
        slot: memory.slot(region, length),
    })
}
