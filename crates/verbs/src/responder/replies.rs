//! Answers to packets that wait for their turn on the wire. They go in order within a queue pair, one packet or a few
//! at a time, so that a long READ holds up nobody.
//!
//! ```text
//!   oldest ─► [ READ data: 5 of 64 packets sent ][ atomic ][ READ data ][ ACK: moves on in place ]
//! ```
//!
//! READ data is looked up when its packet is made: a region may go while the READ is answered.

use alloc::collections::VecDeque;
use core::time::Duration;

use vrdma_wire::{Mtu, Psn};

use crate::attr::Access;
use crate::memory::Gather;
use crate::qp::Qp;
use crate::responder::rhythm::Rhythm;
use crate::shared::Shared;
use crate::time::Time;
use crate::unit::{Nak, Request, RequestOp, Response, ResponseBody, Route};
use crate::work::{Event, Remote};

/// Most answers that may wait beyond those that the peer may have outstanding: repeated ones, refusals.
const EXTRA: usize = 16;

/// Time between two congestion notifications of one queue pair: a sender slows down once for all
/// marks in between.
const CONGESTION_PAUSE: Duration = Duration::from_micros(50);

/// An answer that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    psn: Psn,
    msn: u32,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Ack,
    Nak(Nak),
    Atomic(u64),
    /// Data from `remote` on, `left` bytes; `begun` is set after the first packet.
    Read {
        remote: Remote,
        left: u32,
        begun: bool,
    },
}

/// Answers that one queue pair owes its peer.
#[derive(Default)]
pub(crate) struct Replies {
    due: VecDeque<Due>,
    /// Whether the peer has to be told that its packets met congestion.
    pub(crate) congestion: bool,
    /// Time at which it was last told so.
    told: Option<Time>,
    /// Whether an acknowledgement waits for a request of this end.
    rhythm: Rhythm,
}

/// One packet of an answer, or several of READ data.
pub(crate) struct Piece<R> {
    pub(crate) response: Response<R>,
    pub(crate) packets: u32,
    pub(crate) first: bool,
    pub(crate) last: bool,
}

impl Due {
    /// Returns the PSN after its last one.
    fn end(&self, mtu: Mtu) -> Psn {
        match self.what {
            What::Read { left, .. } => self.psn.plus(mtu.packets(left)),
            _ => self.psn.plus(1),
        }
    }
}

impl Replies {
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && !self.congestion
    }

    /// Notes that a packet of the peer met congestion. True when the peer has to be told, at most once in
    /// [`CONGESTION_PAUSE`].
    pub(crate) fn note_mark(&mut self, now: Time) -> bool {
        let recent = self
            .told
            .is_some_and(|told| now.since(told) < CONGESTION_PAUSE);
        if !recent {
            self.told = Some(now);
            self.congestion = true;
        }
        !recent
    }

    /// Notes that a request of this end goes out; true if due answers waited for it.
    #[inline]
    pub(crate) fn go_along(&mut self, now: Time) -> bool {
        self.rhythm.answer(now)
    }

    /// Ends waits that have lasted long enough.
    pub(crate) fn expire(&mut self, now: Time) {
        self.rhythm.expire(now);
    }

    /// Returns until when all due answers wait for a request of this end.
    pub(crate) fn wait_until(&self) -> Option<Time> {
        self.rhythm.holds_until().filter(|_| !self.congestion)
    }

    /// Whether READ data is next, which its rate may hold back.
    pub(crate) fn begins_with_data(&self) -> bool {
        let next = self.due.front();
        next.is_some_and(|due| matches!(due.what, What::Read { .. }))
    }

    pub(crate) fn trim(&mut self) {
        if self.due.is_empty() {
            self.due = VecDeque::new();
        }
    }

    /// Adds a READ. One that is asked for again from some PSN on replaces what is still to come of it: the peer has
    /// gone back to there (IBTA 9.4.4). It goes before what follows it.
    fn push_read(&mut self, read: Due, mtu: Mtu) {
        debug_assert!(matches!(read.what, What::Read { .. }));
        let (begin, end) = (read.psn, read.end(mtu));
        self.due.retain(|due| {
            let is_read = matches!(due.what, What::Read { .. });
            let covered = begin.is_before(due.end(mtu))
                && due.psn.is_before(end)
                && !end.is_before(due.end(mtu));
            !(is_read && covered)
        });
        let later = |due: &Due| matches!(due.what, What::Read { .. }) && begin.is_before(due.psn);
        match self.due.iter().position(later) {
            Some(at) => self.due.insert(at, read),
            None => self.due.push_back(read),
        }
    }

    /// Adds an acknowledgement. It covers those before it, so the newest is enough (IBTA 9.7.5.1.2).
    fn push_plain(&mut self, due: Due) {
        match self.due.back_mut() {
            Some(newest) if newest.what == What::Ack => {
                if !due.psn.is_before(newest.psn) {
                    *newest = due;
                }
            }
            Some(newest) if due.what == What::Ack && matches!(newest.what, What::Nak(_)) => {}
            _ => self.due.push_back(due),
        }
    }
}

impl<R> Qp<R> {
    /// Adds the answer to a packet. An answer that does not fit is lost as if the wire had lost it.
    pub(crate) fn owe(&mut self, request: &Request<R>, response: &Response<R>, now: Time) {
        let what = match (&response.body, &request.op) {
            (ResponseBody::Read(_), RequestOp::Read { remote, length }) => What::Read {
                remote: *remote,
                left: *length,
                begun: false,
            },
            (ResponseBody::Atomic(old), _) => What::Atomic(*old),
            (ResponseBody::Ack, _) => What::Ack,
            (ResponseBody::Nak(nak), _) => What::Nak(*nak),
            _ => return,
        };
        let due = Due {
            psn: response.psn,
            msn: response.msn,
            what,
        };
        let room = usize::from(self.attr.max_dest_rd_atomic) + EXTRA;
        let replies = &mut self.responder.replies;
        if replies.due.len() >= room {
            return;
        }
        match what {
            What::Read { .. } => replies.push_read(due, self.attr.path_mtu),
            _ => replies.push_plain(due),
        }
        if !(what == What::Ack && replies.rhythm.hear(now) && replies.due.len() == 1) {
            replies.rhythm.hurry();
        }
        debug_assert!(replies.due.len() <= room, "what is owed is bounded");
    }
}

impl<R> Qp<R> {
    /// Whether due answers go with the next request of this queue pair, or a little later.
    pub(crate) fn answer_waits(&mut self, now: Time) -> bool {
        self.responder.replies.expire(now);
        self.responder.replies.wait_until().is_some()
    }
}

impl<R: Clone> Qp<R> {
    /// Makes the next packet of the due answers, or up to `most` packets of READ data. It does so in ERR, too: the peer
    /// still has to hear what was done before, and why the connection ended.
    pub(crate) fn next_piece(&mut self, shared: &mut Shared<R>, most: u32) -> Option<Piece<R>> {
        let due = *self.responder.replies.due.front()?;
        let Some(route) = shared.route(&self.attr.address) else {
            self.responder.replies.due.clear();
            return None;
        };
        let What::Read {
            remote,
            left,
            begun,
        } = due.what
        else {
            self.responder.replies.due.pop_front();
            return Some(self.whole(&due, route));
        };
        let mtu = self.attr.path_mtu;
        let length = left.min(mtu.bytes().saturating_mul(most.max(1)));
        let Some(data) = self.read_piece(shared, remote, length) else {
            return Some(self.refuse_read(shared, &due, route));
        };
        self.advance_read(remote, length, left);
        let body = ResponseBody::Read(data);
        Some(Piece {
            response: self.response(&due, route, body),
            packets: mtu.packets(length),
            first: !begun,
            last: length == left,
        })
    }

    fn read_piece(&self, shared: &Shared<R>, remote: Remote, length: u32) -> Option<Gather<R>> {
        let mut data = Gather::new();
        if length > 0 {
            let right = Access::REMOTE_READ;
            let spot = shared.remote(self, remote, length, right)?;
            data.push(spot.stretch(length));
        }
        Some(data)
    }

    /// Moves the oldest READ on behind the packets just made.
    fn advance_read(&mut self, remote: Remote, length: u32, left: u32) {
        let mtu = self.attr.path_mtu;
        debug_assert!(length <= left, "no more than what was asked for");
        let due = &mut self.responder.replies.due;
        if length == left {
            due.pop_front();
        } else if let Some(read) = due.front_mut() {
            read.psn = read.psn.plus(mtu.packets(length));
            read.what = What::Read {
                remote: Remote {
                    addr: remote.addr.wrapping_add(u64::from(length)),
                    ..remote
                },
                left: left - length,
                begun: true,
            };
        }
    }

    /// Refuses a READ whose region went while it was read (IBTA 9.7.4).
    fn refuse_read(&mut self, shared: &mut Shared<R>, due: &Due, route: Route) -> Piece<R> {
        shared.counters.naks_sent += 1;
        shared.event(Event::QpAccessError(self.id));
        let refusal = Due {
            what: What::Nak(Nak::RemoteAccess),
            ..*due
        };
        self.responder.replies.due.clear();
        self.enter_error(shared);
        self.whole(&refusal, route)
    }

    fn whole(&self, due: &Due, route: Route) -> Piece<R> {
        let body = match due.what {
            What::Nak(nak) => ResponseBody::Nak(nak),
            What::Atomic(old) => ResponseBody::Atomic(old),
            What::Ack | What::Read { .. } => ResponseBody::Ack,
        };
        Piece {
            response: self.response(due, route, body),
            packets: 1,
            first: true,
            last: true,
        }
    }

    fn response(&self, due: &Due, route: Route, body: ResponseBody<R>) -> Response<R> {
        Response {
            route,
            source: self.qpn,
            destination: self.attr.dest_qpn,
            psn: due.psn,
            msn: due.msn,
            body,
        }
    }
}
