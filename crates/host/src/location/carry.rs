//! The carrier's part in notices: takes them to adapters and from them, and carries out what they say.

use vrdma_adapter::ShardId;
use vrdma_switch::{GroupId, PortId, UplinkId, Way};
use vrdma_verbs::Time;
use vrdma_wire::{Notice, NoticeKind, NoticePacket, Packet};

use super::remotes::{Due, Effect, Pair, PeerLocation};
use super::tombstones::Gone;
use super::{Farewell, Leaving, OUTBOX_MAX, Told, way};
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;
use crate::transfer::Transfer;

impl<M: Member, P: Port> Host<M, P> {
    /// Tells the peers of a member that it stands still, without waiting for answers. Peers that hear it use up no
    /// retries. Call [`flush`](Self::flush) afterwards.
    pub fn tell_paused(&mut self, port: PortId, now: Time) {
        let (own, random) = (&mut self.locations.own, &mut self.random);
        if let Some(member) = self.members.get_mut(port) {
            let nonce = || random.u64(..);
            own.pause(port, member.epoch(), member.peers(), nonce, now);
        }
    }

    /// Tells the peers of a member that it goes on, here, until they acknowledge. Its epoch has grown since.
    pub fn tell_resumed(&mut self, port: PortId, now: Time) {
        let (own, random) = (&mut self.locations.own, &mut self.random);
        if let Some(member) = self.members.get_mut(port) {
            let nonce = || random.u64(..);
            own.resume(port, member.epoch(), member.peers(), nonce, now);
        }
    }

    /// Whether a member's VM is on another host.
    pub fn is_away(&self, port: PortId) -> bool {
        self.shared.read().is_away(port)
    }

    /// Notes that a member is on another host from now on, or is here: peers that ask for it here are told so, or no
    /// longer.
    pub(crate) fn move_tombstones(&mut self, port: PortId, is_away: bool, now: Time) {
        self.shared.tombstones(|stones| stones.remove(port));
        let told = self.locations.own.forget(port);
        self.forget_remotes(port);
        let fabric = self.shared.read();
        let (Some(group), Some(mac)) = (fabric.group(port), fabric.mac(port)) else {
            return;
        };
        drop(fabric);
        let (epoch, addresses) = told.filter(|_| is_away).unwrap_or_default();
        let gone = Gone { port, mac, epoch };
        self.shared.tombstones(|stones| {
            for gid in addresses {
                stones.put(group, gid, gone, now);
            }
        });
    }

    /// Forgets the notices of a member that is about to leave this shard: it waits for no peer any more, and nothing it
    /// told is repeated.
    pub(crate) fn forget_location(&mut self, port: PortId) {
        self.locations.own.forget(port);
        self.forget_remotes(port);
    }

    fn forget_remotes(&mut self, port: PortId) {
        let waiting = self.locations.remotes.forget(port);
        if let Some(member) = self.members.get_mut(port) {
            waiting.into_iter().for_each(|gid| member.resume_peer(gid));
            self.members.wake(port);
        }
    }

    /// Takes a notice for a member, from another member or from an uplink.
    pub(crate) fn hear_notice(&mut self, heard: &Told, now: Time) {
        let Told { port, notice, .. } = *heard;
        let about = match notice.kind.is_of_itself() {
            true => heard.remote,
            false => heard.local,
        };
        if notice.gid != about {
            return;
        }
        match notice.kind {
            NoticeKind::PauseAck | NoticeKind::ResumeAck => {
                self.locations.own.acknowledge(heard);
            }
            NoticeKind::Probe => self.answer_probe(heard),
            _ => {
                let member = self.members.get_mut(port);
                let is_connected = member.is_some_and(|member| member.has_peer(heard.remote));
                let remotes = &mut self.locations.remotes;
                let verdict = remotes.hear(heard, is_connected, now);
                let pair = Pair {
                    port,
                    remote: heard.remote,
                };
                if let Some(effect) = verdict.effect {
                    self.take_effect(pair, effect, now);
                }
                self.note_place(heard, verdict.place);
                if let Some(kind) = verdict.answer {
                    self.answer_notice(heard, kind);
                }
            }
        }
    }

    /// Whether a packet is for a member that stands still. Its sender may not have heard of that, or has forgotten it.
    #[inline]
    pub(crate) fn reminds(&mut self, port: PortId, packet: &Packet<'_>, now: Time) -> bool {
        self.locations.own.has_still() && self.remind(port, packet, now)
    }

    #[cold]
    fn remind(&mut self, port: PortId, packet: &Packet<'_>, now: Time) -> bool {
        let member = self.members.get_mut(port);
        if !member.is_some_and(|member| member.is_still()) {
            return false;
        }
        if let Some(epoch) = self.locations.own.remind(port, now) {
            let (local, remote) = (packet.dgid(), packet.sgid());
            self.locations.send(Leaving {
                port,
                route: way(local, remote),
                notice: Notice {
                    kind: NoticeKind::Pause,
                    gid: local,
                    epoch,
                    nonce: 0,
                },
            });
        }
        true
    }

    /// Answers a peer that asks what has become of a member: a member that stands still says so.
    fn answer_probe(&mut self, heard: &Told) {
        let Some(member) = self.members.get_mut(heard.port) else {
            return;
        };
        let kind = match member.is_still() {
            true => NoticeKind::Pause,
            false => NoticeKind::Alive,
        };
        let epoch = member.epoch();
        self.say_back(heard, kind, epoch);
    }

    /// Acknowledges what a peer says. A member that stands still itself ignores that a peer goes on, and the peer
    /// repeats it; the member says that it stands still, since the peer may have come from where nobody knew it.
    fn answer_notice(&mut self, heard: &Told, kind: NoticeKind) {
        let member = self.members.get_mut(heard.port);
        let still = member.filter(|member| member.is_still());
        match still.map(|member| member.epoch()) {
            Some(epoch) if kind == NoticeKind::ResumeAck => {
                self.say_back(heard, NoticeKind::Pause, epoch);
            }
            _ => self.say_back(heard, kind, heard.notice.epoch),
        }
    }

    fn say_back(&mut self, heard: &Told, kind: NoticeKind, epoch: u64) {
        let gid = match kind.is_of_itself() {
            true => heard.local,
            false => heard.remote,
        };
        self.locations.send(Leaving {
            port: heard.port,
            route: way(heard.local, heard.remote),
            notice: Notice {
                kind,
                gid,
                epoch,
                nonce: heard.notice.nonce,
            },
        });
    }

    fn take_effect(&mut self, pair: Pair, effect: Effect, now: Time) {
        let Some(member) = self.members.touch(pair.port, now) else {
            return;
        };
        match effect {
            Effect::Pause => member.pause_peer(pair.remote),
            Effect::Resume => member.resume_peer(pair.remote),
        }
    }

    /// Notes where a peer is, if it is on another host.
    fn note_place(&mut self, heard: &Told, place: PeerLocation) {
        let group = self.shared.read().group(heard.port);
        let (Some(group), Some(neighbour)) = (group, heard.from) else {
            return;
        };
        match place {
            PeerLocation::Unchanged => {}
            PeerLocation::There if self.locations.found.len() < OUTBOX_MAX => {
                self.locations.found.push((group, heard.remote, neighbour));
            }
            PeerLocation::There => {}
            PeerLocation::Elsewhere => self.uplinks.lose(group, heard.remote),
        }
    }

    /// Sends what is due, and lets connections go on whose peer is no longer waited for; `true` if there was anything
    /// to do. Called when nothing is being taken from an uplink.
    pub(crate) fn tend_locations(&mut self, now: Time) -> bool {
        let is_due = self.locations.next_deadline().is_some_and(|at| at <= now);
        if !is_due && self.locations.is_quiet() {
            return false;
        }
        for (group, gid, neighbour) in std::mem::take(&mut self.locations.found) {
            self.learn(group, gid, neighbour, now);
        }
        self.poll_locations(now);
        while let Some(leaving) = self.locations.outbox.pop_front() {
            self.send_notice(&leaving, now);
        }
        for farewell in std::mem::take(&mut self.locations.farewells) {
            self.uplinks.send_farewell(&farewell);
        }
        true
    }

    fn poll_locations(&mut self, now: Time) {
        let random = &mut self.random;
        while let Some(due) = self.locations.remotes.poll(now, || random.u64(..)) {
            match due {
                Due::Ask {
                    pair,
                    local,
                    notice,
                } => self.locations.send(Leaving {
                    port: pair.port,
                    route: way(local, pair.remote),
                    notice,
                }),
                Due::GiveUp(pair) => {
                    if let Some(member) = self.members.touch(pair.port, now) {
                        member.resume_peer(pair.remote);
                    }
                }
            }
        }
        let outbox = &mut self.locations.outbox;
        self.locations.own.poll(now, |port, route, notice| {
            if outbox.len() < OUTBOX_MAX {
                outbox.push_back(Leaving {
                    port,
                    route,
                    notice,
                });
            }
        });
    }

    /// Hands a notice directly to a member of this daemon, or sends it as a packet.
    fn send_notice(&mut self, leaving: &Leaving, now: Time) {
        let Leaving {
            port,
            route,
            notice,
        } = leaving;
        let way = self.shared.read().way(*port, route.sgid, route.dgid);
        match way {
            Ok(Way::Wire) => self.transmit_notice(*port, route, notice, now),
            Ok(Way::Port(to)) => {
                let heard = Told {
                    port: to,
                    local: route.dgid,
                    remote: route.sgid,
                    notice: *notice,
                    from: None,
                };
                self.pass_notice(heard, now);
            }
            // Unbound meanwhile, or for nobody.
            Err(_) => {}
        }
    }

    fn pass_notice(&mut self, heard: Told, now: Time) {
        if self.member(heard.port).is_some() {
            return self.hear_notice(&heard, now);
        }
        let home = self.shared.home(heard.port);
        if let Some(home) = home.filter(|home| home.shard != self.id) {
            let transfer = Transfer::Notice(Box::new(heard));
            self.lanes.push_answer(home.shard, transfer);
        }
    }

    /// Answers a request for an adapter that is not here: an adapter that was here is reported as gone. `true` if it
    /// was here.
    pub(crate) fn say_farewell(
        &mut self,
        uplink: UplinkId,
        group: GroupId,
        packet: &NoticePacket,
        now: Time,
    ) -> bool {
        if self.id != ShardId::FIRST || packet.notice.kind != NoticeKind::Probe {
            return false;
        }
        let (gid, mac) = (packet.dgid(), packet.path.destination);
        let epoch = self
            .shared
            .tombstones(|stones| stones.find(group, gid, mac, now));
        let Some(epoch) = epoch.filter(|_| packet.notice.gid == gid) else {
            return false;
        };
        if self.locations.farewells.len() < OUTBOX_MAX {
            let notice = Notice {
                kind: NoticeKind::Moved,
                epoch,
                ..packet.notice
            };
            let farewell = Farewell {
                uplink,
                group,
                route: way(gid, packet.sgid()),
                to: packet.path.source,
                notice,
            };
            self.locations.farewells.push(farewell);
        }
        true
    }
}
