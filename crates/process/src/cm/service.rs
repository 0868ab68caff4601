//! The service as a whole: clients, adapters, and the events between them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use vrdma_cm::{Calls, Outgoing, Received};
use vrdma_provider::daemon::{Request, peek, send_answer, take};
use vrdma_switch::PortId;
use vrdma_wire::Mtu;

use super::adapter::{Adapter, AdapterSpec, Connection};
use super::adapters::Adapters;
use super::changes::Item;
use super::client::{Client, ClientId};
use super::cm_event::subject;
use super::handler::{Handler, Random};
use super::kept::Recorder;
use super::owners::{Owner, Owners};
use super::search::{Search, Searches};
use crate::quota::Kind;
use crate::receive::{ForeignFile, consume};
use crate::registry::Registry;
use crate::session::Answered;

/// The quota that a client takes: one client, and its socket.
pub(super) const COST: [(Kind, u64); 2] = [(Kind::CmClient, 1), (Kind::Descriptor, 1)];

/// Most requests of one client that are served before others have their turn.
const REQUESTS_A_TURN: usize = 4;

/// Most adapters whose managers repeat unanswered messages in one call; the others have their turn in the next call.
const EXPIRED_A_TURN: usize = 64;

/// The socket of a client that is gone. Another thread closes it: stop watching the socket before you drop this.
#[derive(Debug)]
pub struct HungUp(ForeignFile);

impl AsFd for HungUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The services at an adapter, and requests to them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Offered {
    /// Number of listeners.
    pub listeners: u32,
    /// Counts of requests to them that led to no connection.
    pub calls: Calls,
}

/// Connection management of all process adapters.
pub struct Service {
    pub(super) adapters: Adapters,
    pub(super) clients: BTreeMap<ClientId, Client>,
    /// Clients to which something happened.
    pub(super) touched: BTreeSet<ClientId>,
    pub(super) owners: Owners,
    pub(super) searches: Searches,
    random: Random,
    pub(super) registry: Registry,
    pub(super) next: u32,
    /// The records for a later service, if one may go on for this one.
    pub(super) recorder: Option<Recorder>,
}

impl Service {
    /// Makes a service without adapters and clients. `registry` tells which queue pairs belong to which user: users may
    /// connect only their own. The seed is for numbers that nobody may guess.
    pub fn new(registry: Registry, seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        Self {
            adapters: Adapters::new(random.next()),
            clients: BTreeMap::new(),
            touched: BTreeSet::new(),
            owners: Owners::default(),
            searches: Searches::default(),
            random,
            registry,
            next: 0,
            recorder: None,
        }
    }

    /// Adds an adapter: it can be resolved and bound, and requests reach it.
    pub fn attach(&mut self, spec: AdapterSpec) {
        let port = spec.port;
        let adapter = Adapter::new(spec, self.random.next());
        let may_use = |owner: &Owner| {
            let client = self.clients.get(&owner.client);
            client.is_some_and(|client| client.may_use(&adapter, &self.registry.admission))
        };
        let takers: Vec<Owner> = self.owners.wide().filter(may_use).collect();
        self.adapters.insert(adapter);
        for taker in takers {
            self.with(taker.client, Duration::ZERO, |handler| {
                handler.spread(taker.id, port)
            });
        }
        self.finish(Duration::ZERO);
    }

    /// Sets the MTU that the adapter's connections propose from now on.
    pub fn set_mtu(&mut self, port: PortId, mtu: Mtu) {
        if let Some(adapter) = self.adapters.get_mut(port) {
            adapter.spec.mtu = mtu;
        }
    }

    /// Forgets an adapter; its identifiers are told that it is gone.
    pub fn detach(&mut self, port: PortId) {
        self.adapters.remove(port);
        self.forget_records_of(port);
        let tied = self.owners.forget_adapter(port);
        for search in self.searches.take_of(port) {
            self.with(search.owner.client, Duration::ZERO, |handler| {
                handler.not_found(&search)
            });
        }
        for owner in tied {
            self.with(owner.client, Duration::ZERO, |handler| {
                handler.forget_adapter(owner.id, port)
            });
        }
        self.finish(Duration::ZERO);
    }

    /// Gives an answer, after its record is written.
    pub(super) fn give(
        &mut self,
        id: ClientId,
        answered: Answered,
        now: Duration,
    ) -> Result<(), Errno> {
        let Some(client) = self.clients.get_mut(&id) else {
            return Ok(());
        };
        self.touched.insert(id);
        client.changes.note(Item::Answer);
        // The descriptors of the answer before are closed when no record names them any more.
        let before = client.answered.replace(answered);
        self.finish(now);
        drop(before);
        self.give_again(id)
    }

    /// Sends the answer that was given last, and takes its request from the socket.
    fn give_again(&mut self, id: ClientId) -> Result<(), Errno> {
        let is_recorded = self.is_recorded();
        let Some(client) = self.clients.get_mut(&id) else {
            return Ok(());
        };
        let Some(Answered { header, answer }) = &client.answered else {
            return Ok(());
        };
        let answer = answer.as_ref().map_err(|errno| *errno);
        send_answer(client.socket.as_fd(), *header, answer)?;
        if is_recorded {
            return consume(client.socket.as_fd(), client.socket.tenant());
        }
        client.answered = None;
        Ok(())
    }

    /// The services at an adapter, and how they are used.
    pub fn offered(&self, port: PortId) -> Offered {
        let adapter = self.adapters.get(port);
        let everywhere = adapter.map_or(0, |_| self.owners.everywhere.len());
        Offered {
            listeners: (self.owners.listeners_at(port) + everywhere) as u32,
            calls: adapter.map_or_else(Calls::default, Adapter::calls),
        }
    }

    /// The client's socket, to be watched for requests.
    pub fn socket(&self, client: ClientId) -> Option<BorrowedFd<'_>> {
        self.clients
            .get(&client)
            .map(|client| client.socket.as_fd())
    }

    /// Answers waiting requests of a client. If the client hung up or broke the protocol, it is removed, and the rest
    /// of it is returned.
    pub fn serve(&mut self, client: ClientId, now: Duration) -> Option<HungUp> {
        for _ in 0..REQUESTS_A_TURN {
            let known = self.clients.get(&client)?;
            let close = |fds| known.socket.tenant().close(fds);
            let next = match self.is_recorded() {
                true => peek(known.socket.as_fd(), close),
                false => take(known.socket.as_fd(), close),
            };
            let served = match next {
                Ok(None) => return None,
                Ok(Some(mut request)) => {
                    close(request.take_fds());
                    self.answer(client, &request, now)
                }
                Err(errno) => Err(errno),
            };
            if served.is_err() {
                return self.hang_up(client, now);
            }
        }
        None
    }

    /// Carries out a request, unless that was done before, and answers it.
    fn answer(&mut self, id: ClientId, request: &Request, now: Duration) -> Result<(), Errno> {
        let header = request.header();
        let answered = self.clients.get(&id).and_then(|it| it.answered.as_ref());
        if answered.is_some_and(|answered| answered.header == header) {
            return self.give_again(id);
        }
        let answer = self.with(id, now, |handler| handler.decide(request));
        match answer {
            Some(answer) => self.give(id, Answered { header, answer }, now),
            None => Ok(()),
        }
    }

    pub(super) fn hang_up(&mut self, client: ClientId, now: Duration) -> Option<HungUp> {
        self.with(client, now, |handler| handler.clear());
        self.searches.forget_client(client);
        let gone = self.clients.remove(&client);
        // The client's descriptors stay open until no record names them.
        self.finish(now);
        gone.map(|client| HungUp(client.socket))
    }

    /// Receives a datagram for QP 1 of an adapter.
    pub fn receive(&mut self, port: PortId, received: &Received<'_>, now: Duration) {
        if self.adapters.has(port) {
            self.prepare(port, received, now);
        }
        if let Some(adapter) = self.adapters.get_mut(port) {
            adapter.make_cm().receive(received, now);
            self.finish(now);
        }
    }

    /// Takes a datagram to be sent from QP 1 of an adapter.
    pub fn next_outgoing(&mut self) -> Option<(PortId, Outgoing)> {
        self.adapters.next_outgoing()
    }

    /// Whether [`Service::next_outgoing`] may have one.
    pub fn is_sending(&self) -> bool {
        self.adapters.is_sending()
    }

    /// The time at which [`Service::expire`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [self.adapters.deadline(), self.searches.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Lets managers repeat messages that were not answered in time. Call it at [`deadline`](Self::deadline).
    pub fn expire(&mut self, now: Duration) {
        for _ in 0..EXPIRED_A_TURN {
            let Some(adapter) = self.adapters.take_due(now) else {
                break;
            };
            adapter.make_cm().expire(now);
        }
        self.finish(now);
    }

    /// Takes an address to search for: answer with [`Service::found`] or [`Service::missed`].
    pub fn next_search(&mut self, now: Duration) -> Option<Search> {
        self.searches.next_due(now)
    }

    /// Reports that the address was found.
    pub fn found(&mut self, search: &Search, now: Duration) {
        self.with(search.owner.client, now, |handler| handler.found(search));
        self.finish(now);
    }

    /// Reports that the address was not found, or not yet.
    pub fn missed(&mut self, search: Search, now: Duration) {
        if !self.searches.add_again(search, now) {
            self.with(search.owner.client, now, |handler| {
                handler.not_found(&search)
            });
        }
        self.finish(now);
    }

    /// Takes events to the identifiers that they concern, writes the records, and then tells the clients.
    pub(super) fn finish(&mut self, now: Duration) {
        self.distribute(now);
        self.record();
        for id in std::mem::take(&mut self.touched) {
            if let Some(client) = self.clients.get_mut(&id) {
                client.changes.committed();
                client.pay();
            }
        }
    }

    /// Takes events to the identifiers that they concern.
    fn distribute(&mut self, now: Duration) {
        while let Some((port, event)) = self.adapters.next_event() {
            let name = subject(&event);
            let owner = self.owner(port, &event);
            let told = owner.and_then(|owner| {
                self.with(owner.client, now, |handler| {
                    handler.on_event(owner.id, port, &event)
                })
            });
            if told.is_none()
                && let Some(adapter) = self.adapters.get_mut(port)
            {
                adapter.make_cm().release(name, now);
            }
        }
    }

    fn owner(&self, port: PortId, event: &vrdma_cm::Event) -> Option<Owner> {
        use vrdma_cm::Event as E;
        match event {
            E::Requested(_, listener, _) | E::ResolveRequested(_, listener, _) => {
                self.owners.of_listener((port, *listener))
            }
            other => {
                let name = subject(other);
                let connections = &self.owners.connections;
                connections.get(&Connection { port, name }).copied()
            }
        }
    }

    pub(super) fn with<R>(
        &mut self,
        key: ClientId,
        now: Duration,
        work: impl FnOnce(&mut Handler<'_>) -> R,
    ) -> Option<R> {
        self.touched.insert(key);
        let mut handler = Handler {
            key,
            client: self.clients.get_mut(&key)?,
            adapters: &mut self.adapters,
            owners: &mut self.owners,
            searches: &mut self.searches,
            random: &mut self.random,
            users: &self.registry.users,
            admission: &self.registry.admission,
            now,
        };
        Some(work(&mut handler))
    }
}
