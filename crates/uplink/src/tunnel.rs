//! Frames between hosts inside UDP: VXLAN (RFC 7348), without any right on the host.
//!
//! Both ports of a tunnel are sockets with one address; the kernel chooses one by the inner frame.
//!
//! ```text
//!                       ┌─ inner UDP 4791 ──► socket 1, Roce
//!   UDP 4789 ── BPF ────┤                              '── strays ──┐
//!                       └─ else, or cut off ► socket 0, Rest ────────┘
//! ```
//! Frames for a station that was learned go to its peer, others to every peer. Datagrams are never fragmented: frames
//! that do not fit the path are counted, and the MTU follows the path.

mod egress;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod ingress;
mod opening;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::net::SendFlags;

use crate::batch::Batch;
use crate::counters::Counters;
use crate::filter::{Instruction, Select, is_for_adapters, tunnel_selector};
use crate::open_error::OpenError;
use crate::peers::{Complaint, PeerSpec, Peers};
use crate::seal::{self, Channel};
use crate::segment::Received;
use crate::strays::Strays;
use crate::sys::{Slots, Socket};
use crate::vxlan;
use ingress::{Ingress, Taker};
use opening::{bound, overhead, path_mtu};

/// The most that UDP can carry: several datagrams arrive joined.
const SLOT_BYTES: usize = 64 * 1024;

/// Most frames from the other port that are taken in one call.
const STRAYS_MAX: usize = 32;

/// MTU that is assumed of the path before there is a peer to ask about.
const PATH_MTU_USUAL: u32 = 1500;

/// Our end of a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TunnelConfig {
    /// Address of this host and UDP port, 4789 by custom. An unspecified address means any address of this host; port 0
    /// lets the kernel choose.
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
    /// Room for plain datagrams, before sealing and after opening.
    clear: Vec<u8>,
    /// The last batch left some datagrams from the other port.
    more_strays: bool,
}

impl Tunnel {
    /// Opens both ports of a tunnel, the RoCEv2 port first. They have no peers yet.
    ///
    /// # Errors
    /// The address is in use or not of this host, or the kernel refuses.
    pub fn open_both(config: &TunnelConfig) -> Result<(Self, Self), OpenError> {
        Self::open_sorted(config, &tunnel_selector())
    }

    /// Opens both ports with a selector, which the kernel may refuse: each port passes on the other's datagrams anyway.
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
        let channel = match select {
            Select::Rest => Channel::Rest,
            Select::Roce | Select::Nothing => Channel::Roce,
        };
        Self {
            local,
            select,
            socket,
            strays,
            peers: Arc::new(Mutex::new(Peers::new(local, channel))),
            mtu: PATH_MTU_USUAL - overhead(local),
            slots: Slots::new(SLOT_BYTES),
            batch: Batch::new(vxlan::LEN, joins),
            counters: Counters::default(),
            clear: Vec::new(),
            more_strays: false,
        }
    }

    /// Makes a port for another thread that sends on the same socket, to the same peers, and receives nothing.
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
            clear: Vec::new(),
            more_strays: false,
            socket,
        })
    }

    // A thread that panicked with the lock ends the daemon, so the state that it left is not seen.
    fn peers_mut(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address that peers send to.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Bytes that fit after the inner Ethernet header, on the path to every peer.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Adds a peer.
    ///
    /// # Errors
    /// See [`PeerError`](crate::PeerError).
    pub fn add_peer(&mut self, peer: impl Into<PeerSpec>) -> Result<(), OpenError> {
        self.peers_mut().add(peer)?;
        self.measure();
        self.call();
        Ok(())
    }

    /// Forgets a peer and all that was learned from it. Returns `false` if there was no such peer.
    pub fn remove_peer(&mut self, peer: SocketAddr) -> bool {
        let removed = self.peers_mut().remove(peer);
        self.measure();
        removed
    }

    /// Every peer.
    pub fn peers(&self) -> Vec<SocketAddr> {
        self.peers_mut().all().collect()
    }

    /// Passes every waiting frame of one batch to the sink, which returns whether its network is one of ours. Returns
    /// the number of datagrams.
    ///
    /// # Errors
    /// Errors of the kernel.
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
            clear,
            ..
        } = self;
        let mut ingress = Ingress {
            peers,
            counters,
            now,
            clear,
            replies: Vec::new(),
        };
        for at in 0..taken {
            let (arrival, bytes) = slots.take(at);
            let own = |frame: &[u8]| is_for_adapters(frame) == (*select == Select::Roce);
            ingress.receive(arrival, bytes, &mut |stray, received| {
                if let Some(received) = received.filter(|it| own(it.frame)) {
                    Taker::of_ours(sink(received))
                } else if strays.give(stray) {
                    Taker::Sibling
                } else {
                    Taker::Nobody
                }
            });
        }
        let mut found = 0;
        while found < STRAYS_MAX
            && let Some(stray) = strays.take()
        {
            found += 1;
            ingress.receive_stray(stray, &mut |_, received| match received {
                Some(received) => Taker::of_ours(sink(received)),
                None => Taker::Nobody,
            });
        }
        let replies = ingress.replies;
        self.more_strays = found == STRAYS_MAX;
        let calls = self.peers_mut().take_calls(now);
        self.tell(replies);
        self.tell(calls);
        Ok(taken + found)
    }

    /// Whether more may wait than the last batch received.
    pub fn has_more(&self) -> bool {
        self.slots.has_more() || self.more_strays
    }

    /// Sends waiting frames. Returns `false` if the kernel has no room now; then flush again later.
    pub fn flush(&mut self) -> bool {
        let flushed = self.batch.send(&self.socket, &mut self.counters);
        if flushed.too_big {
            self.measure();
        }
        self.strays.watch_room(self.socket.as_fd(), flushed.waits);
        !flushed.waits
    }

    /// Number of bytes that wait for a flush.
    pub fn waiting(&self) -> usize {
        self.batch.waiting()
    }

    /// Whether frames wait for a flush.
    pub fn is_waiting(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Measures the paths again and forgets silent stations. Call it about once a second.
    pub fn refresh(&mut self) {
        if self.select != Select::Nothing {
            self.counters.set_overrun(self.socket.overruns());
            self.peers_mut().age(Instant::now());
            self.call();
        }
        self.measure();
    }

    /// Sends the calls for sessions that are due.
    fn call(&mut self) {
        let calls = self.peers_mut().calls(Instant::now());
        self.tell(calls);
    }

    /// Sends messages about sessions. Messages that the kernel does not take are sent again, like lost ones.
    fn tell(&self, messages: Vec<(SocketAddr, Vec<u8>)>) {
        for (to, message) in messages {
            let _ = rustix::net::sendto(&self.socket, &message, SendFlags::NOSIGNAL, &to);
        }
    }

    /// Finds the MTU. The kernel knows that of a path from its route and from ICMP messages that came back.
    fn measure(&mut self) {
        let peers = self.peers_mut();
        let paths: Vec<_> = peers.all().map(|it| (it, peers.is_sealed(it))).collect();
        drop(peers);
        let left = |(peer, sealed): (SocketAddr, bool)| {
            let more = if sealed { seal::OVERHEAD as u32 } else { 0 };
            Some(path_mtu(peer).ok()?.saturating_sub(more))
        };
        let narrowest = paths.into_iter().filter_map(left).min();
        let narrowest = narrowest.unwrap_or(PATH_MTU_USUAL);
        self.mtu = narrowest.saturating_sub(overhead(self.local));
    }

    /// Returns a problem that the administrator should hear about, at most once a minute.
    pub fn take_complaint(&mut self) -> Option<Complaint> {
        self.peers_mut().take_complaint(Instant::now())
    }

    /// Counters since the port was opened.
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
