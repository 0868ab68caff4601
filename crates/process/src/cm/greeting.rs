//! The greeting: how a client begins.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use vrdma_provider::VERSION;
use vrdma_provider::cm::{Greet, Greeting};
use vrdma_provider::daemon::{Answer, Request, send_answer};
use vrdma_provider::message::Name;

use super::changes::Item;
use super::client::{Client, ClientId};
use super::scope::Scope;
use super::service::{COST, Service};
use crate::admission::Usable;
use crate::holdings::Holdings;
use crate::opening::same_version;
use crate::receive::ForeignFile;
use crate::session::Answered;
use crate::sessions::CmGreeting;

impl Service {
    /// Takes over a client whose first request was a greeting, and answers it. `None`: the client was refused. If a
    /// later service goes on for this one, the greeting is still in the client's socket.
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
        let header = request.header();
        if let Err(errno) = answer {
            // A client that cannot be told is let go as well.
            let _told = send_answer(client.socket.as_fd(), header, Err(errno));
            return None;
        }
        for (kind, count) in COST {
            client.holdings.take(kind, count);
        }
        if self.is_recorded() {
            client.changes.begin();
        }
        client.changes.note(Item::Itself);
        let id = self.free_number();
        self.clients.insert(id, client);
        let given = self.give(id, Answered { header, answer }, Duration::ZERO);
        if given.is_err() {
            self.hang_up(id, Duration::ZERO);
            return None;
        }
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
}
