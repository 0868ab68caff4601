//! CREATE_MR and DESTROY_MR.

use std::sync::Arc;

use vrdma_memory::{MAX_PAGES, PAGE, PageError, PageWalk, Region, Right};
use vrdma_verbs::attr::Access;
use vrdma_verbs::object::{MrId, MrKind, MrSpec, PdId};

use super::errno::require;
use super::{Answer, Body, Errno, Reply};
use crate::abi::request::{self, CreateMr, mr_flag};
use crate::abi::response::CreatedMr;
use crate::adapter::{Adapter, Turn};
use crate::config::DeviceLimits;
use crate::decode::fast_register;
use crate::kept::Kind;
use crate::object::Mr;
use crate::quota::Charge;

/// Memory-window binding and huge pages: accepted, without a meaning here.
const ACCESS_IGNORED: u32 = 16 | 128;
/// `IB_ACCESS_OPTIONAL`: hints such as relaxed ordering.
const ACCESS_OPTIONAL: u32 = 0x3ff0_0000;

/// Tables of a page directory that are read in one piece: 4096 pages, which takes 20 us, and several times that on a
/// slow machine. Other adapters of the shard wait that long.
const TABLES_AT_ONCE: usize = 8;

type Spec = (MrSpec<Region>, Option<Charge>);

/// The registration of a program's region whose pages are being read.
pub(super) struct Registration {
    pd: PdId,
    start: u64,
    length: u64,
    access: Access,
    charge: Charge,
    walk: PageWalk,
}

pub(super) fn create(
    adapter: &mut Adapter,
    turn: Turn<'_, '_>,
    body: &Body,
) -> Result<Answer, Errno> {
    let request: CreateMr = body.parse();
    let (spec, charge) = match request.flags.get() {
        0 => return user(adapter, turn, &request),
        mr_flag::DMA => dma(&request)?,
        mr_flag::FAST_REGISTER => empty(adapter, &request)?,
        _ => return Err(Errno::Invalid),
    };
    let pd = PdId(request.pd_handle.get());
    register(adapter, pd, spec, charge).map(Answer::Now)
}

fn register(
    adapter: &mut Adapter,
    pd: PdId,
    spec: MrSpec<Region>,
    charge: Option<Charge>,
) -> Result<Reply, Errno> {
    let keys = adapter.core.hca.register(pd, spec)?;
    adapter.mrs.put(keys.id.0, Mr { charge });
    adapter.record_mr(keys.id.0);
    Ok(Reply::with(&CreatedMr {
        mr_handle: keys.id.0.into(),
        lkey: keys.lkey.0.into(),
        rkey: keys.rkey.0.into(),
        ..CreatedMr::default()
    }))
}

/// The rights in a mask; bits that would change what a registration means are refused.
fn access(flags: u32) -> Result<Access, Errno> {
    let meant = flags & !(ACCESS_IGNORED | ACCESS_OPTIONAL);
    Access::from_bits(meant).ok_or(Errno::Invalid)
}

fn user(adapter: &mut Adapter, turn: Turn<'_, '_>, request: &CreateMr) -> Result<Answer, Errno> {
    let access = access(request.access_flags.get())?;
    let pages = pages_spanned(request).ok_or(Errno::Invalid)?;
    let charge = adapter.quota.take(pages).ok_or(Errno::NoMemory)?;
    let right = match access.contains(Access::LOCAL_WRITE) {
        true => Right::Write,
        false => Right::Read,
    };
    let walk = PageWalk::begin(turn.memory, request.pdir_dma.get(), pages, right);
    let mut registration = Registration {
        pd: PdId(request.pd_handle.get()),
        start: request.start.get(),
        length: request.length.get(),
        access,
        charge,
        walk: walk.map_err(unreadable)?,
    };
    match registration.go_on(turn)? {
        true => registration.finish(adapter).map(Answer::Now),
        false => Ok(Answer::Later(Box::new(registration))),
    }
}

fn unreadable(_: PageError) -> Errno {
    Errno::Fault
}

impl Registration {
    /// Reads more pages; true when all are read.
    pub(super) fn go_on(&mut self, turn: Turn<'_, '_>) -> Result<bool, Errno> {
        let done = self.walk.go_on(turn.memory, TABLES_AT_ONCE);
        done.map_err(unreadable)
    }

    /// Makes the region.
    pub(super) fn finish(self, adapter: &mut Adapter) -> Result<Reply, Errno> {
        let list = self.walk.finish().starting_at(self.start);
        let spec = MrSpec {
            kind: MrKind::User,
            start: self.start,
            length: self.length,
            access: self.access,
            region: Some(Region::Pages(Arc::new(list))),
        };
        register(adapter, self.pd, spec, Some(self.charge))
    }
}

/// The page count of the request, if it matches the range.
fn pages_spanned(request: &CreateMr) -> Option<u32> {
    let (start, length) = (request.start.get(), request.length.get());
    start.checked_add(length)?;
    let pages = (start % PAGE + length).div_ceil(PAGE);
    let matches = pages == u64::from(request.nchunks.get()) && pages <= u64::from(MAX_PAGES);
    let allowed = (1..=DeviceLimits::REGION_BYTES).contains(&length);
    (allowed && matches).then_some(pages as u32)
}

fn dma(request: &CreateMr) -> Result<Spec, Errno> {
    let spec = MrSpec {
        kind: MrKind::Dma,
        start: 0,
        length: u64::MAX,
        access: access(request.access_flags.get())?,
        region: Some(Region::Bus),
    };
    Ok((spec, None))
}

fn empty(adapter: &Adapter, request: &CreateMr) -> Result<Spec, Errno> {
    let pages = request.nchunks.get();
    require((1..=fast_register::PAGES_MAX).contains(&pages))?;
    let charge = adapter.quota.take(pages).ok_or(Errno::NoMemory)?;
    let spec = MrSpec {
        kind: MrKind::FastRegister { pages },
        start: 0,
        length: 0,
        access: Access::empty(),
        region: None,
    };
    Ok((spec, Some(charge)))
}

pub(super) fn destroy(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::Handle = body.parse();
    let id = MrId(request.handle.get());
    adapter.core.hca.deregister(id)?;
    adapter.mrs.take(id.0);
    adapter.forget_record(Kind::Mr, id.0);
    Ok(Reply::none())
}
