//! Multicast groups: which datagram queue pairs of this adapter get the datagrams to which GID (IBTA 10.5,
//! `ibv_attach_mcast`).
//!
//! ```text
//!   datagram to QPN 0xffffff ── fan_out ─┬─► copy to one attached QP ── deliver
//!                                        └─► copy to another ───────── deliver
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use vrdma_wire::{Gid, Qpn};

use crate::error::Error;
use crate::hca::Hca;
use crate::object::{QpId, QpType};
use crate::qp::Qp;
use crate::unit::Request;

/// Most queue pairs of one group: the most copies that are made of one datagram.
pub const GROUP_QPS_MAX: usize = 64;

/// Most attachments of one adapter, where a queue pair counts once for each of its groups.
pub const ATTACHMENTS_MAX: usize = 1024;

/// Members by group; groups without members have no entry.
#[derive(Default)]
pub(crate) struct Groups {
    members: BTreeMap<Gid, Vec<QpId>>,
    /// The same attachments, by queue pair.
    attachments: BTreeSet<(QpId, Gid)>,
}

impl Groups {
    pub(crate) fn has(&self, group: Gid, qp: QpId) -> bool {
        self.attachments.contains(&(qp, group))
    }

    /// Adds a member; false when there is no room. Being a member already is fine.
    pub(crate) fn join(&mut self, group: Gid, qp: QpId) -> bool {
        if self.has(group, qp) {
            return true;
        }
        let members = self.members.get(&group).map_or(0, Vec::len);
        let room = self.attachments.len() < ATTACHMENTS_MAX && members < GROUP_QPS_MAX;
        if room {
            self.members.entry(group).or_default().push(qp);
            self.attachments.insert((qp, group));
        }
        room
    }

    /// Ends one attachment of a queue pair; false when it has none.
    pub(crate) fn leave_one(&mut self, qp: QpId) -> bool {
        let group = self.of(qp).next();
        group.is_some_and(|group| self.leave(group, qp))
    }

    /// Removes a member; false when it was none.
    fn leave(&mut self, group: Gid, qp: QpId) -> bool {
        if !self.attachments.remove(&(qp, group)) {
            return false;
        }
        if let Some(members) = self.members.get_mut(&group) {
            members.retain(|member| *member != qp);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
        true
    }

    /// Returns the groups of a queue pair, ascending.
    pub(crate) fn of(&self, qp: QpId) -> impl Iterator<Item = Gid> {
        let all = (qp, Gid([0; 16]))..=(qp, Gid([0xff; 16]));
        self.attachments.range(all).map(|(_, group)| *group)
    }
}

impl<R: Clone> Hca<R> {
    /// Attaches a datagram queue pair to a group; being attached already is fine.
    ///
    /// Errors: `InvalidHandle`, `InvalidAttribute` (not a UD queue pair, or not a multicast GID),
    /// `Exhausted` ([`GROUP_QPS_MAX`], [`ATTACHMENTS_MAX`]).
    pub fn attach_mcast(&mut self, id: QpId, group: Gid) -> Result<(), Error> {
        let qp = self.qps.get(id.0).ok_or(Error::InvalidHandle)?;
        if qp.spec.qp_type != QpType::Ud || !group.is_multicast() {
            return Err(Error::InvalidAttribute);
        }
        let joined = self.shared.groups.join(group, id);
        joined.then_some(()).ok_or(Error::Exhausted)
    }

    /// Detaches a queue pair from a group. Errors: `InvalidHandle`, `InvalidAttribute` (it is not attached to that
    /// group).
    pub fn detach_mcast(&mut self, id: QpId, group: Gid) -> Result<(), Error> {
        self.qps.get(id.0).ok_or(Error::InvalidHandle)?;
        let left = self.shared.groups.leave(group, id);
        left.then_some(()).ok_or(Error::InvalidAttribute)
    }

    /// Returns the groups that have members here, ascending. The switch has to learn them after every attach, detach,
    /// queue pair that [`Hca::reap`] freed, and [`Hca::restore`].
    pub fn multicast_groups(&self) -> impl Iterator<Item = Gid> + '_ {
        self.shared.groups.members.keys().copied()
    }

    /// Returns the groups of a queue pair, ascending.
    pub fn groups_of(&self, id: QpId) -> impl Iterator<Item = Gid> + '_ {
        self.shared.groups.of(id)
    }

    /// Returns the queue pairs in a group.
    pub fn members_of(&self, group: Gid) -> impl Iterator<Item = QpId> + '_ {
        let members = self.shared.groups.members.get(&group);
        members.into_iter().flatten().copied()
    }

    /// Copies a multicast datagram for every queue pair that is to get it, including the sender's own ones. Each copy
    /// is then handled like any unit ([`Hca::wants_receive`], [`Hca::deliver`]). Returns nothing for other units.
    pub fn fan_out(&self, request: &Request<R>) -> Vec<Request<R>> {
        let group = request.route.dgid;
        let members = match request.destination {
            Qpn::MULTICAST => self.shared.groups.members.get(&group),
            _ => None,
        };
        let heard = members.into_iter().flatten();
        let heard = heard.filter_map(|member| self.qps.get(member.0));
        let heard = heard.filter(|qp| self.qps.is_live(qp));
        let heard = heard.filter(|qp| !self.is_blocked_echo(qp, request));
        let copies = heard.map(|qp| Request {
            destination: qp.qpn,
            ..request.clone()
        });
        copies.collect()
    }

    /// Whether a queue pair would get its own datagram and does not want it.
    fn is_blocked_echo(&self, qp: &Qp<R>, request: &Request<R>) -> bool {
        qp.spec.block_own_multicast
            && qp.qpn == request.source
            && self.shared.gids.contains(&Some(request.route.sgid))
    }
}
