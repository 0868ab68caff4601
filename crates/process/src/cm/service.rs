//! The service as a whole: clients, adapters, and what goes between them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::io::Errno;
use vrdma_cm::{Calls, Outgoing, Received};
use vrdma_provider::daemon::{Request, peek, send_answer, take};
use vrdma_switch::PortId;
use vrdma_wire::Mtu;

use super::adapter::{Adapter, AdapterSpec};
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

/// What a client costs: it and its socket.
pub(super) const COST: [(Kind, u64); 2] = [(Kind::CmClient, 1), (Kind::Descriptor, 1)];

/// Requests of one client that are served before others have their turn.
const REQUESTS_A_TURN: usize = 4;

/// Adapters whose managers repeat in one call what was not answered; the others in the next one.
const EXPIRED_A_TURN: usize = 64;

/// The socket of a client that is gone. Another thread closes it: stop to watch it before you drop this.
#[derive(Debug)]
pub struct HungUp(ForeignFile);

impl AsFd for HungUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// What an adapter has for those who call it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Offered {
    /// Services.
    pub listeners: u32,
    /// Calls to them that came to no connection.
    pub calls: Calls,
}

/// Connection management of all process adapters.
pub struct Service {
    pub(super) adapters: Adapters,
    pub(super) clients: BTreeMap<ClientId, Client>,
    /// Clients that something happened to.
    pub(super) touched: BTreeSet<ClientId>,
    pub(super) owners: Owners,
    pub(super) searches: Searches,
    random: Random,
    pub(super) registry: Registry,
    pub(super) next: u32,
    /// What another service needs to go on for this one, if one would.
    pub(super) recorder: Option<Recorder>,
}

impl Service {
    /// Without adapters and clients; the queue pairs of users are theirs to connect. Of the seed numbers are made
    /// that nobody may guess.
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

    /// An adapter is there: its name can be resolved, bound and called.
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

    /// What the adapter's connections propose from now on.
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

    /// Gives an answer, which is written down before.
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
        // The descriptors of the one before are closed when no record names them any more.
        let before = client.answered.replace(answered);
        self.finish(now);
        drop(before);
        self.give_again(id)
    }

    /// Gives the answer that was given last, and takes the request that it answers.
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

    /// What is offered at an adapter, and how it is called.
    pub fn offered(&self, port: PortId) -> Offered {
        let adapter = self.adapters.get(port);
        let everywhere = adapter.map_or(0, |_| self.owners.everywhere.len());
        Offered {
            listeners: (self.owners.listeners_at(port) + everywhere) as u32,
            calls: adapter.map_or_else(Calls::default, Adapter::calls),
        }
    }

    /// A client's socket, to be watched for requests.
    pub fn socket(&self, client: ClientId) -> Option<BorrowedFd<'_>> {
        self.clients
            .get(&client)
            .map(|client| client.socket.as_fd())
    }

    /// Answers waiting requests of a client. One that hung up or broke the protocol is gone
    /// afterwards: what is left of it.
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

    /// Carries out a request, unless that was done, and answers it.
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
        // Its descriptors stay open until no record names them.
        self.finish(now);
        gone.map(|client| HungUp(client.socket))
    }

    /// A datagram for QP 1 of an adapter.
    pub fn receive(&mut self, port: PortId, received: &Received<'_>, now: Duration) {
        if self.adapters.has(port) {
            self.prepare(port, received, now);
        }
        if let Some(adapter) = self.adapters.get_mut(port) {
            adapter.make_cm().receive(received, now);
            self.finish(now);
        }
    }

    /// A datagram to be sent from QP 1 of an adapter.
    pub fn next_outgoing(&mut self) -> Option<(PortId, Outgoing)> {
        self.adapters.next_outgoing()
    }

    /// Whether [`Service::next_outgoing`] may have one.
    pub fn is_sending(&self) -> bool {
        self.adapters.is_sending()
    }

    /// When [`Service::expire`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let deadlines = [self.adapters.deadline(), self.searches.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Lets managers repeat what was not answered in time. Call it at [`deadline`](Self::deadline).
    pub fn expire(&mut self, now: Duration) {
        for _ in 0..EXPIRED_A_TURN {
            let Some(adapter) = self.adapters.take_due(now) else {
                break;
            };
            adapter.make_cm().expire(now);
        }
        self.finish(now);
    }

    /// An address that somebody looks for: answer with [`Service::found`] or [`Service::missed`].
    pub fn next_search(&mut self, now: Duration) -> Option<Search> {
        self.searches.next_due(now)
    }

    /// It is known where the address is.
    pub fn found(&mut self, search: &Search, now: Duration) {
        self.with(search.owner.client, now, |handler| handler.found(search));
        self.finish(now);
    }

    /// It is not, or not yet.
    pub fn missed(&mut self, search: Search, now: Duration) {
        if !self.searches.add_again(search, now) {
            self.with(search.owner.client, now, |handler| {
                handler.not_found(&search)
            });
        }
        self.finish(now);
    }

    /// What happened is taken to whom it concerns and written down; then it is told.
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

    /// Takes events to whom they concern.
    fn distribute(&mut self, now: Duration) {
        while let Some((port, event)) = self.adapters.next_event() {
            let connection = (port, subject(&event));
            let owner = self.owner(port, &event);
            let told = owner.and_then(|owner| {
                self.with(owner.client, now, |handler| {
                    handler.on_event(owner.id, port, &event)
                })
            });
            if told.is_none()
                && let Some(adapter) = self.adapters.get_mut(port)
            {
                adapter.make_cm().release(connection.1, now);
            }
        }
    }

    fn owner(&self, port: PortId, event: &vrdma_cm::Event) -> Option<Owner> {
        use vrdma_cm::Event as E;
        match event {
            E::Requested(_, listener, _) | E::ResolveRequested(_, listener, _) => {
                self.owners.of_listener((port, *listener))
            }
            other => self
                .owners
                .connections
                .get(&(port, subject(other)))
                .copied(),
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
