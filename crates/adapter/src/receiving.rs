//! Requests, responses and packets of peers.
//!
//! Receives stay in their owner's ring until a message needs one. Then one is staged (copied into the engine) right
//! before the message is executed.

use vrdma_verbs::object::{QpId, SrqId};
use vrdma_verbs::packet::{Arrival, Content};
use vrdma_verbs::unit::{Request, Response};
use vrdma_verbs::{ReceiveQueue, Source};
use vrdma_wire::{Packet, Qpn};

use crate::front_end::{FrontEnd, Turn};
use crate::{Failing, Publishing};

/// The responder's side of the machine, and the way back to the requester, for every front end.
pub trait Receiving: FrontEnd {
    /// Responder: executes a request. Its payload is in `source`.
    #[inline]
    fn deliver<'m>(
        &mut self,
        turn: Turn<'_, Self::Memory<'m>>,
        request: &Request<Self::Region>,
        source: Source<'_, Self::Memory<'m>>,
    ) -> Option<Response<Self::Region>> {
        let response = self.deliver_in_row(turn, request, source, &mut None);
        self.end_row();
        response
    }

    /// Does the same for one request of several in a row. Their effects are noted once, by [`end_row`](Self::end_row),
    /// before the requester gets an answer to any of them. For `unheard` see
    /// [`Hca::deliver_in_row`](vrdma_verbs::Hca::deliver_in_row).
    #[inline]
    fn deliver_in_row<'m>(
        &mut self,
        turn: Turn<'_, Self::Memory<'m>>,
        request: &Request<Self::Region>,
        source: Source<'_, Self::Memory<'m>>,
        unheard: &mut Option<Response<Self::Region>>,
    ) -> Option<Response<Self::Region>> {
        if request.op.is_atomic() {
            // The intent of an atomic is committed before the atomic is done, and does not cover the requests before
            // it.
            self.end_row();
        }
        stage_for(self, turn, request);
        let hca = &mut self.core_mut().hca;
        let response = hca.deliver_in_row(request, source, turn.memory, unheard);
        self.to_note_later(request.destination);
        self.take_outputs(turn);
        self.publish_soon(turn);
        response
    }

    /// Notes what the requests of a row did.
    #[inline]
    fn end_row(&mut self) {
        self.note();
    }

    /// Requester: takes an answer. The data of a READ is in `source`.
    #[inline]
    fn respond<'m>(
        &mut self,
        turn: Turn<'_, Self::Memory<'m>>,
        response: &Response<Self::Region>,
        source: Source<'_, Self::Memory<'m>>,
    ) {
        let hca = &mut self.core_mut().hca;
        hca.respond(response, source, turn.memory, turn.now);
        self.publish_soon(turn);
    }

    /// Remembers to note the progress of a queue pair that executed a unit, since there may be no output of it.
    #[inline]
    fn to_note_later(&mut self, destination: Qpn) {
        if self.keeps_records()
            && let Some(id) = self.core().hca.qp_named(destination)
        {
            self.core_mut().to_note.qp(id);
        }
    }

    /// Takes in a packet from a wire. A packet that continues a message is kept with the packets before it until the
    /// last one, or until [`end_train`](Self::end_train).
    fn receive(&mut self, turn: Turn<'_, Self::Memory<'_>>, packet: &Packet<'_>) {
        let core = self.core_mut();
        let Some(arrival) = core.hca.decode(packet) else {
            return self.end_train(turn);
        };
        if core.train.joins(&arrival) {
            if core.train.is_complete() {
                self.end_train(turn);
            }
            return;
        }
        self.end_train(turn);
        let core = self.core_mut();
        if !core.hca.begins_train(&arrival, &mut core.train) {
            take_in(self, turn, &arrival);
        }
    }

    /// Takes in the packets that [`receive`](Self::receive) kept.
    fn end_train(&mut self, turn: Turn<'_, Self::Memory<'_>>) {
        if self.core().train.is_empty() {
            return;
        }
        let mut train = core::mem::take(&mut self.core_mut().train);
        if let Some(arrival) = train.take() {
            take_in(self, turn, &arrival);
        }
        // The train's buffer is kept.
        self.core_mut().train = train;
    }

    /// Moves one receive from the queue pair's own ring into the engine, if there is one.
    fn stage_own(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: QpId,
    ) -> Result<bool, Self::Error> {
        let Some(request) = self.fetch_recv(turn, id)? else {
            return Ok(false);
        };
        let posted = self.core_mut().hca.post_recv(id, request);
        debug_assert_eq!(posted, Ok(()), "receives are staged one at a time");
        Ok(true)
    }

    /// Lets the engine compare what is left in a shared ring with its armed limit.
    fn check_limit(
        &mut self,
        turn: Turn<'_, Self::Memory<'_>>,
        id: SrqId,
    ) -> Result<(), Self::Error> {
        if let Some(left) = self.left_of_armed(turn, id)? {
            // An engine that does not know the queue has nothing to compare.
            let _ = self.core_mut().hca.srq_available(id, left);
        }
        Ok(())
    }
}

impl<F: FrontEnd + ?Sized> Receiving for F {}

/// Takes in an arrival from a wire; a datagram to a multicast group is taken in once for each member of the group.
fn take_in<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    arrival: &Arrival<'_, F::Region>,
) {
    match &arrival.content {
        Content::Request(request) if request.destination == Qpn::MULTICAST => {
            for copy in front.core().hca.fan_out(request) {
                let content = Content::Request(copy);
                let copy = Arrival {
                    content,
                    ..*arrival
                };
                execute(front, turn, &copy);
            }
        }
        _ => execute(front, turn, arrival),
    }
    front.publish_soon(turn);
}

fn execute<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    arrival: &Arrival<'_, F::Region>,
) {
    if let Content::Request(request) = &arrival.content {
        stage_for(front, turn, request);
    }
    let hca = &mut front.core_mut().hca;
    hca.receive(arrival, turn.memory, turn.now);
    if let Content::Request(request) = &arrival.content {
        front.to_note_later(request.destination);
        front.write_outputs(turn);
    }
}

/// Stages a receive if the request needs one.
fn stage_for<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    request: &Request<F::Region>,
) {
    match front.core().hca.wants_receive(request) {
        Some(ReceiveQueue::Own(id)) => {
            if let Err(error) = front.stage_own(turn, id) {
                front.fail_qp(turn, id, error);
            }
        }
        Some(ReceiveQueue::Shared(id)) => {
            if let Err(error) = stage_shared(front, turn, id) {
                front.fail_srq(turn, id, error);
            }
        }
        None => {}
    }
}

fn stage_shared<F: FrontEnd + ?Sized>(
    front: &mut F,
    turn: Turn<'_, F::Memory<'_>>,
    id: SrqId,
) -> Result<(), F::Error> {
    let Some(request) = front.fetch_shared_recv(turn, id)? else {
        return Ok(());
    };
    let posted = front.core_mut().hca.post_srq_recv(id, request);
    debug_assert_eq!(posted, Ok(()), "receives are staged one at a time");
    front.check_limit(turn, id)
}
