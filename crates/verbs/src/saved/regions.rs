//! Memory regions and windows and their records. A window's backing is that of its region, so it is found only when all
//! regions and queue pairs are restored.

use crate::attr::Access;
use crate::hca::Hca;
use crate::list::Link;
use crate::mr::{Kind, Mr};
use crate::object::{MrKind, PdId, QpId, WindowKind};
use crate::saved::convert::{access, narrow};
use crate::saved::{FindRegion, RestoreError, SaveRegion, check, record};
use crate::window::{Bound, QP_WINDOWS_MAX, Window};

pub(super) fn save_mr<R>(
    id: u32,
    mr: &Mr<R>,
    number: u32,
    region: SaveRegion<'_, R>,
) -> record::Mr {
    let mut saved = record::Mr {
        id,
        number: Some(number),
        pd: mr.pd.0,
        variant: mr.variant.into(),
        start: mr.start,
        length: mr.length,
        access: mr.access.bits(),
        base: mr.base,
        ..Default::default()
    };
    match mr.kind {
        Kind::Region { kind, .. } => {
            (saved.kind, saved.pages) = region_code(kind);
            saved.region = mr.region.as_ref().map(region);
        }
        Kind::Window(window) => {
            saved.kind = window_code(window.kind);
            saved.bound_to = window.bound.map(|bound| bound.mr);
            saved.bound_by = window.bound.and_then(|bound| bound.qp).map(|qp| qp.0);
        }
    }
    saved
}

fn region_code(kind: MrKind) -> (u32, u32) {
    match kind {
        MrKind::User => (0, 0),
        MrKind::Dma => (1, 0),
        MrKind::FastRegister { pages } => (2, pages),
    }
}

fn window_code(kind: WindowKind) -> u32 {
    match kind {
        WindowKind::One => 3,
        WindowKind::Two => 4,
    }
}

/// Restores a region as it was, but a window as unbound: [`link_windows`] binds it.
pub(super) fn restore_mr<R>(
    saved: &record::Mr,
    region: FindRegion<'_, R>,
) -> Result<Mr<R>, RestoreError> {
    let variant = narrow(saved.variant, "a key variant is too large")?;
    let kind = match saved.kind {
        0 => MrKind::User,
        1 => MrKind::Dma,
        2 => MrKind::FastRegister { pages: saved.pages },
        3 => return Ok(Mr::unbound(PdId(saved.pd), WindowKind::One, variant)),
        4 => return Ok(Mr::unbound(PdId(saved.pd), WindowKind::Two, variant)),
        _ => return Err(RestoreError::Inconsistent("unknown kind of region")),
    };
    let found = saved.region.as_ref().map(|name| region(name));
    Ok(Mr {
        pd: PdId(saved.pd),
        kind: Kind::region(kind),
        variant,
        start: saved.start,
        length: saved.length,
        access: access(saved.access)?,
        region: match found {
            Some(found) => Some(found.ok_or(RestoreError::Region)?),
            None => None,
        },
        base: 0,
        of_domain: Link::default(),
    })
}

/// Binds the windows that were bound.
pub(super) fn link_windows<R: Clone>(
    saved: &[record::Mr],
    hca: &mut Hca<R>,
) -> Result<(), RestoreError> {
    for record in saved.iter().filter(|record| record.bound_to.is_some()) {
        link_window(record, hca)?;
    }
    Ok(())
}

fn link_window<R: Clone>(saved: &record::Mr, hca: &mut Hca<R>) -> Result<(), RestoreError> {
    const WHAT: &str = "a window is bound to what it cannot be bound to";
    let wrong = RestoreError::Inconsistent(WHAT);
    let shared = &mut hca.shared;
    let pd = PdId(saved.pd);
    let mr = saved.bound_to.unwrap_or_default();
    let rights = access(saved.access)?;
    let region = shared.mrs.get(mr).filter(|mr| mr.pd == pd).ok_or(wrong)?;
    let backing = backing(region, saved, rights).ok_or(wrong)?;
    let Some(window) = shared.mrs.get_mut(saved.id) else {
        return Err(wrong);
    };
    let Kind::Window(state) = window.kind else {
        return Err(wrong);
    };
    let qp = saved.bound_by.map(QpId);
    check(qp.is_some() == (state.kind == WindowKind::Two), WHAT)?;
    window.kind = Kind::Window(Window {
        bound: Some(Bound::new(mr, qp)),
        ..state
    });
    (window.start, window.length) = (saved.start, saved.length);
    (window.access, window.base) = (rights, saved.base);
    window.region = Some(backing);
    shared.count_windows(mr, |windows| *windows += 1);
    if let Some(qp) = qp {
        let qp = hca.qps.get_mut(qp.0).filter(|qp| qp.spec.pd == pd);
        let qp = qp.ok_or(wrong)?;
        check(qp.windows.len() < QP_WINDOWS_MAX, WHAT)?;
        qp.windows.push(&mut shared.mrs, saved.id);
    }
    Ok(())
}

/// Returns the memory that a window shows, if its region can have such a window.
fn backing<R: Clone>(region: &Mr<R>, saved: &record::Mr, rights: Access) -> Option<R> {
    let shown = region.start.checked_add(saved.base)?;
    region.window_base(shown, saved.length, rights)?;
    let named = saved.start == 0 || saved.start == shown;
    named.then(|| region.region.clone()).flatten()
}
