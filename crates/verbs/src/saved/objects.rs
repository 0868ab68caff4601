//! The adapter's tables and their records.

use alloc::boxed::Box;
use alloc::vec::Vec;

use vrdma_wire::{Mac, Qpn};

use crate::cq::Cq;
use crate::hca::Hca;
use crate::names::{Name, is_reserved};
use crate::object::{CqId, Identity, Owner, PdId, QpId, QpType, SrqId};
use crate::saved::convert::{gid, restore_limits, save_limits};
use crate::saved::queue_pair::restore_receives;
use crate::saved::regions::{link_windows, restore_mr, save_mr};
use crate::saved::work::save_receive;
use crate::saved::{FindRegion, RestoreError, SaveRegion, VERSION, check, queue_pair, record};
use crate::shared::{Pd, Shared};
use crate::srq::Srq;
use crate::table::Table;

/// Saves the adapter without its objects.
pub(super) fn save_frame<R>(hca: &Hca<R>) -> record::Adapter {
    let shared = &hca.shared;
    record::Adapter {
        version: VERSION,
        mac: hca.identity.mac.0.to_vec(),
        seed: hca.identity.seed,
        limits: save_limits(&shared.limits),
        gids: save_gids(shared),
        counters: (&shared.counters).into(),
        plain_numbers: hca.plain_numbers,
        ..Default::default()
    }
}

pub(super) fn save<R: Clone>(hca: &Hca<R>, region: SaveRegion<'_, R>) -> record::Adapter {
    let shared = &hca.shared;
    record::Adapter {
        pd_slots: save_slots(&shared.pds),
        pds: records(&shared.pds, save_pd),
        mr_slots: save_slots(&shared.mrs),
        mrs: records(&shared.mrs, |id, mr| {
            save_mr(id, mr, shared.mrs.number(id), region)
        }),
        cq_slots: save_slots(&shared.cqs),
        cqs: records(&shared.cqs, save_cq),
        srq_slots: save_slots(&shared.srqs),
        srqs: records(&shared.srqs, save_srq),
        qp_slots: save_slots(&hca.qps.table),
        qps: records(&hca.qps.table, |_, qp| queue_pair::save(qp, region)),
        attachments: save_attachments(hca),
        ..save_frame(hca)
    }
}

fn records<T, P>(table: &Table<T>, mut save: impl FnMut(u32, &T) -> P) -> Vec<P> {
    table.iter().map(|(id, object)| save(id, object)).collect()
}

fn save_slots<T>(table: &Table<T>) -> record::Slots {
    record::Slots {
        generations: Vec::new(),
        free: table.free().collect(),
        names: table.names().map(|name| name.0).collect(),
        drawn: table.drawn(),
    }
}

fn save_gids<R>(shared: &Shared<R>) -> Vec<record::Gid> {
    let indexed = (0..).zip(&shared.gids);
    let bound = indexed.filter_map(|(index, gid)| {
        gid.map(|gid| record::Gid {
            index,
            gid: gid.0.to_vec(),
        })
    });
    bound.collect()
}

fn save_attachments<R: Clone>(hca: &Hca<R>) -> Vec<record::Attachment> {
    let groups = &hca.shared.groups;
    let attachments = hca.qps.table.iter().flat_map(|(qp, _)| {
        let groups = groups.of(QpId(qp));
        groups.map(move |group| record::Attachment {
            qp,
            group: group.0.to_vec(),
        })
    });
    attachments.collect()
}

pub(super) fn save_pd(id: u32, pd: &Pd) -> record::Pd {
    record::Pd {
        id,
        owner: pd.owner.0,
    }
}

pub(super) fn save_cq(id: u32, cq: &Cq) -> record::Cq {
    record::Cq {
        id,
        owner: cq.owner.0,
        failed: cq.failed,
    }
}

pub(super) fn save_srq(id: u32, srq: &Srq) -> record::Srq {
    record::Srq {
        id,
        pd: srq.pd.0,
        limit: srq.limit,
        failed: srq.failed,
        receives: srq.receives.iter().map(save_receive).collect(),
    }
}

pub(super) fn restore<R: Clone>(
    saved: &record::Adapter,
    region: FindRegion<'_, R>,
) -> Result<Hca<R>, RestoreError> {
    let mac = saved.mac.as_slice().try_into().map(Mac);
    let identity = Identity {
        mac: mac.map_err(|_| RestoreError::Inconsistent("a MAC has not 6 bytes"))?,
        seed: saved.seed,
    };
    let mut hca = Hca::new(identity, restore_limits(&saved.limits)?);
    if saved.plain_numbers {
        hca.number_plainly();
    }
    restore_shared(saved, &mut hca.shared, region)?;
    restore_qps(saved, &mut hca, region)?;
    link_windows(&saved.mrs, &mut hca)?;
    for attachment in &saved.attachments {
        let group = gid(&attachment.group)?;
        let joined = hca.attach_mcast(QpId(attachment.qp), group);
        check(
            joined.is_ok(),
            "a queue pair cannot be in its multicast group",
        )?;
    }
    hca.shared.counters = (&saved.counters).into();
    hca.wake_all();
    Ok(hca)
}

/// Restores domains first, since the others name them.
fn restore_shared<R>(
    saved: &record::Adapter,
    shared: &mut Shared<R>,
    region: FindRegion<'_, R>,
) -> Result<(), RestoreError> {
    for entry in &saved.gids {
        let slot = shared.gids.get_mut(entry.index as usize);
        let slot = slot.ok_or(RestoreError::Inconsistent("a GID is beyond the table"))?;
        *slot = Some(gid(&entry.gid)?);
    }
    fill(&mut shared.pds, &saved.pd_slots, &saved.pds, |pd| {
        Ok((pd.id, restore_pd(pd)))
    })?;
    for pd in &saved.pds {
        shared.enlist_pd(PdId(pd.id));
    }
    let Shared { pds, mrs, .. } = shared;
    fill(mrs, &saved.mr_slots, &saved.mrs, |mr| {
        let owner = owner_of(pds, mr.pd)?;
        let restored = restore_mr(mr, region)?;
        check(restored.is_consistent(owner), "a region has wrong rights")?;
        Ok((mr.id, restored))
    })?;
    for mr in &saved.mrs {
        let is_own = mr.number == Some(shared.mrs.number(mr.id));
        check(is_own, "a region has a wrong number")?;
        shared.enlist_mr(mr.id);
    }
    let windows = shared.mrs.iter().filter(|(_, mr)| mr.is_window());
    shared.windows = windows.count() as u32;
    fill(&mut shared.cqs, &saved.cq_slots, &saved.cqs, |cq| {
        Ok((cq.id, restore_cq(cq)))
    })?;
    for cq in &saved.cqs {
        shared.enlist_cq(CqId(cq.id));
    }
    let Shared { pds, srqs, .. } = shared;
    fill(srqs, &saved.srq_slots, &saved.srqs, |srq| {
        let owner = owner_of(pds, srq.pd)?;
        Ok((srq.id, restore_srq(srq, owner)?))
    })?;
    for srq in &saved.srqs {
        shared.enlist_srq(SrqId(srq.id));
    }
    Ok(())
}

/// Returns the owner of a domain.
fn owner_of(pds: &Table<Pd>, pd: u32) -> Result<Owner, RestoreError> {
    let pd = pds.get(pd);
    let pd = pd.ok_or(RestoreError::Inconsistent("an object has no domain"))?;
    Ok(pd.owner)
}

fn restore_qps<R: Clone>(
    saved: &record::Adapter,
    hca: &mut Hca<R>,
    region: FindRegion<'_, R>,
) -> Result<(), RestoreError> {
    let shared = &hca.shared;
    fill(&mut hca.qps.table, &saved.qp_slots, &saved.qps, |qp| {
        Ok((qp.id, Box::new(queue_pair::restore(qp, shared, region)?)))
    })?;
    for qp in &saved.qps {
        adopt(hca, QpId(qp.id))?;
    }
    Ok(())
}

/// Registers a queue pair with the objects that it uses. Its number has to be the one that its slot has.
fn adopt<R: Clone>(hca: &mut Hca<R>, id: QpId) -> Result<(), RestoreError> {
    let number = hca.qps.table.number(id.0);
    let Some(qp) = hca.qps.get(id.0) else {
        return Ok(());
    };
    let (qpn, gsi) = (qp.qpn, qp.spec.qp_type == QpType::Gsi);
    let right = if gsi {
        hca.qps.gsi.replace(id).is_none() && qpn == Qpn::GSI
    } else {
        qpn.get() == number && !is_reserved(number)
    };
    check(right, "a queue pair has a wrong number")?;
    hca.enlist_qp(id);
    Ok(())
}

/// Builds a table from its slots and the objects in it.
fn fill<T, P>(
    table: &mut Table<T>,
    slots: &record::Slots,
    objects: &[P],
    mut restore: impl FnMut(&P) -> Result<(u32, T), RestoreError>,
) -> Result<(), RestoreError> {
    const WHAT: &str = "the slots of a table do not fit its objects";
    let names: Vec<Name> = slots.names.iter().copied().map(Name).collect();
    check(table.set_slots(&names, slots.drawn), WHAT)?;
    for object in objects {
        let (index, value) = restore(object)?;
        check(table.occupy(index, value), WHAT)?;
    }
    check(table.set_free(&slots.free), WHAT)
}

fn restore_pd(saved: &record::Pd) -> Pd {
    Pd::new(Owner(saved.owner))
}

fn restore_cq(saved: &record::Cq) -> Cq {
    let mut cq = Cq::new(Owner(saved.owner));
    cq.failed = saved.failed;
    cq
}

fn restore_srq(saved: &record::Srq, owner: Owner) -> Result<Srq, RestoreError> {
    let mut srq = Srq::new(owner, PdId(saved.pd), saved.limit);
    srq.failed = saved.failed;
    srq.receives = restore_receives(&saved.receives)?;
    Ok(srq)
}
