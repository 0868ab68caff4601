//! The service as a whole: clients, adapters, and what goes between them.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use vrdma_cm::{Outgoing, Received};
use vrdma_provider::VERSION;
use vrdma_provider::cm::{Greet, Greeting};
use vrdma_provider::daemon::{Answer, Request, send_answer, take};
use vrdma_provider::message::Name;
use vrdma_switch::PortId;
use vrdma_wire::Mtu;

use super::adapter::{Adapter, AdapterSpec};
use super::adapters::Adapters;
use super::client::{Client, ClientId};
use super::cm_event::subject;
use super::handler::{Handler, Owner, Owners, Random};
use super::scope::Scope;
use super::search::{Search, Searches};
use crate::admission::Usable;
use crate::holdings::Holdings;
use crate::opening::same_version;
use crate::quota::Kind;
use crate::receive::ForeignFile;
use crate::registry::Registry;
use crate::sessions::CmGreeting;

/// What a client costs: it and its socket.
const COST: [(Kind, u64); 2] = [(Kind::CmClient, 1), (Kind::Descriptor, 1)];

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

/// Connection management of all process adapters.
pub struct Service {
    adapters: Adapters,
    clients: BTreeMap<ClientId, Client>,
    owners: Owners,
    searches: Searches,
    random: Random,
    registry: Registry,
    next: u32,
}

impl Service {
    /// Without adapters and clients; the queue pairs of users are theirs to connect. Of the seed numbers are made
    /// that nobody may guess.
    pub fn new(registry: Registry, seed: u64) -> Self {
        Self {
            adapters: Adapters::default(),
            clients: BTreeMap::new(),
            owners: Owners::default(),
            searches: Searches::default(),
            random: Random::from_seed(seed),
            registry,
            next: 0,
        }
    }

    /// An adapter is there: its name can be resolved, bound and called.
    pub fn attach(&mut self, spec: AdapterSpec) {
        let adapter = Adapter::new(spec, self.random.next());
        let may_use = |client: &Client| client.may_use(&adapter, &self.registry.admission);
        let clients = self.clients.iter().filter(|(_, client)| may_use(client));
        let clients: Vec<ClientId> = clients.map(|(id, _)| *id).collect();
        self.adapters.insert(adapter);
        for client in clients {
            self.with(client, Duration::ZERO, |handler| handler.spread(spec.port));
        }
        self.distribute(Duration::ZERO);
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
        self.owners.forget_adapter(port);
        for search in self.searches.take_of(port) {
            self.with(search.owner.client, Duration::ZERO, |handler| {
                handler.not_found(&search)
            });
        }
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        for client in clients {
            self.with(client, Duration::ZERO, |handler| {
                handler.forget_adapter(port)
            });
        }
        self.distribute(Duration::ZERO);
    }

    /// Takes over a client whose first request was a greeting, and answers it. `None`: it was refused.
    pub fn greet(&mut self, greeting: CmGreeting) -> Option<ClientId> {
        let CmGreeting {
            socket,
            caller,
            request,
        } = greeting;
        let wanted = request.parse::<Greet>().map(|greet| greet.adapter);
        let wanted = wanted.unwrap_or_default();
        let user = self.registry.users.of(caller.uid);
        let socket = ForeignFile::new(socket, Arc::clone(&user.tenant));
        let holdings = Holdings::new(Arc::clone(&user.counts));
        let mut client = Client::new(socket, caller, wanted, holdings);
        let answer = self.judge(&client, wanted, &request);
        let welcome = answer.is_ok();
        let told = answer.as_ref().map_err(|errno| *errno);
        let told = send_answer(client.socket.as_fd(), request.header(), told);
        if !welcome || told.is_err() {
            return None;
        }
        for (kind, count) in COST {
            client.holdings.take(kind, count);
        }
        let id = self.free_number();
        self.clients.insert(id, client);
        Some(id)
    }

    fn judge(&self, client: &Client, wanted: Name, greeting: &Request) -> Result<Answer, Errno> {
        same_version(greeting, client.holdings.user())?;
        let _: Greet = greeting.parse().ok_or(Errno::INVAL)?;
        if wanted != Name::default() && wanted != client.wants {
            return Err(Errno::NODEV);
        }
        let mut cost = COST.iter();
        if !cost.all(|(kind, count)| client.holdings.asks(*kind, *count)) {
            return Err(Errno::BUSY);
        }
        let scope = client.scope(&self.registry.admission);
        let adapters = self.adapters.usable(&scope).count();
        if adapters == 0 {
            return Err(self.refuse(client));
        }
        let greeting = Greeting {
            version: VERSION,
            adapters: adapters as u32,
        };
        Ok(Answer::new::<Greet>(&greeting, Vec::new()))
    }

    /// Why a client may use none of the adapters that it asks for.
    fn refuse(&self, client: &Client) -> Errno {
        let all = Scope {
            wants: client.wants,
            usable: Usable::All,
        };
        if self.adapters.usable(&all).next().is_none() {
            return Errno::NODEV;
        }
        let name = Some(client.wants.as_str()).filter(|name| !name.is_empty());
        let users = &self.registry.users;
        users.tell_refused(&client.caller, name);
        name.map_or(Errno::NODEV, |_| Errno::ACCESS)
    }

    fn free_number(&mut self) -> ClientId {
        loop {
            self.next = self.next.wrapping_add(1);
            let id = ClientId(self.next);
            if !self.clients.contains_key(&id) {
                return id;
            }
        }
    }

    /// How many services are offered at an adapter.
    pub fn listeners(&self, port: PortId) -> u32 {
        self.owners.listeners_at(port).count() as u32
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
            let user = self.registry.users.of(known.caller.uid);
            let close = |fds| user.tenant.close(fds);
            let served = match take(known.socket.as_fd(), close) {
                Ok(None) => return None,
                Ok(Some(mut request)) => {
                    close(request.take_fds());
                    let served = self.with(client, now, |handler| handler.serve(&request));
                    served.unwrap_or(Ok(()))
                }
                Err(errno) => Err(errno),
            };
            if served.is_err() {
                return self.hang_up(client, now);
            }
            self.distribute(now);
        }
        None
    }

    fn hang_up(&mut self, client: ClientId, now: Duration) -> Option<HungUp> {
        self.with(client, now, |handler| handler.clear());
        self.searches.forget_client(client);
        let gone = self.clients.remove(&client);
        self.distribute(now);
        gone.map(|client| HungUp(client.socket))
    }

    /// A datagram for QP 1 of an adapter.
    pub fn receive(&mut self, port: PortId, received: &Received<'_>, now: Duration) {
        if let Some(adapter) = self.adapters.get_mut(port) {
            adapter.cm.receive(received, now);
            self.distribute(now);
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
            adapter.cm.expire(now);
        }
        self.distribute(now);
    }

    /// An address that somebody looks for: answer with [`Service::found`] or [`Service::missed`].
    pub fn next_search(&mut self, now: Duration) -> Option<Search> {
        self.searches.next_due(now)
    }

    /// It is known where the address is.
    pub fn found(&mut self, search: &Search, now: Duration) {
        self.with(search.owner.client, now, |handler| handler.found(search));
        self.distribute(now);
    }

    /// It is not, or not yet.
    pub fn missed(&mut self, search: Search, now: Duration) {
        if !self.searches.add_again(search, now) {
            self.with(search.owner.client, now, |handler| {
                handler.not_found(&search)
            });
        }
        self.distribute(now);
    }

    /// Takes what on_event to whom it concerns.
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
                adapter.cm.release(connection.1, now);
            }
        }
    }

    fn owner(&self, port: PortId, event: &vrdma_cm::Event) -> Option<Owner> {
        use vrdma_cm::Event as E;
        match event {
            E::Requested(_, listener, _) | E::ResolveRequested(_, listener, _) => {
                self.owners.listeners.get(&(port, *listener)).copied()
            }
            other => self
                .owners
                .connections
                .get(&(port, subject(other)))
                .copied(),
        }
    }

    fn with<R>(
        &mut self,
        key: ClientId,
        now: Duration,
        work: impl FnOnce(&mut Handler<'_>) -> R,
    ) -> Option<R> {
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
