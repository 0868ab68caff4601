//! Assembles the engine from its records, and the daemon's half of its objects.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Arc;

use prost::Message;
use vrdma_adapter::{Core, RunState, Sending, Slots};
use vrdma_keep::Inherited;
use vrdma_memory::{ClientMemory, ClientRegion, FileRegion, PartlyMapped, Region, Space};
use vrdma_provider::daemon::WorkRing;
use vrdma_provider::message::Adoption;
use vrdma_verbs::object::{CqId, MrId, Owner, PdId, QpId};
use vrdma_verbs::saved::{Pieces, QpPiece, is_receiving, read_receive};
use vrdma_verbs::work::RecvWr;
use vrdma_verbs::{Hca, Time};
use vrdma_wire::Lkey;

use super::record::{self, Backing};
use super::remembered::{Lost, Revived};
use super::reviving::{FRONT, Reviving, Rings, take};
use super::{Kind, Recorder};
use crate::context::Context;
use crate::fast::AdapterGrants;
use crate::objects::{Mr, Qp};
use crate::queue_pairs::Entry;
use crate::regions::Reached;
use crate::requests as cost;
use crate::users::Users;
use crate::{Process, ProcessSpec, UNIT_BYTES};

impl Reviving<'_, '_> {
    pub(super) fn assemble(&mut self, frame: Vec<u8>) -> Result<Hca<Region>, Lost> {
        let pieces = Pieces {
            frame,
            pds: self.plain(Kind::Pd),
            mrs: self.plain(Kind::Mr),
            cqs: self.engines(Kind::Cq, |bytes| {
                Some(record::Cq::decode(bytes).ok()?.engine)
            }),
            srqs: self.engines(Kind::SrqProgress, |bytes| {
                Some(record::SrqProgress::decode(bytes).ok()?.engine)
            }),
            qps: self.qp_pieces(),
            seed: self.means.seed,
        };
        let mut found = Vec::new();
        let Self {
            contexts,
            rings,
            means,
            ..
        } = self;
        let inherited = &mut *means.inherited;
        let nowhere = nowhere(&means.registry.users);
        let hca = Hca::assemble(pieces, |name| {
            let place = record::RegionRecord::decode(name).ok()?;
            let (region, mr) = revive_region(&place, contexts, rings, inherited)
                .or_else(|| nowhere.clone().map(|region| (region, None)))?;
            found.extend(mr.map(|mr| (place.id, mr)));
            Some(region)
        })?;
        for (id, mr) in found {
            if let Some(context) = self.contexts.get_mut(mr.owner.0) {
                take(context, &cost::memory::cost(&mr));
                take(context, &cost::memory::MR);
            }
            self.mrs.put(id, mr);
        }
        Ok(hca)
    }

    fn plain(&self, kind: Kind) -> Vec<Vec<u8>> {
        let all = self.all(kind).into_iter();
        all.map(|noted| noted.bytes.clone()).collect()
    }

    fn engines(&self, kind: Kind, engine: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
        let all = self.all(kind).into_iter();
        all.filter_map(|noted| engine(&noted.bytes)).collect()
    }

    fn qp_pieces(&mut self) -> Vec<QpPiece> {
        let receives: BTreeMap<u32, RecvWr> = self
            .all(Kind::Receive)
            .into_iter()
            .filter_map(|noted| Some((noted.id, read_receive(&noted.bytes).ok()?)))
            .collect();
        let progress: BTreeMap<u32, &[u8]> = self
            .all(Kind::QpProgress)
            .into_iter()
            .filter_map(|noted| Some((noted.id, noted.bytes.get(FRONT..)?)))
            .collect();
        let pieces = self.rings.iter_mut().filter_map(|(id, rings)| {
            let progress = progress.get(id)?.to_vec();
            let receive = match &mut rings.recv {
                Some(recv) if is_receiving(&progress) => {
                    fetch_again(recv, rings.plan.capacity.max_recv_sge)
                }
                Some(_) => None,
                None => receives.get(id).cloned(),
            };
            Some(QpPiece {
                record: rings.record.engine.clone(),
                progress,
                receive,
            })
        });
        pieces.collect()
    }

    pub(super) fn into_process(self, hca: Hca<Region>, recorder: Recorder) -> Revived {
        let Self {
            spec,
            mut contexts,
            sessions,
            cqs,
            srqs,
            rings,
            mrs,
            ..
        } = self;
        let mut qps = Slots::new();
        for (id, rings) in rings {
            let qp = queue_pair(QpId(id), rings, &hca, &mut contexts, &spec);
            qp.into_iter().for_each(|qp| qps.put(id, qp));
        }
        let mut process = Process {
            space: Arc::new(Space::new()),
            core: Core::new(hca, UNIT_BYTES),
            contexts,
            leaving: BTreeMap::new(),
            mrs,
            cqs,
            qps,
            srqs,
            grants: AdapterGrants::default(),
            polled: Vec::new(),
            rung: Vec::new(),
            full_channels: BTreeSet::new(),
            retry_at: None,
            recorder: Some(recorder),
            discarded: Vec::new(),
            groups_changed: true,
            spec,
        };
        process.count_domains();
        process.let_orphans_go();
        Revived { process, sessions }
    }
}

fn fetch_again(recv: &mut WorkRing, most: u32) -> Option<RecvWr> {
    let slot = recv.fetch().ok()??;
    Some(crate::decode::receive(&slot, most))
}

/// Restores a region, and its daemon's half unless it is a queue pair's data area.
fn revive_region(
    place: &record::RegionRecord,
    contexts: &Slots<Context>,
    rings: &BTreeMap<u32, Rings>,
    inherited: &mut Inherited,
) -> Option<(Region, Option<Mr>)> {
    let owner = Owner(place.owner);
    let adoption = Adoption::from_number(place.adoption)?;
    let mr = |way, mapped, file| Mr {
        owner,
        mapped,
        file,
        leaving: None,
        way,
        adoption,
        enclosed_in: None,
    };
    match place.backing.as_ref()? {
        Backing::Client(client) => {
            let memory = Arc::clone(&contexts.get(owner.0)?.memory);
            let region = ClientRegion::resume(memory, client.address, client.length)
                .filled_by_owner(client.is_filled_by_owner);
            let mr = mr(Reached::Addresses, 0, None);
            Some((Region::Client(region), Some(mr)))
        }
        Backing::File(file) => {
            contexts.get(owner.0)?;
            let fd = inherited.claim(file.descriptor)?;
            let (offset, length) = (file.offset, file.length);
            let region = FileRegion::new(fd.as_fd(), offset, length, file.lead, file.writable);
            let start = file.offset.wrapping_add(file.lead);
            let mr = mr(Reached::File, file.length, Some((fd, start)));
            Some((Region::File(region.ok()?), Some(mr)))
        }
        Backing::Partly(record::Partly {
            client,
            file,
            start,
        }) => {
            let memory = Arc::clone(&contexts.get(owner.0)?.memory);
            let fd = inherited.claim(file.descriptor)?;
            let mapped = FileRegion::new(fd.as_fd(), file.offset, file.length, 0, file.writable);
            let mapped = mapped.ok()?;
            let part = *start..start.checked_add(file.length)?;
            (part.end <= client.length).then_some(())?;
            let client = ClientRegion::resume(memory, client.address, client.length);
            let region = Region::Partly(PartlyMapped::new(client, mapped, part));
            let start = file.offset.wrapping_sub(*start);
            let mr = mr(Reached::PartlyFile, file.length, Some((fd, start)));
            Some((region, Some(mr)))
        }
        Backing::Data(qp) => {
            let Rings { memory, plan, .. } = rings.get(qp)?;
            let region = memory
                .region(plan.send.data_at, plan.send.data_bytes)
                .ok()?;
            Some((Region::File(region), None))
        }
    }
}

/// A region of no memory, for clients that are let go: nobody reaches it any more.
fn nowhere(users: &Users) -> Option<Region> {
    let file = std::fs::File::open("/dev/null").ok()?;
    let tenant = Arc::clone(&users.of(rustix::process::geteuid().as_raw()).tenant);
    let memory = Arc::new(ClientMemory::resume(file.into(), tenant));
    Some(Region::Client(ClientRegion::resume(memory, 0, 0)))
}

fn queue_pair(
    id: QpId,
    rings: Rings,
    hca: &Hca<Region>,
    contexts: &mut Slots<Context>,
    spec: &ProcessSpec,
) -> Option<Qp> {
    let Rings {
        record,
        plan,
        memory,
        send,
        recv,
        dead,
    } = rings;
    let (owner, qpn) = (hca.owner_of_qp(id)?, hca.qpn(id)?);
    // Nobody gets the memory of another client.
    let context = contexts
        .get_mut(owner.0)
        .filter(|_| record.owner == owner.0)?;
    let has_doorbell = context.resume_doorbell(record.doorbell, id);
    let entry = Entry::new(Arc::clone(context.holdings.user()), spec.port, qpn);
    let qp = Qp {
        owner,
        qp_type: hca.qp_spec(id)?.qp_type,
        qpn,
        _entry: entry,
        send,
        recv,
        memory,
        capacity: plan.capacity,
        cookie: record.cookie,
        doorbell: record.doorbell,
        data: (MrId(record.data), Lkey(record.data_key)),
        run: RunState::default(),
        flushing: false,
        dead: dead || !has_doorbell,
    };
    take(context, &cost::qp::QP);
    Some(qp)
}

impl Process {
    /// Counts protection domains, which have no daemon's half.
    fn count_domains(&mut self) {
        let recorded: Vec<u32> = match &self.recorder {
            Some(recorder) => recorder.numbers(Kind::Pd),
            None => Vec::new(),
        };
        for pd in recorded {
            let owner = self.core.hca.owner_of_pd(PdId(pd));
            if let Some(context) = owner.and_then(|owner| self.contexts.get_mut(owner.0)) {
                take(context, &cost::memory::PD);
            }
        }
    }

    /// Frees the objects of clients that could not go on, as if these had hung up.
    fn let_orphans_go(&mut self) {
        let owners = self.core.hca.owners();
        for owner in owners {
            if self.contexts.get(owner.0).is_none() {
                self.core.hca.retire_owner(owner);
            }
        }
    }

    /// Nobody knows which doorbells were taken, and which notifications were given. So this looks at all rings, and
    /// notifies every client that waits for a completion that there may be one.
    pub(super) fn wake_everything(&mut self) {
        let qps: Vec<u32> = self.qps.iter().map(|(id, _)| id).collect();
        qps.into_iter().for_each(|id| self.wake(QpId(id)));
        let owners: Vec<u32> = self.contexts.iter().map(|(owner, _)| owner).collect();
        for owner in owners {
            self.poll_doorbells(Owner(owner), Time(0));
        }
        let cqs: Vec<u32> = self.cqs.iter().map(|(id, _)| id).collect();
        for id in cqs {
            let waits = self.cqs.get(id).is_some_and(|cq| {
                let is_armed = cq.ring.take_armed(true);
                is_armed || cq.ring.owes_notification()
            });
            if waits {
                self.notify(CqId(id), Time(0));
            }
        }
    }
}
