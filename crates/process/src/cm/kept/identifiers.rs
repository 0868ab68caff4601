//! Identifiers as records, and how their ports, listeners and connections are restored.

use std::collections::BTreeSet;

use vrdma_cm::{CommId, Link, Listen, Side};
use vrdma_provider::cm::{EventKind, qp_type, space};
use vrdma_provider::message::Name;
use vrdma_switch::PortId;
use vrdma_wire::Gid;
use zerocopy::{FromBytes, IntoBytes};

use super::super::adapter::Connection;
use super::super::adapters::Adapters;
use super::super::handler::Handler;
use super::super::holding::Held;
use super::super::identifier::{Identifier, Options, Stage};
use super::super::owners::Owner;
use super::super::ports::Claim;
use super::super::search::Search;
use super::{STAGES, record};

/// Stands for the port of an adapter that is gone.
const NOWHERE: PortId = PortId(u32::MAX);

impl Identifier {
    pub(super) fn save(
        &self,
        owner: Owner,
        adapters: &Adapters,
        search: Option<&Search>,
    ) -> record::Identifier {
        let stage = STAGES.iter().position(|stage| *stage == self.stage);
        record::Identifier {
            client: owner.client.0,
            id: owner.id,
            channel: self.channel,
            space: self.space,
            qp_type: self.qp_type,
            stage: stage.unwrap_or_default() as u32,
            options: save_options(&self.options),
            route: self.route.as_bytes().to_vec(),
            adapter: self.adapter.map(|port| adapters.name_of(port)),
            claim: self.claim.as_ref().map(save_claim),
            backlog: self.listens.map(|(_, backlog)| backlog),
            connection: self.connection.map(|connection| connection.name.0),
            link: self.link.save(),
            local: self.local.save(),
            remote: self.remote.map(|remote| remote.save()),
            search: search.map(|search| record::Search {
                adapter: adapters.name_of(search.port),
                sgid: search.sgid.0.to_vec(),
                dgid: search.dgid.0.to_vec(),
                remote: search.remote.as_bytes().to_vec(),
                patience_ms: search.patience.as_millis() as u64,
            }),
        }
    }

    /// Restores an identifier, without its port, listeners and connection. `None` if no service writes such a record.
    pub(super) fn parse(record: &record::Identifier, adapters: &Adapters) -> Option<Self> {
        let is_known = matches!(record.space, space::TCP | space::UDP)
            && matches!(record.qp_type, qp_type::RC | qp_type::UC | qp_type::UD);
        is_known.then_some(())?;
        let mut identifier = Self::new(record.channel, record.space, record.qp_type);
        identifier.stage = *STAGES.get(record.stage as usize)?;
        identifier.options = options(&record.options)?;
        identifier.route = FromBytes::read_from_bytes(&record.route).ok()?;
        identifier.claim = match &record.claim {
            Some(claim) => Some(parse_claim(claim)?),
            None => None,
        };
        identifier.link = Link::parse(&record.link)?;
        identifier.local = Side::parse(&record.local)?;
        identifier.remote = match &record.remote {
            Some(remote) => Some(Side::parse(remote)?),
            None => None,
        };
        if let Some(name) = &record.adapter {
            let route = &mut identifier.route;
            let found = Name::new(name).and_then(|name| adapters.named(name));
            let found = found.and_then(|port| adapters.get(port));
            let found = found.and_then(|it| Some((it.spec.port, it.index_of(Gid(route.sgid))?)));
            let (port, index) = found.unwrap_or((NOWHERE, route.sgid_index));
            identifier.adapter = Some(port);
            route.sgid_index = index;
        }
        Some(identifier)
    }
}

impl Handler<'_> {
    /// Gives an identifier its port again, and lets it listen there. Where somebody else has the port now, the
    /// identifier loses it.
    pub(super) fn hold_again(&mut self, id: u64, backlog: Option<u32>) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        let (number, adapter) = (identifier.route.local.port, identifier.adapter);
        let claim = identifier.claim.filter(|_| number != 0);
        if let Some(port) = adapter {
            self.tie(id, port);
        }
        let Some(claim) = claim else {
            return;
        };
        let held = match claim.address {
            Some(_) => self.take_what_is_free(id, &claim, adapter),
            None => self.take_all_again(id, &claim),
        };
        self.hold(id, held);
        if let Some(backlog) = backlog {
            self.listen_again(id, backlog);
        }
    }

    fn take_all_again(&mut self, id: u64, claim: &Claim) -> Held {
        let number = self.client.get(id).map_or(0, |it| it.route.local.port);
        let all = self.all_usable();
        if all == Held::Everywhere && self.take_port(id, number, claim, &all).is_ok() {
            return all;
        }
        self.take_what_is_free(id, claim, self.usable())
    }

    /// Takes the identifier's port at those adapters where it is free.
    fn take_what_is_free(
        &mut self,
        id: u64,
        claim: &Claim,
        at: impl IntoIterator<Item = PortId>,
    ) -> Held {
        let number = self.client.get(id).map_or(0, |it| it.route.local.port);
        let mut is_free = |port: &PortId| {
            let at = Held::At(BTreeSet::from([*port]));
            self.take_port(id, number, claim, &at).is_ok()
        };
        Held::At(at.into_iter().filter(|port| is_free(port)).collect())
    }

    fn listen_again(&mut self, id: u64, backlog: u32) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        if identifier.stage != Stage::Listening {
            return;
        }
        let listens = Listen {
            service: identifier.service(&identifier.route.local),
            at: identifier.listening_addresses(),
        };
        identifier.listens = Some((listens, backlog));
        let held = identifier.holds.clone();
        // If it is refused at one adapter, it listens at the others as before.
        if held == Held::Everywhere {
            let _refused = self.listen_everywhere(id, listens);
        }
        for port in held.named() {
            let _refused = self.listen_at(id, *port);
        }
    }

    /// Gives an identifier its connection again, or reports that the connection is lost.
    pub(super) fn connect_again(&mut self, id: u64, name: CommId) {
        let Ok(identifier) = self.client.get(id) else {
            return;
        };
        let (stage, is_datagram) = (identifier.stage, identifier.is_datagram());
        let port = identifier.adapter;
        let known = port.filter(|port| {
            let adapter = self.adapters.get(*port);
            let connection = Connection { port: *port, name };
            let is_free = !self.owners.connections.contains_key(&connection);
            is_free
                && adapter
                    .and_then(|adapter| adapter.cm.as_ref())
                    .is_some_and(|cm| cm.knows(name))
        });
        if let Some(port) = known {
            let owner = self.owner(id);
            let connection = Connection { port, name };
            self.owners.connections.insert(connection, owner);
            if let Ok(identifier) = self.client.get(id) {
                identifier.connection = Some(connection);
            }
            return;
        }
        if is_datagram || port == Some(NOWHERE) {
            return;
        }
        let told = match stage {
            Stage::Calling | Stage::Replied | Stage::Called => EventKind::Unreachable,
            Stage::Accepted | Stage::Connected => EventKind::Disconnected,
            _ => return,
        };
        if let Ok(identifier) = self.client.get(id) {
            identifier.stage = Stage::Over;
        }
        self.tell(id, told);
    }

    /// Reports to an identifier that its adapter is gone, unless that was reported before.
    pub(super) fn miss_adapter(&mut self, id: u64, record: &record::Identifier) {
        let is_missing = self
            .client
            .get(id)
            .is_ok_and(|it| it.adapter == Some(NOWHERE));
        let is_news = record.adapter.as_deref() != Some("");
        if is_missing && is_news {
            self.tell(id, EventKind::DeviceRemoval);
        }
    }
}

fn save_options(options: &Options) -> record::Options {
    record::Options {
        traffic_class: options.traffic_class.into(),
        reuse_address: options.reuse_address,
        family_only: options.family_only,
        ack_timeout: options.ack_timeout.into(),
    }
}

fn options(record: &record::Options) -> Option<Options> {
    Some(Options {
        traffic_class: record.traffic_class.try_into().ok()?,
        reuse_address: record.reuse_address,
        family_only: record.family_only,
        ack_timeout: record
            .ack_timeout
            .try_into()
            .ok()
            .filter(|code| *code < 32)?,
    })
}

fn save_claim(claim: &Claim) -> record::Claim {
    record::Claim {
        address: claim.address.map(|gid| gid.0.to_vec()),
        family: claim.family.into(),
        family_only: claim.family_only,
        shared: claim.shared,
    }
}

fn parse_claim(record: &record::Claim) -> Option<Claim> {
    Some(Claim {
        address: match &record.address {
            Some(bytes) => Some(Gid(bytes.as_slice().try_into().ok()?)),
            None => None,
        },
        family: record.family.try_into().ok()?,
        family_only: record.family_only,
        shared: record.shared,
    })
}
