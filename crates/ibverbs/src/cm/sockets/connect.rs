//! How streams connect: calls, answers, and events of the identifier.

use core::ffi::{c_int, c_void};

use super::completions::Completions;
use super::stream::Stream;
use super::table::{Stage, State};
use super::wire::{INTRODUCTION_BYTES, Introduction};
use crate::abi::{QpCap, QpInitAttr};
use crate::cm::abi;
use crate::cm::channel::Channel;
use crate::cm::connect::{rdma_accept, rdma_connect, rdma_reject};
use crate::cm::endpoint::rdma_migrate_id;
use crate::cm::event::{next, rdma_ack_cm_event};
use crate::cm::identifier::{Identifier, rdma_destroy_id};
use crate::cm::qp::create_plain;
use crate::cm::resolve::{rdma_resolve_addr, rdma_resolve_route};
use crate::errno::{Errno, Result};
use vrdma_provider::cm::EventKind;

/// Milliseconds that resolving an address or a route may take.
const PATIENCE: c_int = 2000;

/// `IBV_QPT_RC`.
const RC: u32 = 2;
/// Bytes of inline data: messages about room have 24 at most.
const INLINE: u32 = 64;

fn check(outcome: c_int) -> Result<()> {
    if outcome == 0 {
        Ok(())
    } else {
        Err(Errno::last())
    }
}

/// The content of an event, after it was acknowledged.
struct Arrived {
    kind: u32,
    status: c_int,
    id: *mut abi::Id,
    private: [u8; INTRODUCTION_BYTES],
}

impl State {
    /// Returns the next event; waits if there is none.
    fn hear(&self) -> Result<Arrived> {
        // SAFETY: the socket's own channel, and an event of it.
        unsafe {
            let event = next(self.channel)?;
            let mut private = [0; INTRODUCTION_BYTES];
            let said = (*event).param.conn;
            if !said.private_data.is_null() {
                let count = private.len().min(said.private_data_len.into());
                let data = said.private_data.cast::<u8>();
                data.copy_to_nonoverlapping(private.as_mut_ptr(), count);
            }
            let heard = Arrived {
                kind: (*event).event,
                status: (*event).status,
                id: (*event).id,
                private,
            };
            rdma_ack_cm_event(event);
            Ok(heard)
        }
    }

    fn expect(&self, kind: EventKind) -> Result<()> {
        let heard = self.hear()?;
        match heard.status {
            0 if heard.kind == kind as u32 => Ok(()),
            error if error < 0 => Err(Errno(-error)),
            _ => Err(Errno(libc::EHOSTUNREACH)),
        }
    }

    /// Makes a queue pair and a stream over it.
    fn stream_of(&self, id: *mut abi::Id) -> Result<Stream> {
        let sizes = self.options.sizes;
        let (sends, receives) = Stream::requests(&sizes);
        // SAFETY: an identifier with an adapter, whose context is open; what is made here goes with
        // the socket.
        unsafe {
            let context = (*id).verbs;
            let completions = Completions::new(context, sends + receives)?;
            let mut attr = QpInitAttr {
                qp_context: core::ptr::null_mut(),
                send_cq: completions.cq,
                recv_cq: completions.cq,
                srq: core::ptr::null_mut(),
                cap: QpCap {
                    max_send_wr: sends,
                    max_recv_wr: receives,
                    max_send_sge: 1,
                    max_recv_sge: 1,
                    max_inline_data: INLINE,
                },
                qp_type: RC,
                sq_sig_all: 0,
            };
            create_plain(Identifier::of(id)?, core::ptr::null_mut(), &mut attr)?;
            Stream::new((*id).pd, (*id).qp, completions, sizes)
        }
    }

    /// Calls an address; the answer comes as an event.
    ///
    /// # Safety
    /// `to` points to a socket address.
    pub(super) unsafe fn call(&mut self, to: *const libc::sockaddr) -> Result<()> {
        let id = self.id;
        // SAFETY: the socket's own identifier, and as promised.
        unsafe {
            check(rdma_resolve_addr(
                id,
                core::ptr::null_mut(),
                to.cast_mut(),
                PATIENCE,
            ))?;
            self.expect(EventKind::AddressResolved)?;
            check(rdma_resolve_route(id, PATIENCE))?;
            self.expect(EventKind::RouteResolved)?;
        }
        let stream = self.stream_of(id)?;
        let introduction = stream.introduction().to_bytes();
        let mut parameters = parameters(&introduction);
        // SAFETY: the introduction lives through the call.
        check(unsafe { rdma_connect(id, &raw mut parameters) })?;
        self.stage = Stage::Waiting(Box::new(stream));
        Ok(())
    }

    /// Whether an event is there.
    pub(super) fn has_event(&self) -> bool {
        // SAFETY: the socket's own channel.
        let fd = unsafe { (*self.channel).fd };
        let mut entry = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which is ours.
        unsafe { libc::poll(&raw mut entry, 1, 0) > 0 }
    }

    /// Takes the events that are there; those of datagram sockets are taken with the datagrams.
    pub(super) fn advance(&mut self) {
        let others = |stage: &Stage| matches!(stage, Stage::Listening | Stage::Datagram(_));
        while !others(&self.stage) && self.has_event() {
            let Ok(heard) = self.hear() else {
                return;
            };
            self.happened(&heard);
        }
    }

    fn happened(&mut self, heard: &Arrived) {
        let established = heard.kind == EventKind::Established as u32 && heard.status == 0;
        match std::mem::replace(&mut self.stage, Stage::New) {
            Stage::Waiting(mut stream) if established => {
                // The called side got the introduction with the call.
                if !stream.connected {
                    match Introduction::from_bytes(&heard.private) {
                        Some(peer) => stream.meet(&peer),
                        None => stream.hang_up(),
                    }
                }
                self.stage = Stage::Connected(stream);
            }
            Stage::Waiting(stream) => self.fail(*stream, heard),
            Stage::Connected(mut stream) => {
                if heard.kind == EventKind::Disconnected as u32 {
                    // Data that came before the end is taken first.
                    let _flushed = stream.process();
                    stream.hang_up();
                }
                self.stage = Stage::Connected(stream);
            }
            other => self.stage = other,
        }
    }

    fn fail(&mut self, stream: Stream, heard: &Arrived) {
        // SAFETY: the socket's own; the stream's completions go after the queue pair.
        unsafe { crate::cm::qp::rdma_destroy_qp(self.id) };
        stream.release();
        self.stage = Stage::Failed(match heard.status {
            error if error < 0 => -error,
            _ if heard.kind == EventKind::Unreachable as u32 => libc::ETIMEDOUT,
            _ => libc::ECONNREFUSED,
        });
    }

    /// Answers the next call of a listening socket; returns the new socket's state.
    pub(super) fn answer(&self) -> Result<Self> {
        loop {
            let heard = self.hear()?;
            if heard.kind == EventKind::ConnectRequest as u32 && heard.status == 0 {
                let Some(peer) = Introduction::from_bytes(&heard.private) else {
                    // SAFETY: a new identifier, which nobody else uses.
                    unsafe {
                        rdma_reject(heard.id, core::ptr::null(), 0);
                        rdma_destroy_id(heard.id);
                    }
                    continue;
                };
                return self.accept(heard.id, &peer);
            }
        }
    }

    fn accept(&self, id: *mut abi::Id, peer: &Introduction) -> Result<Self> {
        let channel = Channel::create()?;
        let mut called = Self {
            id,
            channel,
            stage: Stage::New,
            options: super::options::Options {
                non_blocking: false,
                ..self.options
            },
            mapped: Vec::new(),
        };
        // SAFETY: a new identifier and a new channel.
        check(unsafe { rdma_migrate_id(id, channel) })?;
        let mut stream = called.stream_of(id)?;
        stream.meet(peer);
        let introduction = stream.introduction().to_bytes();
        let mut parameters = parameters(&introduction);
        // SAFETY: the introduction lives through the call.
        check(unsafe { rdma_accept(id, &raw mut parameters) })?;
        called.stage = Stage::Waiting(Box::new(stream));
        Ok(called)
    }
}

fn parameters(introduction: &[u8; INTRODUCTION_BYTES]) -> abi::ConnParam {
    abi::ConnParam {
        private_data: introduction.as_ptr().cast::<c_void>(),
        private_data_len: INTRODUCTION_BYTES as u8,
        responder_resources: 1,
        initiator_depth: 1,
        flow_control: 1,
        retry_count: 7,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    }
}
