//! Makes an adapter from its records.
//!
//! Each queue is made again from the request that made it, with the same checks, and its ring continues at its recorded
//! progress. A ring whose pages are gone is dead, as if they had gone while it was used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;
use vrdma_adapter::{Failing, FrontEnd, LogLimit, Sending, Slots};
use vrdma_memory::{PageList, Region, Right, SharedPages, View};
use vrdma_verbs::Hca;
use vrdma_verbs::object::{CqId, MrId, Owner, QpId, SrqId};
use vrdma_verbs::saved::{Pieces, QpPiece, RestoreError, is_receiving, read_receive};
use vrdma_verbs::work::{Event, RecvWr};
use zerocopy::FromBytes;

use super::check::check_frame;
use super::{Kind, SavedRecord, record};
use crate::abi::request::{CreateCq, CreateQp, CreateSrq};
use crate::adapter::{Adapter, Turn};
use crate::commands::{Errno, Listed, cq, qp, srq};
use crate::config::DeviceConfig;
use crate::handshake::Terms;
use crate::object::Mr;
use crate::object::cq::Cq;
use crate::object::qp::Qp;
use crate::object::srq::Srq;
use crate::quota::Quota;

/// Records that were found, by kind and number.
pub(crate) struct Past<'a> {
    by_kind: BTreeMap<u16, BTreeMap<u32, &'a [u8]>>,
}

impl<'a> Past<'a> {
    pub(crate) fn new(records: &'a [SavedRecord]) -> Self {
        let mut by_kind: BTreeMap<u16, BTreeMap<u32, &[u8]>> = BTreeMap::new();
        for record in records {
            let of_kind = by_kind.entry(record.kind).or_default();
            of_kind.insert(record.id, &record.bytes);
        }
        Self { by_kind }
    }

    pub(crate) fn get(&self, kind: Kind, id: u32) -> Option<&'a [u8]> {
        self.by_kind.get(&(kind as u16))?.get(&id).copied()
    }

    fn all(&self, kind: Kind) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a, '_> {
        let of_kind = self.by_kind.get(&(kind as u16)).into_iter().flatten();
        of_kind.map(|(id, bytes)| (*id, *bytes))
    }

    /// The numbers of the objects with records of these kinds, each once.
    fn numbers(&self, kinds: [Kind; 2]) -> impl Iterator<Item = u32> {
        let ids = kinds.iter().flat_map(|kind| self.all(*kind));
        let ids: BTreeSet<u32> = ids.map(|(id, _)| id).collect();
        ids.into_iter()
    }

    fn bytes(&self, kind: Kind) -> Vec<Vec<u8>> {
        self.all(kind).map(|(_, bytes)| bytes.to_vec()).collect()
    }

    /// Number of records of a kind.
    pub(super) fn count(&self, kind: Kind) -> usize {
        self.by_kind.get(&(kind as u16)).map_or(0, BTreeMap::len)
    }

    pub(super) fn frame(&self) -> Vec<u8> {
        self.bytes(Kind::Frame).concat()
    }
}

/// What an adapter is made from besides its records.
pub(crate) struct Revived {
    pub(crate) config: DeviceConfig,
    pub(crate) terms: Terms,
    pub(crate) doorbell_pages: Option<Arc<SharedPages>>,
    pub(crate) log_limit: LogLimit,
    /// Seed that makes numbers of objects that are gone stale.
    pub(crate) seed: u64,
}

/// The guest's queues, before the engine exists.
struct Queues {
    cqs: Slots<Cq>,
    srqs: Slots<Srq>,
    qps: Slots<Qp>,
}

impl Revived {
    /// Makes the adapter from its records.
    ///
    /// # Errors
    /// The records are inconsistent.
    pub(crate) fn adapter(
        self,
        past: &Past<'_>,
        memory: &View<'_>,
    ) -> Result<Adapter, RestoreError> {
        let quota = Quota::new(self.config.limits.listed_pages);
        let mut queues = Queues::from_past(past, memory, &self.config, &quota);
        let pieces = Pieces {
            frame: past.frame(),
            pds: past.bytes(Kind::Pd),
            mrs: engines(past, Kind::Mr, |bytes| {
                Some(record::Mr::decode(bytes).ok()?.engine)
            }),
            cqs: past.bytes(Kind::Cq),
            srqs: engines(past, Kind::SrqProgress, |bytes| {
                Some(record::Srq::decode(bytes).ok()?.engine)
            }),
            qps: queues.pieces(past, memory),
            seed: self.seed,
        };
        let frame_pieces = past.all(Kind::Frame).count() as u32;
        check_frame(&pieces.frame, &self.config)?;
        let mut hca = assemble(pieces, memory)?;
        // This host's uplink may have another MTU.
        hca.set_port_mtu(self.config.mtu);
        let mut adapter = Adapter::with_engine(
            hca,
            self.config,
            self.terms,
            self.doorbell_pages,
            self.log_limit,
        );
        adapter.frame_pieces = frame_pieces;
        adapter.quota = quota;
        adapter.adopt_contexts(past);
        adapter.adopt_queues(queues);
        adapter.adopt_regions(past);
        adapter.adopt_addresses();
        adapter.let_orphans_go();
        Ok(adapter)
    }
}

/// Makes the engine; if objects are damaged, without them.
fn assemble(pieces: Pieces, memory: &View<'_>) -> Result<Hca<Region>, RestoreError> {
    Hca::assemble(pieces.clone(), |name| region(memory, name)).or_else(|error| {
        tracing::warn!(%error, "records of a guest's objects are damaged: the others go on");
        // Each region's pages are looked up only once more, however often the engine is assembled.
        let mut known: BTreeMap<Vec<u8>, Option<Region>> = BTreeMap::new();
        Hca::salvage(pieces, |name| {
            let known = known.entry(name.to_vec());
            known.or_insert_with(|| region(memory, name)).clone()
        })
    })
}

fn engines(past: &Past<'_>, kind: Kind, engine: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    past.all(kind).filter_map(|(_, it)| engine(it)).collect()
}

impl Queues {
    fn from_past(past: &Past<'_>, memory: &View<'_>, config: &DeviceConfig, quota: &Quota) -> Self {
        let limits = &config.limits;
        let resolve = |listed: Listed| -> Result<PageList, Errno> {
            Ok(listed
                .resolve(memory)
                .unwrap_or_else(|_| PageList::nowhere()))
        };
        let mut queues = Self {
            cqs: Slots::new(),
            srqs: Slots::new(),
            qps: Slots::new(),
        };
        for (id, bytes) in past.all(Kind::CqRequest) {
            let request = CreateCq::read_from_bytes(bytes).ok();
            let cq = request.and_then(|it| cq::make(quota, limits, &it, resolve).ok());
            let progress = past.get(Kind::CqProgress, id);
            if let Some((mut cq, progress)) = cq.zip(progress) {
                cq.go_on(progress, memory);
                queues.cqs.put(id, cq);
            }
        }
        for (id, bytes) in past.all(Kind::SrqRequest) {
            let request = CreateSrq::read_from_bytes(bytes).ok();
            let srq = request.and_then(|it| srq::make(quota, limits, &it, resolve).ok());
            let progress = past.get(Kind::SrqProgress, id);
            let progress = progress.and_then(|it| record::Srq::decode(it).ok());
            if let Some((mut srq, progress)) = srq.zip(progress) {
                srq.go_on(&progress);
                queues.srqs.put(id, srq);
            }
        }
        for (id, bytes) in past.all(Kind::QpRequest) {
            let request = CreateQp::read_from_bytes(bytes).ok();
            let qp = request.and_then(|it| qp::make(quota, limits, &it, resolve).ok());
            let progress = past.get(Kind::QpProgress, id);
            if let Some((mut qp, progress)) = qp.zip(progress) {
                qp.go_on(progress);
                queues.qps.put(id, qp);
            }
        }
        queues
    }

    fn pieces(&mut self, past: &Past<'_>, memory: &View<'_>) -> Vec<QpPiece> {
        let engines = past.all(Kind::Qp).filter_map(|(id, engine)| {
            let progress = past.get(Kind::QpProgress, id)?.get(record::FRONT..)?;
            let qp = self.qps.get_mut(id)?;
            let receive = match qp.recv {
                Some(_) if is_receiving(progress) => qp.fetch_recv(memory).ok().flatten(),
                Some(_) => None,
                None => past.get(Kind::Receive, id).and_then(receive),
            };
            Some(QpPiece {
                record: engine.to_vec(),
                progress: progress.to_vec(),
                receive,
            })
        });
        engines.collect()
    }
}

fn receive(bytes: &[u8]) -> Option<RecvWr> {
    read_receive(bytes).ok()
}

/// A registered region; if its pages are gone, it has no bytes.
fn region(memory: &View<'_>, name: &[u8]) -> Option<Region> {
    let place = record::Backing::decode(name).ok()?;
    if place.bus {
        return Some(Region::Bus);
    }
    let list = match place.few.len() == place.pages as usize {
        true => PageList::listed(memory, place.directory, place.few, Right::Read),
        false => PageList::resolve(memory, place.directory, place.pages, Right::Read),
    };
    let list = list.map(|list| list.starting_at(place.first_byte));
    Some(Region::Pages(Arc::new(
        list.unwrap_or_else(|_| PageList::nowhere()),
    )))
}

/// The index at the start of a record.
fn index(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

impl Cq {
    fn go_on(&mut self, progress: &[u8], memory: &View<'_>) {
        let written = index(progress, 0).unwrap_or(u32::MAX);
        let was_alive = progress.last() == Some(&0);
        self.dead = !was_alive || !self.ring.resume(memory, written);
    }
}

impl Srq {
    fn go_on(&mut self, progress: &record::Srq) {
        self.dead = progress.dead || !self.ring.resume(progress.released);
        self.limit = progress.limit.min(self.max_wr);
    }
}

impl Qp {
    fn go_on(&mut self, progress: &[u8]) {
        let (sent, received) = (index(progress, 0), index(progress, 4));
        let was_alive = progress.get(record::FRONT - 1) == Some(&0);
        let sends = self.send.resume(sent.unwrap_or(u32::MAX));
        let receives = match &mut self.recv {
            Some(recv) => recv.resume(received.unwrap_or(u32::MAX)),
            None => true,
        };
        self.dead = !(was_alive && sends && receives);
    }
}

impl Adapter {
    fn adopt_contexts(&mut self, past: &Past<'_>) {
        for (page, bytes) in past.all(Kind::Context) {
            if let Some(owner) = index(bytes, 0) {
                self.contexts.adopt(page, Owner(owner));
            }
        }
    }

    /// Takes over the queues that the engine knows, and leaves out the others.
    fn adopt_queues(&mut self, queues: Queues) {
        let Queues {
            mut cqs,
            mut srqs,
            mut qps,
        } = queues;
        for id in cqs.numbers(|_| true) {
            let owner = self.core.hca.owner_of_cq(CqId(id));
            if let Some((owner, cq)) = owner.zip(cqs.take(id)) {
                self.cqs.put(id, Cq { owner, ..cq });
                self.count_cq(owner);
            }
        }
        for id in srqs.numbers(|_| true) {
            let owner = self.core.hca.owner_of_srq(SrqId(id));
            if let Some((owner, srq)) = owner.zip(srqs.take(id)) {
                self.srqs.put(id, Srq { owner, ..srq });
            }
        }
        for id in qps.numbers(|_| true) {
            let spec = self.core.hca.qp_spec(QpId(id)).copied();
            let owner = self.core.hca.owner_of_qp(QpId(id));
            let Some(((owner, spec), mut qp)) = owner.zip(spec).zip(qps.take(id)) else {
                continue;
            };
            (qp.rules.owner, qp.rules.pd, qp.rules.qp_type) = (owner, spec.pd, spec.qp_type);
            if let Some(context) = self.contexts.get_mut(owner) {
                context.qps.push(QpId(id));
            }
            self.qps.put(id, qp);
        }
    }

    fn adopt_regions(&mut self, past: &Past<'_>) {
        for (id, bytes) in past.all(Kind::Mr) {
            let Ok(record) = record::Mr::decode(bytes) else {
                continue;
            };
            if self.core.hca.owner_of_mr(MrId(id)).is_some() {
                let charge = match record.charged {
                    0 => None,
                    pages => self.quota.take(pages),
                };
                self.mrs.put(id, Mr { charge });
            }
        }
    }

    fn adopt_addresses(&mut self) {
        for index in 0..=u8::MAX {
            let gid = self.core.hca.gid(index);
            if gid.is_some() {
                self.gids.set(index, gid);
            }
        }
    }

    /// Events about objects that have records and could not go on, for the guest. Events about queue pairs come first,
    /// since there are few places for events.
    pub(crate) fn lost(&self, past: &Past<'_>) -> Vec<Event> {
        let qps = past.numbers([Kind::QpRequest, Kind::Qp]);
        let qps = qps.filter(|id| self.qps.get(*id).is_none());
        let srqs = past.numbers([Kind::SrqRequest, Kind::SrqProgress]);
        let srqs = srqs.filter(|id| self.srqs.get(*id).is_none());
        let cqs = past.numbers([Kind::CqRequest, Kind::Cq]);
        let cqs = cqs.filter(|id| self.cqs.get(*id).is_none());
        let of_qps = qps.map(|id| Event::QpFatal(QpId(id)));
        let of_srqs = srqs.map(|id| Event::SrqError(SrqId(id)));
        let of_cqs = cqs.map(|id| Event::CqError(CqId(id)));
        of_qps.chain(of_srqs).chain(of_cqs).collect()
    }

    /// Frees the objects of programs that are gone, as if the programs had just ended.
    fn let_orphans_go(&mut self) {
        for owner in self.core.hca.owners() {
            if !self.contexts.contains(owner) {
                self.core.hca.retire_owner(owner);
            }
        }
    }

    /// Looks at all rings: which doorbells were taken and which owners were told is unknown. An owner that may wait for
    /// a completion is told if it does not take the completion without that.
    pub(crate) fn wake_everything(&mut self, turn: Turn<'_, '_>) {
        self.resume_rings(turn);
        self.show_progress(turn);
        for id in self.qps.numbers(|_| true) {
            self.wake(QpId(id));
        }
        self.contexts.touch_all();
        for id in self.cqs.numbers(|cq| !cq.dead) {
            self.show(turn, CqId(id), |arming, state| {
                arming.page_touched(state, turn.now)
            });
        }
    }
    /// Shows the guest recorded progress that it may not have seen: first the free slots, then the completions, since a
    /// program with a full queue posts again right after it polled.
    fn show_progress(&mut self, turn: Turn<'_, '_>) {
        for id in self.qps.numbers(|_| true).into_iter().map(QpId) {
            if let Err(error) = self.publish_released(turn, id) {
                self.fail_qp(turn, id, error);
            }
        }
        for id in self.cqs.numbers(|cq| !cq.dead).into_iter().map(CqId) {
            let shown = self
                .cqs
                .get_mut(id.0)
                .map(|cq| cq.ring.publish(turn.memory));
            if let Some(Err(error)) = shown {
                self.fail_cq(turn, id, error);
            }
        }
    }
}
