//! An identifier: what `struct rdma_cm_id` is to the daemon.

use std::collections::{BTreeMap, BTreeSet};

use vrdma_cm::{
    Addresses, ConnectionType, Ends, Link, Listen, ListenerId, PortSpace, ServiceId, Side,
};
use vrdma_provider::cm::{Endpoint, Route, family, qp_type, space};
use vrdma_switch::PortId;
use vrdma_wire::{Bits, Gid, Mtu};

use super::adapter::Connection;
use super::holding::Held;
use super::offering::Offered;
use super::port_map::Port;
use super::ports::Claim;

/// Timeout code of acknowledgements unless the user wants another: 0.27 s, the four-fold of what a
/// busy host may take.
const ACK_TIMEOUT: u8 = 16;

/// Hop limit of packets.
pub(super) const HOP_LIMIT: u8 = 64;

/// Where an identifier stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Fresh.
    Idle,
    /// Has an address and a port.
    Bound,
    /// Waits for somebody to say where a peer is.
    Resolving,
    /// Knows the way to a peer.
    AddressResolved,
    /// Knows the path.
    RouteResolved,
    /// Waits for calls.
    Listening,
    /// Has called.
    Calling,
    /// The peer has accepted.
    Replied,
    /// Is called.
    Called,
    /// Has accepted.
    Accepted,
    /// Messages flow.
    Connected,
    /// That, or an attempt at it, is over.
    Over,
}

/// What a user may choose before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Options {
    pub(super) traffic_class: u8,
    pub(super) reuse_address: bool,
    pub(super) family_only: bool,
    pub(super) ack_timeout: u8,
}

/// An identifier.
#[derive(Clone, Debug)]
pub(super) struct Identifier {
    pub(super) channel: u64,
    pub(super) space: u32,
    pub(super) qp_type: u32,
    pub(super) stage: Stage,
    pub(super) options: Options,
    pub(super) route: Route,
    /// The one adapter that it is bound to.
    pub(super) adapter: Option<PortId>,
    /// Adapters whose port it holds.
    pub(super) holds: Held,
    /// With what it holds that.
    pub(super) claim: Option<Claim>,
    /// For what it listens, and how many calls may wait.
    pub(super) listens: Option<(Listen, u32)>,
    pub(super) listeners: BTreeMap<PortId, ListenerId>,
    /// Its queue pairs, for questions that are answered without its program.
    pub(super) offers: BTreeMap<PortId, Offered>,
    pub(super) connection: Option<Connection>,
    pub(super) link: Link,
    /// Of its own queue pair.
    pub(super) local: Side,
    /// Of the peer's.
    pub(super) remote: Option<Side>,
}

impl Identifier {
    pub(super) fn new(channel: u64, space: u32, qp_type: u32) -> Self {
        Self {
            channel,
            space,
            qp_type,
            stage: Stage::Idle,
            options: Options {
                traffic_class: 0,
                reuse_address: false,
                family_only: false,
                ack_timeout: ACK_TIMEOUT,
            },
            route: Route {
                hop_limit: HOP_LIMIT,
                ..Route::default()
            },
            adapter: None,
            holds: Held::At(BTreeSet::new()),
            claim: None,
            listens: None,
            listeners: BTreeMap::new(),
            offers: BTreeMap::new(),
            connection: None,
            link: Link::default(),
            local: Side::default(),
            remote: None,
        }
    }

    /// Datagrams need no connection, only the peer's queue pair.
    pub(super) fn is_datagram(&self) -> bool {
        self.space == space::UDP || self.qp_type == qp_type::UD
    }

    /// Its port.
    pub(super) fn port(&self) -> Port {
        Port {
            space: self.space,
            number: self.route.local.port,
        }
    }

    /// Whether it is bound to all adapters, also to those that come.
    pub(super) fn is_wide(&self) -> bool {
        self.adapter.is_none() && matches!(self.stage, Stage::Bound | Stage::Listening)
    }

    /// The adapters of which it has something, some of them more than once.
    pub(super) fn adapters(&self) -> impl Iterator<Item = PortId> {
        let held = self.holds.named().chain(self.listeners.keys());
        let others = self.offers.keys().chain(&self.adapter);
        held.chain(others).copied()
    }

    /// What it had of an adapter is gone.
    pub(super) fn forget_adapter(&mut self, port: PortId) {
        if let Held::At(ports) = &mut self.holds {
            ports.remove(&port);
        }
        self.listeners.remove(&port);
        self.offers.remove(&port);
        if self.adapter == Some(port) {
            self.connection = None;
        }
    }

    pub(super) fn ends(&self) -> Ends {
        Ends {
            local: Gid(self.route.sgid),
            remote: Gid(self.route.dgid),
        }
    }

    pub(super) fn kind(&self) -> ConnectionType {
        if self.qp_type == qp_type::UC {
            ConnectionType::Uc
        } else {
            ConnectionType::Rc
        }
    }

    /// The service of an endpoint in the identifier's port space.
    pub(super) fn service(&self, endpoint: &Endpoint) -> ServiceId {
        let space = if self.space == space::UDP {
            PortSpace::Udp
        } else {
            PortSpace::Tcp
        };
        ServiceId::of_port(space, endpoint.port)
    }

    /// Where it listens, once it is bound.
    pub(super) fn listening_addresses(&self) -> Addresses {
        match self.adapter {
            Some(_) => Addresses::One(Gid(self.route.sgid)),
            None if !self.options.family_only => Addresses::All,
            None if self.route.local.family == family::INET => Addresses::Ipv4,
            None => Addresses::Ipv6,
        }
    }

    /// The path that a call proposes.
    pub(super) fn path(&self, retry_count: u8) -> Link {
        Link {
            mtu: Mtu::from_code(self.route.mtu.into()).unwrap_or_default(),
            ack_timeout: Bits::low(self.options.ack_timeout),
            retry_count: Bits::new(retry_count).unwrap_or(Bits::MAX),
            traffic_class: vrdma_wire::TrafficClass(self.options.traffic_class),
            flow_label: vrdma_wire::FlowLabel::default(),
            hop_limit: HOP_LIMIT,
        }
    }
}
