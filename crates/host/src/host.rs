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

/// Bytes of frames of answers that one member may queue in a turn, but for the last unit's.
pub(crate) const UPLINK_BYTES_A_TURN: u64 = 256 << 10;

/// Where a member is plugged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// Its number: small, and free for another member once this one is removed.
    pub port: PortId,
    /// Its port group: a small number, too.
    pub group: GroupId,
    /// What marks that group's frames on uplinks.
    pub marks: Marks,
    /// Ethernet address.
    pub mac: Mac,
}

/// Which shard a host is.
#[derive(Clone)]
pub struct Among {
    /// This one.
    pub id: ShardId,
    /// How many there are.
    pub shards: u16,
    /// What they know together.
    pub shared: Arc<Shared>,
}

/// See the crate.
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
    /// The first member that is still to be told what its port offers.
    pub(crate) measuring: Option<PortId>,
    pub(crate) random: fastrand::Rng,
}

impl<M: Member, P: Port> Host<M, P> {
    /// The only shard, without members and uplinks. `seed` spreads what is better not done by all hosts
    /// at once.
    pub fn new(seed: u64) -> Self {
        let alone = Among {
            id: ShardId::FIRST,
            shards: 1,
            shared: Arc::default(),
        };
        Self::among(alone, seed)
    }

    /// One of several shards.
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

    /// Which shard it is.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Plugs a member in.
    ///
    /// # Errors
    /// See [`AttachError`]; nothing was changed then.
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

    /// A member that the fabric knows is here from now on.
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
        // Once for each member that comes, so without a limit.
        if let Some((gid, error)) = self.switch_gids(port) {
            self.tell_refused(port, gid, error);
        }
    }

    /// Unplugs a member; without such a one nothing happens.
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

    /// Takes a member out for another shard, which keeps what comes for it until [`adopt`](Self::adopt).
    /// [`hold`](Self::hold) it before, until it is quiet.
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
            // It takes what comes over uplinks for members of all shards.
            self.uplinks.leave(port);
        } else {
            // Nobody tells this shard when the member ends: its group's number and marks would stay, and the next
            // group of that number would send with the marks of this one.
            self.uplinks.forget(port);
        }
        self.lanes.release(port);
        Some(member)
    }

    /// Takes in a member that another shard has sent away, with what came for it meanwhile.
    pub fn adopt(&mut self, attachment: Attachment, member: M, now: Time) {
        self.insert(attachment, member);
        self.tell_first(Transfer::Plugged(attachment));
        // What it waited for where it was it waits for here, if it still has to.
        self.make_go_on([attachment.port]);
        self.take_early(now);
    }

    /// One of them.
    pub fn member(&self, port: PortId) -> Option<&M> {
        self.members.get(port)
    }

    /// One of them, to be changed: it gets a turn, and its owner is told.
    pub fn touch(&mut self, port: PortId, now: Time) -> Option<&mut M> {
        self.members.touch(port, now)
    }

    /// Gives a member a turn: a client has rung.
    pub fn wake(&mut self, port: PortId) {
        self.members.wake(port);
    }

    /// Makes who rings from now on wake the owner of the host, except where doorbells are silent; `false`
    /// if somebody has rung already. [`wake_up`](Self::wake_up) after a rest.
    pub fn fall_asleep(&mut self) -> bool {
        let mut quiet = true;
        // Every member must hear it, so no short cut.
        self.members.each_waiting(|member| quiet &= member.sleep());
        quiet
    }

    /// Doorbells are looked at in each turn again, as far as they were.
    pub fn wake_up(&mut self) {
        self.members.each_waiting(M::awake);
    }

    /// Whether a guest that uses silent doorbells may occupy a core to wait for its next message.
    pub fn is_watching(&self) -> bool {
        self.members.has_watched()
    }

    /// All of them with their ports, in their order.
    pub fn members(&self) -> impl Iterator<Item = (PortId, &M)> {
        self.members.iter()
    }

    /// The same from a port on, for whoever looks at a few at a time.
    pub fn members_from(&self, first: PortId) -> impl Iterator<Item = (PortId, &M)> {
        self.members.iter_from(first)
    }

    /// Units of a member that the fabric dropped: why, and how many.
    pub fn drops(&self, port: PortId) -> impl Iterator<Item = (NoRoute, u64)> {
        let traffic = self.shared.read().traffic(port);
        let counts = traffic.map(|traffic| traffic.counts());
        let of_reason = move |reason| Some((reason, counts.as_ref()?.dropped(reason)));
        let dropped = NoRoute::ALL.into_iter().filter_map(of_reason);
        dropped.filter(|(_, count)| *count > 0)
    }

    /// The next thing that the owner has to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes what came over uplinks and gives every member a turn that waits for one; `true` if any had
    /// something to do. [`flush`](Self::flush) afterwards.
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

    /// The second half: gives every member a turn that waits for one; `true` if any had something to do.
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

    /// A member's VM goes to another host, or comes from there.
    pub fn set_away(&mut self, port: PortId, is_away: bool, now: Time) {
        self.move_tombstones(port, is_away, now);
        self.shared.change(|fabric| fabric.set_away(port, is_away));
    }

    /// Keeps a member to addresses beside that of its MAC.
    pub fn keep(&mut self, port: PortId, kept: &Kept) {
        self.shared.change(|fabric| fabric.keep(port, kept));
    }

    /// The addresses that a member has learned to be its own.
    pub fn learned(&self, port: PortId) -> Vec<Gid> {
        self.shared.read().learned(port).collect()
    }

    /// Another guest has a member from now on; one that learns its addresses begins anew.
    pub fn forget_learned(&mut self, port: PortId) {
        self.shared.change(|fabric| fabric.forget_learned(port));
    }

    /// Lines that a member's owner caused and that the log was not told.
    pub fn log_lines_left_out(&self, port: PortId) -> u64 {
        self.members.log_lines_left_out(port)
    }

    /// Tells the fabric which GIDs a member took or gave up. One that another member of the group
    /// holds stays with that one: the newcomer's messages from it are refused as spoofed.
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

    /// The same in silence: the last of those that cannot be had, and why.
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
