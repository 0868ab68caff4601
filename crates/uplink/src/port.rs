//! One thread's end of an uplink of either kind, with the faults that were configured.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use vrdma_wire::Mac;

use crate::counters::Counters;
use crate::faults::{FaultSpec, Faults};
use crate::filter::Select;
use crate::open_error::OpenError;
use crate::peers::{Complaint, PeerSpec};
use crate::raw::Raw;
use crate::segment::{Hop, Received};
use crate::tunnel::{Tunnel, TunnelConfig};

/// Both ports of an uplink.
#[derive(Debug)]
pub struct Ports {
    /// For the shard: UDP ports 4791 and 4797.
    pub roce: Port,
    /// For the Ethernet thread: all other frames.
    pub rest: Port,
}

impl Ports {
    /// Opens an interface. Needs CAP_NET_RAW.
    ///
    /// # Errors
    /// See [`OpenError`]; each is a sentence for the administrator who configured it.
    pub fn raw(interface: &str) -> Result<Self, OpenError> {
        let sockets = [Raw::socket(interface)?, Raw::socket(interface)?];
        Self::raw_over(sockets, interface)
    }

    /// Opens an interface with two [sockets](Raw::socket) that a process with the right has made.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn raw_over([roce, rest]: [OwnedFd; 2], interface: &str) -> Result<Self, OpenError> {
        let port = |raw| Port::new(Link::Raw(Box::new(raw)));
        Ok(Self {
            roce: port(Raw::over(roce, interface, Select::Roce)?),
            rest: port(Raw::over(rest, interface, Select::Rest)?),
        })
    }

    /// Opens a tunnel without peers.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn tunnel(config: &TunnelConfig) -> Result<Self, OpenError> {
        let (roce, rest) = Tunnel::open_both(config)?;
        Ok(Self {
            roce: Port::new(Link::Tunnel(Box::new(roce))),
            rest: Port::new(Link::Tunnel(Box::new(rest))),
        })
    }

    /// Gives both ports faults, each with a seed of its own made from the one in `spec`.
    pub fn set_faults(&mut self, spec: FaultSpec) {
        self.roce.set_faults(spec);
        let seed = spec.seed ^ u64::MAX;
        self.rest.set_faults(FaultSpec { seed, ..spec });
    }

    /// Adds a peer to both ports, or to none.
    ///
    /// # Errors
    /// On a raw uplink; else see [`PeerError`](crate::PeerError).
    pub fn add_peer(&mut self, peer: impl Into<PeerSpec>) -> Result<(), OpenError> {
        let peer = peer.into();
        self.roce.add_peer(peer.clone())?;
        self.rest.add_peer(peer)
    }
}

/// One of an uplink's two ports. It may move to the thread that uses it.
#[derive(Debug)]
pub struct Port {
    link: Link,
    faults: Option<Faults>,
    started: Instant,
}

#[derive(Debug)]
enum Link {
    Raw(Box<Raw>),
    Tunnel(Box<Tunnel>),
}

/// Makes the same call on either kind of link.
macro_rules! link {
    ($link:expr, $port:ident => $call:expr) => {
        match $link {
            Link::Raw($port) => $call,
            Link::Tunnel($port) => $call,
        }
    };
}

impl Port {
    fn new(link: Link) -> Self {
        Self {
            link,
            faults: None,
            started: Instant::now(),
        }
    }

    /// Makes a port for another thread that sends like this one and receives nothing, so that incoming frames do not
    /// make its descriptor ready. It has this port's peers of a tunnel, but not its faults.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn sender(&self) -> Result<Self, OpenError> {
        let link = match &self.link {
            Link::Raw(raw) => raw.sender().map(|raw| Link::Raw(Box::new(raw))),
            Link::Tunnel(tunnel) => {
                let tunnel = tunnel.sender();
                tunnel.map(|tunnel| Link::Tunnel(Box::new(tunnel)))
            }
        };
        link.map(Self::new)
            .map_err(OpenError::system("sharing a socket"))
    }

    /// Passes every frame of one batch to the sink. Returns the number of arrivals: 0 means that nothing waits;
    /// otherwise more may. The sink returns whether the frame's segment is one of ours: a tunnel learns nothing about
    /// others.
    ///
    /// # Errors
    /// Errors of the kernel. An interface that is down is no error, see [`Port::is_up`].
    pub fn receive(&mut self, sink: &mut impl FnMut(Received<'_>) -> bool) -> io::Result<usize> {
        match &mut self.link {
            Link::Raw(raw) => raw.receive(&mut |received| {
                sink(received);
            }),
            Link::Tunnel(tunnel) => tunnel.receive(sink),
        }
    }

    /// Whether more may wait than the last batch received.
    pub fn has_more(&self) -> bool {
        link!(&self.link, port => port.has_more())
    }

    /// Queues a copy of a frame; the batch leaves when it is full or flushed. Frames that cannot be sent are counted by
    /// reason.
    pub fn send(&mut self, hop: Hop, frame: &[u8]) {
        let now = self.now();
        let link = &mut self.link;
        match &mut self.faults {
            None => link.send(hop, frame),
            Some(faults) => faults.send(now, hop, frame, &mut |hop, frame| link.send(hop, frame)),
        }
    }

    /// Queues frames for the station `to` that `fill` writes in place, each at the start of its room: several packets
    /// of one message without a copy. Returns `false` if these frames have to be sent one by one with [`Port::send`],
    /// or if `fill` returned it; nothing is queued then.
    pub fn send_in_place(
        &mut self,
        hop: Hop,
        to: Mac,
        lengths: &[usize],
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        if self.faults.is_some() {
            return false;
        }
        match &mut self.link {
            Link::Raw(raw) => raw.send_in_place(hop, lengths, fill),
            Link::Tunnel(tunnel) => tunnel.send_in_place(hop, to, lengths, fill),
        }
    }

    /// Number of bytes in frames that wait for a flush.
    pub fn waiting(&self) -> usize {
        link!(&self.link, port => port.waiting())
    }

    /// Passes queued frames to the kernel. Returns `false` if the kernel has no room now; then flush again when the
    /// descriptor is writable (raw) or readable (a tunnel, or a [sender](Self::sender)).
    pub fn flush(&mut self) -> bool {
        link!(&mut self.link, port => port.flush())
    }

    /// Whether frames wait for a flush.
    pub fn is_waiting(&self) -> bool {
        link!(&self.link, port => port.is_waiting())
    }

    /// Sets the faults that befall the frames that this port sends.
    pub fn set_faults(&mut self, spec: FaultSpec) {
        self.faults = (!spec.is_none()).then(|| Faults::new(spec));
    }

    /// Returns when a delayed frame is due. Call [`Port::release`] at that time.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due = self.faults.as_ref()?.next_deadline()?;
        Some(self.started + Duration::from_nanos(due))
    }

    /// Queues delayed frames that are due; flush afterwards.
    pub fn release(&mut self) {
        let now = self.now();
        let link = &mut self.link;
        if let Some(faults) = &mut self.faults {
            faults.release(now, &mut |hop, frame| link.send(hop, frame));
        }
    }

    /// Updates the state of the interface or the paths and the kernel's drop counter, and forgets silent stations. Call
    /// it about once a second.
    pub fn refresh(&mut self) {
        link!(&mut self.link, port => port.refresh());
    }

    /// The largest packet after the (inner) Ethernet header, as last seen.
    pub fn mtu(&self) -> u32 {
        link!(&self.link, port => port.mtu())
    }

    /// Whether the interface is up, as last seen. A tunnel always is.
    pub fn is_up(&self) -> bool {
        match &self.link {
            Link::Raw(raw) => raw.is_up(),
            Link::Tunnel(_) => true,
        }
    }

    /// Adds a tunnel's peer.
    ///
    /// # Errors
    /// On a raw uplink; else see [`PeerError`](crate::PeerError).
    pub fn add_peer(&mut self, peer: impl Into<PeerSpec>) -> Result<(), OpenError> {
        match &mut self.link {
            Link::Raw(_) => Err(OpenError::NoPeersHere),
            Link::Tunnel(tunnel) => tunnel.add_peer(peer),
        }
    }

    /// Forgets a tunnel's peer and all that was learned from it. Returns `false` if there was no such peer.
    pub fn remove_peer(&mut self, peer: SocketAddr) -> bool {
        match &mut self.link {
            Link::Raw(_) => false,
            Link::Tunnel(tunnel) => tunnel.remove_peer(peer),
        }
    }

    /// A tunnel's peers.
    pub fn peers(&self) -> Vec<SocketAddr> {
        match &self.link {
            Link::Raw(_) => Vec::new(),
            Link::Tunnel(tunnel) => tunnel.peers(),
        }
    }

    /// A tunnel's own address, with the port that the kernel chose.
    pub fn local(&self) -> Option<SocketAddr> {
        match &self.link {
            Link::Raw(_) => None,
            Link::Tunnel(tunnel) => Some(tunnel.local()),
        }
    }

    /// Returns a problem that a tunnel's administrator should hear about, at most once a minute.
    pub fn take_complaint(&mut self) -> Option<Complaint> {
        match &mut self.link {
            Link::Raw(_) => None,
            Link::Tunnel(tunnel) => tunnel.take_complaint(),
        }
    }

    /// Counters since the port was opened.
    pub fn counters(&self) -> &Counters {
        link!(&self.link, port => port.counters())
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

impl Link {
    fn send(&mut self, hop: Hop, frame: &[u8]) {
        link!(self, port => port.send(hop, frame));
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        link!(&self.link, port => port.as_fd())
    }
}
