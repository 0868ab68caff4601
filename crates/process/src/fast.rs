//! Grants for clients of one user to reach each other's registered memory directly.
//!
//! ```text
//!   asker's adapter: borrowed (its queue pair)       target's adapter: lent (queue pair, region)
//!        └──────────────────── one grant ─────────────────────┘
//!   taken back when: either queue pair changes state or goes; the region goes or changes; either
//!   client goes; either adapter goes
//! ```
//!
//! The daemon checks the same as for each request: a connected RC queue pair on both sides, one port group, the region
//! in the peer's protection domain, the rights of region and queue pair. It can no longer check that the asker keeps to
//! the region: the asker gets a descriptor of all of the target's memory, or of the region's file, to read only if the
//! region allows no more. So both must be of one user, who could do the same by ptrace(2), both must live in the same
//! user and PID namespaces, and both must have asked for it.

mod adapter_grants;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use vrdma_memory::{Region, lend};
use vrdma_provider::daemon::Answer;
use vrdma_provider::fast::{GRANTS, Page};
use vrdma_provider::message::{Reach, Reached};
use vrdma_switch::{GroupId, PortId};
use vrdma_verbs::attr::{Access, QpState};
use vrdma_verbs::object::{MrId, Owner, QpId, QpType};
use vrdma_wire::{Gid, Qpn, Rkey};

use super::Process;
use super::directory::Directory;
use super::namespaces::Namespaces;
use super::sessions::Adapters;
pub(super) use adapter_grants::AdapterGrants;
use adapter_grants::Held;

/// How long the end of a region waits for a peer in the middle of a copy. A peer that is stopped or without a processor
/// for longer may still finish that copy afterwards.
const PATIENCE: Duration = Duration::from_secs(1);

/// One grant; both adapters hold it.
#[derive(Debug)]
struct Grant {
    page: Page,
    index: u32,
    holds: AtomicBool,
    /// Whether the client that had the grant is gone, whatever its page says.
    orphaned: AtomicBool,
}

impl Grant {
    fn take_back(&self) {
        if self.holds.swap(false, Ordering::Relaxed) {
            self.page.take_back(self.index);
        }
    }

    fn is_busy(&self) -> bool {
        !self.orphaned.load(Ordering::Relaxed) && self.page.is_busy(self.index)
    }
}

/// The grants that one client may use.
#[derive(Debug)]
pub(super) struct ClientGrants {
    page: Page,
    /// The client's namespaces.
    home: Namespaces,
    by_index: Vec<Option<Arc<Grant>>>,
    generation: u32,
}

impl ClientGrants {
    pub(super) fn new(page: Page, home: Namespaces) -> Self {
        Self {
            page,
            home,
            by_index: Vec::new(),
            generation: 0,
        }
    }

    /// Goes on with a page of an earlier process: takes back all grants; `seed` makes their generations stale.
    pub(super) fn resume(page: Page, home: Namespaces, seed: u32) -> Self {
        (0..GRANTS).for_each(|index| page.take_back(index));
        let mut grants = Self::new(page, home);
        grants.generation = seed;
        grants
    }

    /// Gives a grant and returns it with its generation.
    fn give(&mut self) -> Option<(Arc<Grant>, u32)> {
        let is_free = |grant: &Option<Arc<Grant>>| {
            let taken = grant.as_ref();
            !taken.is_some_and(|grant| grant.holds.load(Ordering::Relaxed) || grant.is_busy())
        };
        let free = self.by_index.iter().position(is_free);
        let index = free.unwrap_or(self.by_index.len());
        if index >= GRANTS as usize {
            return None;
        }
        let grant = Arc::new(Grant {
            page: self.page.clone(),
            index: index as u32,
            holds: AtomicBool::new(true),
            orphaned: AtomicBool::new(false),
        });
        match self.by_index.get_mut(index) {
            Some(place) => *place = Some(Arc::clone(&grant)),
            None => self.by_index.push(Some(Arc::clone(&grant))),
        }
        self.generation = self.generation.wrapping_add(1).max(1);
        self.page.give(grant.index, self.generation);
        Some((grant, self.generation))
    }
}

impl Drop for ClientGrants {
    fn drop(&mut self) {
        for grant in self.by_index.iter().flatten() {
            grant.orphaned.store(true, Ordering::Relaxed);
            grant.take_back();
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct End {
    uid: u32,
    home: Namespaces,
    group: GroupId,
    qpn: Qpn,
    /// The other end: GID and queue pair.
    peer: (Gid, Qpn),
}

/// The target's part of a grant.
struct Offer {
    fd: OwnedFd,
    reached: Reached,
    owner: Owner,
    qp: QpId,
    mr: MrId,
}

impl Process {
    /// Returns the end at a queue pair, if its client takes part and the queue pair is connected.
    fn end(&self, id: QpId) -> Option<End> {
        let qp = self.qps.get(id.0).filter(|qp| !qp.dead)?;
        let context = self.contexts.get(qp.owner.0)?;
        let grants = context.grants.as_ref()?;
        let attr = self.core.hca.query_qp(id).ok()?;
        let connected = matches!(attr.state, QpState::Rtr | QpState::Rts);
        (connected && qp.qp_type == QpType::Rc).then_some(End {
            uid: context.uid,
            home: grants.home,
            group: self.spec.group,
            qpn: qp.qpn,
            peer: (attr.address.dgid, attr.dest_qpn),
        })
    }

    /// Returns what a queue pair of this adapter can offer to the asker at its other end.
    fn offer(&self, asker: &End, from: &[Gid], rkey: Rkey) -> Option<Offer> {
        let id = self.core.hca.qp_named(asker.peer.1)?;
        let qp = self.qps.get(id.0)?;
        let end = self.end(id)?;
        let is_other_end = (end.uid, end.home) == (asker.uid, asker.home)
            && end.group == asker.group
            && end.peer.1 == asker.qpn
            && from.contains(&end.peer.0);
        is_other_end.then_some(())?;
        let region = self.core.hca.region_behind(id, rkey)?;
        let of_qp = self.core.hca.query_qp(id).ok()?.access;
        let rights = region.access & of_qp & (Access::REMOTE_READ | Access::REMOTE_WRITE);
        let mr = self.mrs.get(region.id.0)?;
        if rights.is_empty() || mr.owner != qp.owner || mr.leaving.is_some() {
            return None;
        }
        let writable = rights.contains(Access::REMOTE_WRITE);
        let (fd, offset) = match region.region {
            Region::Client(client) => client.lend(writable).ok()?,
            Region::Partly(partly) => partly.client().lend(writable).ok()?,
            _ => {
                let (fd, offset) = mr.file.as_ref()?;
                (lend(fd, writable).ok()?, *offset)
            }
        };
        let reached = Reached {
            start: region.start,
            length: region.length,
            offset,
            access: rights.bits(),
            ..Reached::default()
        };
        Some(Offer {
            fd,
            reached,
            owner: qp.owner,
            qp: id,
            mr: region.id,
        })
    }

    /// Whether the end of a region has to wait for a peer.
    pub(super) fn is_in_use(&mut self, id: MrId) -> bool {
        let busy = self.grants.forget_mr(id);
        let Some(mr) = self.mrs.get_mut(id.0) else {
            return false;
        };
        let since = *mr.leaving.get_or_insert_with(Instant::now);
        if busy && since.elapsed() < PATIENCE {
            return true;
        }
        mr.leaving = None;
        false
    }
}

/// Answers a client of the adapter `port`.
pub(super) fn reach(
    adapters: &mut impl Adapters,
    directory: &Directory,
    port: PortId,
    owner: Owner,
    request: &Reach,
) -> Result<Answer, Errno> {
    let qp = QpId(request.qp);
    let asker = adapters.at(port).ok_or(Errno::NODEV)?;
    if asker.qps.get(qp.0).map(|qp| qp.owner) != Some(owner) {
        return Err(Errno::NOENT);
    }
    let end = asker.end(qp).ok_or(Errno::ACCESS)?;
    let from = asker.spec.addresses();
    // A peer of another shard is not reached: its connections cannot be looked at from here.
    let at = directory.with_address(end.group, end.peer.0);
    let at = at.ok_or(Errno::ACCESS)?;
    let target = adapters.at(at).ok_or(Errno::ACCESS)?;
    let offer = target.offer(&end, &from, Rkey(request.rkey));
    let offer = offer.ok_or(Errno::ACCESS)?;
    let asker = adapters.at(port).ok_or(Errno::NODEV)?;
    let context = asker.contexts.get_mut(owner.0).ok_or(Errno::NOENT)?;
    let grants = context.grants.as_mut().ok_or(Errno::ACCESS)?;
    let (grant, generation) = grants.give().ok_or(Errno::AGAIN)?;
    let index = grant.index;
    asker.grants.hold(Held {
        owner,
        qp,
        mr: None,
        grant: Arc::clone(&grant),
    });
    if let Some(target) = adapters.at(at) {
        target.grants.hold(Held {
            owner: offer.owner,
            qp: offer.qp,
            mr: Some(offer.mr),
            grant,
        });
    }
    let reached = Reached {
        index,
        generation,
        ..offer.reached
    };
    Ok(Answer::new::<Reach>(&reached, vec![offer.fd]))
}
