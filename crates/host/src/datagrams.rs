//! Management datagrams (QP 1) of members whose engine has no such queue pair.
//!
//! ```text
//!   carry, ingress ──► for QP 1 of such a member? ──► Datagram, taken by the owner of the host
//!   Host::send_datagram ──► a request with the datagram in it ──► another member, an uplink, or back
//! ```

use std::collections::VecDeque;

use vrdma_switch::{PortId, Untaken, Way};
use vrdma_verbs::memory::Memory;
use vrdma_verbs::unit::{InlinePart, Payload, Request, RequestOp, Route};
use vrdma_verbs::work::Inline;
use vrdma_verbs::{Source, Time};
use vrdma_wire::{Extension, Gid, MAD_LEN, Packet, Pkey, Psn, Qkey, Qpn, Service};

use crate::host::Host;
use crate::member::Member;
use crate::port::Port;
use crate::turn::Turn;

/// Hop limit of the datagrams sent.
const HOP_LIMIT: u8 = 64;

/// Most datagrams that wait for the owner, who takes them once a turn: some 300 KiB. Further ones are lost as on a wire
/// and counted; their senders repeat them.
const WAITING_MAX: usize = 1024;

/// One datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The member that sends or receives it.
    pub port: PortId,
    /// The member's address.
    pub local: Gid,
    /// The peer's address.
    pub remote: Gid,
    /// The peer's queue pair.
    pub qpn: Qpn,
    /// Partition key.
    pub pkey: Pkey,
    /// The MAD.
    pub bytes: [u8; MAD_LEN],
}

/// The datagrams that have come.
#[derive(Default)]
pub(crate) struct Datagrams {
    waiting: VecDeque<Datagram>,
}

impl Datagrams {
    /// Queues a datagram; `false` if there is no room for it.
    pub(crate) fn push(&mut self, datagram: Datagram) -> bool {
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push_back(datagram);
        }
        has_room
    }
}

impl<M: Member, P: Port> Host<M, P> {
    /// Returns the next datagram for QP 1 of a member whose engine has none.
    pub fn next_datagram(&mut self) -> Option<Datagram> {
        self.datagrams.waiting.pop_front()
    }

    /// Whether requests for this queue pair of a member go to the owner of the host.
    pub(crate) fn is_for_owner(&self, to: PortId, destination: Qpn) -> bool {
        destination == Qpn::GSI && !self.has_gsi(to)
    }

    /// Whether the engine of a member, which any shard may have, has QP 1.
    fn has_gsi(&self, port: PortId) -> bool {
        match self.member(port) {
            Some(member) => member.has_gsi(),
            None => self.shared.home(port).is_none_or(|home| home.has_gsi),
        }
    }

    /// Hands a request for QP 1 to the owner, if it is a management datagram.
    pub(crate) fn hand_out(
        &mut self,
        to: PortId,
        memory: &M::View<'_>,
        request: &Request<M::Region>,
    ) {
        match requested(to, memory, request) {
            Ok(datagram) => self.hand_to_owner(datagram),
            Err(reason) => self.refuse_datagram(to, reason),
        }
    }

    /// Hands over a packet from an uplink in the same way.
    pub(crate) fn hand_out_packet(&mut self, to: PortId, packet: &Packet<'_>) {
        match arrived(to, packet) {
            Ok(datagram) => self.hand_to_owner(datagram),
            Err(reason) => self.refuse_datagram(to, reason),
        }
    }

    /// Drops and counts a datagram for QP 1 of a member of any shard.
    pub(crate) fn refuse_datagram(&self, to: PortId, reason: Untaken) {
        if let Some(traffic) = self.shared.read().traffic(to) {
            traffic.count_untaken(reason);
        }
    }

    /// Returns the datagrams for QP 1 of a member that were dropped: why, and how many.
    pub fn untaken(&self, port: PortId) -> impl Iterator<Item = (Untaken, u64)> {
        let traffic = self.shared.read().traffic(port);
        let counts = traffic.map(|traffic| traffic.counts());
        let of_reason = move |reason| Some((reason, counts.as_ref()?.untaken(reason)));
        let untaken = Untaken::ALL.into_iter().filter_map(of_reason);
        untaken.filter(|(_, count)| *count > 0)
    }

    /// Whether the owner of an address is known, for a member that wants to send there. If not, neighbours on other
    /// hosts are asked, and the answer may be known the next time.
    pub fn knows(&mut self, from: PortId, sgid: Gid, dgid: Gid, now: Time) -> bool {
        let way = self.shared.read().way(from, sgid, dgid);
        match way {
            Ok(Way::Port(_)) => true,
            Ok(Way::Wire) => self.knows_neighbour(from, sgid, dgid, now),
            Err(_) => false,
        }
    }

    /// Sends a datagram from QP 1 of a member to QP 1 of its peer.
    pub fn send_datagram(&mut self, datagram: &Datagram, now: Time) {
        let Some(member) = self.member(datagram.port) else {
            return self.transfer_datagram(datagram);
        };
        let memory = member.memory();
        let view = M::view(&memory);
        let turn = Turn {
            from: datagram.port,
            memory: &view,
            now,
        };
        let request = request(datagram);
        let fabric = self.shared.read();
        let way = fabric.route(datagram.port, datagram.local, datagram.remote);
        drop(fabric);
        match way {
            Ok(Way::Wire) => self.transmit(turn, &request),
            Ok(Way::Port(to)) if self.is_for_owner(to, Qpn::GSI) => {
                self.hand_out(to, &view, &request);
            }
            Ok(Way::Port(to)) => {
                if let Some(peer) = self.members.touch(to, now) {
                    let theirs = peer.memory();
                    peer.deliver(&M::view(&theirs), &request, Source::Memory(&view), now);
                    self.members.publish(now);
                } else {
                    self.transfer(turn, to, &mut request.clone());
                }
            }
            Err(reason) => tracing::debug!("a datagram of management goes nowhere: {reason}"),
        }
    }
}

/// Returns the management datagram that a request holds.
fn requested<V: Memory>(
    to: PortId,
    memory: &V,
    request: &Request<V::Region>,
) -> Result<Datagram, Untaken> {
    match request.op {
        RequestOp::Datagram { qkey: Qkey::GSI } => {}
        RequestOp::Datagram { .. } => return Err(Untaken::WrongQkey),
        _ => return Err(Untaken::UnknownQp),
    }
    let mut bytes = [0; MAD_LEN];
    if !gather(&request.payload, memory, &mut bytes) {
        return Err(Untaken::Malformed);
    }
    Ok(Datagram {
        port: to,
        local: request.route.dgid,
        remote: request.route.sgid,
        qpn: request.source,
        pkey: Pkey::DEFAULT,
        bytes,
    })
}

/// Returns the management datagram that a packet holds.
fn arrived(to: PortId, packet: &Packet<'_>) -> Result<Datagram, Untaken> {
    let Extension::Datagram(deth) = packet.extension() else {
        return Err(Untaken::UnknownQp);
    };
    let pkey = packet.bth().pkey;
    // The only partition is the default one (IBTA 9.6.1), and QP 1 belongs to it as any other queue pair does.
    if !Pkey::DEFAULT.matches(pkey) {
        return Err(Untaken::WrongPkey);
    }
    if deth.qkey != Qkey::GSI {
        return Err(Untaken::WrongQkey);
    }
    let bytes = packet.payload().try_into();
    Ok(Datagram {
        port: to,
        local: packet.dgid(),
        remote: packet.sgid(),
        qpn: deth.source,
        pkey,
        bytes: bytes.map_err(|_| Untaken::Malformed)?,
    })
}

/// Copies a payload that has exactly the size of a management datagram.
fn gather<V: Memory>(payload: &Payload<V::Region>, memory: &V, to: &mut [u8; MAD_LEN]) -> bool {
    if payload.length() != MAD_LEN as u64 {
        return false;
    }
    match payload {
        Payload::Inline(inline) => to.copy_from_slice(inline.bytes()),
        Payload::Short(short) => to.copy_from_slice(short.bytes()),
        Payload::Memory(stretches) => {
            let mut at = 0;
            for part in stretches {
                let end = at + part.length as usize;
                let read = memory.read(&part.region, part.offset, &mut to[at..end]);
                if read.is_err() {
                    return false;
                }
                at = end;
            }
        }
    }
    true
}

fn request<R>(datagram: &Datagram) -> Request<R> {
    let bytes = Inline::from(&datagram.bytes[..]);
    Request {
        route: Route {
            sgid: datagram.local,
            dgid: datagram.remote,
            hop_limit: HOP_LIMIT,
            ..Route::default()
        },
        path: None,
        service: Service::Ud,
        source: Qpn::GSI,
        destination: Qpn::GSI,
        psn: Psn::default(),
        packets: 1,
        first: true,
        last: true,
        op: RequestOp::Datagram { qkey: Qkey::GSI },
        tail: None,
        solicited: false,
        ack_request: false,
        payload: Payload::Inline(InlinePart::new(&bytes, 0, MAD_LEN as u32)),
    }
}
