//! A member of the tests: an engine whose owner posts and polls by function calls.

use std::collections::VecDeque;
use std::sync::Arc;

use vrdma_adapter::GidChange;
use vrdma_host::{Doorbells, Member};
use vrdma_switch::Policy;
use vrdma_verbs::attr::{Access, Address, AttrMask, QpAttr, QpState};
use vrdma_verbs::object::{
    CqId, Identity, MrKeys, MrKind, MrSpec, Owner, PdId, QpId, QpSpec, QpType,
};
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::{Request, Response, Route};
use vrdma_verbs::work::{Output, Remote, SendOp, SendWr, Sge, Status};
use vrdma_verbs::{Hca, Paths, Source, Time};
use vrdma_wire::{Gid, Mac, Mtu, Packet, Psn, Qpn};

use super::memory::{Region, Regions};

/// Bytes of the one region of a station.
pub(crate) const REGION_BYTES: usize = 1 << 20;

/// Address of the region for its keys.
const START: u64 = 0x10_0000;

/// Most bytes of a unit between two stations of one host.
const UNIT_BYTES: u32 = 256 << 10;

/// How a peer is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    pub(crate) gid: Gid,
    pub(crate) mac: Mac,
    pub(crate) qpn: Qpn,
}

/// A station; see the module.
pub(crate) struct Station {
    pub(crate) hca: Hca<Region>,
    pub(crate) memory: Regions,
    pub(crate) mac: Mac,
    pub(crate) gid: Gid,
    keys: MrKeys,
    pd: PdId,
    cq: CqId,
    changes: VecDeque<GidChange>,
    /// Completions that were shown to the owner.
    pub(crate) completions: Vec<(u64, Status)>,
    /// Its engine has QP 1.
    pub(crate) has_gsi: bool,
    pub(crate) mtu: Option<Mtu>,
    pub(crate) groups: Option<Vec<Gid>>,
    /// Its limits.
    pub(crate) policy: Arc<Policy>,
    /// How its doorbells work.
    pub(crate) doorbells: Doorbells,
    /// It stands still, and answers nothing.
    pub(crate) is_still: bool,
    pub(crate) epoch: u64,
    /// A doorbell has rung.
    pub(crate) rung: bool,
    /// It reports rings before it is polled.
    pub(crate) tells_of_rings: bool,
    /// How often it was polled.
    pub(crate) polls: u32,
    /// How often its owner was shown what happened.
    pub(crate) published: u32,
    /// Number of answers that it got.
    pub(crate) answers: u32,
}

impl Station {
    pub(crate) fn new(number: u8, gid: Gid) -> Self {
        let mac = Mac([0x52, 0x54, 0, 0, 0, number]);
        let identity = Identity {
            mac,
            seed: u64::from(number),
        };
        let mut hca = Hca::new(identity, super::limits());
        hca.bind_gid(0, gid).unwrap();
        let memory = Regions::default();
        let pd = hca.create_pd(Owner(1)).unwrap();
        let spec = MrSpec {
            kind: MrKind::User,
            start: START,
            length: REGION_BYTES as u64,
            access: Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ,
            region: Some(memory.add(REGION_BYTES)),
        };
        let keys = hca.register(pd, spec).unwrap();
        let cq = hca.create_cq(Owner(1)).unwrap();
        Self {
            hca,
            memory,
            mac,
            gid,
            keys,
            pd,
            cq,
            changes: VecDeque::from([GidChange::Bound(gid)]),
            completions: Vec::new(),
            has_gsi: false,
            mtu: None,
            groups: None,
            policy: Arc::default(),
            doorbells: Doorbells::Wake,
            is_still: false,
            epoch: 0,
            rung: false,
            tells_of_rings: false,
            polls: 0,
            published: 0,
            answers: 0,
        }
    }

    /// Binds its address again: the host that it is at from now on does not know it yet.
    pub(crate) fn come_anew(&mut self) {
        self.changes.push_back(GidChange::Bound(self.gid));
    }

    /// Creates a reliable queue pair that has no peer yet.
    pub(crate) fn create_qp(&mut self) -> QpId {
        let spec = QpSpec::new(QpType::Rc, self.pd, self.cq, self.cq);
        self.hca.create_qp(spec).unwrap()
    }

    pub(crate) fn name(&self, qp: QpId) -> Name {
        Name {
            gid: self.gid,
            mac: self.mac,
            qpn: self.hca.qpn(qp).unwrap(),
        }
    }

    pub(crate) fn connect(&mut self, qp: QpId, peer: Name) {
        self.connect_with(qp, peer, 7);
    }

    /// Connects with this retry count.
    pub(crate) fn connect_with(&mut self, qp: QpId, peer: Name, retry_count: u8) {
        let mut attr = QpAttr {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
            port: 1,
            address: Address {
                dgid: peer.gid,
                hop_limit: 64,
                port: 1,
                dmac: peer.mac.0,
                ..Address::default()
            },
            path_mtu: Mtu::B1024,
            timeout: 14,
            retry_count,
            rnr_retry: 7,
            rq_psn: Psn::new(7),
            sq_psn: Psn::new(7),
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            min_rnr_timer: 8,
            dest_qpn: peer.qpn,
            ..QpAttr::default()
        };
        // The attributes that each transition needs (IBTA 11.2).
        for (state, mask) in [
            (QpState::Init, 0x39),
            (QpState::Rtr, 0x12_9181),
            (QpState::Rts, 0x1_2e01),
        ] {
            attr.state = state;
            let mask = AttrMask::from_bits_retain(mask);
            self.hca.modify_qp(qp, &attr, mask).unwrap();
        }
    }

    /// Returns its region as a peer names it.
    pub(crate) fn remote(&self) -> Remote {
        Remote {
            addr: START,
            rkey: self.keys.rkey,
        }
    }

    /// Posts a request for the first bytes of its region.
    pub(crate) fn post(&mut self, qp: QpId, id: u64, op: SendOp<Region>, length: u32) {
        let sge = Sge {
            addr: START,
            length,
            lkey: self.keys.lkey,
        };
        let request = SendWr {
            id,
            op,
            fence: false,
            signaled: true,
            solicited: false,
            sges: [sge].into_iter().collect(),
            inline: None,
            datagram: None,
        };
        self.hca.post_send(qp, request).unwrap();
    }

    /// Returns the completions of one request since the last call.
    pub(crate) fn completed_of(&mut self, id: u64) -> Vec<Status> {
        let of_id = self.completions.extract_if(.., |(done, _)| *done == id);
        of_id.map(|(_, status)| status).collect()
    }

    /// Returns the completions shown to its owner since the last call.
    pub(crate) fn completed(&mut self) -> Vec<(u64, Status)> {
        std::mem::take(&mut self.completions)
    }
}

impl Member for Station {
    type Region = Region;
    type Memory = Regions;
    type View<'a> = Regions;

    fn name(&self) -> &str {
        "a station"
    }

    fn memory(&self) -> Regions {
        self.memory.clone()
    }

    fn view(memory: &Regions) -> Regions {
        memory.clone()
    }

    fn renew_memory(&mut self, _: Time) {}

    fn poll(&mut self, _: &Regions, now: Time) -> bool {
        self.polls += 1;
        let due = self.hca.next_deadline().is_some_and(|due| due <= now);
        if due {
            self.hca.handle_timeout(now);
        }
        due | std::mem::take(&mut self.rung)
    }

    fn next_request(
        &mut self,
        _: &Regions,
        now: Time,
        paths: &mut impl Paths,
    ) -> Option<Request<Region>> {
        while let Some(qp) = self.hca.next_ready() {
            let request = self.hca.poll_transmit(qp, now, UNIT_BYTES, paths);
            if request.is_some() {
                return request;
            }
        }
        None
    }

    fn deliver_in_row(
        &mut self,
        memory: &Regions,
        request: &Request<Region>,
        source: Source<'_, Regions>,
        _: Time,
        unheard: &mut Option<Response<Region>>,
    ) -> Option<Response<Region>> {
        if self.is_still {
            return None;
        }
        self.hca.deliver_in_row(request, source, memory, unheard)
    }

    fn respond(
        &mut self,
        memory: &Regions,
        response: &Response<Region>,
        source: Source<'_, Regions>,
        now: Time,
    ) {
        self.answers += 1;
        self.hca.respond(response, source, memory, now);
    }

    fn fan_out(&self, request: &Request<Region>) -> Vec<Request<Region>> {
        self.hca.fan_out(request)
    }

    fn receive(&mut self, memory: &Regions, packet: &Packet<'_>, now: Time) {
        if self.is_still {
            return;
        }
        if let Some(arrival) = self.hca.decode(packet) {
            self.hca.receive(&arrival, memory, now);
        }
    }

    fn end_train(&mut self, _: Time) {}

    fn next_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<Region>> {
        self.hca.poll_reply(now, paths)
    }

    fn path_has_room(&mut self) {
        self.hca.path_has_room();
    }

    fn peers(&self) -> Vec<Route> {
        self.hca.peers().collect()
    }

    fn has_peer(&self, peer: Gid) -> bool {
        self.hca.has_peer(peer)
    }

    fn pause_peer(&mut self, peer: Gid) {
        self.hca.pause_peer(peer);
    }

    fn resume_peer(&mut self, peer: Gid) {
        self.hca.resume_peer(peer);
    }

    fn is_still(&self) -> bool {
        self.is_still
    }

    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn publish(&mut self, _: Time) {
        self.published += 1;
        while let Some(output) = self.hca.poll_output() {
            if let Output::SendDone {
                completion: Some(completion),
                ..
            } = output
            {
                self.completions.push((completion.wr_id, completion.status));
            }
        }
    }

    fn is_runnable(&self) -> bool {
        self.hca.has_ready()
    }

    fn policy(&self) -> Option<&Arc<Policy>> {
        Some(&self.policy)
    }

    fn doorbells(&self) -> Doorbells {
        self.doorbells
    }

    fn has_rung(&self, _: Time) -> bool {
        self.rung || !self.tells_of_rings
    }

    fn sleep(&mut self) -> bool {
        self.doorbells = Doorbells::Wake;
        !self.rung
    }

    fn awake(&mut self) {
        self.doorbells = Doorbells::Polled;
    }

    fn next_deadline(&self) -> Option<Time> {
        self.hca.next_deadline()
    }

    fn take_gid_change(&mut self) -> Option<GidChange> {
        self.changes.pop_front()
    }

    fn take_groups(&mut self) -> Option<Vec<Gid>> {
        self.groups.take()
    }

    fn set_mtu(&mut self, mtu: Mtu) {
        self.mtu = Some(mtu);
    }

    fn has_gsi(&self) -> bool {
        self.has_gsi
    }
}
