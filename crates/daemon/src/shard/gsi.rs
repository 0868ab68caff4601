//! QP 1 of adapters of processes: no engine has it, its datagrams are those of connection management.
//!
//! ```text
//!   carry, hand_over ──► for QP 1 of a process adapter? ──► cm::Service::receive
//!   cm::Service::next_outgoing ──► request with the datagram in it ──► another adapter, a wire, or the service again
//! ```

use std::os::fd::OwnedFd;
use std::time::Duration;

use vrdma_cm::{Ends, Outgoing, Received};
use vrdma_memory::{Region, View};
use vrdma_provider::daemon::Request as Message;
use vrdma_provider::message::Name;
use vrdma_switch::{PortId, Way};
use vrdma_verbs::memory::Memory;
use vrdma_verbs::unit::{InlinePart, Payload, Request, RequestOp, Route};
use vrdma_verbs::work::Inline;
use vrdma_verbs::{Source, Time};
use vrdma_wire::{Extension, Gid, MAD_LEN, Mtu, Packet, Pkey, Psn, Qkey, Qpn, Service};

use super::Shard;
use super::adapter::Adapter;
use super::poller::Key;
use vrdma_process::cm::{AdapterSpec, ClientId};

/// Path MTU that connections of processes propose until the adapter's uplinks were measured.
const PATH_MTU: Mtu = Mtu::B1024;

/// Hop limit of datagrams of connection management.
const HOP_LIMIT: u8 = 64;

impl Shard {
    pub(super) fn attach_to_cm(&mut self, adapter: &Adapter) {
        let Adapter::Process { process, .. } = adapter else {
            return;
        };
        let spec = process.spec();
        let described = process.spec().described();
        let address = spec.ip.map(|ip| match ip {
            std::net::IpAddr::V4(v4) => Gid::from_ipv4(v4),
            std::net::IpAddr::V6(v6) => Gid(v6.octets()),
        });
        self.cm.attach(AdapterSpec {
            port: spec.port,
            name: Name(described.name.0),
            mac: spec.mac,
            address: address.unwrap_or_else(|| Gid::link_local(spec.mac)),
            mtu: PATH_MTU,
        });
    }

    /// A process that greeted connection management.
    pub(super) fn open_cm_session(&mut self, socket: OwnedFd, greeting: &Message) {
        self.poller.unwatch(&socket);
        if let Some(client) = self.cm.greet(socket, greeting)
            && let Some(socket) = self.cm.socket(client)
        {
            self.poller.watch(socket, Key::CmSession(client));
        }
    }

    /// Serves what it asks for.
    pub(super) fn serve_cm_session(&mut self, client: ClientId) {
        let now = self.clock.now();
        self.cm.serve(client, since_start(now));
        self.polling.served(now);
    }

    /// Whether a request is for QP 1 of a process adapter.
    pub(super) fn is_for_cm(&self, to: usize, request: &Request<Region>) -> bool {
        request.destination == Qpn::GSI
            && matches!(self.adapters.get(to), Some(Some(Adapter::Process { .. })))
    }

    pub(super) fn take_mad(
        &mut self,
        to: usize,
        memory: &View<'_>,
        request: &Request<Region>,
        now: Time,
    ) {
        let RequestOp::Datagram { qkey: Qkey::GSI } = request.op else {
            return;
        };
        let mut bytes = [0; MAD_LEN];
        if !gather(&request.payload, memory, &mut bytes) {
            return;
        }
        let received = Received {
            ends: Ends {
                local: request.route.dgid,
                remote: request.route.sgid,
            },
            qpn: request.source,
            pkey: Pkey::DEFAULT,
            bytes: &bytes,
        };
        let port = PortId(to as u32);
        self.cm.receive(port, &received, since_start(now));
    }

    /// The same from a wire; `false` if the packet is for the adapter's engine.
    pub(super) fn take_mad_packet(&mut self, port: PortId, packet: &Packet<'_>, now: Time) -> bool {
        let of_process = matches!(
            self.adapters.get(port.0 as usize),
            Some(Some(Adapter::Process { .. }))
        );
        if !of_process || packet.bth().destination != Qpn::GSI {
            return false;
        }
        if let Extension::Datagram(deth) = packet.extension()
            && deth.qkey == Qkey::GSI
        {
            let received = Received {
                ends: Ends {
                    local: packet.dgid(),
                    remote: packet.sgid(),
                },
                qpn: deth.source,
                pkey: packet.bth().pkey,
                bytes: packet.payload(),
            };
            self.cm.receive(port, &received, since_start(now));
        }
        true
    }

    /// Repeats what was not answered and sends what waits; `true` if there was any.
    pub(super) fn tend_cm(&mut self, now: Time) -> bool {
        let moment = since_start(now);
        if self.cm.deadline().is_some_and(|due| due <= moment) {
            self.cm.expire(moment);
        }
        while let Some(search) = self.cm.next_search(moment) {
            if self.knows(search.port, search.sgid, search.dgid, now) {
                self.cm.found(&search, moment);
            } else {
                self.cm.missed(search, moment);
            }
        }
        let mut sent = false;
        while let Some((port, outgoing)) = self.cm.next_outgoing() {
            self.send_mad(port, &outgoing, now);
            sent = true;
        }
        if sent {
            self.interrupt();
        }
        sent
    }

    /// Whether somebody has an address. Neighbours are asked, and may be known the next time.
    fn knows(&mut self, from: PortId, sgid: Gid, dgid: Gid, now: Time) -> bool {
        match self.fabric.way(from, sgid, dgid) {
            Ok(Way::Port(_)) => true,
            Ok(Way::Wire) => self.knows_neighbour(from, sgid, dgid, now),
            Err(_) => false,
        }
    }

    fn send_mad(&mut self, from: PortId, outgoing: &Outgoing, now: Time) {
        let Some(Some(adapter)) = self.adapters.get(from.0 as usize) else {
            return;
        };
        let memory = adapter.memory();
        let view = memory.view();
        let request = datagram(outgoing);
        let (sgid, dgid) = (request.route.sgid, request.route.dgid);
        match self.fabric.route(from, sgid, dgid) {
            Ok(Way::Wire) => self.transmit(from, &view, &request, now),
            Ok(Way::Port(PortId(to))) if self.is_for_cm(to as usize, &request) => {
                self.take_mad(to as usize, &view, &request, now);
            }
            Ok(Way::Port(PortId(to))) => {
                if let Some(Some(peer)) = self.adapters.get_mut(to as usize) {
                    let theirs = peer.memory();
                    peer.deliver(&theirs.view(), &request, Source::Memory(&view), now);
                }
            }
            Err(reason) => tracing::debug!("a call goes nowhere: {reason}"),
        }
    }

    /// When connection management wants a turn.
    pub(super) fn cm_deadline(&self) -> Option<Time> {
        let due = self.cm.deadline()?;
        Some(Time(due.as_nanos() as u64))
    }
}

fn since_start(now: Time) -> Duration {
    Duration::from_nanos(now.0)
}

/// Copies a payload that has exactly the size of a datagram of management.
fn gather(payload: &Payload<Region>, memory: &View<'_>, to: &mut [u8; MAD_LEN]) -> bool {
    if payload.length() != MAD_LEN as u64 {
        return false;
    }
    match payload {
        Payload::Inline(inline) => to.copy_from_slice(inline.bytes()),
        Payload::Memory(stretches) => {
            let mut at = 0;
            for part in stretches {
                let end = at + part.length as usize;
                let read = Memory::read(memory, &part.region, part.offset, &mut to[at..end]);
                if read.is_err() {
                    return false;
                }
                at = end;
            }
        }
    }
    true
}

fn datagram(outgoing: &Outgoing) -> Request<Region> {
    let bytes = Inline::from(&outgoing.to_bytes()[..]);
    Request {
        route: Route {
            sgid: outgoing.ends.local,
            dgid: outgoing.ends.remote,
            hop_limit: HOP_LIMIT,
            ..Route::default()
        },
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
