//! Packets that leave.

use smallvec::SmallVec;
use vrdma_switch::{GroupId, PortId, UplinkId};
use vrdma_verbs::packet::{FrameError, Frames, Link, Reply};
use vrdma_verbs::unit::{Request, Route};
use vrdma_verbs::{Source, Time};
use vrdma_wire::Mac;

use super::misfit::Misfit;
use super::{Uplink, Uplinks};
use crate::budget::Moved;
use crate::host::{Host, UPLINK_BYTES_A_TURN};
use crate::limits::Sent;
use crate::member::Member;
use crate::paths::Reachable;
use crate::port::{Port, Segment, Train};
use crate::turn::Turn;

/// Most answers that one member may send in a turn before the next one has its turn.
const REPLIES_A_TURN: u32 = 64;

/// Packets of [`TRAIN_BYTES`](super::TRAIN_BYTES) at the largest path MTU.
const TRAIN: usize = 16;

/// Bytes of the Ethernet header, which no MTU counts.
const ETHERNET_BYTES: usize = 14;

/// The path of the frames of one unit.
#[derive(Clone, Copy)]
pub(super) struct Hop<'a> {
    /// The sender.
    pub(super) from: PortId,
    pub(super) route: &'a Route,
    pub(super) group: GroupId,
    /// Station of the sender.
    pub(super) source: Mac,
    /// The destination station, if it is known.
    pub(super) station: Option<Mac>,
    /// The uplink behind which the destination was heard; otherwise all uplinks of the group.
    uplink: Option<UplinkId>,
    pub(super) now: Time,
}

impl Hop<'_> {
    fn link(&self) -> Link {
        Link {
            source: self.source,
            destination: self.station.unwrap_or_default(),
            vlan: None,
        }
    }
}

impl<M: Member, P: Port> Host<M, P> {
    /// Sends a request to an adapter of another host.
    pub(crate) fn transmit(&mut self, turn: Turn<'_, M::View<'_>>, request: &Request<M::Region>) {
        let Some(hop) = self.hop(turn.from, &request.route, turn.now) else {
            return;
        };
        let sent = Frames::of_request(request, &hop.link())
            .and_then(|frames| self.send_frames(hop, &frames, turn.memory));
        if let Err(error) = sent {
            self.fail_request(turn, request, error);
        }
    }

    /// Sends the frames of one unit: written directly into the uplink's send buffer, or one by one.
    fn send_frames(
        &mut self,
        hop: Hop<'_>,
        frames: &Frames<'_, M::Region>,
        memory: &M::View<'_>,
    ) -> Result<(), FrameError> {
        let lengths: SmallVec<[usize; TRAIN]> = frames.lengths().collect();
        if let Some(to) = hop.station.filter(|_| !self.uplinks.traces.has(hop.from)) {
            let mut written = Ok(());
            let sent = self.uplinks.send_in_place(hop, to, &lengths, &mut |rooms| {
                written = frames.write(memory, rooms);
                written.is_ok()
            });
            written?;
            if sent {
                return Ok(());
            }
        }
        if let [length] = lengths[..] {
            frames.write(memory, &mut [&mut self.uplinks.buffer[..]])?;
            self.send(hop, length);
            return Ok(());
        }
        for frame in frames.to_vecs(memory)? {
            self.uplinks.buffer[..frame.len()].copy_from_slice(&frame);
            self.send(hop, frame.len());
        }
        Ok(())
    }

    /// Fails a request whose memory is gone or late: the requester is told as if its own adapter had noticed.
    fn fail_request(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        request: &Request<M::Region>,
        error: FrameError,
    ) {
        let FrameError::Payload(fault) = error else {
            return tracing::debug!("a request is no packet: {error}");
        };
        if let Some(member) = self.members.touch(turn.from, turn.now) {
            let lost = request.payload_lost(fault);
            member.respond(turn.memory, &lost, Source::Memory(turn.memory), turn.now);
        }
    }

    /// Sends the answers that a member owes to peers behind uplinks; `true` if there were any.
    pub(crate) fn reply(&mut self, turn: Turn<'_, M::View<'_>>) -> bool {
        let before = self.uplinks.queued_bytes;
        let worked = self.reply_some(turn);
        let queued = self.uplinks.queued_bytes - before;
        self.members.charge(turn.from, Moved::frames(queued));
        let sent = Sent {
            bytes: queued,
            ops: 0,
        };
        self.pay(turn.from, sent, turn.now);
        worked
    }

    fn reply_some(&mut self, turn: Turn<'_, M::View<'_>>) -> bool {
        let most = self.uplinks.queued_bytes + UPLINK_BYTES_A_TURN;
        for sent in 0..REPLIES_A_TURN {
            if self.uplinks.queued_bytes >= most {
                return sent > 0;
            }
            let Some(reply) = self.next_reply(turn) else {
                return sent > 0;
            };
            // The peer asks again, and if the memory is gone, it is told then.
            if let Err(error) = self.send_reply(turn, &reply) {
                tracing::debug!("an answer is no packet: {error}");
            }
        }
        true
    }

    fn next_reply(&mut self, turn: Turn<'_, M::View<'_>>) -> Option<Reply<M::Region>> {
        let mut paths = Reachable {
            shared: &self.shared,
            uplinks: &mut self.uplinks,
            lanes: &mut self.lanes,
            accounts: &mut self.accounts,
            from: turn.from,
            now: turn.now,
        };
        self.members
            .get_mut(turn.from)?
            .next_reply(turn.now, &mut paths)
    }

    fn send_reply(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        reply: &Reply<M::Region>,
    ) -> Result<(), FrameError> {
        let Some(hop) = self.hop(turn.from, reply.route(), turn.now) else {
            return Ok(());
        };
        let frames = Frames::of_reply(reply, &hop.link())?;
        self.send_frames(hop, &frames, turn.memory)
    }

    /// Returns addresses and uplink for a destination.
    pub(super) fn hop<'a>(&self, from: PortId, route: &'a Route, now: Time) -> Option<Hop<'a>> {
        let fabric = self.shared.read();
        let (group, source) = (fabric.group(from)?, fabric.mac(from)?);
        let known = self.uplinks.neighbours.find(group, route.dgid, now.0);
        let known = known.filter(|_| !route.dgid.is_multicast());
        let stated = route.dgid.group_mac().or(route.dmac);
        Some(Hop {
            from,
            route,
            group,
            source,
            station: stated.or(known.map(|neighbour| neighbour.mac)),
            uplink: known.map(|neighbour| neighbour.uplink),
            now,
        })
    }

    /// Sends the first bytes of the buffer.
    pub(super) fn send(&mut self, hop: Hop<'_>, length: usize) {
        if hop.station.is_none() {
            return self.wait(hop, length);
        }
        let uplinks = &mut self.uplinks;
        uplinks
            .traces
            .add(hop.from, &uplinks.buffer[..length], hop.now);
        if let Some(misfit) = uplinks.send(hop, length) {
            self.note(hop.from, misfit);
        }
    }
}

impl<P: Port> Uplinks<P> {
    /// Sends frames to the station `to`, which `fill` writes; `false` if they have to go one by one, or `fill` returned
    /// `false`.
    fn send_in_place(
        &mut self,
        hop: Hop<'_>,
        to: Mac,
        lengths: &[usize],
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let segments = &self.segments;
        let mut uplinks = self.all.iter_mut().flatten().filter_map(|uplink| {
            let right = hop.uplink.is_none_or(|id| id == uplink.id);
            let segment = segments.of(hop.group, uplink.is_tunnel)?;
            right.then_some((uplink, segment))
        });
        let (Some((uplink, segment)), None) = (uplinks.next(), uplinks.next()) else {
            return false;
        };
        let mtu = uplink.port.mtu() as usize;
        if lengths.iter().any(|length| length - ETHERNET_BYTES > mtu) {
            return false;
        }
        let train = Train {
            segment,
            to,
            lengths,
        };
        let sent = uplink.port.send_in_place(train, fill);
        if sent {
            self.queued_bytes += lengths.iter().sum::<usize>() as u64;
            uplink.touched = true;
        }
        sent
    }

    /// Sends the first bytes of the buffer.
    fn send(&mut self, hop: Hop<'_>, length: usize) -> Option<Misfit> {
        let mut misfit = None;
        let frame = &self.buffer[..length];
        self.queued_bytes += length as u64;
        for uplink in self.all.iter_mut().flatten() {
            if hop.uplink.is_some_and(|id| id != uplink.id) {
                continue;
            }
            let Some(segment) = self.segments.of(hop.group, uplink.is_tunnel) else {
                continue;
            };
            uplink.send(segment, frame);
            let (bytes, mtu) = (length - ETHERNET_BYTES, uplink.port.mtu());
            if bytes > mtu as usize {
                misfit = Some(Misfit {
                    bytes,
                    mtu,
                    at: hop.now,
                });
            }
        }
        misfit
    }
}

impl<P: Port> Uplink<P> {
    /// Queues a frame for the next flush.
    pub(super) fn send(&mut self, segment: Segment, frame: &[u8]) {
        self.port.send(segment, frame);
        self.touched = true;
    }
}
