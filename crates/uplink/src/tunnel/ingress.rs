//! Decides which arrivals are taken in, and what is learned from them about the peers.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use vrdma_wire::Mac;

use super::opening::INNER_HEADER_BYTES;
use crate::counters::{Counters, Loss};
use crate::peers::{Admitted, Complaint, Learned, Peers};
use crate::seal::{self, Opened};
use crate::segment::{Received, Segment};
use crate::strays::Stray;
use crate::sys::Arrival;
use crate::vxlan::{self, Vni};

/// The party that takes a frame.
pub(super) enum Taker {
    /// The owner of this port.
    Owner,
    /// The owner too, which counts it as of a network that nobody here has: nothing is learned from it.
    Stranger,
    /// The other port, which counts it.
    Sibling,
    Nobody,
}

impl Taker {
    /// The owner, which said whether the network is one of ours.
    pub(super) fn of_ours(ours: bool) -> Self {
        if ours { Self::Owner } else { Self::Stranger }
    }
}

/// Asks for the taker of a datagram. The frame is given, too, unless only the other port can open it.
pub(super) trait Ask: FnMut(Stray<'_>, Option<Received<'_>>) -> Taker {}

impl<F: FnMut(Stray<'_>, Option<Received<'_>>) -> Taker> Ask for F {}

/// Decides which parts of an arrival are taken in.
pub(super) struct Ingress<'a> {
    /// Locked for one datagram at a time: senders of other threads wait no longer than that takes.
    pub(super) peers: &'a Mutex<Peers>,
    pub(super) counters: &'a mut Counters,
    pub(super) now: Instant,
    /// Room for opened datagrams.
    pub(super) clear: &'a mut Vec<u8>,
    /// Messages about sessions, each with the peer to send it to.
    pub(super) replies: Vec<(SocketAddr, Vec<u8>)>,
}

impl Ingress<'_> {
    // A thread that panicked with the lock ends the daemon, so the state that it left is not seen.
    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an arrival apart, which may be several datagrams of one sender. `taker` tells who takes a frame.
    pub(super) fn receive(&mut self, arrival: Arrival, bytes: &[u8], taker: &mut impl Ask) {
        let step = arrival.joined.unwrap_or(bytes.len()).max(1);
        let datagrams = bytes.len().div_ceil(step).max(1) as u64;
        if arrival.truncated {
            return self.counters.lose_many(Loss::Truncated, datagrams);
        }
        let known = arrival
            .from
            .and_then(|from| Some((from, self.peers().sender(from)?)));
        let Some((from, peer)) = known else {
            return self.counters.lose_many(Loss::UnknownPeer, datagrams);
        };
        if bytes.is_empty() {
            return self.counters.lose(Loss::Malformed);
        }
        for datagram in bytes.chunks(step) {
            let one = Stray {
                from,
                datagram,
                opened: false,
            };
            self.take(one, peer, taker);
        }
    }

    /// Takes a datagram from the other port.
    pub(super) fn receive_stray(&mut self, stray: Stray<'_>, taker: &mut impl Ask) {
        let peer = self.peers().sender(stray.from);
        match peer {
            Some(peer) => self.take(stray, peer, taker),
            None => self.counters.lose(Loss::UnknownPeer),
        }
    }

    fn take(&mut self, one: Stray<'_>, peer: SocketAddr, taker: &mut impl Ask) {
        let (is_sealed, own) = {
            let peers = self.peers();
            (peers.is_sealed(peer), peers.channel())
        };
        let taken = match (seal::channel(one.datagram), is_sealed) {
            _ if one.opened => self.take_clear(one, peer, taker),
            (None, false) => self.take_clear(one, peer, taker),
            (Some(channel), true) if channel != own => match taker(one, None) {
                Taker::Sibling => Ok(()),
                _ => Err(Loss::Stray),
            },
            (Some(_), true) => self.take_sealed(one, peer, taker),
            (None, true) => {
                self.peers().complain(Complaint::Clear(peer));
                Err(Loss::Unsealed)
            }
            (Some(_), false) => {
                self.peers().complain(Complaint::Sealed(peer));
                Err(Loss::Unsealed)
            }
        };
        if let Err(loss) = taken {
            self.counters.lose(loss);
        }
    }

    fn take_sealed(
        &mut self,
        one: Stray<'_>,
        peer: SocketAddr,
        taker: &mut impl Ask,
    ) -> Result<(), Loss> {
        // Moved out of `self`, since the frame in it is passed on.
        let mut clear = std::mem::take(self.clear);
        let bytes = one.datagram.len();
        if clear.len() < bytes {
            clear.resize(bytes, 0);
        }
        let opened = self.peers().open(peer, one.datagram, &mut clear, self.now);
        let taken = match opened {
            Ok(Opened::Frame(bytes)) => {
                let opened = Stray {
                    from: one.from,
                    datagram: &clear[..bytes],
                    opened: true,
                };
                self.take_clear(opened, peer, taker)
            }
            Ok(Opened::Reply(reply)) => {
                self.replies.push((peer, reply));
                Ok(())
            }
            Ok(Opened::Nothing) => Ok(()),
            Err(loss) => Err(loss),
        };
        *self.clear = clear;
        taken
    }

    fn take_clear(
        &mut self,
        one: Stray<'_>,
        peer: SocketAddr,
        taker: &mut impl Ask,
    ) -> Result<(), Loss> {
        let (vni, source, frame) = unwrap(one.datagram).ok_or(Loss::Malformed)?;
        let admitted = self.peers().admits(vni, source, peer);
        match admitted {
            Admitted::Yes => {}
            Admitted::ForeignStation => return Err(Loss::ForeignStation),
            Admitted::ForeignNetwork => return Err(Loss::ForeignNetwork),
        }
        let received = Received {
            frame,
            segment: Segment::Vni(vni.get()),
            from: Some(peer),
        };
        match taker(one, Some(received)) {
            Taker::Owner => {
                self.counters.took(frame.len());
                self.learn(vni, source, peer);
            }
            Taker::Stranger => self.counters.took(frame.len()),
            Taker::Sibling => {}
            Taker::Nobody => return Err(Loss::Stray),
        }
        Ok(())
    }

    fn learn(&mut self, vni: Vni, source: Mac, peer: SocketAddr) {
        let learned = self.peers().learn(vni, source, peer, self.now);
        match learned {
            Learned::Plain => {}
            Learned::Moved => self.counters.moved += 1,
            Learned::Contested => self.counters.contested += 1,
        }
    }
}

/// Returns the segment, source and bytes of a frame that has a whole header.
fn unwrap(datagram: &[u8]) -> Option<(Vni, Mac, &[u8])> {
    let (vni, frame) = vxlan::parse(datagram)?;
    let header = frame.first_chunk::<{ INNER_HEADER_BYTES as usize }>()?;
    let source = header[6..].first_chunk()?;
    Some((vni, Mac(*source), frame))
}
