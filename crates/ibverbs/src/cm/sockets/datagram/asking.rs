//! Questions for peers: each has an identifier of its own, until the answer.
//!
//! ```text
//!   ask ──► address ──► route ──► SIDR question ──► Established: a queue pair and an address handle
//!              └───────────┴────────────┴─────────► nobody there, or nobody who answers
//! ```

use core::ffi::c_int;
use std::time::Instant;

use super::Datagrams;
use super::header::Address;
use super::peers::{PeerHandle, RemoteQp};
use super::pieces::{Pieces, piece};
use crate::abi::AhAttr;
use crate::address::ibv_create_ah;
use crate::cm::abi;
use crate::cm::connect::rdma_connect;
use crate::cm::event::{next, rdma_ack_cm_event};
use crate::cm::identifier::{Identifier, Kind, rdma_destroy_id};
use crate::cm::resolve::{rdma_resolve_addr, rdma_resolve_route};
use crate::cm::socket_address::to_c;
use crate::errno::{Errno, Result};
use vrdma_provider::cm::{EventKind, family, space};

/// Most questions under way at a time; further ones wait.
const QUESTIONS_MAX: usize = 16;
/// Milliseconds that resolving an address or a route may take.
const PATIENCE: c_int = 2000;

/// A question that is under way.
pub(super) struct Question {
    id: *mut abi::Id,
    of: Address,
}

/// The content of an event, after it was acknowledged.
struct Arrived {
    kind: u32,
    status: c_int,
    id: *mut abi::Id,
    handle: AhAttr,
    queue_pair: RemoteQp,
}

fn check(outcome: c_int) -> Result<()> {
    if outcome == 0 {
        Ok(())
    } else {
        Err(Errno::last())
    }
}

/// # Safety
/// `channel` is there.
unsafe fn hear(channel: *mut abi::EventChannel) -> Result<Arrived> {
    // SAFETY: as promised; every identifier of the channel is one for datagrams.
    unsafe {
        let event = next(channel)?;
        let said = (*event).param.ud;
        let heard = Arrived {
            kind: (*event).event,
            status: (*event).status,
            id: (*event).id,
            handle: said.ah_attr,
            queue_pair: RemoteQp {
                qpn: said.qp_num,
                qkey: said.qkey,
            },
        };
        rdma_ack_cm_event(event);
        Ok(heard)
    }
}

impl Datagrams {
    /// Asks where a peer is, if it is time and there is room; events tell the result.
    pub(super) fn ask(&mut self, of: Address) {
        let now = Instant::now();
        if self.questions.len() >= QUESTIONS_MAX || !self.peers.of(of).wants_question(now) {
            return;
        }
        match self.question(of) {
            Ok(id) => {
                self.questions.push(Question { id, of });
                self.peers.of(of).is_asked = true;
            }
            Err(error) => self.gone(of, error),
        }
    }

    fn question(&self, of: Address) -> Result<*mut abi::Id> {
        let kind = Kind::of_space(space::UDP);
        // SAFETY: the socket's own channel.
        let id = unsafe { Identifier::create(self.channel, core::ptr::null_mut(), kind)? };
        let id: *mut abi::Id = id.cast();
        self.resolve(id, of).inspect_err(|_| {
            // SAFETY: just made, and nobody has seen it.
            unsafe { rdma_destroy_id(id) };
        })?;
        Ok(id)
    }

    fn resolve(&self, id: *mut abi::Id, of: Address) -> Result<()> {
        let as_family = if of.is_v4() {
            family::INET
        } else {
            family::INET6
        };
        let named = |address: Address| {
            let endpoint = address.endpoint(as_family);
            endpoint.map(|endpoint| to_c(&endpoint))
        };
        let mut to = named(of).ok_or(Errno(libc::EAFNOSUPPORT))?;
        // The question gets a port of its own: the socket has taken its port.
        let own = self.own_address().map(|own| Address { port: 0, ..own });
        let mut from = own.and_then(named);
        let from = from.as_mut().map_or(core::ptr::null_mut(), |from| {
            (&raw mut *from).cast::<libc::sockaddr>()
        });
        // SAFETY: an identifier of ours, and addresses that live through the call.
        check(unsafe { rdma_resolve_addr(id, from, (&raw mut to).cast(), PATIENCE) })
    }

    /// Takes the events that are there.
    pub(in crate::cm::sockets) fn advance(&mut self) {
        // Without questions, events only tell of ends of adapters, which queue pairs tell as well.
        while !self.questions.is_empty() {
            // SAFETY: the socket's own channel, which does not block.
            let Ok(heard) = (unsafe { hear(self.channel) }) else {
                return;
            };
            self.heard(&heard);
        }
    }

    fn heard(&mut self, heard: &Arrived) {
        let asked = self.questions.iter();
        let Some(at) = asked.clone().position(|asked| asked.id == heard.id) else {
            return;
        };
        let of = self.questions[at].of;
        let outcome = self.next_step(heard, of);
        if matches!(outcome, Ok(None)) {
            return;
        }
        let question = self.questions.swap_remove(at);
        match outcome {
            Ok(Some(way)) => self.found(of, way),
            Ok(None) => {}
            Err(error) => self.gone(of, error),
        }
        // SAFETY: this question's own; that was its last event.
        unsafe { rdma_destroy_id(question.id) };
    }

    /// Takes the next step; returns the way to the peer after the last.
    fn next_step(&self, heard: &Arrived, of: Address) -> Result<Option<PeerHandle>> {
        let is = |kind: EventKind| heard.kind == kind as u32;
        match heard.status {
            0 => {}
            // The peer's side says that there is no such service.
            1.. if is(EventKind::Unreachable) => return Err(Errno(libc::ECONNREFUSED)),
            _ => return Err(Errno(libc::EHOSTUNREACH)),
        }
        // SAFETY: the question's own identifier.
        let started = unsafe {
            if is(EventKind::AddressResolved) {
                rdma_resolve_route(heard.id, PATIENCE)
            } else if is(EventKind::RouteResolved) {
                // The identifier has no queue pair: only the question counts.
                let mut nothing: abi::ConnParam = core::mem::zeroed();
                rdma_connect(heard.id, &raw mut nothing)
            } else if is(EventKind::Established) {
                return self.way(heard, of).map(Some);
            } else {
                return Err(Errno(libc::EHOSTUNREACH));
            }
        };
        check(started).map(|()| None)
    }

    fn way(&self, heard: &Arrived, of: Address) -> Result<PeerHandle> {
        // SAFETY: the question's own identifier, which has an adapter.
        let (context, pd, own) = unsafe {
            let id = &*heard.id;
            (id.verbs, id.pd, id.route.addr.addr.sgid.raw)
        };
        let stations = self.stations.iter();
        let station = stations.clone().position(|one| one.context == context);
        let station = station.ok_or(Errno(libc::ENETUNREACH))?;
        let mut attributes = heard.handle;
        let at = Address {
            gid: attributes.grh.dgid.raw,
            ..of
        };
        // SAFETY: the adapter's domain, and attributes of ours.
        let handle = unsafe { ibv_create_ah(pd, &raw mut attributes) };
        if handle.is_null() {
            return Err(Errno::last());
        }
        // SAFETY: just made.
        Ok(unsafe { PeerHandle::new(handle, station, heard.queue_pair, at, own) })
    }

    fn found(&mut self, of: Address, way: PeerHandle) {
        let peer = self.peers.of(of);
        peer.answer(Some(way), Instant::now());
        for data in peer.take_waiting() {
            let whole = [piece(&data)];
            // SAFETY: bytes of ours.
            let data = unsafe { Pieces::new(&whole) };
            // A datagram that finds no slot or is too long is lost, as datagrams may be.
            let _sent = self.post(of, &data);
        }
    }

    /// Handles a question in vain. If no answer came at all, a peer that was there before may still be.
    fn gone(&mut self, of: Address, error: Errno) {
        let (now, peer) = (Instant::now(), self.peers.of(of));
        if error == Errno(libc::ECONNREFUSED) {
            peer.answer(None, now);
        } else {
            peer.unanswered(now);
        }
        if peer.is_gone() {
            peer.take_waiting();
            if self.connected == Some(of) {
                self.error = Some(error);
            }
        }
    }

    /// Ends all questions.
    pub(super) fn forget_questions(&mut self) {
        for question in self.questions.drain(..) {
            // SAFETY: this question's own.
            unsafe { rdma_destroy_id(question.id) };
        }
    }
}
