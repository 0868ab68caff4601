//! Hello: a session opens an adapter.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_memory::{ClientMemory, NotMemory};
use vrdma_provider::VERSION;
use vrdma_provider::daemon::{Answer, Request};
use vrdma_provider::doorbell::PAGE_BYTES;
use vrdma_provider::message::{Hello, HelloReply, Name, hello_flag};
use vrdma_switch::PortId;
use vrdma_verbs::object::Owner;

use super::Process;
use super::caller::Caller;
use super::context::Joining;
use super::holdings::UserCounts;
use super::kept::Arrival;
use super::namespaces::{Namespaces, is_nobody};
use super::receive::ForeignFile;
use super::registry::Registry;
use super::session::Session;

/// The hello of a session.
pub(super) struct Greeting {
    pub(super) hello: Hello,
    /// The descriptor of the client's memory.
    pub(super) memory: Option<ForeignFile>,
}

impl Greeting {
    /// Parses a hello. Errors: `INVAL` (too short), `PROTONOSUPPORT` (a library of another version).
    pub(super) fn parse(
        request: &Request,
        memory: Option<ForeignFile>,
        user: &UserCounts,
    ) -> Result<Self, Errno> {
        same_version(request, user)?;
        let hello: Hello = request.parse().ok_or(Errno::INVAL)?;
        Ok(Self { hello, memory })
    }

    /// Finds the adapter that the hello asks for. Errors: `NODEV`, `ACCESS`.
    pub(super) fn adapter(&self, registry: &Registry, caller: &Caller) -> Result<PortId, Errno> {
        registry.named(self.hello.adapter.as_str(), caller)
    }
}

/// Checks the version. Errors: `INVAL` (too short), `PROTONOSUPPORT` (a library of another version).
pub(super) fn same_version(first: &Request, user: &UserCounts) -> Result<(), Errno> {
    let checked = first.check_version().ok_or(Errno::INVAL)?;
    checked.map_err(|error| {
        if user.may_tell() {
            let uid = user.uid();
            tracing::warn!(uid, "a process was refused: {error}");
        }
        Errno::PROTONOSUPPORT
    })
}

/// Opens an adapter for a session.
pub(super) fn open(
    session: &mut Session,
    process: &mut Process,
    registry: &Registry,
    greeting: Greeting,
) -> Result<Answer, Errno> {
    let Greeting { hello, memory } = greeting;
    let memory = memory.and_then(ForeignFile::take).ok_or(Errno::INVAL)?;
    let home = session.caller.pid;
    let home = home.and_then(|pid| Namespaces::at(session.as_fd(), pid));
    let mut memory = client_memory(session, &hello, memory)?;
    if let Some(pid) = session.caller.pid
        && is_trusted(&session.caller, home, registry)
    {
        memory.trust(pid, hello.nonce_address, hello.nonce);
    }
    let joining = Joining {
        memory: Arc::new(memory),
        counts: Arc::clone(&session.user().counts),
        uid: session.caller.uid,
        fast: fast_home(session, &hello, home),
        pid: session.caller.pid,
        encloses: hello.flags & hello_flag::ENCLOSED != 0,
    };
    let came = Arrival {
        socket: session.as_fd(),
        said: (hello.nonce_address, hello.nonce),
        only: session.caller.only.as_ref().map(Name::as_str),
    };
    let (owner, fds): (Owner, _) = process.open(joining, &came)?;
    let spec = process.spec();
    let body = HelloReply {
        version: VERSION,
        page_bytes: PAGE_BYTES as u32,
        adapter: spec.described(),
    };
    if session.user().counts.may_tell_opening() {
        tracing::info!(adapter = %spec.name, uid = session.caller.uid, "a process opened the adapter");
    }
    session.open = Some((spec.port, owner));
    Ok(Answer::new::<Hello>(&body, fds))
}

fn client_memory(session: &Session, hello: &Hello, memory: OwnedFd) -> Result<ClientMemory, Errno> {
    let (address, nonce) = (hello.nonce_address, hello.nonce);
    let (caller, tenant) = (&session.caller, Arc::clone(&session.user().tenant));
    ClientMemory::new(memory, address, nonce, tenant).map_err(|error| {
        if session.user().counts.may_tell() {
            tracing::warn!(uid = caller.uid, "a process was refused: {error}");
        }
        match error {
            NotMemory::TooSlow => Errno::AGAIN,
            NotMemory::WrongFile | NotMemory::WrongContents => Errno::INVAL,
        }
    })
}

/// Whether the process is assumed to have its pages at hand: it is of the daemon's own user and lives where the daemon
/// does, not in a container, unless the administrator says otherwise.
pub(super) fn is_trusted(caller: &Caller, home: Option<Namespaces>, registry: &Registry) -> bool {
    let is_neighbour = || home.is_some() && home == Namespaces::own() && !is_nobody(caller.uid);
    caller.is_ours() && (registry.trusts_own_user || is_neighbour())
}

/// The namespaces of a client that wants grants, if it may have any: a client whose uid means something only there
/// could get memory of another user.
fn fast_home(session: &Session, hello: &Hello, home: Option<Namespaces>) -> Option<Namespaces> {
    if hello.flags & hello_flag::FAST_LOCAL == 0 {
        return None;
    }
    let uid = session.caller.uid;
    let home = home.filter(|home| home.has_our_users() && !is_nobody(uid));
    if home.is_none() && session.user().counts.may_tell() {
        tracing::warn!(
            uid,
            "a process asked for --fast-local from another user namespace: its copies go by the daemon"
        );
    }
    home
}
