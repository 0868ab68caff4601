//! A member's turn: what it sends, until its budget is spent.
//!
//! ```text
//!   next request ──► to another member of this shard ──► deliver ──► next one, as long as it goes the same way
//!                │                                          └── acknowledgements: the last one of a row
//!                └─► anywhere else, or limited ──► carry, one by one
//! ```

use vrdma_switch::PortId;
use vrdma_verbs::unit::{Request, Response};
use vrdma_verbs::{Path, Source, Time};
use vrdma_wire::Qpn;

use crate::budget::Moved;
use crate::host::Host;
use crate::limits::Sent;
use crate::member::Member;
use crate::members::{Ends, Pair, TurnEnd};
use crate::paths::{NOWHERE, Reachable};
use crate::port::Port;
use crate::turn::Turn;

impl<M: Member, P: Port> Host<M, P> {
    /// Gives one member its turn, as far as its budget in this turn of the carrier goes; `true` if it had something to
    /// do.
    pub fn serve(&mut self, port: PortId, now: Time) -> bool {
        let Some(member) = self.members.get_mut(port) else {
            return false;
        };
        member.renew_memory(now);
        let memory = member.memory();
        let view = M::view(&memory);
        let polled = member.poll(&view, now);
        let turn = Turn {
            from: port,
            memory: &view,
            now,
        };
        let replied = self.reply(turn);
        let sent = self.send_all(turn);
        if sent.any {
            // Answers that waited for one of these requests go out with it.
            self.reply(turn);
        }
        let moved = replied || sent.any;
        if sent.limited {
            // It gets its next turn to send when the limit allows.
            let end = TurnEnd {
                worked: moved,
                more: moved,
            };
            self.members.had_turn(port, end, now);
            self.members.publish(now);
            return moved;
        }
        // A member in debt for a long unit may have more to send when the debt is paid, and what `poll` found need not
        // have been anything to send.
        let more = self.members.is_spent(port) || self.member(port).is_some_and(M::is_runnable);
        let worked = polled || moved || more;
        let end = TurnEnd {
            worked,
            // There may be more answers than fit one turn.
            more: more || replied,
        };
        self.members.had_turn(port, end, now);
        if worked {
            self.members.publish(now);
        }
        worked
    }

    /// Carries what a member has to send.
    fn send_all(&mut self, turn: Turn<'_, M::View<'_>>) -> Sending {
        let mut sending = Sending::default();
        let mut behind = None;
        loop {
            let mut request = match behind.take() {
                Some(request) => request,
                None => match self.next_to_send(turn, &mut sending) {
                    Some(request) => request,
                    None => return sending,
                },
            };
            sending.any = true;
            match self.neighbour(turn, &request) {
                Some(to) => behind = self.exchange(turn, to, &request),
                None => self.carry_one(turn, &mut request),
            }
        }
    }

    fn next_to_send(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        sending: &mut Sending,
    ) -> Option<Request<M::Region>> {
        let Turn { from, now, .. } = turn;
        if self.members.is_spent(from) || self.lanes.is_held(from) {
            return None;
        }
        sending.limited = self.waits_for_limit(from, now);
        if sending.limited {
            return None;
        }
        let mut paths = Reachable {
            shared: &self.shared,
            uplinks: &mut self.uplinks,
            lanes: &mut self.lanes,
            accounts: &mut self.accounts,
            from,
            now,
        };
        let member = self.members.get_mut(from)?;
        member.next_request(turn.memory, now, &mut paths)
    }

    /// Carries a request to wherever it goes, and charges it.
    fn carry_one(&mut self, turn: Turn<'_, M::View<'_>>, request: &mut Request<M::Region>) {
        let moved = Moved::by(request);
        let frames = self.uplinks.queued_bytes;
        let mut sent = Sent::of(request);
        let to = self.carry(turn, request);
        let receiver = to.and_then(|to| self.guaranteed_receiver(to));
        self.members.charge_to(turn.from, receiver.as_ref(), moved);
        sent.bytes = sent.bytes.max(self.uplinks.queued_bytes - frames);
        self.pay(turn.from, sent, turn.now);
    }

    /// Returns the member of this shard that a request of a connection is for, if neither of the two is limited.
    #[inline]
    fn neighbour(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        request: &Request<M::Region>,
    ) -> Option<PortId> {
        let to = neighbour(request)?;
        let is_plain =
            self.members.get(to).is_some() && !self.is_charged(to) && !self.is_charged(turn.from);
        is_plain.then_some(to)
    }

    /// Delivers a request to a member of this shard, and those behind it that go the same way, as far as the budget
    /// goes, with one view of each memory. Hands back the first request that goes elsewhere.
    fn exchange(
        &mut self,
        turn: Turn<'_, M::View<'_>>,
        to: PortId,
        first: &Request<M::Region>,
    ) -> Option<Request<M::Region>> {
        let Turn { from, now, .. } = turn;
        let receiver = self.guaranteed_receiver(to);
        let mut paths = Reachable {
            shared: &self.shared,
            uplinks: &mut self.uplinks,
            lanes: &mut self.lanes,
            accounts: &mut self.accounts,
            from,
            now,
        };
        let Ends { mut pair, run } = self.members.ends(from, to, now)?;
        run.sends_to(from, receiver.as_ref());
        let before = run.moved(from);
        let theirs = pair.peer().memory();
        let mut exchange = Exchange {
            theirs: M::view(&theirs),
            pair,
            turn,
            unheard: None,
        };
        run.charge(from, Moved::by(first));
        exchange.deliver(first);
        let mut behind = None;
        while !run.is_spent(from) {
            // A request is large, so it is moved no more often than necessary.
            let next = exchange
                .pair
                .member()
                .next_request(turn.memory, now, &mut paths);
            let Some(request) = &next else { break };
            if neighbour(request) != Some(to) {
                behind = next;
                break;
            }
            run.charge(from, Moved::by(request));
            exchange.deliver(request);
        }
        exchange.end();
        if let Some(receiver) = receiver {
            run.arrived(&receiver, run.moved(from).since(before));
        }
        self.members.was_sent_to(to);
        behind
    }
}

/// The outcome of sending.
#[derive(Default)]
struct Sending {
    any: bool,
    /// A limit ended it.
    limited: bool,
}

/// Returns the member of this host that a request of a connection is for. Requests for QP 1 may be for the owner of the
/// host.
#[inline]
fn neighbour<R>(request: &Request<R>) -> Option<PortId> {
    let Some(Path::Local(port)) = request.path else {
        return None;
    };
    let is_plain =
        port != NOWHERE && request.destination != Qpn::GSI && request.destination != Qpn::MULTICAST;
    is_plain.then_some(PortId(port))
}

/// Two members while requests go from one to the other, or one member whose requests are for itself.
struct Exchange<'a, 'm, 'p, M: Member> {
    pair: Pair<'a, M>,
    /// View of the peer's memory.
    theirs: M::View<'p>,
    turn: Turn<'a, M::View<'m>>,
    /// The last acknowledgement: it stands for those before it, so the member gets no others of a row.
    unheard: Option<Response<M::Region>>,
}

impl<M: Member> Exchange<'_, '_, '_, M> {
    fn deliver(&mut self, request: &Request<M::Region>) {
        let Turn { memory, now, .. } = self.turn;
        let source = Source::Memory(memory);
        let peer = self.pair.peer();
        let answer = peer.deliver_in_row(&self.theirs, request, source, now, &mut self.unheard);
        let Some(said) = &answer else { return };
        self.hear();
        if said.is_ack() {
            self.unheard = answer;
        } else {
            self.respond(said);
        }
    }

    /// Gives the member the acknowledgement that it has not had yet.
    fn hear(&mut self) {
        if let Some(answer) = self.unheard.take() {
            self.respond(&answer);
        }
    }

    /// Ends the row.
    fn end(&mut self) {
        self.hear();
        self.pair.peer().end_row();
    }

    fn respond(&mut self, answer: &Response<M::Region>) {
        // A peer that forgot requests acknowledged to the member would not get them again.
        self.pair.peer().end_row();
        let Turn { memory, now, .. } = self.turn;
        let source = Source::Memory(&self.theirs);
        self.pair.member().respond(memory, answer, source, now);
    }
}
