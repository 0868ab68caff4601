//! Memory regions and their keys; windows ([`crate::window`]) are entries of the same table.
//!
//! ```text
//!   key   31........8 7......0        lkey and rkey are equal in value
//!         number      variant         number: names the table slot, see crate::names
//!                                     variant: drawn, or what the last fast register chose
//! ```
//!
//! Whether the bytes behind a region are still mapped is known only to [`crate::memory`].

use vrdma_wire::{Lkey, Rkey};

use crate::attr::Access;
use crate::list::{Link, Member};
use crate::memory::{Spot, Stretch};
use crate::object::{MrKind, Owner, PdId, QpId};
use crate::qp::Qp;
use crate::register::{access_is_valid, local_only, range_is_valid};
use crate::shared::Shared;
use crate::window::Window;
use crate::work::{FastRegister, Remote, Status};

/// Most pages of a fast-register region: `MAX_FAST_REG_PAGES` of the PVRDMA driver is 128, and no
/// front end needs more than NVMe's 512.
pub const FAST_REGISTER_PAGES_MAX: u32 = 512;

/// A fourth of all numbers, so that a free one is found.
pub(crate) const MR_SLOTS_MAX: u32 = 1 << 22;

/// Kind of object that a key stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Region {
        kind: MrKind,
        /// Windows bound to it.
        windows: u32,
    },
    Window(Window),
}

impl Kind {
    pub(crate) fn region(kind: MrKind) -> Self {
        Self::Region { kind, windows: 0 }
    }
}

/// Lists of the regions, or the windows, of one protection domain.
pub(crate) struct OfDomain;

pub(crate) struct Mr<R> {
    pub(crate) pd: PdId,
    pub(crate) kind: Kind,
    pub(crate) variant: u8,
    /// Address of the first byte.
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) access: Access,
    /// `None` while a fast-register region is empty or invalidated, or a window is not bound.
    pub(crate) region: Option<R>,
    /// Offset in `region` of the first address; only windows have one other than 0.
    pub(crate) base: u64,
    pub(crate) of_domain: Link,
}

impl<R> Member<OfDomain> for Mr<R> {
    fn link(&self) -> Option<&Link> {
        Some(&self.of_domain)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.of_domain)
    }
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
    /// Returns the place of `addr .. addr + length`, when all of it is inside.
    fn spot(&self, addr: u64, length: u32) -> Option<Spot<'_, R>> {
        let region = self.region.as_ref()?;
        let offset = addr.checked_sub(self.start)?;
        let end = offset.checked_add(u64::from(length))?;
        (end <= self.length).then_some(Spot {
            region,
            offset: self.base + offset,
        })
    }

    /// Whether such a region could have come from registrations and fast registers.
    pub(crate) fn is_consistent(&self, owner: Owner) -> bool {
        let Kind::Region { kind, .. } = self.kind else {
            return self.region.is_none();
        };
        let ranged = range_is_valid(self.start, self.length) && access_is_valid(self.access);
        match kind {
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

    pub(crate) fn is_window(&self) -> bool {
        matches!(self.kind, Kind::Window(_))
    }

    /// Whether a peer that talks to `qp` may use it, rights aside. A DMA region covers the whole bus
    /// and is never for peers.
    #[inline]
    fn is_open_to(&self, qp: QpId) -> bool {
        match self.kind {
            Kind::Region { kind, .. } => kind != MrKind::Dma,
            Kind::Window(window) => window.is_open_to(qp),
        }
    }
}

impl<R> Shared<R> {
    /// Registers a region or window, which is in its place in the table, with its domain.
    pub(crate) fn enlist_mr(&mut self, index: u32) {
        let Self { pds, mrs, .. } = self;
        let Some((pd, window)) = mrs.get(index).map(|mr| (mr.pd, mr.is_window())) else {
            return;
        };
        if let Some(pd) = pds.get_mut(pd.0) {
            pd.users += 1;
            let part = match window {
                true => &mut pd.windows,
                false => &mut pd.regions,
            };
            part.push(mrs, index);
        }
    }

    /// Removes a region or window from its domain's list, before it goes or changes its domain.
    pub(crate) fn delist_mr(&mut self, index: u32) {
        let Self { pds, mrs, .. } = self;
        let Some((pd, window)) = mrs.get(index).map(|mr| (mr.pd, mr.is_window())) else {
            return;
        };
        if let Some(pd) = pds.get_mut(pd.0) {
            debug_assert!(pd.users > 0, "it was counted");
            pd.users -= 1;
            let part = match window {
                true => &mut pd.windows,
                false => &mut pd.regions,
            };
            part.remove(mrs, index);
        }
    }

    /// Returns the region or window in a domain that a key names.
    pub(crate) fn mr(&self, pd: PdId, number: u32, variant: u8) -> Option<&Mr<R>> {
        let mr = self.mrs.get_named(number)?;
        (mr.variant == variant && mr.pd == pd).then_some(mr)
    }

    /// Returns the local memory that a work request of a QP in `pd` names (IBTA 10.6.3).
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
        (mr.access.contains(right) && !mr.is_window()).then_some(())?;
        mr.spot(addr, length)
    }

    /// Returns the memory of this adapter that a peer names through `qp`.
    #[inline]
    pub(crate) fn remote(
        &self,
        qp: &Qp<R>,
        remote: Remote,
        length: u32,
        right: Access,
    ) -> Option<Spot<'_, R>> {
        let mr = self.mr(qp.spec.pd, remote.rkey.index(), remote.rkey.variant())?;
        (mr.access.contains(right) && mr.is_open_to(qp.id)).then_some(())?;
        mr.spot(remote.addr, length)
    }

    /// Makes a valid fast-register region or a bound window of type 2 unusable, for its owner or for
    /// a peer that sent an invalidating message (IBTA 10.6.7).
    pub(crate) fn invalidate(&mut self, qp: &mut Qp<R>, key: Rkey) -> Result<(), Status> {
        let mr = self.mr(qp.spec.pd, key.index(), key.variant());
        let mr = mr.filter(|mr| mr.region.is_some()).ok_or(Status::MwBind)?;
        let slot = self.mrs.slot_named(key.index()).ok_or(Status::MwBind)?;
        match mr.kind {
            Kind::Window(window) => {
                window.may_be_invalidated_by(qp.id)?;
                self.unbind_of(qp, slot);
                Ok(())
            }
            Kind::Region {
                kind: MrKind::FastRegister { .. },
                ..
            } => {
                self.empty(slot);
                self.changed_keys.push(slot);
                Ok(())
            }
            Kind::Region { .. } => Err(Status::MwBind),
        }
    }

    /// Removes the memory behind a key.
    pub(crate) fn empty(&mut self, index: u32) {
        if let Some(mr) = self.mrs.get_mut(index) {
            mr.region = None;
            mr.access = Access::empty();
        }
    }

    /// Fills an invalid fast-register region; only its upper key bits must match (IBTA 10.6.7).
    pub(crate) fn fast_register(&mut self, pd: PdId, fill: &FastRegister<R>) -> Result<(), Status>
    where
        R: Clone,
    {
        let slot = self.mrs.slot_named(fill.key.index());
        let slot = slot.ok_or(Status::MwBind)?;
        let mr = self.mrs.get_mut(slot);
        let mr = mr.filter(|mr| mr.pd == pd && mr.region.is_none());
        let mr = mr.ok_or(Status::MwBind)?;
        let Kind::Region {
            kind: MrKind::FastRegister { pages: capacity },
            ..
        } = mr.kind
        else {
            return Err(Status::MwBind);
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
        self.changed_keys.push(slot);
        Ok(())
    }
}
