//! Datagrams of a tunnel that can only be read or written with its key.
//!
//! ```text
//!   call   ──────► is it made with our key?          sessions go one way: each end calls for what it sends,
//!          ◄────── answer                            each of its two ports for itself
//!   frames ──────► number new? opens? ─► frame
//! ```
//! A session has a counter, and keys that no end has had before, so no number is used twice with a key, whatever is
//! restarted. Calls and answers may get lost; a call is repeated about every second, and at once when the peer calls.
//! Frames are lost until there is a session.

mod handshake;
mod header;
mod key;
mod window;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use snow::StatelessTransportState;

use crate::counters::Loss;
use handshake::{Call, Life};
pub(crate) use header::{Channel, FOR_ROCE, MARK, channel};
use header::{Header, Kind};
pub use key::{Keys, NotKeys};
use window::Window;

/// Bytes by which a sealed datagram is longer than in the clear.
pub(crate) const OVERHEAD: usize = header::LEN + header::TAG;

/// Time and number of datagrams after which a session is replaced: by then little can be learned about its key.
const SESSION_LASTS: Duration = Duration::from_secs(120);
const SESSION_FRAMES: u64 = 1 << 32;

/// Most datagrams that a session without a successor seals.
const SESSION_FRAMES_MAX: u64 = 1 << 40;

/// Time after which a call is sent again, and time after which it is made anew: any answer to the same call will do,
/// however far away the peer is.
const CALLS_APART: Duration = Duration::from_millis(200);
const CALL_LASTS: Duration = Duration::from_secs(10);

/// Shortest time between two answers to a peer: an answer costs a tenth of a millisecond, and anybody can replay
/// recorded calls.
const ANSWERS_APART: Duration = Duration::from_millis(5);

/// Shortest time between two calls that are checked, whoever sent them: finding that a call was made with another key
/// takes some microseconds, and anybody can send such calls in a peer's name. Existing sessions go on meanwhile.
const CALLS_LOOKED_AT_APART: Duration = Duration::from_millis(1);

/// Most sessions of a peer that frames came by: the one in use, and the previous one for frames that are on their way.
const PROVEN_MAX: usize = 2;

/// Most sessions of a peer that nothing came by yet: because answers got lost, or calls were recorded ones.
const UNPROVEN_MAX: usize = 4;

/// State for sealing datagrams to and from one peer, at one of a tunnel's ports.
pub(crate) struct Sealing {
    keys: Keys,
    channel: Channel,
    life: Life,
    /// Life of the peer that answered the last call.
    answerer: Option<Life>,
    /// The peer may have another life than the one that answered.
    stale: bool,
    calling: Option<Calling>,
    sealer: Option<(Arc<Sealer>, Instant)>,
    incoming: Vec<Incoming>,
    answered: Option<Instant>,
    looked_at: Option<Instant>,
}

/// A call, and when it was made and last sent.
struct Calling {
    call: Call,
    session: u32,
    message: Vec<u8>,
    made: Instant,
    /// Time at which it was last sent; `None` if it is to be sent again at once.
    sent: Option<Instant>,
}

/// Seals datagrams to a peer; several threads may use it.
pub(crate) struct Sealer {
    session: u32,
    channel: Channel,
    keys: StatelessTransportState,
    counter: AtomicU64,
}

/// A session that opens a peer's datagrams.
struct Incoming {
    session: u32,
    keys: StatelessTransportState,
    window: Window,
    proven: bool,
}

/// What an opened datagram was.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Opened {
    /// A frame: this number of bytes of VXLAN.
    Frame(usize),
    /// A message about sessions; this reply is to be sent to the peer.
    Reply(Vec<u8>),
    /// A message about sessions, without a reply.
    Nothing,
}

impl Sealing {
    /// Makes the state for a peer. `None` if the system has no random numbers.
    pub(crate) fn new(keys: Keys, channel: Channel) -> Option<Self> {
        let mut life = [0; 16];
        getrandom::fill(&mut life).ok()?;
        Some(Self {
            keys,
            channel,
            life: Life(life),
            answerer: None,
            stale: false,
            calling: None,
            sealer: None,
            incoming: Vec::new(),
            answered: None,
            looked_at: None,
        })
    }

    /// Returns the current sealer, once the peer has answered.
    pub(crate) fn sealer(&self) -> Option<Arc<Sealer>> {
        self.sealer.as_ref().map(|(sealer, _)| Arc::clone(sealer))
    }

    /// Returns a call to send, if one is due.
    pub(crate) fn tend(&mut self, now: Instant) -> Option<Vec<u8>> {
        if !self.wants_session(now) {
            return None;
        }
        let since = |then: Instant| now.saturating_duration_since(then);
        match &mut self.calling {
            Some(calling) if since(calling.made) < CALL_LASTS => {
                let due = calling.sent.is_none_or(|sent| since(sent) >= CALLS_APART);
                due.then(|| {
                    calling.sent = Some(now);
                    calling.message.clone()
                })
            }
            _ => self.call(now),
        }
    }

    fn wants_session(&self, now: Instant) -> bool {
        let is_old = |(sealer, since): &(Arc<Sealer>, Instant)| {
            now.saturating_duration_since(*since) >= SESSION_LASTS
                || sealer.counter.load(Ordering::Relaxed) >= SESSION_FRAMES
        };
        self.stale || self.sealer.as_ref().is_none_or(is_old)
    }

    fn call(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (call, noise) = handshake::call(&self.keys, self.channel, self.life)?;
        let session = fastrand::u32(..);
        let message = self.datagram(Kind::Call, session, &noise);
        self.calling = Some(Calling {
            call,
            session,
            message: message.clone(),
            made: now,
            sent: Some(now),
        });
        Some(message)
    }

    fn datagram(&self, kind: Kind, session: u32, noise: &[u8]) -> Vec<u8> {
        let header = Header {
            kind,
            channel: self.channel,
            session,
            counter: 0,
        };
        [&header.bytes()[..], noise].concat()
    }

    /// Opens a datagram of the peer into `room`, which is as long as the datagram.
    pub(crate) fn open(
        &mut self,
        datagram: &[u8],
        room: &mut [u8],
        now: Instant,
    ) -> Result<Opened, Loss> {
        let (header, sealed) = Header::parse(datagram).ok_or(Loss::Malformed)?;
        if header.channel != self.channel {
            return Err(Loss::Malformed);
        }
        match header.kind {
            Kind::Call => self.take_call(&header, sealed, now),
            Kind::Answer => self.take_answer(&header, sealed, now),
            Kind::Frame => self.take_frame(&header, sealed, room),
        }
    }

    fn take_call(&mut self, header: &Header, noise: &[u8], now: Instant) -> Result<Opened, Loss> {
        let lately = |then: Option<Instant>, apart: Duration| {
            then.is_some_and(|then| now.saturating_duration_since(then) < apart)
        };
        if lately(self.answered, ANSWERS_APART) || lately(self.looked_at, CALLS_LOOKED_AT_APART) {
            return Err(Loss::NoSession);
        }
        self.looked_at = Some(now);
        let (caller, taken) =
            handshake::take_call(&self.keys, self.channel, noise).ok_or(Loss::WrongKey)?;
        if caller == self.life {
            return Err(Loss::Forged);
        }
        self.answered = Some(now);
        if let Some(calling) = &mut self.calling {
            // A peer that has started since the call was sent did not get it, and frames are lost until it does.
            calling.sent = None;
        }
        // The call may be a recorded one: it makes us call, and the answer shows whether it was.
        self.stale |= self.answerer != Some(caller);
        let session = self.unused_session();
        let answered = taken.answer(self.life, session);
        let (keys, noise) = answered.ok_or(Loss::Malformed)?;
        self.keep_at_most(UNPROVEN_MAX - 1, false);
        self.incoming.push(Incoming {
            session,
            keys,
            window: Window::new(),
            proven: false,
        });
        let reply = self.datagram(Kind::Answer, header.session, &noise);
        Ok(Opened::Reply(reply))
    }

    fn unused_session(&self) -> u32 {
        let is_used = |session: u32| self.incoming.iter().any(|it| it.session == session);
        let mut session = fastrand::u32(..);
        while is_used(session) {
            session = session.wrapping_add(1);
        }
        session
    }

    /// Forgets the oldest sessions, proven or not, beyond `most`.
    fn keep_at_most(&mut self, most: usize, proven: bool) {
        let of_sort = self.incoming.iter().filter(|it| it.proven == proven);
        let mut surplus = of_sort.count().saturating_sub(most);
        self.incoming.retain(|it| {
            let goes = it.proven == proven && surplus > 0;
            surplus -= usize::from(goes);
            !goes
        });
    }

    fn take_answer(&mut self, header: &Header, noise: &[u8], now: Instant) -> Result<Opened, Loss> {
        let is_ours = |calling: &mut Calling| calling.session == header.session;
        let mut calling = self.calling.take_if(is_ours).ok_or(Loss::NoSession)?;
        let Some((answerer, session)) = calling.call.take_answer(noise) else {
            self.calling = Some(calling);
            return Err(Loss::Forged);
        };
        let sealer = Arc::new(Sealer {
            session,
            channel: self.channel,
            keys: calling.call.finish().ok_or(Loss::Malformed)?,
            counter: AtomicU64::new(0),
        });
        let mut proof = vec![0; OVERHEAD];
        let sealed = sealer.seal(&[], &mut proof);
        self.answerer = Some(answerer);
        self.stale = false;
        self.sealer = Some((sealer, now));
        // Proves to the peer that the call was not a recorded one, before there is a frame to send.
        sealed
            .then_some(Opened::Reply(proof))
            .ok_or(Loss::Malformed)
    }

    fn take_frame(
        &mut self,
        header: &Header,
        sealed: &[u8],
        room: &mut [u8],
    ) -> Result<Opened, Loss> {
        let mut all = self.incoming.iter_mut();
        let incoming = all.find(|it| it.session == header.session);
        let incoming = incoming.ok_or(Loss::NoSession)?;
        if !incoming.window.is_new(header.counter) {
            return Err(Loss::Replayed);
        }
        let opened = incoming.keys.read_message(header.counter, sealed, room);
        let bytes = opened.map_err(|_| Loss::Forged)?;
        incoming.window.note(header.counter);
        if !std::mem::replace(&mut incoming.proven, true) {
            self.keep_at_most(PROVEN_MAX, true);
        }
        Ok(match bytes {
            0 => Opened::Nothing,
            bytes => Opened::Frame(bytes),
        })
    }
}

impl Sealer {
    /// Seals bytes of VXLAN into a room that is [`OVERHEAD`] longer. Returns `false` if the session is used up.
    pub(crate) fn seal(&self, plain: &[u8], room: &mut [u8]) -> bool {
        let counter = self.counter.fetch_add(1, Ordering::Relaxed);
        if counter >= SESSION_FRAMES_MAX {
            return false;
        }
        let header = Header {
            kind: Kind::Frame,
            channel: self.channel,
            session: self.session,
            counter,
        };
        let Some((head, sealed)) = room.split_first_chunk_mut() else {
            return false;
        };
        *head = header.bytes();
        self.keys.write_message(counter, plain, sealed).is_ok()
    }
}

impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealing({:?}, not shown)", self.channel)
    }
}

#[cfg(test)]
mod tests;
