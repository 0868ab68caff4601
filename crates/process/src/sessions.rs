//! Sessions of session processes: connections to the process socket, from accept to hang-up.
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

use super::context::Joining;
use super::receive::{ForeignFile, receive};
use super::requests;
use super::session::Session;
use super::users::{Users, is_ours};
use super::{Process, fast};
use vrdma_adapter::Slots;

/// Connections of all sessions together: each costs some ten descriptors.
const CONNECTIONS: u32 = 4096;

/// Connections of one user: the others shall find room.
const CONNECTIONS_A_USER: usize = 3072;

/// Requests that one session is served before the others have their turn.
const REQUESTS_A_TURN: usize = 16;

/// A session's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SessionId(pub u32);

/// What became of a session after its requests were served.
#[derive(Debug)]
pub enum Served {
    /// It goes on.
    Open,
    /// It opened an adapter: watch its doorbell.
    Opened(PortId, Owner),
    /// It wants connection management: its socket and its greeting, which go elsewhere.
    ConnectionManagement(OwnedFd, Box<Request>),
    /// It hung up or broke the rules: close it.
    Closed(Option<(PortId, Owner)>),
}

/// See the module.
pub struct Sessions {
    listener: OwnedFd,
    sessions: Slots<Session>,
    users: Users,
}

/// How sessions find adapters of processes, in the order of their names' ports.
pub trait Adapters {
    /// One of them by port.
    fn at(&mut self, port: PortId) -> Option<&mut Process>;
    /// All of them.
    fn ports(&self) -> Vec<PortId>;
}

impl Sessions {
    /// Behind a listening socket.
    pub fn new(listener: OwnedFd) -> Self {
        Self {
            listener,
            sessions: Slots::new(),
            users: Users::default(),
        }
    }

    /// The listening socket, to be watched.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Takes a waiting session.
    pub fn accept(&mut self) -> Result<Option<SessionId>, Errno> {
        let Some(socket) = daemon::accept(self.listener.as_fd())? else {
            return Ok(None);
        };
        let number = self.sessions.vacant(0);
        if number >= CONNECTIONS {
            return Ok(None);
        }
        let peer = daemon::peer(socket.as_fd())?;
        let of_user = |(_, session): &(u32, &Session)| session.peer.uid == peer.uid;
        if self.sessions.iter().filter(of_user).count() >= CONNECTIONS_A_USER {
            return Ok(None);
        }
        self.sessions.put(
            number,
            Session {
                socket,
                peer,
                open: None,
            },
        );
        Ok(Some(SessionId(number)))
    }

    /// The id's socket, to be watched.
    pub fn socket(&self, id: SessionId) -> Option<BorrowedFd<'_>> {
        Some(self.sessions.get(id.0)?.as_fd())
    }

    /// The adapter that the id has open.
    pub fn opened(&self, id: SessionId) -> Option<PortId> {
        let (port, _) = self.sessions.get(id.0)?.open?;
        Some(port)
    }

    /// Serves what the id sent.
    pub fn serve(&mut self, id: SessionId, adapters: &mut impl Adapters, now: Time) -> Served {
        let Some(session) = self.sessions.get_mut(id.0) else {
            return Served::Closed(None);
        };
        let was_open = session.open.is_some();
        for _ in 0..REQUESTS_A_TURN {
            match serve_one(session, &mut self.users, adapters, now) {
                Ok(Received::Answered) => {}
                Ok(Received::Nothing) => break,
                Ok(Received::Greeting(greeting)) => return self.hand_over(id, greeting),
                Err(reason) => {
                    tracing::debug!("a session ends: {reason}");
                    return Served::Closed(session.open);
                }
            }
        }
        match session.open {
            Some((port, owner)) if !was_open => Served::Opened(port, owner),
            _ => Served::Open,
        }
    }

    fn hand_over(&mut self, id: SessionId, greeting: Box<Request>) -> Served {
        match self.sessions.take(id.0) {
            Some(session) => Served::ConnectionManagement(session.socket, greeting),
            None => Served::Closed(None),
        }
    }

    /// The id is gone, and its objects with it.
    pub fn close(&mut self, id: SessionId, adapters: &mut impl Adapters, now: Time) {
        let open = self.sessions.take(id.0).and_then(|session| session.open);
        if let Some((port, owner)) = open
            && let Some(process) = adapters.at(port)
        {
            process.close(owner, now);
        }
    }

    /// The adapter goes away: its sessions' connections end. Whose they were.
    pub fn close_adapter(&mut self, port: PortId) -> Vec<Owner> {
        let at_port = |session: &Session| session.open.filter(|(open, _)| *open == port);
        let sessions = self.sessions.iter();
        let owners = sessions.filter_map(|(_, session)| at_port(session).map(|(_, owner)| owner));
        let owners = owners.collect();
        self.sessions.retain(|session| at_port(session).is_none());
        owners
    }
}

/// What a id had to say.
enum Received {
    /// Nothing.
    Nothing,
    /// A request, which was answered.
    Answered,
    /// That it wants connection management.
    Greeting(Box<Request>),
}

/// Serves one request.
fn serve_one(
    session: &mut Session,
    users: &mut Users,
    adapters: &mut impl Adapters,
    now: Time,
) -> Result<Received, Errno> {
    let tenant = &users.of(session.peer.uid).tenant;
    let Some((mut request, foreign)) = receive(session.as_fd(), tenant)? else {
        return Ok(Received::Nothing);
    };
    if request.code() == Greet::CODE && session.open.is_none() {
        return Ok(Received::Greeting(Box::new(request)));
    }
    let answer = answer((session, users), (&mut request, foreign), adapters, now);
    daemon::send_answer(session.as_fd(), request.code(), answer)?;
    Ok(Received::Answered)
}

fn answer(
    (session, users): (&mut Session, &mut Users),
    (request, foreign): (&mut Request, Option<ForeignFile>),
    adapters: &mut impl Adapters,
    now: Time,
) -> Result<Answer, Errno> {
    match (Code::from_number(request.code()), session.open) {
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
            let (port, owner, answer) = open(&session.peer, users, (request, foreign), adapters)?;
            session.open = Some((port, owner));
            Ok(answer)
        }
        (Some(Code::Reach), Some(open)) => {
            let request = request.parse().ok_or(Errno::INVAL)?;
            fast::reach(adapters, open, &request)
        }
        (Some(code), Some((port, owner))) => {
            let process = adapters.at(port).ok_or(Errno::NODEV)?;
            let answer = requests::serve(process, owner, code, request, now);
            process.publish_now(now);
            answer
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// Opens an adapter.
fn open(
    peer: &Peer,
    users: &mut Users,
    (request, foreign): (&Request, Option<ForeignFile>),
    adapters: &mut impl Adapters,
) -> Result<(PortId, Owner, Answer), Errno> {
    let hello: Hello = request.parse().ok_or(Errno::INVAL)?;
    if hello.version != VERSION {
        return Err(Errno::PROTONOSUPPORT);
    }
    let port = chosen(&hello, adapters)?;
    let user = users.of(peer.uid);
    let memory = foreign.and_then(ForeignFile::take).ok_or(Errno::INVAL)?;
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
        process.is_some_and(|process| process.spec().name == name)
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
