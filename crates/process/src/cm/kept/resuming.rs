//! A service that goes on for an earlier one.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use vrdma_cm::{CommId, Ends, Outgoing};
use vrdma_keep::{Inherited, SlotId};
use vrdma_provider::cm::{Event, GetEvent};
use vrdma_provider::daemon::{self, Answer};
use vrdma_provider::message::{Call, Header, Name};
use vrdma_switch::PortId;
use vrdma_wire::{Gid, Qkey, Qpn};
use zerocopy::FromBytes;

use super::super::adapter::Connection;
use super::super::client::{Client, ClientId};
use super::super::identifier::Identifier;
use super::super::offering::Offered;
use super::super::owners::Owner;
use super::super::service::{COST, Service};
use super::past::{Noted, Past};
use super::record;
use super::recorder::{Key, Kind, Recorder};
use crate::caller::Caller;
use crate::holdings::Holdings;
use crate::receive::ForeignFile;
use crate::session::Answered;

/// The state while a service takes over the records.
struct Resuming<'a> {
    service: &'a mut Service,
    recorder: Recorder,
    inherited: Inherited,
    now: Duration,
}

impl Service {
    /// Goes on for a service that has ended, with the adapters that exist now. Returns the clients, to be watched.
    pub fn resume(&mut self, past: Past, now: Duration) -> Vec<ClientId> {
        let Some(recorder) = self.recorder.take() else {
            return Vec::new();
        };
        let mut resuming = Resuming {
            service: self,
            recorder,
            inherited: Inherited::none(),
            now,
        };
        resuming.run(past);
        let Resuming {
            recorder,
            inherited,
            ..
        } = resuming;
        self.recorder = Some(recorder);
        self.finish(now);
        // Descriptors that no client has taken; another thread closes them, since closing may take long.
        if let Err(error) = inherited.close_rest() {
            tracing::warn!("descriptors of the worker before stay open: {error}");
        }
        self.clients.keys().copied().collect()
    }
}

impl Resuming<'_> {
    fn run(&mut self, mut past: Past) {
        self.inherited = std::mem::replace(&mut past.inherited, Inherited::none());
        self.all(past.clients, Self::client);
        self.all(past.answers, Self::answer);
        self.all(past.channels, Self::channel);
        let mut identifiers: Vec<record::Identifier> = Vec::new();
        past.identifiers
            .sort_by_key(|noted| self.rank(&noted.record));
        for noted in past.identifiers {
            let Noted { slot, record } = noted;
            let key = self.identifier(&record);
            self.keep_record(slot, key);
            identifiers.extend(key.map(|_| record));
        }
        for record in &identifiers {
            let (client, id) = (ClientId(record.client), record.id);
            self.service.hear_again(Owner { client, id }, self.now);
        }
        self.all(past.offers, Self::offer);
        self.all(past.groups, Self::group);
        self.all(past.events, Self::event);
        self.all(past.connections, Self::connection);
        for record in &identifiers {
            self.rejoin(record);
        }
        self.release_orphans();
        // Datagrams are numbered anew.
        self.all(past.datagrams, |this, record| {
            this.datagram(record).and(None)
        });
        self.note_all();
    }

    /// Restores all records of a kind; a record that cannot be restored is removed.
    fn all<T>(&mut self, all: Vec<Noted<T>>, take: impl Fn(&mut Self, &T) -> Option<Key>) {
        for Noted { slot, record } in all {
            let key = take(self, &record);
            self.keep_record(slot, key);
        }
    }

    fn keep_record(&mut self, slot: SlotId, key: Option<Key>) {
        match key {
            Some(key) => self.recorder.adopt(key, slot),
            None => self.recorder.discard(slot),
        }
    }

    /// The order in which identifiers take their ports again: first those at one address, since those at all adapters
    /// took what these had left; then those at all adapters of clients that may use all, which get them in any case;
    /// then those that were refused where the others are.
    fn rank(&self, record: &record::Identifier) -> u8 {
        let claim = record.claim.as_ref();
        let client = self.service.clients.get(&ClientId(record.client));
        match (claim.map(|claim| &claim.address), client) {
            (Some(Some(_)), _) => 0,
            (_, Some(client)) if client.may_use_all() => 1,
            _ => 2,
        }
    }

    fn client_mut(&mut self, client: u32) -> Option<&mut Client> {
        self.service.clients.get_mut(&ClientId(client))
    }

    fn port(&self, adapter: &str) -> Option<PortId> {
        self.service.adapters.named(Name::new(adapter)?)
    }

    fn client(&mut self, record: &record::Client) -> Option<Key> {
        let id = ClientId(record.client);
        if self.service.clients.contains_key(&id) {
            return None;
        }
        let socket = self.inherited.claim(record.socket)?;
        let mut caller = Caller::at(socket.as_fd()).ok()?;
        let user = self.service.registry.users.of(caller.uid);
        let socket = ForeignFile::new(socket, Arc::clone(&user.tenant));
        caller.only = match &record.only {
            Some(only) => Some(Name::new(only)?),
            None => None,
        };
        let holdings = Holdings::new(Arc::clone(&user.counts));
        let mut client = Client::new(socket, caller, Name::new(&record.wants)?, holdings);
        client.resume(record.last);
        for (kind, count) in COST {
            client.holdings.take(kind, count);
        }
        self.service.clients.insert(id, client);
        self.service.next = self.service.next.max(id.0);
        Some(Key::new(Kind::Client, id.0, 0))
    }

    fn answer(&mut self, record: &record::Answer) -> Option<Key> {
        let header = Header {
            code: record.code.try_into().ok()?,
            number: record.number.try_into().ok()?,
            errno: 0,
        };
        let fds = record.descriptors.iter();
        let fds: Option<Vec<_>> = fds.map(|fd| self.inherited.claim(*fd)).collect();
        let answer = match record.errno {
            0 => Ok(Answer::again(record.body.clone(), fds?)),
            errno => Err(Errno::from_raw_os_error(errno)),
        };
        let client = self.client_mut(record.client)?;
        client.answered = Some(Answered { header, answer });
        Some(Key::new(Kind::Answer, record.client, 0))
    }

    fn channel(&mut self, record: &record::Channel) -> Option<Key> {
        let pipe = self.inherited.claim(record.pipe)?;
        let client = self.client_mut(record.client)?;
        client.resume_channel(record.channel, pipe)?;
        Some(Key::new(Kind::Channel, record.client, record.channel))
    }

    fn identifier(&mut self, record: &record::Identifier) -> Option<Key> {
        let identifier = Identifier::parse(record, &self.service.adapters)?;
        let client = self.client_mut(record.client)?;
        client.resume_identifier(record.id, identifier)?;
        let (id, backlog) = (record.id, record.backlog);
        let key = ClientId(record.client);
        self.service
            .with(key, self.now, |handler| handler.hold_again(id, backlog));
        Some(Key::new(Kind::Identifier, record.client, id))
    }

    fn offer(&mut self, record: &record::Offer) -> Option<Key> {
        let port = self.port(&record.adapter)?;
        let offered = Offered {
            qpn: Qpn::new(record.qpn)?,
            qkey: Qkey(record.qkey),
        };
        let client = self.client_mut(record.client)?;
        let identifier = client.get(record.id).ok()?;
        let is_offered = identifier.is_datagram() && identifier.holds.is_at(port);
        is_offered.then(|| identifier.offers.insert(port, offered))?;
        let (client, id) = (ClientId(record.client), record.id);
        self.service.owners.tie(port, Owner { client, id });
        Some(Key {
            second: port.0.into(),
            ..Key::new(Kind::Offer, record.client, record.id)
        })
    }

    fn group(&mut self, record: &record::Group) -> Option<Key> {
        let client = self.client_mut(record.client)?;
        client.resume_group(record.group, record.id)?;
        Some(Key::new(Kind::Group, record.client, record.group))
    }

    fn event(&mut self, record: &record::Event) -> Option<Key> {
        let event = Event::read_from_bytes(&record.event).ok()?;
        let client = self.client_mut(record.client)?;
        client.resume_event(record.channel, record.number, event)?;
        Some(Key::new(Kind::Event, record.client, record.number))
    }

    fn connection(&mut self, record: &record::Connection) -> Option<Key> {
        let port = self.port(&record.adapter)?;
        let now = self.now;
        let adapter = self.service.adapters.get_mut(port)?;
        let own = adapter.gids();
        match adapter.make_cm().resume(&record.saved, &own, now) {
            Ok(CommId(name)) => Some(Key::new(Kind::Connection, port.0, name.into())),
            Err(error) => {
                tracing::warn!(adapter = %record.adapter, "a connection of rdma_cm is lost: {error}");
                None
            }
        }
    }

    /// Gives an identifier its connection and its search again.
    fn rejoin(&mut self, record: &record::Identifier) {
        let (key, id) = (ClientId(record.client), record.id);
        self.service.with(key, self.now, |handler| {
            if let Some(name) = record.connection {
                handler.connect_again(id, CommId(name));
            }
            handler.miss_adapter(id, record);
        });
        let Some(search) = &record.search else { return };
        let port = self.port(&search.adapter);
        self.service.with(key, self.now, |handler| {
            handler.search_again(id, port, search.patience_ms, search_places(search))
        });
    }

    /// Releases connections without an identifier: their peers are told.
    fn release_orphans(&mut self) {
        let ports: Vec<PortId> = self.service.adapters.ports().collect();
        for port in ports {
            let owners = &self.service.owners.connections;
            let Some(adapter) = self.service.adapters.get_mut(port) else {
                continue;
            };
            let Some(cm) = &mut adapter.cm else {
                continue;
            };
            let names: Vec<CommId> = cm.names().collect();
            for name in names {
                if !owners.contains_key(&Connection { port, name }) {
                    cm.release(name, self.now);
                }
            }
        }
    }

    fn datagram(&mut self, record: &record::Datagram) -> Option<()> {
        let port = self.port(&record.adapter)?;
        let ends = Ends {
            local: Gid(record.local.as_slice().try_into().ok()?),
            remote: Gid(record.remote.as_slice().try_into().ok()?),
        };
        let outgoing = Outgoing::parse(ends, &record.bytes)?;
        let adapter = self.service.adapters.get_mut(port)?;
        let is_own = adapter.gids().contains(&ends.local);
        is_own.then(|| adapter.make_cm().send_again(outgoing))
    }

    /// Marks everything to be written anew, and announces the events whose announcements are missing.
    fn note_all(&mut self) {
        let ids: Vec<ClientId> = self.service.clients.keys().copied().collect();
        for id in ids {
            self.service.touched.insert(id);
            let Some(client) = self.service.clients.get_mut(&id) else {
                continue;
            };
            client.note_all();
            let asked = asks_for(client);
            client.announce_again(asked);
        }
    }
}

/// Own GID, peer's GID, and the peer's address as the program gave it.
fn search_places(search: &record::Search) -> Option<super::super::search::Places> {
    Some(super::super::search::Places {
        sgid: Gid(search.sgid.as_slice().try_into().ok()?),
        dgid: Gid(search.dgid.as_slice().try_into().ok()?),
        remote: FromBytes::read_from_bytes(&search.remote).ok()?,
    })
}

/// Returns the channel whose next event a client has asked for, after it read the announcement.
fn asks_for(client: &Client) -> Option<u64> {
    let tenant = client.socket.tenant();
    let request = daemon::peek(client.socket.as_fd(), |fds| tenant.close(fds)).ok()?;
    let mut request = request?;
    tenant.close(request.take_fds());
    let answered = client.answered.as_ref();
    let is_answered = answered.is_some_and(|answered| answered.header == request.header());
    if is_answered || request.code() != GetEvent::CODE {
        return None;
    }
    Some(request.parse::<GetEvent>()?.channel)
}
