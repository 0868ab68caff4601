//! Restores clients and their rings as they were when a process ended.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::{AsFd, RawFd};
use std::sync::Arc;

use prost::Message;
use rustix::io::Errno;
use vrdma_adapter::Slots;
use vrdma_memory::ClientMemory;
use vrdma_provider::daemon::{Answer, CompletionRing, CqPlan, QpPlan, SrqPlan, WorkRing};
use vrdma_provider::doorbell::Listener;
use vrdma_provider::message::{Header, Name, QpCapacity};
use vrdma_verbs::Intent;
use vrdma_verbs::object::Owner;

use super::remembered::{Lost, Means, Noted, Revived};
use super::{Kind, Recorder, record};
use crate::ProcessSpec;
use crate::caller::Caller;
use crate::channel::Channel;
use crate::context::{Context, Joining, Resuming};
use crate::limits;
use crate::namespaces::Namespaces;
use crate::objects::{Cq, Srq};
use crate::opening::is_trusted;
use crate::receive::ForeignFile;
use crate::regions::Regions;
use crate::requests as cost;
use crate::session::{Answered, Session};
use crate::sessions::OpenSession;
use crate::slabs::{Part, Slab};
use crate::users::SessionSlot;

/// The state while an adapter is restored.
pub(super) struct Reviving<'a, 'n> {
    pub(super) spec: ProcessSpec,
    /// Records by kind, in the order of the objects' numbers.
    noted: BTreeMap<u16, Vec<&'n Noted>>,
    pub(super) means: Means<'a>,
    pub(super) contexts: Slots<Context>,
    pub(super) sessions: Vec<OpenSession>,
    pub(super) cqs: Slots<Cq>,
    pub(super) srqs: Slots<Srq>,
    pub(super) rings: BTreeMap<u32, Rings>,
    pub(super) mrs: Regions,
    /// Slabs by the numbers of their descriptors, with the client of each.
    slabs: BTreeMap<RawFd, (u32, Arc<Slab>)>,
}

/// The place of a queue's memory.
struct InFile {
    file: RawFd,
    offset: u32,
}

/// A queue pair's memory, and its record.
pub(super) struct Rings {
    pub(super) record: record::Qp,
    pub(super) plan: QpPlan,
    pub(super) memory: Part,
    pub(super) send: WorkRing,
    pub(super) recv: Option<WorkRing>,
    pub(super) dead: bool,
}

impl<'a, 'n> Reviving<'a, 'n> {
    pub(super) fn new(spec: ProcessSpec, noted: &'n [Noted], means: Means<'a>) -> Self {
        let mut by_kind: BTreeMap<u16, Vec<&Noted>> = BTreeMap::new();
        for one in noted {
            by_kind.entry(one.kind).or_default().push(one);
        }
        for of_kind in by_kind.values_mut() {
            of_kind.sort_by_key(|noted| noted.id);
        }
        Self {
            spec,
            noted: by_kind,
            means,
            contexts: Slots::new(),
            sessions: Vec::new(),
            cqs: Slots::new(),
            srqs: Slots::new(),
            rings: BTreeMap::new(),
            mrs: Regions::new(),
            slabs: BTreeMap::new(),
        }
    }

    pub(super) fn all(&self, kind: Kind) -> Vec<&'n Noted> {
        self.noted.get(&(kind as u16)).cloned().unwrap_or_default()
    }

    /// The record of an object.
    fn bytes(&self, kind: Kind, id: u32) -> Option<&'n [u8]> {
        let all = self.noted.get(&(kind as u16))?;
        let noted = all.get(all.partition_point(|noted| noted.id < id))?;
        (noted.id == id).then_some(noted.bytes.as_slice())
    }

    pub(super) fn finish(mut self, recorder: Recorder) -> Result<Revived, Lost> {
        let described = self.bytes(Kind::Adapter, 0).ok_or(Lost::Adapter)?;
        let frame = record::Adapter::decode(described).map_err(|_| Lost::Adapter)?;
        self.revive_contexts();
        self.revive_channels();
        // Work queues come first, since restoring them shows which slots are free. Completions are shown afterwards: a
        // program with a full queue posts again right after it polled.
        self.revive_srqs();
        self.revive_rings();
        self.revive_cqs();
        let hca = self.assemble(frame.frame)?;
        let intent = self
            .bytes(Kind::Intent, 0)
            .and_then(|bytes| bytes.try_into().ok());
        let mut process = self.into_process(hca, recorder);
        if let Some(intent) = intent {
            process.process.conclude(&Intent::from_bytes(intent));
        }
        process.process.log_intents();
        process.process.wake_everything();
        Ok(process)
    }

    fn revive_contexts(&mut self) {
        for noted in self.all(Kind::Context) {
            let Ok(record) = record::Context::decode(&*noted.bytes) else {
                continue;
            };
            if self.revive_context(&record).is_none() {
                tracing::warn!(adapter = %self.spec.name, "a client's record is not usable: its connection ends");
            }
        }
    }

    fn revive_context(&mut self, record: &record::Context) -> Option<()> {
        let owner = Owner(record.owner);
        (record.owner >= crate::FIRST_OWNER && record.owner <= limits::CLIENTS).then_some(())?;
        let inherited = &mut *self.means.inherited;
        let socket = inherited.claim(record.socket)?;
        let memory = inherited.claim(record.memory)?;
        let page = inherited.claim(record.doorbell_page)?;
        let event = inherited.claim(record.doorbell_event)?;
        let events = inherited.claim(record.events)?;
        let grants = match record.grants {
            Some(number) => Some(inherited.claim(number)?),
            None => None,
        };
        let mut caller = Caller::at(socket.as_fd()).ok()?;
        caller.only = match &record.only {
            Some(only) => Some(Name::new(only)?),
            None => None,
        };
        let user = self.means.registry.users.of(caller.uid);
        let tenant = Arc::clone(&user.tenant);
        let mut memory = ClientMemory::resume(memory, Arc::clone(&tenant));
        let home = caller.pid;
        let home = home.and_then(|pid| Namespaces::at(socket.as_fd(), pid));
        if let Some(pid) = caller.pid
            && is_trusted(&caller, home, self.means.registry)
        {
            memory.trust(pid, record.nonce_address, record.nonce);
        }
        let joining = Joining {
            memory: Arc::new(memory),
            counts: Arc::clone(&user.counts),
            uid: caller.uid,
            fast: home.filter(|_| grants.is_some()),
            pid: caller.pid,
            encloses: record.encloses,
        };
        let context = Context::resume(Resuming {
            joining,
            doorbells: Listener::resume(page, event).ok()?,
            events,
            grants,
            seed: self.means.seed as u32,
        })
        .ok()?;
        let session = Session {
            socket: ForeignFile::new(socket, tenant),
            caller,
            place: SessionSlot::take(user)?,
            answered: self.revive_answer(owner),
            open: Some((self.spec.port, owner)),
        };
        self.contexts.put(owner.0, context);
        self.sessions.push(OpenSession::resumed(session));
        Some(())
    }

    /// Restores the last answer. If it was not recorded, the client asks again or has been answered.
    fn revive_answer(&mut self, owner: Owner) -> Option<Answered> {
        let record = record::Answer::decode(self.bytes(Kind::Answer, owner.0)?).ok()?;
        let header = Header {
            code: record.code.try_into().ok()?,
            number: record.number.try_into().ok()?,
            errno: 0,
        };
        let inherited = &mut *self.means.inherited;
        let fds: Option<Vec<_>> = record
            .descriptors
            .iter()
            .map(|number| inherited.claim(*number))
            .collect();
        let answer = match record.errno {
            0 => Ok(Answer::again(record.body, fds?)),
            errno => Err(Errno::from_raw_os_error(errno)),
        };
        Some(Answered { header, answer })
    }

    fn revive_channels(&mut self) {
        for noted in self.all(Kind::Channel) {
            let Ok(record) = record::Channel::decode(&*noted.bytes) else {
                continue;
            };
            let Some(pipe) = self.means.inherited.claim(record.pipe) else {
                continue;
            };
            if let Some(context) = self.contexts.get_mut(record.owner)
                && limits::fits(record.channel, limits::CHANNELS)
            {
                take(context, &cost::cq::CHANNEL);
                context.channels.put(record.channel, Channel::resume(pipe));
            }
        }
    }

    /// Restores the memory of a queue; `None` if it is not its owner's.
    fn revive_memory(&mut self, owner: u32, place: &InFile, bytes: u32) -> Option<Part> {
        let context = self.contexts.get_mut(owner)?;
        if let Entry::Vacant(vacant) = self.slabs.entry(place.file) {
            let fd = self.means.inherited.claim(place.file)?;
            let slab = context.slabs.resume(fd)?;
            take(context, &slab.cost());
            vacant.insert((owner, slab));
        }
        let (whose, slab) = self.slabs.get(&place.file)?;
        (*whose == owner).then_some(())?;
        let (offset, bytes) = (place.offset as usize, bytes as usize);
        context.slabs.take_again(slab, offset, bytes)
    }

    fn revive_cqs(&mut self) {
        for noted in self.all(Kind::Cq) {
            if let Some(cq) = self.revive_cq(noted) {
                let context = self.contexts.get_mut(cq.owner.0);
                if let Some(context) = context {
                    take(context, &cost::cq::CQ);
                    let channel = cq.channel.and_then(|it| context.channels.get_mut(it));
                    channel.into_iter().for_each(|channel| channel.users += 1);
                }
                self.cqs.put(noted.id, cq);
            }
        }
    }

    fn revive_cq(&mut self, noted: &Noted) -> Option<Cq> {
        let record = record::Cq::decode(&*noted.bytes).ok()?;
        let progress = self.bytes(Kind::CqProgress, noted.id)?;
        let (written, dead) = progress.split_first_chunk()?;
        let plan = CqPlan::new(record.entries, record.encloses)?;
        let place = InFile {
            file: record.area,
            offset: record.offset,
        };
        let memory = self.revive_memory(record.owner, &place, plan.bytes)?;
        let area = &memory.area;
        let written = u32::from_le_bytes(*written);
        let ring = CompletionRing::resume(Arc::clone(area), plan.ring, written);
        Some(Cq {
            owner: Owner(record.owner),
            dead: dead != [0] || ring.is_err(),
            ring: ring.unwrap_or_else(|_| CompletionRing::new(Arc::clone(area), plan.ring)),
            memory,
            channel: record.channel,
            cookie: record.cookie,
            unpublished: false,
            urgent: false,
        })
    }

    fn revive_srqs(&mut self) {
        for noted in self.all(Kind::Srq) {
            if let Some(srq) = self.revive_srq(noted) {
                if let Some(context) = self.contexts.get_mut(srq.owner.0) {
                    take(context, &cost::srq::SRQ);
                }
                self.srqs.put(noted.id, srq);
            }
        }
    }

    fn revive_srq(&mut self, noted: &Noted) -> Option<Srq> {
        let record = record::Srq::decode(&*noted.bytes).ok()?;
        let progress = self.bytes(Kind::SrqProgress, noted.id)?;
        let progress = record::SrqProgress::decode(progress).ok()?;
        let plan = SrqPlan::new(record.slots, record.max_sge)?;
        let place = InFile {
            file: record.area,
            offset: record.offset,
        };
        let memory = self.revive_memory(record.owner, &place, plan.bytes)?;
        Some(Srq {
            owner: Owner(record.owner),
            ring: WorkRing::resume(Arc::clone(&memory.area), plan.ring, progress.released),
            memory,
            cookie: record.cookie,
            max_sge: plan.max_sge,
            limit: progress.limit,
            dead: progress.dead,
        })
    }

    fn revive_rings(&mut self) {
        for noted in self.all(Kind::Qp) {
            if let Some(rings) = self.revive_qp_rings(noted) {
                self.rings.insert(noted.id, rings);
            }
        }
    }

    fn revive_qp_rings(&mut self, noted: &Noted) -> Option<Rings> {
        let record = record::Qp::decode(&*noted.bytes).ok()?;
        let (front, _) = self
            .bytes(Kind::QpProgress, noted.id)?
            .split_at_checked(FRONT)?;
        let word = |at: usize| {
            let bytes = front.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let plan = QpPlan::new(&capacity(&record.capacity)?, record.has_srq)?;
        let place = InFile {
            file: record.area,
            offset: record.offset,
        };
        let memory = self.revive_memory(record.owner, &place, plan.bytes)?;
        let area = &memory.area;
        let recv = match record.has_srq {
            true => None,
            false => Some(WorkRing::resume(Arc::clone(area), plan.recv, word(4)?)),
        };
        Some(Rings {
            send: WorkRing::resume(Arc::clone(area), plan.send, word(0)?),
            recv,
            dead: *front.get(8)? != 0,
            plan,
            memory,
            record,
        })
    }
}

/// Bytes of a queue pair's progress for this front end; the engine's follow.
pub(super) const FRONT: usize = 9;

fn capacity(words: &[u32]) -> Option<QpCapacity> {
    let [
        max_send_wr,
        max_recv_wr,
        max_send_sge,
        max_recv_sge,
        max_inline,
    ] = *words
    else {
        return None;
    };
    Some(QpCapacity {
        max_send_wr,
        max_recv_wr,
        max_send_sge,
        max_recv_sge,
        max_inline,
    })
}

pub(super) fn take(context: &mut Context, costs: &[cost::Cost]) {
    for (kind, count) in costs {
        context.holdings.take(*kind, *count);
    }
}
