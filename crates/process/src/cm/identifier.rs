//! An identifier: the daemon's side of a `struct rdma_cm_id`.

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

/// Timeout code of acknowledgements unless the user sets another: 0.27 s, four times what a busy host may take.
const ACK_TIMEOUT: u8 = 16;

/// Hop limit of packets.
pub(super) const HOP_LIMIT: u8 = 64;

/// The states of an identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Fresh.
    Idle,
    /// Has an address and a port.
    Bound,
    /// Waits until the peer's address is resolved.
    Resolving,
    /// Has resolved the peer's address.
    AddressResolved,
    /// Has the path.
    RouteResolved,
    /// Waits for connection requests.
    Listening,
    /// Has sent a connection request.
    Calling,
    /// The peer has accepted.
    Replied,
    /// Has received a connection request.
    Called,
    /// Has accepted the request.
    Accepted,
    /// Messages flow.
    Connected,
    /// The connection, or the attempt at one, is over.
    Over,
}

/// Options that a user may set beforehand.
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
    /// The one adapter that the identifier is bound to.
    pub(super) adapter: Option<PortId>,
    /// Adapters at which it holds its port.
    pub(super) holds: Held,
    /// The claim with which it holds the port.
    pub(super) claim: Option<Claim>,
    /// Service and address that it listens for, and most connection requests that may wait.
    pub(super) listens: Option<(Listen, u32)>,
    pub(super) listeners: BTreeMap<PortId, ListenerId>,
    /// Its queue pairs for SIDR requests that are answered without its program.
    pub(super) offers: BTreeMap<PortId, Offered>,
    pub(super) connection: Option<Connection>,
    pub(super) link: Link,
    /// Parameters of its own queue pair.
    pub(super) local: Side,
    /// Parameters of the peer's queue pair.
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

    /// Whether it is for datagrams, which need no connection, only the peer's queue pair.
    pub(super) fn is_datagram(&self) -> bool {
        self.space == space::UDP || self.qp_type == qp_type::UD
    }

    /// Port space and number.
    pub(super) fn port(&self) -> Port {
        Port {
            space: self.space,
            number: self.route.local.port,
        }
    }

    /// Whether it is bound to all adapters, also to those that come later.
    pub(super) fn is_wide(&self) -> bool {
        self.adapter.is_none() && matches!(self.stage, Stage::Bound | Stage::Listening)
    }

    /// The adapters that it uses in any way; some come more than once.
    pub(super) fn adapters(&self) -> impl Iterator<Item = PortId> {
        let held = self.holds.named().chain(self.listeners.keys());
        let others = self.offers.keys().chain(&self.adapter);
        held.chain(others).copied()
    }

    /// Drops what it had at an adapter that is gone.
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

    /// The service ID of an endpoint in the identifier's port space.
    pub(super) fn service(&self, endpoint: &Endpoint) -> ServiceId {
        let space = if self.space == space::UDP {
            PortSpace::Udp
        } else {
            PortSpace::Tcp
        };
        ServiceId::of_port(space, endpoint.port)
    }

    /// Addresses at which it listens, once it is bound.
    pub(super) fn listening_addresses(&self) -> Addresses {
        match self.adapter {
            Some(_) => Addresses::One(Gid(self.route.sgid)),
            None if !self.options.family_only => Addresses::All,
            None if self.route.local.family == family::INET => Addresses::Ipv4,
            None => Addresses::Ipv6,
        }
    }

    /// The path that a connection request proposes.
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
