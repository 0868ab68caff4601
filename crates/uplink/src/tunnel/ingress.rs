//! What of an arrival is taken in, and what is learned from it about the peers.

use std::net::SocketAddr;
use std::time::Instant;

use vrdma_wire::Mac;

use super::opening::INNER_HEADER_BYTES;
use crate::counters::{Counters, Loss};
use crate::peers::{Admitted, Learned, Peers};
use crate::segment::{Received, Segment};
use crate::sys::Arrival;
use crate::vxlan::{self, Vni};

/// Who takes a frame.
pub(super) enum Taker {
    /// The owner of this port.
    Owner,
    /// The owner too, who counts it as of a network that nobody here has: nothing is learned from it.
    Stranger,
    /// The other port, which counts it.
    Sibling,
    Nobody,
}

impl Taker {
    /// The owner, who said whether the network is one of ours.
    pub(super) fn of_ours(ours: bool) -> Self {
        if ours { Self::Owner } else { Self::Stranger }
    }
}

/// Decides what of an arrival is taken in.
pub(super) struct Ingress<'a> {
    pub(super) peers: &'a mut Peers,
    pub(super) counters: &'a mut Counters,
    pub(super) now: Instant,
}

impl Ingress<'_> {
    /// Takes one arrival apart, which may be several datagrams of one sender. `taker` says who takes a
    /// frame.
    pub(super) fn receive(
        &mut self,
        arrival: Arrival,
        bytes: &[u8],
        taker: &mut impl FnMut(SocketAddr, &[u8], Received<'_>) -> Taker,
    ) {
        let step = arrival.joined.unwrap_or(bytes.len()).max(1);
        let datagrams = bytes.len().div_ceil(step).max(1) as u64;
        if arrival.truncated {
            return self.counters.lose_many(Loss::Truncated, datagrams);
        }
        let known = arrival
            .from
            .and_then(|from| Some((from, self.peers.sender(from)?)));
        let Some((from, peer)) = known else {
            return self.counters.lose_many(Loss::UnknownPeer, datagrams);
        };
        if bytes.is_empty() {
            return self.counters.lose(Loss::Malformed);
        }
        for datagram in bytes.chunks(step) {
            let Some((vni, source, frame)) = unwrap(datagram) else {
                self.counters.lose(Loss::Malformed);
                continue;
            };
            match self.peers.admits(vni, source, peer) {
                Admitted::Yes => {}
                Admitted::ForeignStation => {
                    self.counters.lose(Loss::ForeignStation);
                    continue;
                }
                Admitted::ForeignNetwork => {
                    self.counters.lose(Loss::ForeignNetwork);
                    continue;
                }
            }
            let received = Received {
                frame,
                segment: Segment::Vni(vni.get()),
                from: Some(peer),
            };
            match taker(from, datagram, received) {
                Taker::Owner => {
                    self.counters.took(frame.len());
                    self.learn(vni, source, peer);
                }
                Taker::Stranger => self.counters.took(frame.len()),
                Taker::Sibling => {}
                Taker::Nobody => self.counters.lose(Loss::Stray),
            }
        }
    }

    fn learn(&mut self, vni: Vni, source: Mac, peer: SocketAddr) {
        match self.peers.learn(vni, source, peer, self.now) {
            Learned::Plain => {}
            Learned::Moved => self.counters.moved += 1,
            Learned::Contested => self.counters.contested += 1,
        }
    }
}

/// Segment, source and bytes of a frame that has a whole header.
fn unwrap(datagram: &[u8]) -> Option<(Vni, Mac, &[u8])> {
    let (vni, frame) = vxlan::parse(datagram)?;
    let header = frame.first_chunk::<{ INNER_HEADER_BYTES as usize }>()?;
    let source = header[6..].first_chunk()?;
    Some((vni, Mac(*source), frame))
}
