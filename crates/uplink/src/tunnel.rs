//! Frames between hosts inside of UDP: VXLAN (RFC 7348), without any right on the host.
//!
//! Both ports of a tunnel are sockets of one address; the kernel looks at the inner frame to choose.
//!
//! ```text
//!                       ┌─ inner UDP 4791 ──► socket 1, Roce
//!   UDP 4789 ── BPF ────┤                              '── strays ──┐
//!                       └─ else, or cut off ► socket 0, Rest ────────┘
//! ```
//! Frames for a station that was learned go to its peer, others to every peer. Datagrams are never
//! fragmented: what does not fit the path is counted, and the MTU follows the path.

mod ingress;
mod opening;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use vrdma_wire::Mac;

use crate::batch::Batch;
use crate::counters::{Counters, Loss};
use crate::filter::{Instruction, Select, is_roce, tunnel_selector};
use crate::open_error::OpenError;
use crate::peers::{Conflict, PeerSpec, Peers};
use crate::raw::destination;
use crate::segment::{Hop, Received, Segment};
use crate::strays::Strays;
use crate::sys::{Arrival, Slots, Socket};
use crate::vxlan::{self, Vni};
use ingress::{Ingress, Taker};
use opening::{INNER_HEADER_BYTES, bound, overhead, path_mtu};

/// What UDP can carry: several datagrams arrive joined.
const SLOT_BYTES: usize = 64 * 1024;

/// Frames that the other port found, of one call.
const STRAYS_MAX: usize = 32;

/// What is assumed of the path before there is a peer to ask about.
const PATH_MTU_USUAL: u32 = 1500;

/// A tunnel's own end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunnelConfig {
    /// Address of this host and UDP port, 4789 by custom. An unspecified address means any of this
    /// host's; port 0 lets the kernel choose.
    pub local: SocketAddr,
}

/// One port of a tunnel uplink.
#[derive(Debug)]
pub struct Tunnel {
    local: SocketAddr,
    select: Select,
    socket: Socket,
    strays: Strays,
    /// Shared by the ports of all threads that send RoCEv2.
    peers: Arc<Mutex<Peers>>,
    mtu: u32,
    slots: Slots,
    batch: Batch,
    counters: Counters,
}

impl Tunnel {
    /// Opens both ports of a tunnel, that of RoCEv2 first. They have no peers yet.
    ///
    /// # Errors
    /// The address is in use or not of this host, or what the kernel says.
    pub fn open_both(config: &TunnelConfig) -> Result<(Self, Self), OpenError> {
        Self::open_sorted(config, &tunnel_selector())
    }

    /// With a selector, which the kernel may refuse: the ports hand each other what is theirs anyway.
    fn open_sorted(
        config: &TunnelConfig,
        selector: &[Instruction],
    ) -> Result<(Self, Self), OpenError> {
        // A probe without SO_REUSEPORT: a second daemon of the same user must not join the group.
        let probe = bound(config.local, false)?;
        let local = probe
            .local()
            .map_err(OpenError::system("reading an address"))?;
        drop(probe);
        let rest = bound(local, true)?;
        let roce = bound(local, true)?;
        let _ = rest.attach_selector(selector);
        let [roce_strays, rest_strays] = Strays::pair([roce.as_fd(), rest.as_fd()])
            .map_err(OpenError::system("joining a tunnel's ports"))?;
        Ok((
            Self::new(local, Select::Roce, roce, roce_strays),
            Self::new(local, Select::Rest, rest, rest_strays),
        ))
    }

    fn new(local: SocketAddr, select: Select, socket: Socket, strays: Strays) -> Self {
        let joins = socket.can_segment();
        Self {
            local,
            select,
            socket,
            strays,
            peers: Arc::new(Mutex::new(Peers::new(local))),
            mtu: PATH_MTU_USUAL - overhead(local),
            slots: Slots::new(SLOT_BYTES),
            batch: Batch::new(vxlan::LEN, joins),
            counters: Counters::default(),
        }
    }

    /// A port for another thread that sends on the same socket, to the same peers, and receives nothing.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn sender(&self) -> io::Result<Self> {
        let socket = self.socket.again()?;
        let strays = Strays::none(socket.as_fd())?;
        Ok(Self {
            local: self.local,
            select: Select::Nothing,
            strays,
            peers: Arc::clone(&self.peers),
            mtu: self.mtu,
            slots: Slots::new(0),
            batch: Batch::new(vxlan::LEN, socket.can_segment()),
            counters: Counters::default(),
            socket,
        })
    }

    // A thread that panicked with the lock ends the daemon, so what it left is not seen.
    fn peers_mut(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address that peers send to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Bytes that fit behind the inner Ethernet header, on the path to every peer.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Adds another end.
    ///
    /// # Errors
    /// See [`PeerError`](crate::PeerError).
    pub fn add_peer(&mut self, peer: impl Into<PeerSpec>) -> Result<(), OpenError> {
        self.peers_mut().add(peer)?;
        self.measure();
        Ok(())
    }

    /// Forgets a peer and what was learned from it; `false` if there was none.
    pub fn remove_peer(&mut self, peer: SocketAddr) -> bool {
        let removed = self.peers_mut().remove(peer);
        self.measure();
        removed
    }

    /// Every peer.
    pub fn peers(&self) -> Vec<SocketAddr> {
        self.peers_mut().all().collect()
    }

    /// Gives every waiting frame of one batch to the sink, which says whether its network is one of ours;
    /// how many datagrams it were.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn receive(&mut self, sink: &mut impl FnMut(Received<'_>) -> bool) -> io::Result<usize> {
        if self.select == Select::Nothing {
            return Ok(0);
        }
        let taken = self.slots.receive(&self.socket)?;
        let now = Instant::now();
        let Self {
            select,
            slots,
            strays,
            peers,
            counters,
            ..
        } = self;
        let mut peers = peers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ingress = Ingress {
            peers: &mut peers,
            counters,
            now,
        };
        for at in 0..taken {
            let (arrival, bytes) = slots.take(at);
            let own = |frame: &[u8]| is_roce(frame) == (*select == Select::Roce);
            ingress.receive(arrival, bytes, &mut |from, datagram, received| {
                if own(received.frame) {
                    Taker::of_ours(sink(received))
                } else if strays.give(from, datagram) {
                    Taker::Sibling
                } else {
                    Taker::Nobody
                }
            });
        }
        let mut found = 0;
        while found < STRAYS_MAX
            && let Some((from, datagram)) = strays.take()
        {
            found += 1;
            let arrival = Arrival {
                from: Some(from),
                ..Arrival::default()
            };
            ingress.receive(arrival, datagram, &mut |_, _, received| {
                Taker::of_ours(sink(received))
            });
        }
        Ok(taken + found)
    }

    /// Queues a frame; the batch leaves when it is full or flushed.
    pub fn send(&mut self, hop: Hop, frame: &[u8]) {
        if let Err(loss) = self.queue(hop, frame) {
            self.counters.lose(loss);
        }
    }

    /// Queues frames for the station `to` that `fill` writes in place; `false` if they must come one
    /// by one, or if `fill` said so.
    pub fn send_in_place(
        &mut self,
        (hop, to): (Hop, Mac),
        lengths: &[usize],
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let Segment::Vni(number) = hop.segment else {
            return false;
        };
        let peer = |vni| self.peers_mut().behind(vni, to);
        let way = Vni::new(number).and_then(|vni| Some((vni, peer(vni)?)));
        let bytes = lengths.iter().map(|length| length + vxlan::LEN).sum();
        let Some((vni, peer)) =
            way.filter(|_| hop.peer.is_none() && self.batch.has_room(bytes, lengths.len()))
        else {
            return false;
        };
        let frames = (&vxlan::header(vni)[..], lengths);
        self.batch.push_in_place(frames, Some(peer), fill)
    }

    fn queue(&mut self, hop: Hop, frame: &[u8]) -> Result<(), Loss> {
        let vni = match hop.segment {
            Segment::Vni(number) => Vni::new(number).ok_or(Loss::Segment)?,
            Segment::Untagged | Segment::Vlan(_) => return Err(Loss::Segment),
        };
        if frame.len() < INNER_HEADER_BYTES as usize {
            return Err(Loss::Runt);
        }
        let one = match hop.peer {
            Some(peer) if !self.peers_mut().takes_part(peer, vni) => return Err(Loss::NoPeer),
            Some(peer) => Some(peer),
            None => destination(frame).and_then(|mac| self.peers_mut().behind(vni, mac)),
        };
        let receivers = one.map_or_else(|| self.peers_mut().of_network(vni).count(), |_| 1);
        if receivers == 0 {
            return Err(Loss::NoPeer);
        }
        if !self.batch.has_room(frame.len(), receivers) {
            self.flush();
            if !self.batch.has_room(frame.len(), receivers) {
                return Err(Loss::NoRoom);
            }
        }
        let parts = [&vxlan::header(vni)[..], frame];
        match one {
            Some(peer) => self.batch.push(&parts, [Some(peer)]),
            None => {
                let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
                let all = peers.of_network(vni);
                self.batch.push(&parts, all.map(Some));
            }
        }
        Ok(())
    }

    /// Sends what waits. `false` if the kernel has no room now; then flush again later.
    pub fn flush(&mut self) -> bool {
        let flushed = self.batch.send(&self.socket, &mut self.counters);
        if flushed.too_big {
            self.measure();
        }
        self.strays.watch_room(self.socket.as_fd(), flushed.waits);
        !flushed.waits
    }

    /// Bytes that wait for a flush.
    pub fn waiting(&self) -> usize {
        self.batch.waiting()
    }

    /// Whether frames wait for a flush.
    pub fn is_waiting(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Looks at the paths again and forgets stations that are silent. Call it about once a second.
    pub fn refresh(&mut self) {
        if self.select != Select::Nothing {
            self.counters.set_overrun(self.socket.overruns());
            self.peers_mut().age(Instant::now());
        }
        self.measure();
    }

    /// The kernel knows the MTU of a path by its route and by ICMP messages that came back.
    fn measure(&mut self) {
        let peers = self.peers();
        let paths = peers.into_iter().filter_map(|peer| path_mtu(peer).ok());
        let narrowest = paths.min().unwrap_or(PATH_MTU_USUAL);
        self.mtu = narrowest.saturating_sub(overhead(self.local));
    }

    /// A station that two peers claim, at most once a minute.
    pub fn take_conflict(&mut self) -> Option<Conflict> {
        self.peers_mut().take_conflict(Instant::now())
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl AsFd for Tunnel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.strays.as_fd()
    }
}

#[cfg(test)]
mod tests;
