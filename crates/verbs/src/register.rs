//! Registering memory, and ending registrations.

use vrdma_wire::{Lkey, Rkey};

use crate::attr::Access;
use crate::error::Error;
use crate::hca::Hca;
use crate::list::Link;
use crate::mr::{FAST_REGISTER_PAGES_MAX, Kind, Mr};
use crate::object::{MrId, MrKeys, MrKind, MrSpec, Owner, PdId, QpId};
use crate::shared::Shared;

/// A registration as it is now.
#[derive(Debug)]
pub struct Registered<'a, R> {
    /// Handle.
    pub id: MrId,
    /// Address of the first byte, as requests name it.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Rights.
    pub access: Access,
    /// The registered memory.
    pub region: &'a R,
}

impl<R: Clone> Hca<R> {
    /// Registers memory.
    ///
    /// Errors: `InvalidHandle` (no such PD), `InvalidAttribute` (empty or wrapping range, remote
    /// write or atomic without local write, a fast-register region that is not empty or has no or
    /// too many pages), `WrongOwner` (DMA and fast-register regions are for kernel owners),
    /// `Leaving`, `Exhausted`.
    pub fn register(&mut self, pd: PdId, spec: MrSpec<R>) -> Result<MrKeys, Error> {
        let owner = self.shared.pd(pd)?.owner;
        self.check_stays(owner)?;
        check_spec(owner, &spec)?;
        let index = self.shared.mrs.insert(|_, name| Mr {
            pd,
            kind: Kind::region(spec.kind),
            variant: name.variant(),
            start: spec.start,
            length: spec.length,
            access: spec.access,
            region: spec.region,
            base: 0,
            of_domain: Link::default(),
        })?;
        self.shared.enlist_mr(index);
        Ok(self.shared.mr_keys(index))
    }

    /// Gives a region of user memory other memory, other rights or another protection domain under its present keys
    /// (IBTA 10.6.3 allows it). Nothing changes on an error. Errors: those of [`register`](Self::register), and `InUse`
    /// while a window is bound to the region.
    pub fn reregister(&mut self, id: MrId, pd: PdId, spec: MrSpec<R>) -> Result<MrKeys, Error> {
        let owner = self.shared.pd(pd)?.owner;
        self.check_stays(owner)?;
        check_spec(owner, &spec)?;
        let mr = self.shared.mrs.get(id.0).ok_or(Error::InvalidHandle)?;
        match mr.kind {
            Kind::Region { windows: 0, .. } if spec.kind == MrKind::User => {}
            Kind::Region { .. } => return Err(Error::InUse),
            Kind::Window(_) => return Err(Error::InvalidHandle),
        }
        self.shared.delist_mr(id.0);
        if let Some(mr) = self.shared.mrs.get_mut(id.0) {
            mr.pd = pd;
            (mr.start, mr.length) = (spec.start, spec.length);
            (mr.access, mr.region, mr.base) = (spec.access, spec.region, 0);
        }
        self.shared.enlist_mr(id.0);
        Ok(self.shared.mr_keys(id.0))
    }

    /// Ends a registration; its keys become stale at once. Errors: `InvalidHandle`, `InUse` while a
    /// window is bound to it.
    pub fn deregister(&mut self, id: MrId) -> Result<(), Error> {
        let mr = self.shared.mrs.get(id.0).ok_or(Error::InvalidHandle)?;
        match mr.kind {
            Kind::Region { windows: 0, .. } => {}
            Kind::Region { .. } => return Err(Error::InUse),
            Kind::Window(_) => return Err(Error::InvalidHandle),
        }
        self.shared.delist_mr(id.0);
        self.shared.mrs.remove(id.0);
        Ok(())
    }

    /// Returns the region of user memory, but no window, that peers of a queue pair name by a key.
    pub fn region_behind(&self, qp: QpId, rkey: Rkey) -> Option<Registered<'_, R>> {
        let qp = self.qps.get(qp.0).filter(|qp| self.qps.is_live(qp));
        let pd = qp?.spec.pd;
        let mr = self.shared.mr(pd, rkey.index(), rkey.variant())?;
        let Kind::Region {
            kind: MrKind::User, ..
        } = mr.kind
        else {
            return None;
        };
        Some(Registered {
            id: MrId(self.shared.mrs.slot_named(rkey.index())?),
            start: mr.start,
            length: mr.length,
            access: mr.access,
            region: mr.region.as_ref()?,
        })
    }

    /// Returns the owner of a memory region, which is the owner of its protection domain.
    pub fn owner_of_mr(&self, id: MrId) -> Option<Owner> {
        let mr = self.shared.mrs.get(id.0)?;
        (!mr.is_window()).then(|| self.owner_of_pd(mr.pd)).flatten()
    }
}

impl<R> Shared<R> {
    fn mr_keys(&self, index: u32) -> MrKeys {
        let variant = self.mrs.get(index).map_or(0, |mr| mr.variant);
        let number = self.mrs.number(index);
        MrKeys {
            id: MrId(index),
            lkey: Lkey::from_parts(number, variant),
            rkey: Rkey::from_parts(number, variant),
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

pub(crate) fn range_is_valid(start: u64, length: u64) -> bool {
    length > 0 && start.checked_add(length - 1).is_some()
}

/// Whether access rights are consistent: peers may write only where the owner may write, too (IBTA 10.6.3).
pub(crate) fn access_is_valid(access: Access) -> bool {
    let remote = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    !remote || access.contains(Access::LOCAL_WRITE)
}

pub(crate) fn local_only(access: Access) -> bool {
    Access::LOCAL_WRITE.contains(access)
}
