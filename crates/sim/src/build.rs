//! Makes the parts of a plan: adapters, buffers, connected queue pairs.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use vrdma_switch::PortId;
use vrdma_verbs::attr::{Access, Address, AttrMask, QpAttr, QpState};
use vrdma_verbs::object::{
    CqId, Identity, Limits, MrKind, MrSpec, Owner, PdId, QpSpec, QpType, SrqId,
};
use vrdma_verbs::{Hca, Time};
use vrdma_wire::{Gid, Mac, Mtu, Qkey};

use crate::border::{Border, Sabotage};
use crate::cluster::Endpoint;
use crate::end::{Buffer, End, Name, Pool, address_of};
use crate::member::{Adapter, Parts, UNIT_BYTES};
use crate::memory::{BUFFER_BYTES, Memory, Region};
use crate::plan::ConnectionPlan;
use crate::violation::Violation;
use crate::world::World;

pub(crate) const QKEY: Qkey = Qkey(0x1234);

/// The owner of all objects of one adapter.
pub(crate) const OWNER: Owner = Owner(7);

/// Objects of one adapter that all its queue pairs share.
pub(crate) struct Common {
    pub(crate) pd: PdId,
    pub(crate) send_cq: CqId,
    pub(crate) recv_cq: CqId,
    srq: Option<(SrqId, usize)>,
}

impl World {
    pub(super) fn build(&mut self, sabotage: Option<Sabotage>) -> Result<(), Violation> {
        for number in 0..self.plan.adapters.len() {
            self.add_adapter(number, Border::new(sabotage))?;
        }
        for connection in self.plan.connections.clone() {
            self.connect(&connection)?;
        }
        Ok(())
    }

    /// Adds an adapter. Tenants use the same addresses: in each group they count from one.
    fn add_adapter(&mut self, number: usize, border: Border) -> Result<(), Violation> {
        let (host, group) = self.plan.adapters[number];
        let before = self.plan.adapters[..number].iter();
        let within = 1 + before.filter(|(_, other)| *other == group).count() as u8;
        let mac = Mac([2, 0, 0, 0, 0, within]);
        let identity = Identity {
            mac,
            seed: self.random.u64(..),
        };
        let mut hca = Hca::new(identity, limits());
        self.common
            .push(common(&mut hca).map_err(Violation::from_error)?);
        let place = Endpoint {
            host,
            port: PortId(number as u32),
            group,
            mac,
            gids: [
                Gid::link_local(mac),
                Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, within)),
            ],
        };
        self.cluster
            .say(|| format!("a{number} on host {host}, group {}", group.0));
        let memory = Memory::default();
        let parts = Parts {
            number,
            hca,
            memory: memory.clone(),
            border,
            log: self.cluster.log.clone(),
            unit_bytes: UNIT_BYTES,
            policy: None,
        };
        let adapter = Adapter::new(parts, &place.gids)?;
        self.cluster.add(place, memory, adapter)
    }

    fn connect(&mut self, plan: &ConnectionPlan) -> Result<(), Violation> {
        let first = self.ends.len();
        let sgid_index = self.random.usize(..2);
        for side in 0..2 {
            self.add_end(plan, side, first + side, first + 1 - side, sgid_index)?;
        }
        for side in 0..2 {
            self.bring_up(plan, side, first + side, sgid_index)?;
        }
        self.cluster.now = Time(0);
        let line = format!("e{first} and e{} are {plan:?}", first + 1);
        self.cluster.say(|| line);
        Ok(())
    }

    fn add_end(
        &mut self,
        plan: &ConnectionPlan,
        side: usize,
        number: usize,
        peer: usize,
        sgid_index: usize,
    ) -> Result<(), Violation> {
        let adapter = plan.adapters[side];
        let [local, target] = [self.add_buffer(adapter)?, self.add_buffer(adapter)?];
        let word = self.cluster.memories[adapter].slot(target.region, 8);
        self.cluster.memories[adapter].fill(target.region, word, [0; 8].into_iter());
        let shared = plan.shared_receives[side] && plan.kind != QpType::Uc;
        let pool = self.pool(adapter, shared, plan.depths[side])?;
        let common = &self.common[adapter];
        let mut spec = QpSpec::new(plan.kind, common.pd, common.send_cq, common.recv_cq);
        spec.srq = if shared {
            self.srqs.get(&pool).copied()
        } else {
            None
        };
        spec.signal_all = plan.signal_all[side];
        let hca = self.cluster.hca(adapter);
        let qp = hca.create_qp(spec).map_err(Violation::from_error)?;
        let qpn = hca
            .qpn(qp)
            .ok_or_else(|| Violation::new("a fresh QP has no number"))?;
        self.ends_by_qp.insert((adapter, qp), number);
        self.turns
            .push(Some(Time(self.random.u64(..self.plan.pause_ns))));
        self.ends.push(End {
            number,
            adapter,
            peer,
            kind: plan.kind,
            qp,
            name: Name {
                gid: self.cluster.places[adapter].gids[sgid_index],
                qpn,
            },
            local,
            target,
            word,
            pool,
            quota: plan.quotas[side],
            signal_all: plan.signal_all[side],
            rnr_for_ever: plan.rnr_retry == 7,
            mtu_bytes: plan.mtu.bytes(),
            works: Vec::new(),
            done: 0,
            messages: Vec::new(),
            arrived: 0,
            arrivals: HashMap::new(),
            words: Vec::new(),
            atomics_done: 0,
            failed: None,
        });
        Ok(())
    }

    fn add_buffer(&mut self, adapter: usize) -> Result<Buffer, Violation> {
        let region = self.cluster.memories[adapter].add();
        let access = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let spec = MrSpec {
            kind: MrKind::User,
            start: address_of(region, 0),
            length: BUFFER_BYTES,
            access,
            region: Some(region),
        };
        let pd = self.common[adapter].pd;
        let keys = self.cluster.hca(adapter).register(pd, spec);
        let keys = keys.map_err(Violation::from_error)?;
        Ok(Buffer { region, keys })
    }

    /// Makes the receive queue of an end: its own, or the one that its adapter's ends share.
    fn pool(&mut self, adapter: usize, shared: bool, depth: usize) -> Result<usize, Violation> {
        if let Some((_, pool)) = self.common[adapter].srq.filter(|_| shared) {
            return Ok(pool);
        }
        let number = self.pools.len();
        let buffer = self.add_buffer(adapter)?;
        if shared {
            let pd = self.common[adapter].pd;
            let srq = self.cluster.hca(adapter).create_srq(pd, 0);
            let srq = srq.map_err(Violation::from_error)?;
            self.common[adapter].srq = Some((srq, number));
            self.srqs.insert(number, srq);
        }
        self.pools.push(Pool {
            adapter,
            shared,
            buffer,
            receives: Vec::new(),
            done: 0,
            depth,
            free: Vec::new(),
        });
        Ok(number)
    }

    fn bring_up(
        &mut self,
        plan: &ConnectionPlan,
        side: usize,
        end: usize,
        sgid_index: usize,
    ) -> Result<(), Violation> {
        let peer = &self.ends[self.ends[end].peer];
        let mut attr = QpAttr {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            port: 1,
            qkey: QKEY,
            address: self.address(peer, sgid_index),
            path_mtu: plan.mtu,
            timeout: plan.timeout,
            retry_count: 7,
            rnr_retry: plan.rnr_retry,
            rq_psn: plan.psns[1 - side],
            sq_psn: plan.psns[side],
            max_rd_atomic: plan.rd_atomic,
            max_dest_rd_atomic: plan.rd_atomic,
            min_rnr_timer: 8,
            dest_qpn: peer.name.qpn,
            ..QpAttr::default()
        };
        let End { adapter, qp, .. } = self.ends[end];
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            attr.state = state;
            let mask = AttrMask::from_bits_retain(mask(plan.kind, state));
            let modified = self.cluster.hca(adapter).modify_qp(qp, &attr, mask);
            modified.map_err(Violation::from_error)?;
        }
        Ok(())
    }

    /// Returns the address of an end, its station included, as kernels of guests find it.
    pub(crate) fn address(&self, peer: &End, sgid_index: usize) -> Address {
        Address {
            dgid: peer.name.gid,
            sgid_index: sgid_index as u8,
            hop_limit: 64,
            port: 1,
            dmac: self.cluster.places[peer.adapter].mac.0,
            ..Address::default()
        }
    }
}

pub(crate) fn limits() -> Limits {
    Limits {
        pds: 4,
        mrs: 256,
        cqs: 8,
        qps: 64,
        srqs: 8,
        gids: 4,
        rd_atomic: 16,
        message_bytes: 1 << 24,
        port_mtu: Mtu::B4096,
    }
}

pub(crate) fn common(hca: &mut Hca<Region>) -> Result<Common, vrdma_verbs::Error> {
    Ok(Common {
        pd: hca.create_pd(OWNER)?,
        send_cq: hca.create_cq(OWNER)?,
        recv_cq: hca.create_cq(OWNER)?,
        srq: None,
    })
}

/// Returns the attributes that each transition needs (IBTA 11.2).
pub(crate) fn mask(kind: QpType, to: QpState) -> u32 {
    match (kind, to) {
        (QpType::Rc, QpState::Rtr) => 0x12_9181,
        (QpType::Rc, QpState::Rts) => 0x1_2e01,
        (QpType::Uc, QpState::Rtr) => 0x10_1181,
        (QpType::Ud, QpState::Init) => 0x71,
        (_, QpState::Init) => 0x39,
        (_, QpState::Rts) => 0x1_0001,
        _ => 1,
    }
}
