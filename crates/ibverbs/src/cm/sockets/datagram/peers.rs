//! The peers that a socket talks to, and how each is reached.
//!
//! ```text
//!   Unknown ── asks ──► Known ── asks again, now and then or in doubt ──► Known
//!      ▲                  └── nobody there any more ──┐
//!      └──── asks again at the next datagram ── Gone ◄┘
//! ```

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::header::Address;
use crate::abi::Ah;
use crate::address::ibv_destroy_ah;

/// Most peers that are remembered; for a new one, the peer that was not sent to for longest is forgotten.
const PEERS_MAX: usize = 1024;

/// Most datagrams to one peer that wait until it is found.
const WAITING_MAX: usize = 8;

/// Time after which a peer is asked for again: it may have ended, and another come in its place.
const FRESH: Duration = Duration::from_secs(5);

/// Time after an answer in which the peer is not asked for again, whatever strangers send.
const REST: Duration = Duration::from_millis(100);

/// The queue pair of a peer.
#[derive(Clone, Copy)]
pub(super) struct RemoteQp {
    /// Its number.
    pub(super) qpn: u32,
    /// The Q_Key of datagrams to it.
    pub(super) qkey: u32,
}

/// How a peer is reached.
pub(super) struct PeerHandle {
    handle: *mut Ah,
    /// The socket's station that reaches it.
    pub(super) station: usize,
    pub(super) queue_pair: RemoteQp,
    /// The peer's real address, if it is called by the loopback address.
    pub(super) at: Address,
    /// The socket's own address on the way.
    pub(super) own: [u8; 16],
}

// SAFETY: a handle, which may be used from any thread.
unsafe impl Send for PeerHandle {}

impl PeerHandle {
    /// # Safety
    /// `handle` is one that nobody else frees.
    pub(super) unsafe fn new(
        handle: *mut Ah,
        station: usize,
        queue_pair: RemoteQp,
        at: Address,
        own: [u8; 16],
    ) -> Self {
        Self {
            handle,
            station,
            queue_pair,
            at,
            own,
        }
    }

    pub(super) fn handle(&self) -> *mut Ah {
        self.handle
    }
}

impl Drop for PeerHandle {
    fn drop(&mut self) {
        // SAFETY: the peer's own handle; requests that were posted have copies.
        unsafe { ibv_destroy_ah(self.handle) };
    }
}

/// A peer that datagrams are sent to.
#[derive(Default)]
pub(super) struct Peer {
    pub(super) way: Option<PeerHandle>,
    /// Whether a question for it is under way.
    pub(super) is_asked: bool,
    /// Whether another queue pair than the known one has sent in its name.
    doubted: bool,
    answered: Option<Instant>,
    waiting: VecDeque<Vec<u8>>,
    used: u64,
}

impl Peer {
    /// Whether it is time to ask where the peer is.
    pub(super) fn wants_question(&self, now: Instant) -> bool {
        let Some(answered) = self.answered else {
            return !self.is_asked;
        };
        let age = now.saturating_duration_since(answered);
        let is_stale = self.way.is_none() || self.doubted || age >= FRESH;
        !self.is_asked && is_stale && age >= REST
    }

    /// Whether no peer was there the last time.
    pub(super) fn is_gone(&self) -> bool {
        self.way.is_none() && self.answered.is_some()
    }

    /// Keeps a datagram until the answer; `false` if there is no room.
    pub(super) fn keep(&mut self, data: Vec<u8>) -> bool {
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push_back(data);
        }
        has_room
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    pub(super) fn take_waiting(&mut self) -> VecDeque<Vec<u8>> {
        std::mem::take(&mut self.waiting)
    }

    /// Notes the answer to a question.
    pub(super) fn answer(&mut self, way: Option<PeerHandle>, now: Instant) {
        (self.way, self.answered) = (way, Some(now));
        (self.is_asked, self.doubted) = (false, false);
    }

    /// Notes that a question was in vain; what was known stays.
    pub(super) fn unanswered(&mut self, now: Instant) {
        let way = self.way.take();
        self.answer(way, now);
    }
}

/// All peers of a socket.
#[derive(Default)]
pub(super) struct Peers {
    all: HashMap<Address, Peer>,
    uses: u64,
    /// Peers that have become doubtful, to be asked for.
    doubted: Vec<Address>,
}

impl Peers {
    /// Returns the peer at an address, which is to be sent to.
    pub(super) fn of(&mut self, address: Address) -> &mut Peer {
        if self.all.len() >= PEERS_MAX && !self.all.contains_key(&address) {
            let idle = self.all.iter().filter(|(_, peer)| !peer.is_asked);
            let oldest = idle.min_by_key(|(_, peer)| peer.used).map(|(of, _)| *of);
            // Few are asked for at a time, so there is an idle one.
            oldest.and_then(|oldest| self.all.remove(&oldest));
        }
        self.uses += 1;
        let peer = self.all.entry(address).or_default();
        peer.used = self.uses;
        peer
    }

    pub(super) fn get(&self, address: &Address) -> Option<&Peer> {
        self.all.get(address)
    }

    /// Whether a datagram of this sender is accepted. From a known peer, only its known queue pair is; another queue
    /// pair makes the peer doubtful.
    pub(super) fn trust(&mut self, from: &Address, qpn: u32) -> bool {
        let Some(peer) = self.all.get_mut(from) else {
            return true;
        };
        let same = peer
            .way
            .as_ref()
            .is_none_or(|way| way.queue_pair.qpn == qpn);
        if !same && !peer.doubted {
            peer.doubted = true;
            self.doubted.push(*from);
        }
        same
    }

    /// Returns the peers that have become doubtful since the last call.
    pub(super) fn take_doubted(&mut self) -> Vec<Address> {
        std::mem::take(&mut self.doubted)
    }

    /// Forgets all peers: their adapters are gone.
    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u16) -> Address {
        Address {
            gid: [0; 16],
            port: number,
        }
    }

    #[test]
    fn peers_are_bounded_and_the_longest_unused_goes() {
        let mut peers = Peers::default();
        peers.of(address(0)).is_asked = true;
        for number in 1..PEERS_MAX as u16 + 10 {
            peers.of(address(number));
        }
        assert_eq!(peers.all.len(), PEERS_MAX);
        assert!(peers.get(&address(0)).is_some(), "its answer comes");
        assert!(peers.get(&address(1)).is_none());
        assert!(peers.get(&address(PEERS_MAX as u16)).is_some());
    }

    #[test]
    fn what_waits_for_an_answer_is_bounded() {
        let mut peer = Peer::default();
        let kept = (0..100).filter(|_| peer.keep(vec![7])).count();
        assert_eq!(kept, WAITING_MAX);
        assert!(!peer.has_room());
        assert_eq!(peer.take_waiting().len(), WAITING_MAX);
        assert!(peer.has_room());
    }

    #[test]
    fn who_is_gone_is_asked_for_again_but_not_at_once() {
        let mut peer = Peer::default();
        let start = Instant::now();
        assert!(peer.wants_question(start));
        peer.is_asked = true;
        assert!(!peer.wants_question(start));
        peer.answer(None, start);
        assert!(peer.is_gone());
        assert!(!peer.wants_question(start));
        assert!(peer.wants_question(start + REST));
    }
}
