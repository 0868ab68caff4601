//! Protection domains, memory regions and windows.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use vrdma_memory::Region;
use vrdma_provider::message::{
    AllocMw, AllocPd, DeallocMw, DeallocPd, DeregMr, Done, MrReply, MwReply, PdReply, RegMr,
    ReregMr, access as bit,
};
use vrdma_verbs::attr::Access;
use vrdma_verbs::object::{MrId, MrKeys, MrKind, MrSpec, MwId, PdId, WindowKind};
use vrdma_verbs::work::SgeList;

use super::backing::{Backed, backed};
use super::{Asker, Cost, Outcome, errno};
use crate::Process;
use crate::decode::sge;
use crate::kept::{Kind as Record, PlaceName};
use crate::objects::Mr;
use crate::quota::Kind;

/// Known bits without a meaning here.
const ACCESS_IGNORED: u32 = bit::ZERO_BASED | bit::ON_DEMAND | bit::HUGETLB;
/// `IBV_ACCESS_OPTIONAL_RANGE`: hints such as relaxed ordering.
const ACCESS_OPTIONAL: u32 = 0x3ff0_0000;

pub(crate) const PD: [Cost; 1] = [(Kind::Pd, 1)];

/// The cost of a region or a window.
pub(crate) const MR: [Cost; 1] = [(Kind::Mr, 1)];

/// The cost of a region with that many bytes in a file.
pub(super) fn file_cost(bytes: u64) -> [Cost; 3] {
    let one = u64::from(bytes > 0);
    [
        (Kind::File, one),
        (Kind::FileBytes, bytes),
        (Kind::Mapping, one),
    ]
}

/// The cost of a region with its daemon's half.
pub(crate) fn cost(mr: &Mr) -> [Cost; 4] {
    let [file, bytes, mapping] = file_cost(mr.mapped);
    let kept = (Kind::Descriptor, u64::from(mr.file.is_some()));
    [file, bytes, mapping, kept]
}

pub(super) fn alloc_pd(asker: &mut Asker<'_>, _: AllocPd) -> Outcome<AllocPd> {
    asker.afford(&PD)?;
    let pd = asker
        .process
        .core
        .hca
        .create_pd(asker.owner)
        .map_err(errno)?;
    asker.take(&PD)?;
    if let Err(errno) = asker.process.record_pd(pd) {
        dealloc_pd(asker, DeallocPd { pd: pd.0 })?;
        return Err(errno);
    }
    Ok(PdReply { pd: pd.0 })
}

pub(super) fn dealloc_pd(asker: &mut Asker<'_>, request: DeallocPd) -> Outcome<DeallocPd> {
    let pd = PdId(request.pd);
    asker.own(asker.process.core.hca.owner_of_pd(pd))?;
    asker.process.core.hca.destroy_pd(pd).map_err(errno)?;
    asker.process.forget_record(Record::Pd, pd.0);
    asker.give(&PD)?;
    Ok(Done {})
}

/// Decodes the rights in a mask; bits that would change the meaning of a registration are refused.
pub(super) fn access(flags: u32) -> Result<Access, Errno> {
    Access::from_bits(flags & !(ACCESS_IGNORED | ACCESS_OPTIONAL)).ok_or(Errno::INVAL)
}

/// The region for the engine, and its daemon's half.
fn spec(
    asker: &mut Asker<'_>,
    request: &RegMr,
    fds: Vec<OwnedFd>,
) -> Result<(MrSpec<Region>, Mr, PlaceName), Errno> {
    let access = access(request.access)?;
    // Implicit on-demand registration is from 0 to the end.
    let last = request.length.saturating_sub(1);
    request.address.checked_add(last).ok_or(Errno::INVAL)?;
    let Backed { region, mr, place } = backed(asker, request, access, fds.into_iter().next())?;
    let spec = MrSpec {
        kind: MrKind::User,
        start: request.iova,
        length: request.length,
        access,
        region: Some(region),
    };
    Ok((spec, mr, place))
}

fn reply(keys: MrKeys) -> MrReply {
    MrReply {
        mr: keys.id.0,
        lkey: keys.lkey.0,
        rkey: keys.rkey.0,
    }
}

pub(super) fn register(asker: &mut Asker<'_>, request: RegMr, fds: Vec<OwnedFd>) -> Outcome<RegMr> {
    let pd = PdId(request.pd);
    asker.own(asker.process.core.hca.owner_of_pd(pd))?;
    asker.afford(&MR)?;
    let (spec, mr, place) = spec(asker, &request, fds)?;
    let keys = asker.process.core.hca.register(pd, spec).map_err(errno)?;
    asker.take(&cost(&mr))?;
    asker.process.mrs.put(keys.id.0, mr);
    asker.take(&MR)?;
    if let Err(errno) = asker.process.record_mr(keys.id, &place) {
        remove(asker, DeregMr { mr: keys.id.0 })?;
        return Err(errno);
    }
    Ok(reply(keys))
}

pub(super) fn reregister(
    asker: &mut Asker<'_>,
    request: ReregMr,
    fds: Vec<OwnedFd>,
) -> Outcome<ReregMr> {
    let (id, pd) = (MrId(request.mr), PdId(request.wanted.pd));
    let mr = asker.process.mrs.get(request.mr);
    asker.own(mr.map(|mr| mr.owner))?;
    asker.own(asker.process.core.hca.owner_of_pd(pd))?;
    may_leave(asker, id)?;
    let (spec, new, place) = spec(asker, &request.wanted, fds)?;
    vacate(asker, id)?;
    let keys = asker
        .process
        .core
        .hca
        .reregister(id, pd, spec)
        .map_err(errno)?;
    asker.take(&cost(&new))?;
    let old = asker.process.mrs.put(request.mr, new).ok_or(Errno::NOENT)?;
    asker.give(&cost(&old))?;
    asker.process.write_mr(keys.id, &place);
    asker.process.discard(old);
    Ok(reply(keys))
}

/// Puts in place the messages for a region that its client has not put in place: later it could not find the region.
fn put_in_place(asker: &mut Asker<'_>, id: MrId) {
    let space = asker.process.memory();
    let Process { core, cqs, mrs, .. } = &mut *asker.process;
    let Some((lkey, mr)) = core.hca.lkey_of(id).zip(mrs.get_mut(id.0)) else {
        return;
    };
    let known = mr.enclosed_in.take();
    for id_of_cq in known.unwrap_or_else(|| core.hca.cqs_beside(id).into_iter().collect()) {
        // Another client may have a queue of that number by now.
        let Some(cq) = cqs.get_mut(id_of_cq.0).filter(|cq| cq.owner == mr.owner) else {
            continue;
        };
        cq.ring.take_enclosed(
            |buffer| buffer.lkey == lkey.0,
            |buffers, bytes| {
                let sges: SgeList = buffers.iter().map(sge).collect();
                core.hca.put_in_place(id, &sges, bytes, &space.view());
            },
        );
    }
}

/// Whether a region may go: nothing may be written to it afterwards. The client is to ask again while a peer uses the
/// region, or a copy of its memory is late; other copies are never under way while requests are served.
fn may_leave(asker: &mut Asker<'_>, id: MrId) -> Result<(), Errno> {
    match asker.process.is_in_use(id) || is_late(asker) {
        true => Err(Errno::AGAIN),
        false => Ok(()),
    }
}

fn vacate(asker: &mut Asker<'_>, id: MrId) -> Result<(), Errno> {
    put_in_place(asker, id);
    match is_late(asker) {
        true => Err(Errno::AGAIN),
        false => Ok(()),
    }
}

/// Whether bytes may still be written into the asker's memory.
pub(super) fn is_late(asker: &mut Asker<'_>) -> bool {
    let context = asker.process.context(asker.owner);
    context.is_some_and(|context| context.memory.is_late())
}

pub(super) fn deregister(asker: &mut Asker<'_>, request: DeregMr) -> Outcome<DeregMr> {
    let mr = asker.process.mrs.get(request.mr);
    asker.own(mr.map(|mr| mr.owner))?;
    may_leave(asker, MrId(request.mr))?;
    vacate(asker, MrId(request.mr))?;
    remove(asker, request)
}

fn remove(asker: &mut Asker<'_>, request: DeregMr) -> Outcome<DeregMr> {
    asker
        .process
        .core
        .hca
        .deregister(MrId(request.mr))
        .map_err(errno)?;
    let mr = asker.process.mrs.take(request.mr);
    asker.process.forget_record(Record::Mr, request.mr);
    if let Some(mr) = mr {
        asker.give(&cost(&mr))?;
        asker.process.discard(mr);
    }
    asker.give(&MR)?;
    Ok(Done {})
}

pub(super) fn alloc_mw(asker: &mut Asker<'_>, request: AllocMw) -> Outcome<AllocMw> {
    let pd = PdId(request.pd);
    asker.own(asker.process.core.hca.owner_of_pd(pd))?;
    asker.afford(&MR)?;
    let kind = match request.mw_type {
        1 => WindowKind::One,
        2 => WindowKind::Two,
        _ => return Err(Errno::INVAL),
    };
    let keys = asker.process.core.hca.alloc_mw(pd, kind).map_err(errno)?;
    asker.take(&MR)?;
    if let Err(errno) = asker.process.record_window(keys.id.0) {
        dealloc_mw(asker, DeallocMw { mw: keys.id.0 })?;
        return Err(errno);
    }
    Ok(MwReply {
        mw: keys.id.0,
        rkey: keys.rkey.0,
    })
}

pub(super) fn dealloc_mw(asker: &mut Asker<'_>, request: DeallocMw) -> Outcome<DeallocMw> {
    let mw = MwId(request.mw);
    asker.own(asker.process.core.hca.owner_of_mw(mw))?;
    asker.process.core.hca.free_mw(mw).map_err(errno)?;
    asker.process.forget_record(Record::Mr, mw.0);
    asker.give(&MR)?;
    Ok(Done {})
}
