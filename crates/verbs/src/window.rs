//! Memory windows: parts of regions with rights of their own, bound and unbound by work requests
//! (`ibv_alloc_mw`, `ibv_bind_mw`; IBTA 10.6.7).
//!
//! ```text
//!                 bind (type 1: again and again)
//!   allocated ───────────────────────────────────► bound: the key opens start .. start + length
//!       ▲          type 1: bind nothing               │
//!       └──────────type 2: invalidate ────────────────┘   region's deregistration waits
//! ```
//!
//! A window is an entry of the region table, so that a peer's key is looked up once. It has no local
//! key.

use vrdma_wire::Rkey;

use crate::attr::Access;
use crate::error::Error;
use crate::hca::Hca;
use crate::list::{Link, Member};
use crate::mr::{Kind, Mr};
use crate::object::{MrKind, MwId, MwKeys, Owner, PdId, QpId, WindowKind};
use crate::qp::Qp;
use crate::register::range_is_valid;
use crate::shared::Shared;
use crate::work::{BindWindow, Status};

/// Most windows of type 2 that one queue pair may have bound at a time: destroying it unbinds them all in one go, which
/// has to stay short. There are sixteen for each send work request that the engine holds for it.
pub const QP_WINDOWS_MAX: u32 = 4096;

/// Rights that a window can give to peers.
const RIGHTS: Access = Access::REMOTE_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC);

/// Rights that make sense only where the owner may write, too.
const WRITING: Access = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) kind: WindowKind,
    pub(crate) bound: Option<Bound>,
}

/// The objects that a window is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    /// Table slot of the region.
    pub(crate) mr: u32,
    /// The only QP that may use it: for type 2, the QP that bound it.
    pub(crate) qp: Option<QpId>,
    /// Its place in the list of that QP's windows.
    of_binder: Link,
}

impl Bound {
    pub(crate) fn new(mr: u32, qp: Option<QpId>) -> Self {
        Self {
            mr,
            qp,
            of_binder: Link::default(),
        }
    }
}

/// The memory that a window is about to show.
struct Shown<R> {
    /// Table slot of the region.
    mr: u32,
    region: R,
    base: u64,
}

/// Lists of the windows that one QP has bound for itself.
pub(crate) struct OfBinder;

impl<R> Member<OfBinder> for Mr<R> {
    fn link(&self) -> Option<&Link> {
        match &self.kind {
            Kind::Window(window) => window.bound.as_ref().map(|bound| &bound.of_binder),
            Kind::Region { .. } => None,
        }
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        match &mut self.kind {
            Kind::Window(window) => window.bound.as_mut().map(|bound| &mut bound.of_binder),
            Kind::Region { .. } => None,
        }
    }
}

impl Window {
    #[inline]
    pub(crate) fn is_open_to(&self, qp: QpId) -> bool {
        let only = self.bound.and_then(|bound| bound.qp);
        only.is_none_or(|only| only == qp)
    }

    /// Checks that a QP may invalidate it: only the QP that may use it, and only type 2; type 1 is unbound by binding
    /// nothing.
    pub(crate) fn may_be_invalidated_by(&self, qp: QpId) -> Result<(), Status> {
        let allowed = self.kind == WindowKind::Two && self.is_open_to(qp);
        allowed.then_some(()).ok_or(Status::MwBind)
    }
}

impl<R: Clone> Hca<R> {
    /// Makes a memory window, bound to nothing. It counts as one of the regions that [`crate::object::Limits`] allows.
    /// Errors: `InvalidHandle` (no such PD), `Leaving`, `Exhausted`.
    pub fn alloc_mw(&mut self, pd: PdId, kind: WindowKind) -> Result<MwKeys, Error> {
        let owner = self.shared.pd(pd)?.owner;
        self.check_stays(owner)?;
        let shared = &mut self.shared;
        let mut rkey = Rkey(0);
        let index = shared.mrs.insert(|_, name| {
            rkey = Rkey(name.0);
            Mr::unbound(pd, kind, name.variant())
        })?;
        shared.enlist_mr(index);
        shared.windows += 1;
        Ok(MwKeys {
            id: MwId(index),
            rkey,
        })
    }

    /// Frees a window, bound or not; its key becomes stale at once. Errors: `InvalidHandle`.
    pub fn free_mw(&mut self, id: MwId) -> Result<(), Error> {
        let (_, window) = self.shared.window(id.0).ok_or(Error::InvalidHandle)?;
        let only = window.bound.and_then(|bound| bound.qp);
        if let Some(qp) = only.and_then(|qp| self.qps.get_mut(qp.0)) {
            qp.windows.remove(&mut self.shared.mrs, id.0);
        }
        self.shared.unbind(id.0);
        self.shared.delist_mr(id.0);
        self.shared.mrs.remove(id.0);
        self.shared.windows -= 1;
        Ok(())
    }

    /// Returns the owner of a window, which is the owner of its protection domain.
    pub fn owner_of_mw(&self, id: MwId) -> Option<Owner> {
        let (pd, _) = self.shared.window(id.0)?;
        self.owner_of_pd(pd)
    }
}

impl<R> Mr<R> {
    pub(crate) fn unbound(pd: PdId, kind: WindowKind, variant: u8) -> Self {
        Self {
            pd,
            kind: Kind::Window(Window { kind, bound: None }),
            variant,
            start: 0,
            length: 0,
            access: Access::empty(),
            region: None,
            base: 0,
            of_domain: Link::default(),
        }
    }

    /// Returns the offset in the region at which a window on `start .. start + length` begins, if it may show that part
    /// with those rights. Only ordinary registrations are certain to stay for as long as they have windows.
    pub(crate) fn window_base(&self, start: u64, length: u64, access: Access) -> Option<u64> {
        let ordinary = matches!(
            self.kind,
            Kind::Region {
                kind: MrKind::User,
                ..
            }
        );
        let writes = access.intersects(WRITING);
        let granted = self.access.contains(Access::BIND_WINDOW)
            && (!writes || self.access.contains(Access::LOCAL_WRITE))
            && RIGHTS.contains(access);
        let offset = start.checked_sub(self.start)?;
        let end = offset.checked_add(length)?;
        let inside = length > 0 && end <= self.length;
        (ordinary && granted && inside).then_some(offset)
    }
}

impl<R> Shared<R> {
    fn window(&self, index: u32) -> Option<(PdId, Window)> {
        let mr = self.mrs.get(index)?;
        match mr.kind {
            Kind::Window(window) => Some((mr.pd, window)),
            Kind::Region { .. } => None,
        }
    }

    /// Binds a window of the QP's domain to a part of a region of that domain. Any error fails the request and leaves
    /// the window as it was.
    pub(crate) fn bind_window(&mut self, qp: &mut Qp<R>, bind: &BindWindow) -> Result<(), Status>
    where
        R: Clone,
    {
        let slot = self.mrs.slot_named(bind.window.index());
        let slot = slot.ok_or(Status::MwBind)?;
        let (_, window) = self
            .window(slot)
            .filter(|(pd, _)| *pd == qp.spec.pd)
            .ok_or(Status::MwBind)?;
        match window.kind {
            WindowKind::One if bind.length == 0 => {
                self.unbind(slot);
                self.rename(slot, bind.window);
                self.changed_keys.push(slot);
                return Ok(());
            }
            WindowKind::Two if window.bound.is_some() => return Err(Status::MwBind),
            WindowKind::Two if qp.windows.len() >= QP_WINDOWS_MAX => return Err(Status::MwBind),
            _ => {}
        }
        let shown = self.shown(qp.spec.pd, bind).ok_or(Status::MwBind)?;
        self.unbind(slot);
        self.rename(slot, bind.window);
        let only = (window.kind == WindowKind::Two).then_some(qp.id);
        self.show(slot, bind, shown, only);
        if only.is_some() {
            qp.windows.push(&mut self.mrs, slot);
        }
        self.changed_keys.push(slot);
        Ok(())
    }

    /// Returns the memory that the window will show: the region behind it, and the offset where it begins there.
    fn shown(&self, pd: PdId, bind: &BindWindow) -> Option<Shown<R>>
    where
        R: Clone,
    {
        let mr = self.mr(pd, bind.region.index(), bind.region.variant())?;
        let base = mr.window_base(bind.start, bind.length, bind.access)?;
        let start = if bind.zero_based { 0 } else { bind.start };
        range_is_valid(start, bind.length).then_some(())?;
        Some(Shown {
            mr: self.mrs.slot_named(bind.region.index())?,
            region: mr.region.clone()?,
            base,
        })
    }

    fn rename(&mut self, slot: u32, key: Rkey) {
        if let Some(window) = self.mrs.get_mut(slot) {
            window.variant = key.variant();
        }
    }

    fn show(&mut self, slot: u32, bind: &BindWindow, shown: Shown<R>, qp: Option<QpId>) {
        let Shown { mr, region, base } = shown;
        self.count_windows(mr, |windows| *windows += 1);
        let Some(entry) = self.mrs.get_mut(slot) else {
            return;
        };
        if let Kind::Window(window) = &mut entry.kind {
            window.bound = Some(Bound::new(mr, qp));
        }
        entry.start = if bind.zero_based { 0 } else { bind.start };
        entry.length = bind.length;
        entry.access = bind.access;
        entry.region = Some(region);
        entry.base = base;
    }

    pub(crate) fn count_windows(&mut self, mr: u32, count: impl Fn(&mut u32)) {
        if let Some(Kind::Region { windows, .. }) = self.mrs.get_mut(mr).map(|mr| &mut mr.kind) {
            count(windows);
        }
    }

    /// Unbinds a window, and tells its region. The QP's list is left to the caller.
    pub(crate) fn unbind(&mut self, index: u32) {
        let Some(Kind::Window(window)) = self.mrs.get_mut(index).map(|mr| &mut mr.kind) else {
            return;
        };
        if let Some(bound) = window.bound.take() {
            self.count_windows(bound.mr, |windows| *windows -= 1);
            self.changed_keys.push(index);
        }
        self.empty(index);
    }

    /// Unbinds the windows of a QP before it goes: its slot will have another QP, which must not inherit them.
    pub(crate) fn unbind_windows_of(&mut self, qp: &mut Qp<R>) {
        while let Some(index) = qp.windows.first() {
            self.unbind_of(qp, index);
        }
    }

    /// Ends the binding of a window of type 2 by the QP that bound it.
    pub(crate) fn unbind_of(&mut self, qp: &mut Qp<R>, index: u32) {
        qp.windows.remove(&mut self.mrs, index);
        self.unbind(index);
    }
}
