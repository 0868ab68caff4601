//! The process socket: who comes in, what they ask for, and when they are gone.
//!
//! ```text
//!   accepted ──ListAdapter, Hello──► open (a context of one adapter) ──hang-up, broken rule──► closed
//! ```

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_memory::{ClientMemory, NotMemory, Tenant};
use vrdma_provider::VERSION;
use vrdma_provider::cm::Greet;
use vrdma_provider::daemon::{self, Answer, Peer, Request};
use vrdma_provider::doorbell::PAGE_BYTES;
use vrdma_provider::message::{Call, Code, Hello, HelloReply, ListAdapter, hello_flag};
use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::object::Owner;

use super::client::Client;
use super::context::Joining;
use super::hearing::{Strange, hear};
use super::requests::serve;
use super::users::{Users, is_ours};
use super::{Process, fast};
use vrdma_adapter::Slots;

/// Connections of all clients together: each costs some ten descriptors.
const CONNECTIONS: u32 = 4096;

/// Connections of one user: the others shall find room.
const CONNECTIONS_A_USER: usize = 3072;

/// Requests that one client is served before the others have their turn.
const REQUESTS_A_TURN: usize = 16;

/// A connection's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Visitor(pub(crate) u32);

/// What became of a visitor's requests.
#[derive(Debug)]
pub(crate) enum Visit {
    /// It goes on.
    Stays,
    /// It opened an adapter: watch its doorbell.
    Opened(PortId, Owner),
    /// It wants connection management: its socket and its greeting, which go elsewhere.
    Greets(OwnedFd, Box<Request>),
    /// It hung up or broke the rules: dismiss it.
    Leaves(Option<(PortId, Owner)>),
}

/// See the module.
pub(crate) struct Door {
    listener: OwnedFd,
    clients: Slots<Client>,
    users: Users,
}

/// How the door finds adapters of processes, in the order of their names' ports.
pub(crate) trait Adapters {
    /// One of them by port.
    fn at(&mut self, port: PortId) -> Option<&mut Process>;
    /// All of them.
    fn ports(&self) -> Vec<PortId>;
}

impl Door {
    /// Behind a listening socket.
    pub(crate) fn new(listener: OwnedFd) -> Self {
        Self {
            listener,
            clients: Slots::new(),
            users: Users::default(),
        }
    }

    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes a waiting client.
    pub(crate) fn accept(&mut self) -> Result<Option<Visitor>, Errno> {
        let Some(socket) = daemon::accept(self.listener.as_fd())? else {
            return Ok(None);
        };
        let number = self.clients.vacant(0);
        if number >= CONNECTIONS {
            return Ok(None);
        }
        let peer = daemon::peer(socket.as_fd())?;
        let of_user = |(_, client): &(u32, &Client)| client.peer.uid == peer.uid;
        if self.clients.iter().filter(of_user).count() >= CONNECTIONS_A_USER {
            return Ok(None);
        }
        self.clients.put(
            number,
            Client {
                socket,
                peer,
                open: None,
            },
        );
        Ok(Some(Visitor(number)))
    }

    /// The visitor's socket, to be watched.
    pub(crate) fn socket(&self, visitor: Visitor) -> Option<BorrowedFd<'_>> {
        Some(self.clients.get(visitor.0)?.as_fd())
    }

    /// The adapter that the visitor has open.
    pub(crate) fn opened(&self, visitor: Visitor) -> Option<PortId> {
        let (port, _) = self.clients.get(visitor.0)?.open?;
        Some(port)
    }

    /// Serves what the visitor sent.
    pub(crate) fn visit(
        &mut self,
        visitor: Visitor,
        adapters: &mut impl Adapters,
        now: Time,
    ) -> Visit {
        let Some(client) = self.clients.get_mut(visitor.0) else {
            return Visit::Leaves(None);
        };
        let was_open = client.open.is_some();
        for _ in 0..REQUESTS_A_TURN {
            match converse(client, &mut self.users, adapters, now) {
                Ok(Talk::Answered) => {}
                Ok(Talk::Silence) => break,
                Ok(Talk::Greeting(greeting)) => return self.hand_on(visitor, greeting),
                Err(reason) => {
                    tracing::debug!("a process leaves: {reason}");
                    return Visit::Leaves(client.open);
                }
            }
        }
        match client.open {
            Some((port, owner)) if !was_open => Visit::Opened(port, owner),
            _ => Visit::Stays,
        }
    }

    fn hand_on(&mut self, visitor: Visitor, greeting: Box<Request>) -> Visit {
        match self.clients.take(visitor.0) {
            Some(client) => Visit::Greets(client.socket, greeting),
            None => Visit::Leaves(None),
        }
    }

    /// The visitor is gone, and its objects with it.
    pub(crate) fn dismiss(&mut self, visitor: Visitor, adapters: &mut impl Adapters, now: Time) {
        let open = self.clients.take(visitor.0).and_then(|client| client.open);
        if let Some((port, owner)) = open
            && let Some(process) = adapters.at(port)
        {
            process.close(owner, now);
        }
    }

    /// The adapter goes away: its clients' connections end. Whose they were.
    pub(crate) fn evict(&mut self, port: PortId) -> Vec<Owner> {
        let at_port = |client: &Client| client.open.filter(|(open, _)| *open == port);
        let clients = self.clients.iter();
        let owners = clients.filter_map(|(_, client)| at_port(client).map(|(_, owner)| owner));
        let owners = owners.collect();
        self.clients.retain(|client| at_port(client).is_none());
        owners
    }
}

/// What a visitor had to say.
enum Talk {
    /// Nothing.
    Silence,
    /// A request, which was answered.
    Answered,
    /// That it wants connection management.
    Greeting(Box<Request>),
}

/// Serves one request.
fn converse(
    client: &mut Client,
    users: &mut Users,
    adapters: &mut impl Adapters,
    now: Time,
) -> Result<Talk, Errno> {
    let tenant = &users.of(client.peer.uid).tenant;
    let Some((mut request, strange)) = hear(client.as_fd(), tenant)? else {
        return Ok(Talk::Silence);
    };
    if request.code() == Greet::CODE && client.open.is_none() {
        return Ok(Talk::Greeting(Box::new(request)));
    }
    let answer = answer((client, users), (&mut request, strange), adapters, now);
    daemon::send_answer(client.as_fd(), request.code(), answer)?;
    Ok(Talk::Answered)
}

fn answer(
    (client, users): (&mut Client, &mut Users),
    (request, strange): (&mut Request, Option<Strange>),
    adapters: &mut impl Adapters,
    now: Time,
) -> Result<Answer, Errno> {
    match (Code::from_number(request.code()), client.open) {
        (Some(Code::ListAdapter), _) => {
            let ListAdapter { index } = request.parse().ok_or(Errno::INVAL)?;
            let port = adapters.ports().get(index as usize).copied();
            let process = port
                .and_then(|port| adapters.at(port))
                .ok_or(Errno::NODEV)?;
            Ok(Answer::new::<ListAdapter>(&process.described(), Vec::new()))
        }
        (Some(Code::Hello), Some(_)) => Err(Errno::ISCONN),
        (Some(Code::Hello), None) => {
            let (port, owner, answer) = greet(&client.peer, users, (request, strange), adapters)?;
            client.open = Some((port, owner));
            Ok(answer)
        }
        (Some(Code::Reach), Some(open)) => {
            let request = request.parse().ok_or(Errno::INVAL)?;
            fast::reach(adapters, open, &request)
        }
        (Some(code), Some((port, owner))) => {
            let process = adapters.at(port).ok_or(Errno::NODEV)?;
            let answer = serve(process, owner, code, request, now);
            process.publish_now(now);
            answer
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Opens an adapter.
fn greet(
    peer: &Peer,
    users: &mut Users,
    (request, strange): (&Request, Option<Strange>),
    adapters: &mut impl Adapters,
) -> Result<(PortId, Owner, Answer), Errno> {
    let hello: Hello = request.parse().ok_or(Errno::INVAL)?;
    if hello.version != VERSION {
        return Err(Errno::PROTONOSUPPORT);
    }
    let port = chosen(&hello, adapters)?;
    let user = users.of(peer.uid);
    let memory = strange.and_then(Strange::take).ok_or(Errno::INVAL)?;
    let joining = Joining {
        memory: Arc::new(client_memory(
            peer,
            &hello,
            memory,
            Arc::clone(&user.tenant),
        )?),
        counts: Rc::clone(&user.counts),
        uid: peer.uid,
        fast: hello.flags & hello_flag::FAST_LOCAL != 0,
        pid: peer.pid,
    };
    let process = adapters.at(port).ok_or(Errno::NODEV)?;
    let (owner, fds) = process.open(joining)?;
    let body = HelloReply {
        version: VERSION,
        page_bytes: PAGE_BYTES as u32,
        adapter: process.described(),
    };
    tracing::info!(adapter = %process.spec().name, uid = peer.uid, "a process opened the adapter");
    Ok((port, owner, Answer::new::<Hello>(&body, fds)))
}

/// The adapter by name, or the only one.
fn chosen(hello: &Hello, adapters: &mut impl Adapters) -> Result<PortId, Errno> {
    let name = hello.adapter.as_str();
    let ports = adapters.ports();
    if let ([only], "") = (ports.as_slice(), name) {
        return Ok(*only);
    }
    let mut named = |port: &PortId| {
        let process = adapters.at(*port);
        process.is_some_and(|process| process.spec().name.as_str() == name)
    };
    ports
        .into_iter()
        .find(|port| named(port))
        .ok_or(Errno::NODEV)
}

fn client_memory(
    peer: &Peer,
    hello: &Hello,
    memory: OwnedFd,
    tenant: Arc<Tenant>,
) -> Result<ClientMemory, Errno> {
    let said = (hello.nonce_address, hello.nonce);
    let mut memory = ClientMemory::new(memory, said, tenant).map_err(|error| {
        tracing::warn!(uid = peer.uid, "a process was refused: {error}");
        match error {
            NotMemory::TooSlow => Errno::AGAIN,
            NotMemory::WrongFile | NotMemory::WrongContents => Errno::INVAL,
        }
    })?;
    if let Some(pid) = peer.pid.filter(|_| is_ours(peer.uid)) {
        memory.trust(pid, said.0, said.1);
    }
    Ok(memory)
}
