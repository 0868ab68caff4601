//! Protection domains, memory regions and windows.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::fstatfs;
use rustix::io::Errno;
use vrdma_memory::{ClientRegion, FileRegion, PAGE, Region};
use vrdma_provider::message::{
    AllocMw, AllocPd, DeallocMw, DeallocPd, DeregMr, Done, MrReply, MwReply, PdReply, RegMr,
    access as bit,
};
use vrdma_verbs::attr::Access;
use vrdma_verbs::object::{MrId, MrKind, MrSpec, MwId, PdId, WindowKind};

use super::{Asker, Outcome, errno};
use crate::process::limits::{self, fits};
use crate::process::objects::Mr;

/// File systems whose pages are there at once: a mapping of any other file could block the daemon.
const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Known, and without a meaning here.
const ACCESS_IGNORED: u32 = bit::ZERO_BASED | bit::ON_DEMAND | bit::HUGETLB;
/// `IBV_ACCESS_OPTIONAL_RANGE`: hints such as relaxed ordering.
const ACCESS_OPTIONAL: u32 = 0x3ff0_0000;

pub(super) fn alloc_pd(asker: &mut Asker<'_>, _: AllocPd) -> Outcome<AllocPd> {
    fits(asker.usage()?.pds, limits::PDS)
        .then_some(())
        .ok_or(Errno::NOMEM)?;
    let pd = asker.process.hca.create_pd(asker.owner).map_err(errno)?;
    asker.usage()?.pds += 1;
    Ok(PdReply { pd: pd.0 })
}

pub(super) fn dealloc_pd(asker: &mut Asker<'_>, request: DeallocPd) -> Outcome<DeallocPd> {
    let pd = PdId(request.pd);
    asker.own(asker.process.hca.owner_of_pd(pd))?;
    asker.process.hca.destroy_pd(pd).map_err(errno)?;
    asker.usage()?.pds -= 1;
    Ok(Done {})
}

/// The rights that a mask names; bits that would change what a registration means are refused.
pub(super) fn access(flags: u32) -> Result<Access, Errno> {
    Access::from_bits(flags & !(ACCESS_IGNORED | ACCESS_OPTIONAL)).ok_or(Errno::INVAL)
}

pub(super) fn register(asker: &mut Asker<'_>, request: RegMr, fds: Vec<OwnedFd>) -> Outcome<RegMr> {
    let pd = PdId(request.pd);
    asker.own(asker.process.hca.owner_of_pd(pd))?;
    fits(asker.usage()?.mrs, limits::MRS)
        .then_some(())
        .ok_or(Errno::NOMEM)?;
    let access = access(request.access)?;
    // Implicit on-demand registration is 0 to the end.
    let last = request.length.saturating_sub(1);
    request.address.checked_add(last).ok_or(Errno::INVAL)?;
    let region = fds
        .into_iter()
        .next()
        .and_then(|fd| file_region(&request, access, &fd))
        .map_or_else(|| client_region(asker, &request), Ok)?;
    let spec = MrSpec {
        kind: MrKind::User,
        start: request.iova,
        length: request.length,
        access,
        region: Some(region),
    };
    let keys = asker.process.hca.register(pd, spec).map_err(errno)?;
    asker.process.mrs.put(keys.id.0, Mr { owner: asker.owner });
    asker.usage()?.mrs += 1;
    Ok(MrReply {
        mr: keys.id.0,
        lkey: keys.lkey.0,
        rkey: keys.rkey.0,
    })
}

/// The file behind the region, if it is one that can be mapped without harm.
fn file_region(request: &RegMr, access: Access, fd: &OwnedFd) -> Option<Region> {
    let system = fstatfs(fd).ok()?.f_type as u64;
    let in_memory = matches!(system, TMPFS_MAGIC | HUGETLBFS_MAGIC);
    let lead = request.address % PAGE;
    let covers = lead.checked_add(request.length)? <= request.file.length;
    let range = (request.file.offset, request.file.length);
    let writable = access.contains(Access::LOCAL_WRITE);
    let region = || FileRegion::new(fd.as_fd(), range, lead, writable).ok();
    (in_memory && covers).then(region)?.map(Region::File)
}

fn client_region(asker: &mut Asker<'_>, request: &RegMr) -> Result<Region, Errno> {
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    let memory = Arc::clone(&context.memory);
    Ok(Region::Client(ClientRegion::new(memory, request.address)))
}

/// Copies are never under way while requests are served, so none goes on afterwards.
pub(super) fn deregister(asker: &mut Asker<'_>, request: DeregMr) -> Outcome<DeregMr> {
    let mr = asker.process.mrs.get(request.mr);
    asker.own(mr.map(|mr| mr.owner))?;
    asker
        .process
        .hca
        .deregister(MrId(request.mr))
        .map_err(errno)?;
    let _ = asker.process.mrs.take(request.mr);
    asker.usage()?.mrs -= 1;
    Ok(Done {})
}

pub(super) fn alloc_mw(asker: &mut Asker<'_>, request: AllocMw) -> Outcome<AllocMw> {
    let pd = PdId(request.pd);
    asker.own(asker.process.hca.owner_of_pd(pd))?;
    fits(asker.usage()?.mrs, limits::MRS)
        .then_some(())
        .ok_or(Errno::NOMEM)?;
    let kind = match request.mw_type {
        1 => WindowKind::One,
        2 => WindowKind::Two,
        _ => return Err(Errno::INVAL),
    };
    let keys = asker.process.hca.alloc_mw(pd, kind).map_err(errno)?;
    asker.usage()?.mrs += 1;
    Ok(MwReply {
        mw: keys.id.0,
        rkey: keys.rkey.0,
    })
}

pub(super) fn dealloc_mw(asker: &mut Asker<'_>, request: DeallocMw) -> Outcome<DeallocMw> {
    let mw = MwId(request.mw);
    asker.own(asker.process.hca.owner_of_mw(mw))?;
    asker.process.hca.free_mw(mw).map_err(errno)?;
    asker.usage()?.mrs -= 1;
    Ok(Done {})
}
