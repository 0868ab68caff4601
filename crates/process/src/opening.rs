//! Hello: a session opens an adapter.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_memory::{ClientMemory, NotMemory};
use vrdma_provider::VERSION;
use vrdma_provider::daemon::{Answer, Request};
use vrdma_provider::doorbell::PAGE_BYTES;
use vrdma_provider::message::{Hello, HelloReply, hello_flag};
use vrdma_switch::PortId;
use vrdma_verbs::object::Owner;

use super::Process;
use super::context::Joining;
use super::directory::Directory;
use super::receive::ForeignFile;
use super::session::Session;
use super::users::is_ours;

/// What a session says hello with.
pub(super) struct Greeting {
    pub(super) hello: Hello,
    /// The descriptor of its memory.
    pub(super) memory: Option<ForeignFile>,
}

impl Greeting {
    /// Errors: `INVAL` (too short), `PROTONOSUPPORT` (a library of another version).
    pub(super) fn parse(request: &Request, memory: Option<ForeignFile>) -> Result<Self, Errno> {
        same_version(request)?;
        let hello: Hello = request.parse().ok_or(Errno::INVAL)?;
        Ok(Self { hello, memory })
    }

    /// The adapter that it asks for.
    pub(super) fn adapter(&self, directory: &Directory) -> Result<PortId, Errno> {
        let port = directory.named(self.hello.adapter.as_str());
        port.ok_or(Errno::NODEV)
    }
}

/// Errors: `INVAL` (too short), `PROTONOSUPPORT` (a library of another version).
pub(super) fn same_version(first: &Request) -> Result<(), Errno> {
    let checked = first.check_version().ok_or(Errno::INVAL)?;
    checked.map_err(|error| {
        tracing::warn!("a process was refused: {error}");
        Errno::PROTONOSUPPORT
    })
}

/// Opens an adapter for a session.
pub(super) fn open(
    session: &mut Session,
    process: &mut Process,
    greeting: Greeting,
) -> Result<Answer, Errno> {
    let Greeting { hello, memory } = greeting;
    let memory = memory.and_then(ForeignFile::take).ok_or(Errno::INVAL)?;
    let joining = Joining {
        memory: Arc::new(client_memory(session, &hello, memory)?),
        counts: Arc::clone(&session.user().counts),
        uid: session.peer.uid,
        fast: hello.flags & hello_flag::FAST_LOCAL != 0,
        pid: session.peer.pid,
    };
    let (owner, fds): (Owner, _) = process.open(joining)?;
    let spec = process.spec();
    let body = HelloReply {
        version: VERSION,
        page_bytes: PAGE_BYTES as u32,
        adapter: spec.described(),
    };
    tracing::info!(adapter = %spec.name, uid = session.peer.uid, "a process opened the adapter");
    session.open = Some((spec.port, owner));
    Ok(Answer::new::<Hello>(&body, fds))
}

fn client_memory(session: &Session, hello: &Hello, memory: OwnedFd) -> Result<ClientMemory, Errno> {
    let said = (hello.nonce_address, hello.nonce);
    let (peer, tenant) = (&session.peer, Arc::clone(&session.user().tenant));
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
