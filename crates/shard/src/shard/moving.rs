//! An adapter that goes from one shard to another, with its clients and its connections.
//!
//! ```text
//!   SendAway ──► held ──no other shard reads its memory──► Moving ──► control plane ──► Adopt
//!                  sends nothing                            what comes for it is kept where it goes
//! ```
//! Its objects, numbers and timers stay as they are: both shards use the same clock. Datagrams and unreliable
//! connections may see two messages in another order.

use std::fmt;

use vrdma_host::{Attachment, Member, ShardId};
use vrdma_process::OpenSession;
use vrdma_switch::PortId;
use vrdma_threads::{Reply, is_withdrawn};

use super::Shard;
use super::adapter::Adapter;
use super::control::attachment;
use super::poller::Key;
use crate::vm::Vm;

/// An adapter between two shards.
pub struct Moving {
    attachment: Attachment,
    adapter: Adapter,
    sessions: Vec<OpenSession>,
}

impl fmt::Debug for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moving")
            .field("adapter", &self.adapter.name())
            .finish_non_exhaustive()
    }
}

/// An adapter that is asked to leave.
pub(super) struct Leaving {
    port: PortId,
    to: ShardId,
    reply: Reply<Result<Box<Moving>, String>>,
}

impl Shard {
    /// Whether no other shard reads an adapter's memory. Until then the adapter sends nothing; the caller asks again,
    /// and [releases](vrdma_host::Host::release) it afterwards.
    pub(super) fn await_quiet(&mut self, port: PortId) -> bool {
        let is_quiet = self.host.is_quiet(port);
        if !is_quiet {
            self.host.hold(port);
        }
        is_quiet
    }

    /// Gives up an adapter as soon as possible.
    pub(super) fn send_away(
        &mut self,
        port: PortId,
        to: ShardId,
        reply: Reply<Result<Box<Moving>, String>>,
    ) {
        let refusal = if self.host.member(port).is_none() {
            Some("the adapter is gone")
        } else if self.leaving.iter().any(|leaving| leaving.port == port) {
            Some("the adapter is being moved already; wait until that is done")
        } else {
            None
        };
        match refusal {
            Some(sentence) => drop(reply.send(Err(sentence.to_owned()))),
            None => self.leaving.push(Leaving { port, to, reply }),
        }
    }

    /// Gives up those adapters that can leave now.
    pub(super) fn send_away_quiet(&mut self) {
        if self.leaving.is_empty() {
            return;
        }
        for leaving in std::mem::take(&mut self.leaving) {
            if is_withdrawn(&leaving.reply) {
                self.host.release(leaving.port);
            } else if self.await_quiet(leaving.port) {
                self.give_up(leaving);
            } else {
                self.leaving.push(leaving);
            }
        }
    }

    fn give_up(&mut self, leaving: Leaving) {
        let moving = self.take_out(leaving.port, leaving.to);
        let moving = moving.ok_or_else(|| "the adapter is gone".to_owned());
        if let Err(Ok(back)) = leaving.reply.send(moving.map(Box::new)) {
            // The caller gave up at this moment.
            self.registry.directory.place(leaving.port, self.id);
            self.adopt(*back);
        }
    }

    fn take_out(&mut self, port: PortId, to: ShardId) -> Option<Moving> {
        let sessions = self.sessions.take_of_adapter(port);
        for session in &sessions {
            self.poller.unwatch(session.socket());
            if let Some(owner) = session.owner() {
                self.unwatch_doorbell(port, owner);
            }
        }
        let adapter = self.host.send_away(port, to)?;
        self.unwatch_vm(&adapter);
        // Clients that open it from now on go there, and wait there until it comes.
        self.registry.directory.place(port, to);
        Some(Moving {
            attachment: attachment(adapter.spec()),
            adapter,
            sessions,
        })
    }

    /// Stops watching the sockets of a VM's adapter, which are another thread's from now on.
    pub(super) fn unwatch_vm(&self, adapter: &Adapter) {
        if let Adapter::Vm(vm) = adapter {
            self.poller.unwatch(vm.listener());
            if let Some(connection) = vm.connection() {
                self.poller.unwatch(connection);
            }
        }
    }

    /// Watches QEMU's connection, which was another thread's, or another worker's.
    pub(super) fn watch_connection(&self, port: PortId, vm: &Vm) {
        if let Some(connection) = vm.connection() {
            self.poller.watch(connection, Key::Connection(port));
            self.poller.rewatch_qemu(port, vm);
        }
    }

    /// Serves an adapter that another shard gave up.
    pub(super) fn adopt(&mut self, moving: Moving) {
        let Moving {
            attachment: at,
            adapter,
            sessions,
        } = moving;
        let now = self.clock.now();
        self.host.adopt(at, adapter, now);
        if let Some(Adapter::Vm(vm)) = self.host.member(at.port) {
            self.busy.insert(at.port);
            self.poller.watch(vm.listener(), Key::Listener(at.port));
            self.watch_connection(at.port, vm);
        }
        for session in sessions {
            self.adopt_session(at.port, session);
        }
        self.listen_again(at.port, now);
        self.adopt_early(now);
        self.take_events();
    }

    pub(super) fn adopt_session(&mut self, port: PortId, session: OpenSession) {
        let owner = session.owner();
        match self.sessions.adopt_open(session) {
            Ok(id) => {
                if let Some(socket) = self.sessions.socket(id) {
                    self.poller.watch(socket, Key::Session(id));
                }
                if let Some(owner) = owner {
                    self.watch_doorbell(port, owner);
                }
            }
            Err(owner) => {
                tracing::warn!("a session ends: the shard that its adapter moved to has too many");
                if let Some(owner) = owner {
                    self.close_context(port, owner);
                }
            }
        }
    }
}
