//! Connection requests, their answers, and disconnecting.

use rustix::io::Errno;
use vrdma_cm::{
    Acceptance, Call, IpCaller, PrivateData, RejectReason, Resolve, Side, SidrAnswer, SidrStatus,
};
use vrdma_provider::cm::{
    Accept, Bound, Connect, ConnectionParameters, DestroyId, Disconnect, Established, Event, Reject,
};
use vrdma_wire::{Bits, Gid, Psn, Qkey, Qpn};

use super::adapter::Connection;
use super::handler::{Handler, errno};
use super::identifier::{Identifier, Stage};
use super::multicast::UDP_QKEY;

impl Handler<'_> {
    pub(super) fn connect(&mut self, connect: &Connect) -> Result<Bound, Errno> {
        let psn = Psn::new(self.random.next() as u32);
        let identifier = self.client.get(connect.id)?;
        if identifier.stage != Stage::RouteResolved {
            return Err(Errno::INVAL);
        }
        let port = identifier.adapter.ok_or(Errno::INVAL)?;
        let parameters = &connect.parameters;
        let (link, identifier) = (identifier.path(parameters.retry_count), identifier.clone());
        let local = match identifier.is_datagram() {
            // The peer is told of no queue pair.
            true => Side::default(),
            false => side(parameters, self.own_qp(port, parameters.qp_num)?, psn),
        };
        let now = self.now;
        let cm = self.adapter(port)?.make_cm();
        let name = if identifier.is_datagram() {
            cm.resolve(&question(&identifier, parameters)?, now)
        } else {
            cm.connect(&call(&identifier, parameters, local, link)?, now)
        };
        let name = name.map_err(errno)?;
        let connection = Connection { port, name };
        let owner = self.owner(connect.id);
        self.owners.connections.insert(connection, owner);
        let identifier = self.client.get(connect.id)?;
        (identifier.local, identifier.link) = (local, link);
        identifier.connection = Some(connection);
        identifier.stage = Stage::Calling;
        self.bound(connect.id)
    }

    /// Accepts for the called side; for the calling side, says that it is ready.
    pub(super) fn accept(&mut self, accept: &Accept) -> Result<(), Errno> {
        let identifier = self.client.get(accept.id)?;
        let connection = identifier.connection.ok_or(Errno::INVAL)?;
        match identifier.stage {
            Stage::Called if identifier.is_datagram() => {
                self.answer(connection, &accept.parameters)?;
                self.client.get(accept.id)?.stage = Stage::Connected;
                Ok(())
            }
            Stage::Called => self.reply(accept, connection),
            Stage::Replied => {
                let private = private(&accept.parameters)?;
                let cm = self.adapter(connection.port)?.make_cm();
                let ready = cm.ready(connection.name, private);
                ready.map_err(errno)?;
                self.client.get(accept.id)?.stage = Stage::Connected;
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn reply(&mut self, accept: &Accept, connection: Connection) -> Result<(), Errno> {
        let Connection { port, name } = connection;
        let psn = self.client.get(accept.id)?.local.psn;
        let qpn = self.own_qp(port, accept.parameters.qp_num)?;
        let side = side(&accept.parameters, qpn, psn);
        let acceptance = Acceptance {
            side,
            private: private(&accept.parameters)?,
        };
        let now = self.now;
        let accepted = self.adapter(port)?.make_cm().accept(name, &acceptance, now);
        accepted.map_err(errno)?;
        let identifier = self.client.get(accept.id)?;
        identifier.local = side;
        identifier.stage = Stage::Accepted;
        Ok(())
    }

    fn answer(
        &mut self,
        connection: Connection,
        parameters: &ConnectionParameters,
    ) -> Result<(), Errno> {
        let Connection { port, name } = connection;
        let qkey = match parameters.qkey {
            0 => UDP_QKEY,
            own => own,
        };
        let answer = SidrAnswer {
            status: SidrStatus::OK,
            qpn: self.own_qp(port, parameters.qp_num)?,
            qkey: Qkey(qkey),
            private: private(parameters)?,
        };
        let now = self.now;
        let answered = self.adapter(port)?.make_cm().answer(name, &answer, now);
        answered.map_err(errno)
    }

    pub(super) fn reject(&mut self, reject: &Reject) -> Result<(), Errno> {
        let identifier = self.client.get(reject.id)?;
        let Connection { port, name } = identifier.connection.ok_or(Errno::INVAL)?;
        if !matches!(identifier.stage, Stage::Called | Stage::Replied) {
            return Err(Errno::INVAL);
        }
        let datagram = identifier.is_datagram();
        let data = reject.private.as_bytes();
        let now = self.now;
        let cm = self.adapter(port)?.make_cm();
        let rejected = if datagram {
            let no = SidrAnswer {
                status: SidrStatus::REJECTED,
                qpn: Qpn::default(),
                qkey: Qkey::default(),
                private: PrivateData::new(data).ok_or(Errno::INVAL)?,
            };
            cm.answer(name, &no, now)
        } else {
            let reason = match reject.reason {
                0 => RejectReason::CONSUMER,
                code => RejectReason(code as u16),
            };
            cm.reject(name, reason, PrivateData::new(data).ok_or(Errno::INVAL)?)
        };
        rejected.map_err(errno)?;
        self.client.get(reject.id)?.stage = Stage::Over;
        self.part(reject.id);
        Ok(())
    }

    pub(super) fn disconnect(&mut self, disconnect: &Disconnect) -> Result<(), Errno> {
        let identifier = self.client.get(disconnect.id)?;
        if identifier.stage == Stage::Over {
            return Ok(());
        }
        let datagram = identifier.is_datagram();
        let connected = matches!(identifier.stage, Stage::Accepted | Stage::Connected);
        let Connection { port, name } = identifier.connection.ok_or(Errno::INVAL)?;
        if !connected {
            return Err(Errno::INVAL);
        }
        if datagram {
            return Ok(());
        }
        let now = self.now;
        let gone = self.adapter(port)?.make_cm().disconnect(name, now);
        gone.map_err(errno)
    }

    pub(super) fn established(&mut self, established: &Established) -> Result<(), Errno> {
        let connection = self.client.get(established.id)?.connection;
        let Connection { port, name } = connection.ok_or(Errno::INVAL)?;
        let known = self.adapter(port)?.make_cm().established(name);
        known.map_err(errno)
    }

    pub(super) fn destroy(&mut self, destroy: &DestroyId) -> Result<(), Errno> {
        let id = destroy.id;
        let channel = self.client.get(id)?.channel;
        let waiting = self.client.take_events(id, channel);
        self.stop_listening(id);
        self.searches.forget(self.owner(id));
        for event in waiting {
            self.refuse_unseen(id, &event);
        }
        self.client.leave_all(id);
        self.part(id);
        if let Some(identifier) = self.client.remove(id) {
            let owner = self.owner(id);
            self.owners.narrow(owner);
            for port in identifier.adapters() {
                self.owners.untie(port, owner);
            }
            if let Some(claim) = &identifier.claim {
                let (held, port) = (&identifier.holds, identifier.port());
                self.adapters.give_back_port(held, port, claim);
            }
        }
        Ok(())
    }

    /// Refuses a request that waited at a listener that is gone: no program knows its identifier.
    fn refuse_unseen(&mut self, listener: u64, event: &Event) {
        if event.listener == listener && event.id != listener {
            // The identifier was made with the event.
            let _gone = self.destroy(&DestroyId { id: event.id });
        }
    }

    /// Separates an identifier from its connection.
    pub(super) fn part(&mut self, id: u64) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        let Some(connection) = identifier.connection.take() else {
            return;
        };
        self.owners.connections.remove(&connection);
        let now = self.now;
        if let Some(adapter) = self.adapters.get_mut(connection.port) {
            adapter.make_cm().release(connection.name, now);
        }
    }
}

fn private<const N: usize>(parameters: &ConnectionParameters) -> Result<PrivateData<N>, Errno> {
    PrivateData::new(parameters.private.as_bytes()).ok_or(Errno::INVAL)
}

fn side(parameters: &ConnectionParameters, qpn: Qpn, psn: Psn) -> Side {
    Side {
        qpn,
        psn,
        responder_resources: parameters.responder_resources,
        initiator_depth: parameters.initiator_depth,
        flow_control: parameters.flow_control != 0,
        rnr_retry: Bits::new(parameters.rnr_retry_count).unwrap_or(Bits::MAX),
        srq: parameters.srq != 0,
    }
}

fn caller(identifier: &Identifier) -> IpCaller {
    IpCaller {
        port: identifier.route.local.port,
        source: Gid(identifier.route.sgid),
        destination: Gid(identifier.route.dgid),
    }
}

fn call(
    identifier: &Identifier,
    parameters: &ConnectionParameters,
    side: Side,
    link: vrdma_cm::Link,
) -> Result<Call, Errno> {
    let user = parameters.private.as_bytes();
    Ok(Call {
        ends: identifier.ends(),
        service: identifier.service(&identifier.route.remote),
        kind: identifier.kind(),
        side,
        link,
        private: caller(identifier).connect_data(user).ok_or(Errno::INVAL)?,
    })
}

fn question(identifier: &Identifier, parameters: &ConnectionParameters) -> Result<Resolve, Errno> {
    let user = parameters.private.as_bytes();
    Ok(Resolve {
        ends: identifier.ends(),
        service: identifier.service(&identifier.route.remote),
        private: caller(identifier).resolve_data(user).ok_or(Errno::INVAL)?,
    })
}
