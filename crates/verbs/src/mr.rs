//! Memory regions and their keys.
//!
//! ```text
//!   key   31........8 7......0        lkey and rkey are equal in value
//!         table slot  variant         variant: the slot's generation, or what the last fast
//!                                     register chose
//! ```
//!
//! Whether the bytes behind a region are still mapped is for [`crate::memory`] to say.

use vrdma_wire::{Lkey, Rkey};

use crate::attr::Access;
use crate::error::Error;
use crate::hca::Hca;
use crate::memory::Stretch;
use crate::object::{MrId, MrKeys, MrKind, MrSpec, Owner, PdId};
use crate::shared::Shared;
use crate::work::{FastRegister, Remote, Status};

/// Most pages of a fast-register region: `MAX_FAST_REG_PAGES` of the PVRDMA driver is 128, and no
/// front end needs more than NVMe's 512.
pub const FAST_REGISTER_PAGES_MAX: u32 = 512;

/// Upper 24 bits of a key.
pub(crate) const MR_INDEX_LIMIT: u32 = 1 << 24;

pub(crate) struct Mr<R> {
    pub(crate) pd: PdId,
    pub(crate) kind: MrKind,
    pub(crate) variant: u8,
    /// First address.
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) access: Access,
    /// `None` while a fast-register region is empty or invalidated.
    pub(crate) region: Option<R>,
}

/// A checked place in a region.
pub(crate) struct Spot<'a, R> {
    pub(crate) region: &'a R,
    pub(crate) offset: u64,
}

impl<R: Clone> Spot<'_, R> {
    pub(crate) fn stretch(&self, length: u32) -> Stretch<R> {
        Stretch {
            region: self.region.clone(),
            offset: self.offset,
            length,
        }
    }
}

impl<R> Mr<R> {
    /// The place of `addr .. addr + length`, when all of it is inside.
    fn spot(&self, addr: u64, length: u32) -> Option<Spot<'_, R>> {
        let region = self.region.as_ref()?;
        let offset = addr.checked_sub(self.start)?;
        let end = offset.checked_add(u64::from(length))?;
        (end <= self.length).then_some(Spot { region, offset })
    }

    /// Whether such a region could have come from registrations and fast registers.
    pub(crate) fn is_consistent(&self, owner: Owner) -> bool {
        let ranged = range_is_valid(self.start, self.length) && access_is_valid(self.access);
        match self.kind {
            MrKind::User => self.region.is_some() && ranged,
            MrKind::Dma => {
                owner == Owner::KERNEL && self.region.is_some() && local_only(self.access)
            }
            MrKind::FastRegister { pages } => {
                let filled = self.region.is_none() || ranged;
                owner == Owner::KERNEL && filled && pages <= FAST_REGISTER_PAGES_MAX
            }
        }
    }

    fn is_fast_register(&self) -> bool {
        matches!(self.kind, MrKind::FastRegister { .. })
    }
}

impl<R> Shared<R> {
    fn mr(&self, pd: PdId, index: u32, variant: u8) -> Option<&Mr<R>> {
        let mr = self.mrs.get(index)?;
        (mr.variant == variant && mr.pd == pd).then_some(mr)
    }

    /// Local memory that a work request of a QP in `pd` names (IBTA 10.6.3).
    #[inline]
    pub(crate) fn local(
        &self,
        pd: PdId,
        lkey: Lkey,
        addr: u64,
        length: u32,
        right: Access,
    ) -> Option<Spot<'_, R>> {
        let mr = self.mr(pd, lkey.index(), lkey.variant())?;
        mr.access.contains(right).then_some(())?;
        mr.spot(addr, length)
    }

    /// Our memory that a peer names through a QP in `pd`. A DMA region covers the whole bus and is
    /// never for peers.
    #[inline]
    pub(crate) fn remote(
        &self,
        pd: PdId,
        remote: Remote,
        length: u32,
        right: Access,
    ) -> Option<Spot<'_, R>> {
        let mr = self.mr(pd, remote.rkey.index(), remote.rkey.variant())?;
        let granted = mr.access.contains(right) && mr.kind != MrKind::Dma;
        granted.then_some(())?;
        mr.spot(remote.addr, length)
    }

    /// Makes a valid fast-register region unusable, for its owner or for a peer that sent an
    /// invalidating message (IBTA 10.6.7.2.3).
    pub(crate) fn invalidate(&mut self, pd: PdId, key: Rkey) -> Result<(), Status> {
        self.mr(pd, key.index(), key.variant())
            .filter(|mr| mr.is_fast_register() && mr.region.is_some())
            .ok_or(Status::MwBind)?;
        if let Some(mr) = self.mrs.get_mut(key.index()) {
            mr.region = None;
            mr.access = Access::empty();
        }
        Ok(())
    }

    /// Fills an invalid fast-register region; only its upper key bits must match (IBTA 10.6.7.2.2).
    pub(crate) fn fast_register(&mut self, pd: PdId, fill: &FastRegister<R>) -> Result<(), Status>
    where
        R: Clone,
    {
        let mr = self.mrs.get_mut(fill.key.index());
        let mr = mr.filter(|mr| mr.pd == pd && mr.region.is_none());
        let mr = mr.ok_or(Status::MwBind)?;
        let capacity = match mr.kind {
            MrKind::FastRegister { pages } => pages,
            MrKind::User | MrKind::Dma => return Err(Status::MwBind),
        };
        let fits = (1..=capacity).contains(&fill.pages)
            && range_is_valid(fill.start, fill.length)
            && access_is_valid(fill.access);
        fits.then_some(()).ok_or(Status::MwBind)?;
        mr.variant = fill.key.variant();
        mr.start = fill.start;
        mr.length = fill.length;
        mr.access = fill.access;
        mr.region = Some(fill.region.clone());
        Ok(())
    }
}

impl<R: Clone> Hca<R> {
    /// Registers memory.
    ///
    /// Errors: `InvalidHandle` (no such PD), `InvalidAttribute` (empty or wrapping range, remote
    /// write or atomic without local write, a fast-register region that is not empty or has no or
    /// too many pages), `WrongOwner` (DMA and fast-register regions are for kernel owners),
    /// `Exhausted`.
    pub fn register(&mut self, pd: PdId, spec: MrSpec<R>) -> Result<MrKeys, Error> {
        let owner = self.shared.pd(pd)?.owner;
        check_spec(owner, &spec)?;
        let index = self.shared.mrs.insert(|_, variant| Mr {
            pd,
            kind: spec.kind,
            variant,
            start: spec.start,
            length: spec.length,
            access: spec.access,
            region: spec.region,
        })?;
        self.shared.pd_mut(pd)?.users += 1;
        Ok(self.shared.mr_keys(index))
    }

    /// Ends a registration; its keys become stale at once.
    pub fn deregister(&mut self, id: MrId) -> Result<(), Error> {
        let mr = self.shared.mrs.remove(id.0).ok_or(Error::InvalidHandle)?;
        self.shared.pd_mut(mr.pd)?.users -= 1;
        Ok(())
    }
}

impl<R> Shared<R> {
    fn mr_keys(&self, index: u32) -> MrKeys {
        let variant = self.mrs.get(index).map_or(0, |mr| mr.variant);
        MrKeys {
            id: MrId(index),
            lkey: Lkey::from_parts(index, variant),
            rkey: Rkey::from_parts(index, variant),
        }
    }
}

fn check_spec<R>(owner: Owner, spec: &MrSpec<R>) -> Result<(), Error> {
    if spec.kind != MrKind::User && owner != Owner::KERNEL {
        return Err(Error::WrongOwner);
    }
    let valid = match spec.kind {
        MrKind::User => filled_is_valid(spec),
        MrKind::Dma => filled_is_valid(spec) && local_only(spec.access),
        MrKind::FastRegister { pages } => {
            spec.region.is_none() && (1..=FAST_REGISTER_PAGES_MAX).contains(&pages)
        }
    };
    valid.then_some(()).ok_or(Error::InvalidAttribute)
}

fn filled_is_valid<R>(spec: &MrSpec<R>) -> bool {
    spec.region.is_some() && range_is_valid(spec.start, spec.length) && access_is_valid(spec.access)
}

fn range_is_valid(start: u64, length: u64) -> bool {
    length > 0 && start.checked_add(length - 1).is_some()
}

/// Peers that may write memory that its owner may not write would be a right from nowhere
/// (IBTA 10.6.3.1).
fn access_is_valid(access: Access) -> bool {
    let remote = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    !remote || access.contains(Access::LOCAL_WRITE)
}

fn local_only(access: Access) -> bool {
    Access::LOCAL_WRITE.contains(access)
}
