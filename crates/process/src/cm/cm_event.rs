//! Events of connections, turned into events of identifiers.

use vrdma_cm::{
    CONNECT_DATA, CommId, ConnectionType, Ends, Event as CmEvent, IpCaller, RESOLVE_DATA, Reply,
    Request, Resolution, ResolveRequest, Side,
};
use vrdma_provider::cm::{Event, EventKind, PrivateData, qp_type};
use vrdma_switch::PortId;
use vrdma_wire::Gid;

use super::adapter::Connection;
use super::address::endpoint;
use super::handler::{Handler, timed_out};
use super::identifier::{Identifier, Stage};
use super::multicast::handle;

/// The connection that an event is about; for incoming connection and SIDR requests the listener matters instead.
pub(super) fn subject(event: &CmEvent) -> CommId {
    match event {
        CmEvent::Requested(name, ..)
        | CmEvent::Replied(name, _)
        | CmEvent::Established(name, _)
        | CmEvent::Rejected(name, ..)
        | CmEvent::Unreachable(name)
        | CmEvent::Disconnected(name)
        | CmEvent::TimewaitOver(name)
        | CmEvent::ResolveRequested(name, ..)
        | CmEvent::Resolved(name, _)
        | CmEvent::Unresolved(name, ..) => *name,
    }
}

impl Handler<'_> {
    /// Handles an event of a connection of identifier `id`, or of the listener `id`.
    pub(super) fn on_event(&mut self, id: u64, port: PortId, event: &CmEvent) {
        let name = subject(event);
        let connection = Connection { port, name };
        match event {
            CmEvent::Requested(_, _, request) => self.called(id, connection, request),
            CmEvent::ResolveRequested(_, _, asked) => self.asked(id, connection, asked),
            CmEvent::Replied(_, reply) => self.replied(id, reply),
            CmEvent::Resolved(_, resolution) => self.resolved(id, resolution),
            CmEvent::Established(_, private) => {
                self.move_on(id, Stage::Connected);
                self.report(id, EventKind::Established, 0, private.as_bytes());
            }
            CmEvent::Rejected(_, reason, private) => {
                self.over(id);
                let status = i32::from(reason.0);
                self.report(id, EventKind::Rejected, status, private.as_bytes());
            }
            CmEvent::Unreachable(_) => {
                self.over(id);
                self.report(id, EventKind::Unreachable, timed_out(), &[]);
            }
            CmEvent::Unresolved(_, status, private) => {
                self.over(id);
                let status = status.map_or(timed_out(), |status| i32::from(status.0));
                self.report(id, EventKind::Unreachable, status, private.as_bytes());
            }
            CmEvent::Disconnected(_) => {
                self.move_on(id, Stage::Over);
                self.tell(id, EventKind::Disconnected);
            }
            CmEvent::TimewaitOver(_) => {
                self.over(id);
                self.tell(id, EventKind::TimewaitExit);
            }
        }
    }

    fn move_on(&mut self, id: u64, stage: Stage) {
        if let Ok(identifier) = self.client.get(id) {
            identifier.stage = stage;
        }
    }

    /// Marks that the connection is over: its manager has forgotten it.
    fn over(&mut self, id: u64) {
        self.move_on(id, Stage::Over);
        self.part(id);
    }

    fn report(&mut self, id: u64, kind: EventKind, status: i32, private: &[u8]) {
        self.client.tell(event(id, kind, status, private));
    }

    fn replied(&mut self, id: u64, reply: &Reply) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        identifier.remote = Some(reply.side);
        identifier.stage = Stage::Replied;
        let private = reply.private.as_bytes();
        let mut event = event(id, EventKind::ConnectResponse, 0, private);
        say(&mut event, &reply.side);
        self.client.tell(event);
    }

    fn resolved(&mut self, id: u64, resolution: &Resolution) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        identifier.stage = Stage::Connected;
        let dgid = identifier.route.dgid;
        let private = resolution.private.as_bytes();
        let mut event = event(id, EventKind::Established, 0, private);
        event.peer = handle(identifier, dgid);
        event.parameters.qp_num = resolution.qpn.get();
        event.parameters.qkey = resolution.qkey.0;
        self.client.tell(event);
        self.part(id);
    }

    fn called(&mut self, listener: u64, connection: Connection, request: &Request) {
        let private = &request.private.as_bytes()[..CONNECT_DATA];
        let mut event = event(0, EventKind::ConnectRequest, 0, private);
        say(&mut event, &request.side);
        event.parameters.retry_count = request.link.retry_count.get();
        let Some(mut child) = self.child(listener, connection, &request.ends, request.caller)
        else {
            return self.refuse(connection);
        };
        child.link = request.link;
        child.remote = Some(request.side);
        // The same first PSN both ways, so a peer that confuses the two is right, too. It is fixed now, because the
        // queue pair is set up before the request is answered.
        child.local.psn = request.side.psn;
        child.route.mtu = request.link.mtu.code() as u8;
        child.options.traffic_class = request.link.traffic_class.0;
        child.qp_type = match request.kind {
            ConnectionType::Rc => qp_type::RC,
            ConnectionType::Uc => qp_type::UC,
        };
        self.announce(listener, connection, child, event);
    }

    fn asked(&mut self, listener: u64, connection: Connection, asked: &ResolveRequest) {
        if self.answer_with_offer(listener, connection) {
            return;
        }
        let private = &asked.private.as_bytes()[..RESOLVE_DATA];
        let event = event(0, EventKind::ConnectRequest, 0, private);
        match self.child(listener, connection, &asked.ends, asked.caller) {
            Some(child) => self.announce(listener, connection, child, event),
            None => self.refuse(connection),
        }
    }

    /// Makes the identifier of an incoming request.
    fn child(
        &mut self,
        listener: u64,
        connection: Connection,
        ends: &Ends,
        caller: Option<IpCaller>,
    ) -> Option<Identifier> {
        let port = connection.port;
        let adapter = self.adapters.get(port)?;
        let (name, mtu) = (adapter.spec.told_name(), adapter.spec.mtu);
        let index = adapter.index_of(ends.local)?;
        let parent = self.client.get(listener).ok()?;
        let mut child = Identifier::new(parent.channel, parent.space, parent.qp_type);
        child.options = parent.options;
        child.stage = Stage::Called;
        child.adapter = Some(port);
        child.connection = Some(connection);
        child.route.adapter = name;
        child.route.mtu = mtu.code() as u8;
        child.route.sgid_index = index;
        (child.route.sgid, child.route.dgid) = (ends.local.0, ends.remote.0);
        let local = caller.map_or(ends.local, |caller| caller.destination);
        let remote: (Gid, u16) = caller.map_or((ends.remote, 0), |who| (who.source, who.port));
        child.route.local = endpoint(local, parent.route.local.port);
        child.route.remote = endpoint(remote.0, remote.1);
        Some(child)
    }

    fn announce(
        &mut self,
        listener: u64,
        connection: Connection,
        child: Identifier,
        mut event: Event,
    ) {
        let peer = handle(&child, child.route.dgid);
        let Ok(id) = self.client.add(child) else {
            return self.refuse(connection);
        };
        let owner = self.owner(id);
        self.owners.connections.insert(connection, owner);
        self.owners.tie(connection.port, owner);
        (event.id, event.listener, event.peer) = (id, listener, peer);
        self.client.tell(event);
    }

    /// Rejects a request for which there is no room, as if the user had rejected it.
    pub(super) fn refuse(&mut self, connection: Connection) {
        let now = self.now;
        if let Some(adapter) = self.adapters.get_mut(connection.port) {
            adapter.make_cm().release(connection.name, now);
        }
    }
}

fn event(id: u64, kind: EventKind, status: i32, private: &[u8]) -> Event {
    let mut event = Event {
        id,
        kind: kind as u32,
        status,
        ..Event::default()
    };
    // Every message's private data fits.
    event.parameters.private = PrivateData::new(private).unwrap_or_default();
    event
}

/// Fills in what a peer says of its queue pair. Its initiator depth is this side's responder resources, and vice versa.
fn say(event: &mut Event, side: &Side) {
    let parameters = &mut event.parameters;
    parameters.qp_num = side.qpn.get();
    parameters.responder_resources = side.initiator_depth;
    parameters.initiator_depth = side.responder_resources;
    parameters.flow_control = side.flow_control.into();
    parameters.rnr_retry_count = side.rnr_retry.get();
    parameters.srq = side.srq.into();
}
