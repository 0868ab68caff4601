//! Members come and go, and each has its turn.

use std::collections::VecDeque;

use vrdma_adapter::GidChange;
use vrdma_switch::{AttachError, Fabric, GroupId, NoRoute, PortId};
use vrdma_verbs::Time;
use vrdma_verbs::unit::Request;
use vrdma_wire::Mac;

use crate::budget::Budget;
use crate::datagrams::Datagrams;
use crate::event::Event;
use crate::member::Member;
use crate::paths::Reachable;
use crate::port::{Marks, Port};
use crate::turn::Turn;
use crate::uplink::Uplinks;

/// Bytes of frames of answers that one member may queue in a turn, but for the last unit's.
pub(crate) const UPLINK_BYTES_A_TURN: u64 = 256 << 10;

/// Where a member is plugged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Its number: small, and free for another member once this one is removed.
    pub port: PortId,
    /// Its port group.
    pub group: GroupId,
    /// What marks that group's frames on uplinks.
    pub marks: Marks,
    /// Ethernet address.
    pub mac: Mac,
}

/// See the crate.
pub struct Host<M: Member, P> {
    /// By port number; a removed member leaves a gap.
    pub(crate) members: Vec<Option<M>>,
    /// By port number, too.
    budgets: Vec<Budget>,
    pub(crate) fabric: Fabric,
    pub(crate) uplinks: Uplinks<P>,
    pub(crate) datagrams: Datagrams,
    pub(crate) events: VecDeque<Event>,
    pub(crate) random: fastrand::Rng,
}

impl<M: Member, P: Port> Host<M, P> {
    /// Without members and uplinks. `seed` spreads what is better not done by all hosts at once.
    pub fn new(seed: u64) -> Self {
        Self {
            members: Vec::new(),
            budgets: Vec::new(),
            fabric: Fabric::new(),
            uplinks: Uplinks::new(),
            datagrams: Datagrams::default(),
            events: VecDeque::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Plugs a member in.
    ///
    /// # Errors
    /// See [`AttachError`]; nothing was changed then.
    pub fn add(&mut self, attachment: Attachment, member: M) -> Result<(), AttachError> {
        let Attachment {
            port,
            group,
            marks,
            mac,
        } = attachment;
        self.fabric.attach(port, group, mac)?;
        let slot = port.0 as usize;
        if self.members.len() <= slot {
            self.members.resize_with(slot + 1, || None);
            self.budgets.resize(slot + 1, Budget::default());
        }
        self.budgets[slot] = Budget::default();
        self.members[slot] = Some(member);
        self.uplinks.segments.plug(port, group, marks);
        self.rewire();
        self.follow_gids(port);
        Ok(())
    }

    /// Unplugs a member; without such a one nothing happens.
    pub fn remove(&mut self, port: PortId) -> Option<M> {
        let member = self.members.get_mut(port.0 as usize)?.take()?;
        self.fabric.detach(port);
        self.uplinks.forget(port);
        Some(member)
    }

    /// One of them.
    pub fn member(&self, port: PortId) -> Option<&M> {
        self.members.get(port.0 as usize)?.as_ref()
    }

    /// One of them, to be changed. Its turn comes anyway.
    pub fn member_mut(&mut self, port: PortId) -> Option<&mut M> {
        self.members.get_mut(port.0 as usize)?.as_mut()
    }

    /// All of them with their ports, in their order.
    pub fn members(&self) -> impl Iterator<Item = (PortId, &M)> {
        let numbered = (0..).zip(&self.members);
        numbered.filter_map(|(port, member)| Some((PortId(port), member.as_ref()?)))
    }

    /// The same, to be changed.
    pub fn members_mut(&mut self) -> impl Iterator<Item = (PortId, &mut M)> {
        let numbered = (0..).zip(&mut self.members);
        numbered.filter_map(|(port, member)| Some((PortId(port), member.as_mut()?)))
    }

    /// Units of a member that the fabric dropped: why, and how many.
    pub fn drops(&self, port: PortId) -> impl Iterator<Item = (NoRoute, u64)> {
        let counts = self.fabric.traffic(port).map(|traffic| traffic.counts());
        let of_reason = move |reason| Some((reason, counts.as_ref()?.dropped(reason)));
        let dropped = NoRoute::ALL.into_iter().filter_map(of_reason);
        dropped.filter(|(_, count)| *count > 0)
    }

    /// The next thing that the owner has to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes what came over uplinks and looks at every member; `true` if any had something to do.
    /// [`flush`](Self::flush) afterwards.
    pub fn turn(&mut self, now: Time) -> bool {
        let mut worked = self.receive(now);
        if worked {
            self.publish(now);
        }
        self.budgets.iter_mut().for_each(Budget::renew);
        for port in 0..self.members.len() as u32 {
            worked |= self.serve(PortId(port), now);
        }
        worked
    }

    /// Gives one member its turn, as far as its budget of this turn of the carrier goes; `true` if it
    /// had something to do.
    pub fn serve(&mut self, port: PortId, now: Time) -> bool {
        let Some(member) = self.member_mut(port) else {
            return false;
        };
        member.settle_memory(now);
        let memory = member.memory();
        let view = M::view(&memory);
        let mut worked = member.poll(&view, now);
        let turn = Turn {
            from: port,
            memory: &view,
            now,
        };
        worked |= self.reply(turn);
        let slot = port.0 as usize;
        while !self.budgets[slot].is_spent() {
            let Some(request) = self.next_request(turn) else {
                break;
            };
            self.budgets[slot].charge(&request);
            self.carry(turn, &request);
            worked = true;
        }
        // Who owes for a long unit may have more to send when that is paid.
        worked |= self.budgets[slot].is_spent();
        if worked {
            self.publish(now);
        }
        worked
    }

    /// Frames of answers were queued for a member.
    pub(crate) fn charge_bytes(&mut self, port: PortId, bytes: u64) {
        if let Some(budget) = self.budgets.get_mut(port.0 as usize) {
            budget.charge_bytes(bytes);
        }
    }

    fn next_request(&mut self, turn: Turn<'_, M::View<'_>>) -> Option<Request<M::Region>> {
        let mut paths = Reachable {
            fabric: &self.fabric,
            uplinks: &mut self.uplinks,
            from: turn.from,
            now: turn.now,
        };
        self.members
            .get_mut(turn.from.0 as usize)?
            .as_mut()?
            .next_request(turn.memory, turn.now, &mut paths)
    }

    /// Shows owners what happened. A delivery may concern any member, not only the one that has its
    /// turn.
    pub(crate) fn publish(&mut self, now: Time) {
        let members = self.members.iter_mut().flatten();
        members.for_each(|member| member.publish(now));
    }

    /// When a member or an uplink wants a turn.
    pub fn next_deadline(&self) -> Option<Time> {
        let members = self.members.iter().flatten();
        let deadlines = members.filter_map(M::next_deadline);
        deadlines.chain(self.uplinks.next_deadline()).min()
    }

    /// Tells the fabric which GIDs a member took or gave up. One that another member of the group
    /// holds stays with that one: the newcomer's messages from it are refused as spoofed.
    pub fn follow_gids(&mut self, port: PortId) {
        let Some(Some(member)) = self.members.get_mut(port.0 as usize) else {
            return;
        };
        while let Some(change) = member.take_gid_change() {
            match change {
                GidChange::Bound(gid) => {
                    if let Err(error) = self.fabric.bind_gid(port, gid) {
                        tracing::warn!(adapter = member.name(), "GID {gid} is not usable: {error}");
                    }
                }
                GidChange::Unbound(gid) => self.fabric.unbind_gid(port, gid),
                GidChange::Cleared => self.fabric.clear_gids(port),
            }
        }
    }
}
