//! Sessions of client processes: connections to the process socket, from accept to hang-up.
//!
//! ```text
//!   accepted ──ListAdapter, Hello──► open (a context of one adapter) ──hang-up, broken rule──► closed
//!                           └──► the shard of that adapter, if it is another one
//! ```
//! Each shard has its own sessions; the shard with the listening sockets accepts for all.

mod answering;
mod between_shards;
mod table;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_adapter::ShardId;
use vrdma_provider::cm::Greet;
use vrdma_provider::daemon::{Answer, Request};
use vrdma_provider::message::{Call, Code, Done, FindAdapter, Hello, ListAdapter, Userfaultfd};
use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::object::Owner;

use super::caller::Caller;
use super::entrances::{Entrance, Entrances};
use super::opening::{self, Greeting};
use super::receive::{ForeignFile, Taking, receive};
use super::registry::Registry;
use super::session::Session;
use super::spec::ProcessSpec;
use super::users::SessionSlot;
use super::{Process, fast, requests};
use answering::{finish, give};
pub use between_shards::{OpenSession, OpeningSession};
use table::Table;

/// Number of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SessionId(pub u32);

/// A session that began with a greeting of connection management.
#[derive(Debug)]
pub struct CmGreeting {
    /// Its socket.
    pub socket: OwnedFd,
    /// The process at the other end.
    pub caller: Caller,
    /// The greeting.
    pub request: Request,
}

/// The state of a session after its requests were served.
#[derive(Debug)]
pub enum Served {
    /// The session goes on.
    Open,
    /// The session opened an adapter: watch its doorbell.
    Opened(PortId, Owner),
    /// The session wants connection management, which goes elsewhere.
    ConnectionManagement(Box<CmGreeting>),
    /// The session opens an adapter of another shard, which [adopts](Sessions::adopt) it. If the adapter is on its way
    /// to this shard, this shard adopts the session once the adapter has come.
    Elsewhere(ShardId, Box<OpeningSession>),
    /// The session hung up or broke the rules: close it.
    Closed(Option<(PortId, Owner)>),
}

/// The sessions of one shard.
pub struct Sessions {
    shard: ShardId,
    /// Empty except at one shard.
    entrances: Entrances,
    registry: Registry,
    taking: Taking,
    sessions: Table,
}

/// Access to the adapters of the sessions' shard.
pub trait Adapters {
    /// Finds an adapter by its port.
    fn at(&mut self, port: PortId) -> Option<&mut Process>;

    /// Called between carrying out a request and answering it: the request's changes must be in force on return.
    fn put_in_force(&mut self, port: PortId);
}

impl Sessions {
    /// Makes the sessions of one shard; `listener` if it is the one that accepts. `is_kept`: another process would go
    /// on for this one.
    pub fn new(
        shard: ShardId,
        listener: Option<OwnedFd>,
        registry: Registry,
        is_kept: bool,
    ) -> Self {
        let taking = match is_kept {
            true => Taking::WhenAnswered,
            false => Taking::AtOnce,
        };
        Self {
            shard,
            entrances: Entrances::new(listener),
            registry,
            taking,
            sessions: Table::default(),
        }
    }

    /// All listening sockets.
    pub fn entrances(&self) -> impl Iterator<Item = Entrance> {
        self.entrances.all()
    }

    /// A listening socket, to be watched.
    pub fn listener(&self, entrance: Entrance) -> Option<BorrowedFd<'_>> {
        self.entrances.listener(entrance)
    }

    /// Adds the socket of an adapter, by which clients reach this adapter and no other.
    pub fn open_entrance(&mut self, spec: &ProcessSpec, listener: OwnedFd) {
        let name = Arc::clone(&spec.name);
        self.entrances.open(spec.port, name, listener);
    }

    /// Takes out the socket of an adapter. It may have clients in it, with descriptors that they sent.
    pub fn close_entrance(&mut self, port: PortId) -> Option<OwnedFd> {
        self.entrances.close(port)
    }

    /// Accepts a client that waits; `None` if there is none. A client that may not use the adapter of this socket, or
    /// that exceeds the limits, is let go.
    pub fn accept(&mut self, entrance: Entrance) -> Result<Option<SessionId>, Errno> {
        let Some((socket, caller)) = self.entrances.accept(entrance)? else {
            return Ok(None);
        };
        let user = self.registry.users.of(caller.uid);
        let socket = ForeignFile::new(socket, Arc::clone(&user.tenant));
        if let Some(adapter) = caller.only.filter(|_| !self.may_enter(entrance, &caller)) {
            let users = &self.registry.users;
            users.tell_refused(&caller, Some(adapter.as_str()));
            return Ok(None);
        }
        let session = SessionSlot::take(user).map(|place| Session {
            socket,
            caller,
            place,
            answered: None,
            open: None,
        });
        Ok(session.and_then(|session| self.sessions.put(session)))
    }

    fn may_enter(&self, entrance: Entrance, caller: &Caller) -> bool {
        match entrance {
            Entrance::All => true,
            Entrance::Of(port) => self.registry.admission.admits(port, caller),
        }
    }

    /// The session's socket, to be watched.
    pub fn socket(&self, id: SessionId) -> Option<BorrowedFd<'_>> {
        Some(self.sessions.get(id)?.as_fd())
    }

    /// The sockets of sessions that have an adapter open.
    pub fn sockets_of(&self, port: PortId) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sessions.at(port).map(|(_, session)| session.as_fd())
    }

    /// The adapter that the session has open, and the session's owner number there.
    pub fn open_at(&self, id: SessionId) -> Option<(PortId, Owner)> {
        self.sessions.get(id)?.open
    }

    /// Serves one request. Between two requests, the caller looks at what the client has posted.
    pub fn serve(&mut self, id: SessionId, adapters: &mut impl Adapters, now: Time) -> Served {
        let served = self.serve_next(id, adapters, now);
        self.sessions.note_opened(id);
        served
    }

    fn serve_next(&mut self, id: SessionId, adapters: &mut impl Adapters, now: Time) -> Served {
        let Some(session) = self.sessions.get_mut(id) else {
            return Served::Closed(None);
        };
        let was_open = session.open.is_some();
        let place = Here {
            shard: self.shard,
            registry: &self.registry,
            taking: self.taking,
        };
        match serve_one(session, place, adapters, now) {
            Ok(Received::Nothing | Received::Answered) => {}
            Ok(Received::Greeting(greeting)) => return self.hand_over(id, greeting),
            Ok(Received::Elsewhere(shard, hello)) => return self.transfer(id, shard, hello),
            Err(reason) => {
                tracing::debug!("a session ends: {reason}");
                return Served::Closed(session.open);
            }
        }
        match session.open {
            Some((port, owner)) if !was_open => Served::Opened(port, owner),
            _ => Served::Open,
        }
    }

    fn hand_over(&mut self, id: SessionId, greeting: Box<Request>) -> Served {
        let greeting = self.sessions.take(id).and_then(|session| {
            Some(CmGreeting {
                socket: session.socket.take()?,
                caller: session.caller,
                request: *greeting,
            })
        });
        greeting.map_or(Served::Closed(None), |greeting| {
            Served::ConnectionManagement(Box::new(greeting))
        })
    }

    /// Ends a session and its objects. Another thread closes the socket: stop watching it before.
    pub fn close(&mut self, id: SessionId, adapters: &mut impl Adapters, now: Time) {
        // The socket stays open until no record names it.
        let session = self.sessions.take(id);
        let open = session.as_ref().and_then(|session| session.open);
        if let Some((port, owner)) = open
            && let Some(process) = adapters.at(port)
        {
            process.close(owner, now);
        }
    }

    /// Ends the sessions of an adapter that goes away, and returns their owners. Stop watching their
    /// [sockets](Self::sockets_of) before.
    pub fn close_adapter(&mut self, port: PortId) -> Vec<Owner> {
        let ended = self.sessions.take_at(port);
        let opened = ended.iter().filter_map(|session| session.open);
        opened.map(|(_, owner)| owner).collect()
    }
}

/// The shard that serves a session, and the state that all shards share.
#[derive(Clone, Copy)]
struct Here<'a> {
    shard: ShardId,
    registry: &'a Registry,
    taking: Taking,
}

/// The outcome of looking for one request of a session.
enum Received {
    /// Nothing.
    Nothing,
    /// A request, which was answered.
    Answered,
    /// A greeting: the client wants connection management.
    Greeting(Box<Request>),
    /// A hello to an adapter of another shard.
    Elsewhere(ShardId, Box<UnansweredHello>),
}

struct UnansweredHello {
    request: Request,
    memory: Option<ForeignFile>,
}

/// Serves one request.
fn serve_one(
    session: &mut Session,
    here: Here<'_>,
    adapters: &mut impl Adapters,
    now: Time,
) -> Result<Received, Errno> {
    let received = receive(session.as_fd(), &session.user().tenant, here.taking)?;
    let Some((mut request, foreign)) = received else {
        return Ok(Received::Nothing);
    };
    if let Some(answered) = session.answered.as_ref()
        && answered.header == request.header()
    {
        session.user().tenant.close(request.take_fds());
        return finish(session, here);
    }
    let code = request.code();
    let answer = match (Code::from_number(code), session.open) {
        _ if code == Greet::CODE && session.open.is_none() => {
            // The service that answers it takes it from the socket.
            session.user().tenant.close(request.take_fds());
            return Ok(Received::Greeting(Box::new(request)));
        }
        (Some(Code::Hello), Some(_)) => Err(Errno::ISCONN),
        (Some(Code::Hello), None) => {
            if let Some(shard) = elsewhere(&session.caller, &request, here, adapters) {
                let memory = foreign;
                let hello = UnansweredHello { request, memory };
                return Ok(Received::Elsewhere(shard, Box::new(hello)));
            }
            hello(session, here, &request, foreign, adapters)
        }
        _ => answer(session, here, &mut request, adapters, now),
    };
    // Close the files that were not used, on another thread: closing the last descriptor of a large file in memory
    // frees its pages.
    session.user().tenant.close(request.take_fds());
    give(session, here, adapters, request.header(), answer)
}

/// Finds the shard to ask instead of this one. The adapter that a hello names is there, or on its way there; that may
/// be this shard.
fn elsewhere(
    caller: &Caller,
    request: &Request,
    here: Here<'_>,
    adapters: &mut impl Adapters,
) -> Option<ShardId> {
    let hello: Hello = request.parse()?;
    let name = hello.adapter.as_str();
    let port = here.registry.find(name, caller).ok()?;
    let shard = here.registry.directory.shard_of(port)?;
    (shard != here.shard || adapters.at(port).is_none()).then_some(shard)
}

fn hello(
    session: &mut Session,
    here: Here<'_>,
    request: &Request,
    memory: Option<ForeignFile>,
    adapters: &mut impl Adapters,
) -> Result<Answer, Errno> {
    let greeting = Greeting::parse(request, memory, &session.user().counts)?;
    let port = greeting.adapter(here.registry, &session.caller)?;
    let process = adapters.at(port).ok_or(Errno::NODEV)?;
    opening::open(session, process, here.registry, greeting)
}

fn answer(
    session: &Session,
    here: Here<'_>,
    request: &mut Request,
    adapters: &mut impl Adapters,
    now: Time,
) -> Result<Answer, Errno> {
    match (Code::from_number(request.code()), session.open) {
        (Some(Code::ListAdapter), _) => {
            let ListAdapter { index } = request.parse().ok_or(Errno::INVAL)?;
            let described = here.registry.described(index, &session.caller);
            let described = described.ok_or(Errno::NODEV)?;
            Ok(Answer::new::<ListAdapter>(&described, Vec::new()))
        }
        (Some(Code::FindAdapter), _) => {
            let FindAdapter { name } = request.parse().ok_or(Errno::INVAL)?;
            let described = here.registry.described_as(name.as_str(), &session.caller)?;
            Ok(Answer::new::<FindAdapter>(&described, Vec::new()))
        }
        (Some(Code::Userfaultfd), Some(_)) => {
            let device = here.registry.userfaultfd()?;
            Ok(Answer::new::<Userfaultfd>(&Done {}, vec![device]))
        }
        (Some(Code::Reach), Some((port, owner))) => {
            let request = request.parse().ok_or(Errno::INVAL)?;
            fast::reach(adapters, &here.registry.directory, port, owner, &request)
        }
        (Some(code), Some((port, owner))) => {
            let process = adapters.at(port).ok_or(Errno::NODEV)?;
            let answer = requests::serve(process, owner, code, request, now);
            // Before anything is committed: the changes of the request and its answer go together.
            process.record_answer(owner, request.header(), &answer);
            process.publish_now(now);
            adapters.put_in_force(port);
            answer
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}
