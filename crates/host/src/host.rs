//! Members come and go, and each has its turn.

use std::collections::VecDeque;
use std::sync::Arc;

use vrdma_adapter::{GidChange, ShardId};
use vrdma_switch::{AttachError, BindError, GroupId, Kept, NoRoute, PortId};
use vrdma_verbs::Time;
use vrdma_wire::{Gid, Mac};

use crate::accounts::Accounts;
use crate::datagrams::Datagrams;
use crate::event::Event;
use crate::location::Locations;
use crate::member::Member;
use crate::members::Members;
use crate::port::{Marks, Port};
use crate::shared::{Home, Shared};
use crate::transfer::{Lanes, Transfer};
use crate::uplink::Uplinks;

/// Bytes of answer frames that one member may queue in a turn, not counting the last unit's.
pub(crate) const UPLINK_BYTES_A_TURN: u64 = 256 << 10;

/// Where a member is plugged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Its number: small, and free for another member once this one is removed.
    pub port: PortId,
    /// Its port group: also a small number.
    pub group: GroupId,
    /// Marks of that group's frames on uplinks.
    pub marks: Marks,
    /// Ethernet address.
    pub mac: Mac,
}

/// The place of a host among the shards.
#[derive(Clone)]
pub struct Among {
    /// This shard.
    pub id: ShardId,
    /// Number of shards.
    pub shards: u16,
    /// What the shards know together.
    pub shared: Arc<Shared>,
}

/// The carrier of one shard; see the crate.
pub struct Host<M: Member, P> {
    pub(crate) id: ShardId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) members: Members<M>,
    pub(crate) lanes: Lanes<M>,
    pub(crate) accounts: Accounts,
    pub(crate) uplinks: Uplinks<P>,
    pub(crate) datagrams: Datagrams,
    pub(crate) locations: Locations,
    pub(crate) events: VecDeque<Event>,
    /// The first member that has yet to be told what its port offers.
    pub(crate) measuring: Option<PortId>,
    pub(crate) random: fastrand::Rng,
}

impl<M: Member, P: Port> Host<M, P> {
    /// Makes the only shard, without members and uplinks. `seed` spreads work that hosts should not do all at once.
    pub fn new(seed: u64) -> Self {
        let alone = Among {
            id: ShardId::FIRST,
            shards: 1,
            shared: Arc::default(),
        };
        Self::among(alone, seed)
    }

    /// Makes one of several shards.
    pub fn among(among: Among, seed: u64) -> Self {
        Self {
            id: among.id,
            shared: among.shared,
            members: Members::new(),
            lanes: Lanes::new(among.shards),
            accounts: Accounts::default(),
            uplinks: Uplinks::new(),
            datagrams: Datagrams::default(),
            locations: Locations::default(),
            events: VecDeque::new(),
            measuring: None,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns the shard's number.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Plugs a member in.
    ///
    /// # Errors
    /// See [`AttachError`]; on error nothing has changed.
    pub fn add(&mut self, attachment: Attachment, member: M) -> Result<(), AttachError> {
        let Attachment {
            port, group, mac, ..
        } = attachment;
        self.shared
            .change(|fabric| fabric.attach(port, group, mac))?;
        self.insert(attachment, member);
        self.tell_first(Transfer::Plugged(attachment));
        Ok(())
    }

    /// Puts in place a member that the fabric knows to be here from now on.
    fn insert(&mut self, attachment: Attachment, member: M) {
        let Attachment {
            port, group, marks, ..
        } = attachment;
        let home = Home {
            shard: self.id,
            has_gsi: member.has_gsi(),
        };
        self.shared.set_home(port, Some(home));
        self.shared.set_policy(port, member.policy().cloned());
        self.members.insert(port, group, member);
        self.uplinks.segments.plug(port, group, marks);
        self.rewire_group(group);
        self.measure_member(port);
        // Once for each member that comes, so it needs no limit.
        if let Some((gid, error)) = self.switch_gids(port) {
            self.tell_refused(port, gid, error);
        }
    }

    /// Unplugs a member; without such a member nothing happens.
    pub fn remove(&mut self, port: PortId) -> Option<M> {
        let member = self.members.remove(port)?;
        self.forget_location(port);
        self.shared.tombstones(|stones| stones.remove(port));
        self.shared.change(|fabric| fabric.detach(port));
        self.shared.set_home(port, None);
        self.shared.set_policy(port, None);
        self.uplinks.forget(port);
        self.lanes.release(port);
        self.tell_first(Transfer::Unplugged(port));
        Some(member)
    }

    /// Takes a member out for another shard, which keeps transfers for it until [`adopt`](Self::adopt). First
    /// [`hold`](Self::hold) it until it is quiet.
    pub fn send_away(&mut self, port: PortId, to: ShardId) -> Option<M> {
        debug_assert!(self.is_quiet(port), "another shard reads its memory");
        self.forget_location(port);
        let member = self.members.remove(port)?;
        let home = Home {
            shard: to,
            has_gsi: member.has_gsi(),
        };
        self.shared.set_home(port, Some(home));
        if self.id == ShardId::FIRST {
            // That shard takes what comes over uplinks for members of all shards.
            self.uplinks.leave(port);
        } else {
            // This shard is not told when the member ends: the number and marks of its group would stay, and the next
            // group with that number would send with the marks of this one.
            self.uplinks.forget(port);
        }
        self.lanes.release(port);
        Some(member)
    }

    /// Takes in a member that another shard has sent away, with the transfers that came for it meanwhile.
    pub fn adopt(&mut self, attachment: Attachment, member: M, now: Time) {
        self.insert(attachment, member);
        self.tell_first(Transfer::Plugged(attachment));
        // What it waited for in the other shard it now waits for here, if it still has to.
        self.make_go_on([attachment.port]);
        self.take_early(now);
    }

    /// Returns a member.
    pub fn member(&self, port: PortId) -> Option<&M> {
        self.members.get(port)
    }

    /// Returns a member to be changed: it gets a turn, and its owner is told.
    pub fn touch(&mut self, port: PortId, now: Time) -> Option<&mut M> {
        self.members.touch(port, now)
    }

    /// Gives a member a turn: a client has rung.
    pub fn wake(&mut self, port: PortId) {
        self.members.wake(port);
    }

    /// Makes doorbells wake the owner of the host from now on, except where they are silent; `false` if one has rung
    /// already. Call [`wake_up`](Self::wake_up) after the rest.
    pub fn fall_asleep(&mut self) -> bool {
        let mut quiet = true;
        // Every member must be told, so no short-circuit evaluation.
        self.members.each_waiting(|member| quiet &= member.sleep());
        quiet
    }

    /// Polls doorbells in each turn again, where they were polled before.
    pub fn wake_up(&mut self) {
        self.members.each_waiting(M::awake);
    }

    /// Whether a guest that uses silent doorbells may occupy a core to wait for its next message.
    pub fn is_watching(&self) -> bool {
        self.members.has_watched()
    }

    /// Returns all members with their ports, in order of port.
    pub fn members(&self) -> impl Iterator<Item = (PortId, &M)> {
        self.members.iter()
    }

    /// Returns members from a port on, for a caller that looks at a few at a time.
    pub fn members_from(&self, first: PortId) -> impl Iterator<Item = (PortId, &M)> {
        self.members.iter_from(first)
    }

    /// Returns the units of a member that the fabric dropped: why, and how many.
    pub fn drops(&self, port: PortId) -> impl Iterator<Item = (NoRoute, u64)> {
        let traffic = self.shared.read().traffic(port);
        let counts = traffic.map(|traffic| traffic.counts());
        let of_reason = move |reason| Some((reason, counts.as_ref()?.dropped(reason)));
        let dropped = NoRoute::ALL.into_iter().filter_map(of_reason);
        dropped.filter(|(_, count)| *count > 0)
    }

    /// Returns the next thing that the owner has to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes what came over uplinks and gives a turn to every member that waits for one; `true` if any had something to
    /// do. Call [`flush`](Self::flush) afterwards.
    pub fn turn(&mut self, now: Time) -> bool {
        let came = self.take_from_uplinks(now);
        self.serve_all(now) || came
    }

    /// The first half of a [`turn`](Self::turn): takes what came over uplinks; `true` if anything did.
    pub fn take_from_uplinks(&mut self, now: Time) -> bool {
        let came = self.receive(now);
        if came {
            self.members.publish(now);
        }
        came
    }

    /// The second half: gives a turn to every member that waits for one; `true` if any had something to do.
    pub fn serve_all(&mut self, now: Time) -> bool {
        let mut worked = false;
        self.members.wake_due(now);
        let waited = self.accounts.take_opened(now);
        self.make_go_on(waited);
        self.members.begin_turn(now);
        while let Some(port) = self.members.next() {
            worked |= self.serve(port, now);
        }
        self.members.publish(now);
        worked
    }

    /// When a member or an uplink wants a turn.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.members.next_deadline(),
            self.uplinks.next_deadline(),
            self.accounts.next_deadline(),
            self.locations.next_deadline(),
            self.measuring.map(|_| Time(0)),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Notes that a member's VM goes to another host, or comes from there.
    pub fn set_away(&mut self, port: PortId, is_away: bool, now: Time) {
        self.move_tombstones(port, is_away, now);
        self.shared.change(|fabric| fabric.set_away(port, is_away));
    }

    /// Restricts a member to these addresses besides that of its MAC.
    pub fn keep(&mut self, port: PortId, kept: &Kept) {
        self.shared.change(|fabric| fabric.keep(port, kept));
    }

    /// Returns the addresses that a member has learned to be its own.
    pub fn learned(&self, port: PortId) -> Vec<Gid> {
        self.shared.read().learned(port).collect()
    }

    /// Notes that a member has another guest from now on; a member that learns its addresses begins anew.
    pub fn forget_learned(&mut self, port: PortId) {
        self.shared.change(|fabric| fabric.forget_learned(port));
    }

    /// Returns the number of log lines caused by a member's owner that were left out.
    pub fn log_lines_left_out(&self, port: PortId) -> u64 {
        self.members.log_lines_left_out(port)
    }

    /// Tells the fabric which GIDs a member bound or unbound. A GID that another member of the group holds stays with
    /// that member: the newcomer's messages from it are refused as spoofed.
    pub fn follow_gids(&mut self, port: PortId, now: Time) {
        if let Some((gid, error)) = self.switch_gids(port)
            && self.members.may_tell(port, now)
        {
            self.tell_refused(port, gid, error);
        }
    }

    fn tell_refused(&self, port: PortId, gid: Gid, error: BindError) {
        if let Some(member) = self.member(port) {
            tracing::warn!(adapter = member.name(), "GID {gid} is not usable: {error}");
        }
    }

    /// Updates the fabric without logging; returns the last GID that cannot be had, and why.
    fn switch_gids(&mut self, port: PortId) -> Option<(Gid, BindError)> {
        let member = self.members.get_mut(port)?;
        let mut refused = None;
        while let Some(change) = member.take_gid_change() {
            match change {
                GidChange::Bound(gid) => {
                    let bound = self.shared.change(|fabric| fabric.bind_gid(port, gid));
                    if let Err(error) = bound {
                        refused = Some((gid, error));
                    }
                }
                GidChange::Unbound(gid) => {
                    self.shared.change(|fabric| fabric.unbind_gid(port, gid));
                }
                GidChange::Cleared => self.shared.change(|fabric| fabric.clear_gids(port)),
            }
        }
        refused
    }
}
