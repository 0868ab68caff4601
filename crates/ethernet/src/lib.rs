//! Ethernet between VMs: one thread that moves frames between QEMU's stream sockets, and between these and uplinks.
//!
//! ```text
//!   QEMU ──► socket ──► one large read ──► Bridge: who gets it? ──► one sendmsg per destination
//!                            │                                          │ socket full
//!                            └── frame cut at the end: carried over     └──► backlog (bounded)
//! ```
//!
//! A batch is the result of one read, often hundreds of frames. Frames are sent from the buffer they were read into,
//! headers included, and copied only when a guest's socket is full. A guest that takes nothing loses its own frames and
//! delays nobody.
//!
//! The thread knows ports and frames, not adapters' devices: RDMA belongs to the shards.

#![forbid(unsafe_code)]

mod client;
mod exchange;
mod hosts;
mod kept;
mod link;
mod paused;
mod poller;
mod snapshot;
mod station;
mod stream;
mod wire;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use vrdma_api::{EthernetStats, Name};
use vrdma_switch::{GroupId, Kept, PortId};
use vrdma_uplink::Tap;
use vrdma_wire::{Gid, Mac};

use exchange::Exchange;
use vrdma_inventory::Segment;
use vrdma_sandbox::Confinement;
use vrdma_threads::socket::BoundSocket;
use vrdma_threads::{
    Known, Line, NotDone, Outbox, PortPast, Reply, Snooped, UplinkChange, UplinkSnapshot, Vital,
    is_withdrawn,
};

/// A port to serve.
#[derive(Debug)]
pub struct EthernetPort {
    /// Name for log lines.
    pub name: Name,
    /// Number in the switch.
    pub port: PortId,
    /// Port group.
    pub group: GroupId,
    /// Marks of the group's frames on uplinks.
    pub segment: Segment,
    /// The guest's address: no other port of the group may send from it.
    pub mac: Mac,
    /// Whether it may send RoCEv2 as Ethernet frames, past its adapter.
    pub may_send_roce: bool,
    /// The only addresses that it may send from.
    pub kept: Kept,
    /// Whether its VM is on another host.
    pub away: bool,
    /// What is behind the port.
    pub behind: Behind,
    /// Connection and records of a guest's QEMU.
    pub past: PortPast,
}

/// What is behind a port.
#[derive(Debug)]
pub enum Behind {
    /// A guest, with the socket that its QEMU connects to. The socket's file is removed with the port.
    Guest(BoundSocket),
    /// The host's own IP stack. The interface is removed with the port.
    Host(Tap),
    /// An adapter without a kernel, at these addresses: the thread answers for it when others resolve them.
    Nobody(Vec<Gid>),
}

#[derive(Debug)]
enum Command {
    AddPort(EthernetPort, Reply<Result<(), String>>),
    RemovePort(PortId, Reply<()>),
    SetAway(PortId, bool, Reply<()>),
    Keep(PortId, Kept, Reply<()>),
    GoOn(Reply<()>),
    Snapshot(Reply<Vec<(PortId, EthernetStats)>>),
    Uplink(UplinkChange, Reply<Result<(), String>>),
    Uplinks(Reply<Vec<UplinkSnapshot>>),
    Stop,
}

impl Command {
    /// Whether the command is not to be begun because the asker has given up.
    fn is_withdrawn(&self) -> bool {
        match self {
            Self::AddPort(_, reply) => is_withdrawn(reply),
            Self::Snapshot(reply) => is_withdrawn(reply),
            Self::Uplink(change, reply) => change.undo().is_some() && is_withdrawn(reply),
            Self::RemovePort(..)
            | Self::SetAway(..)
            | Self::Keep(..)
            | Self::GoOn(_)
            | Self::Uplinks(_)
            | Self::Stop => false,
        }
    }
}

/// The control plane's end of the Ethernet thread.
#[derive(Clone, Debug)]
pub struct EthernetHandle {
    line: Line<Command>,
}

/// Starts the thread, which tells `says` the places of other hosts' addresses. It ends after [`EthernetHandle::stop`].
pub fn start(
    says: Vec<Outbox<Snooped>>,
    known: &Known,
    confinement: Confinement,
) -> io::Result<(EthernetHandle, JoinHandle<()>)> {
    let (line, inbox) = Line::new("the Ethernet thread".to_owned())?;
    let exchange = Exchange::new(inbox, says, known)?;
    let thread = thread::Builder::new()
        .name("ethernet".to_owned())
        .spawn(move || {
            confinement.ethernet();
            exchange.run();
        })?;
    Ok((EthernetHandle { line }, thread))
}

impl EthernetHandle {
    /// Returns the thread's vital signs.
    pub fn vital(&self) -> &Arc<Vital> {
        self.line.vital()
    }

    /// Serves a port from now on.
    pub async fn add_port(&self, port: EthernetPort) -> Result<(), NotDone> {
        let added = self.line.ask(|reply| Command::AddPort(port, reply));
        Ok(added.await??)
    }

    /// Ends a port's service.
    pub async fn remove_port(&self, port: PortId) -> Result<(), NotDone> {
        let remove = |reply| Command::RemovePort(port, reply);
        self.line.begin_last(remove)?.answer().await
    }

    /// Records that a port's VM goes to another host, or comes from there.
    pub async fn set_away(&self, port: PortId, is_away: bool) -> Result<(), NotDone> {
        let change = |reply| Command::SetAway(port, is_away, reply);
        self.line.begin_last(change)?.answer().await
    }

    /// Sets the addresses that a port may send from.
    pub async fn keep(&self, port: PortId, kept: Kept) -> Result<(), NotDone> {
        let keep = |reply| Command::Keep(port, kept, reply);
        self.line.begin_last(keep)?.answer().await
    }

    /// Tells the thread that all ports of the previous worker are there: frames that waited for them are forwarded.
    pub async fn go_on(&self) -> Result<(), NotDone> {
        self.line.begin_last(Command::GoOn)?.answer().await
    }

    /// Returns state and counters of all ports.
    pub async fn snapshot(&self) -> Result<Vec<(PortId, EthernetStats)>, NotDone> {
        self.line.ask(Command::Snapshot).await
    }

    /// Changes the thread's end of an uplink.
    pub async fn change_uplink(&self, change: UplinkChange) -> Result<(), NotDone> {
        let changes = |reply| Command::Uplink(change, reply);
        let changed = self.line.ask(changes);
        Ok(changed.await??)
    }

    /// Takes a change back, even if the thread takes its time.
    pub async fn take_back(&self, change: UplinkChange) -> Result<(), NotDone> {
        let changes = |reply| Command::Uplink(change, reply);
        Ok(self.line.begin_last(changes)?.answer().await??)
    }

    /// Returns the thread's ends of all uplinks.
    pub async fn uplinks(&self) -> Result<Vec<UplinkSnapshot>, NotDone> {
        self.line.ask(Command::Uplinks).await
    }

    /// Tells the thread to end; wait for it by joining.
    pub fn stop(&self) {
        self.line.tell_last(Command::Stop);
    }
}

#[cfg(test)]
mod tests;
