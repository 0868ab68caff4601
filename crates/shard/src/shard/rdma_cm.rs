//! The rdma_cm service of adapters of processes: its datagrams go through the carrier, and its clients are watched
//! here.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use vrdma_cm::{Ends, Outgoing, Received};
use vrdma_host::{Datagram, ShardId};
use vrdma_process::cm::{AdapterSpec, ClientId};
use vrdma_process::{CmGreeting, ProcessSpec};
use vrdma_switch::PortId;
use vrdma_threads::Reply;
use vrdma_verbs::Time;
use vrdma_wire::{Gid, Mtu, Pkey, Qpn};

use super::poller::Key;
use super::{CmPast, ConnectionManager, Shard};
use crate::legacy::Legacy;

/// Path MTU that connections of processes propose until the adapter's uplinks were measured.
const PATH_MTU: Mtu = Mtu::B1024;

/// Most datagrams that are received, datagrams that are sent, and addresses that are looked up in a turn, each some
/// microseconds. The others wait for the next turn, behind messages.
const CM_A_TURN: usize = 16;

/// Records what rdma_cm does, if another worker would go on for this one; returns what the worker before has left.
pub(super) fn follow(cm: &mut ConnectionManager, legacy: &Legacy) -> Option<CmPast> {
    let (records, past) = legacy.cm()?;
    cm.record_in(records);
    Some(past)
}

impl Shard {
    /// Begins to serve, since all adapters of the start are there: what they send is carried, clients are accepted, and
    /// rdma_cm of the worker before goes on.
    pub(super) fn go_on(&mut self, reply: Reply<()>) {
        if std::mem::take(&mut self.waits_for_adapters) {
            self.watch_entrances();
        }
        if let Some(past) = self.cm_past.take() {
            self.resume_cm(past);
        }
        // The caller may be gone.
        let _ = reply.send(());
    }

    fn resume_cm(&mut self, past: CmPast) {
        for client in self.cm.resume(past, since_start(self.clock.now())) {
            if let Some(socket) = self.cm.socket(client) {
                self.poller.watch(socket, Key::CmSession(client));
            }
        }
    }

    /// Opens the session of a process that greeted connection management.
    pub(super) fn open_cm_session(&mut self, greeting: CmGreeting) {
        self.poller.unwatch(&greeting.socket);
        if let Some(client) = self.cm.greet(greeting)
            && let Some(socket) = self.cm.socket(client)
        {
            self.poller.watch(socket, Key::CmSession(client));
        }
    }

    /// Serves the requests of a session.
    pub(super) fn serve_cm_session(&mut self, client: ClientId) {
        let now = self.clock.now();
        if let Some(gone) = self.cm.serve(client, since_start(now)) {
            self.poller.unwatch(&gone);
        }
        self.polling.served(now);
    }

    /// Takes datagrams that have come, repeats unanswered ones and sends those that wait; `true` if there were any.
    pub(super) fn tend_cm(&mut self, now: Time) -> bool {
        if self.id != ShardId::FIRST || self.cm_past.is_some() {
            // Datagrams for connections that are not there yet wait in the carrier.
            return false;
        }
        let moment = since_start(now);
        let mut worked = self.take_datagrams(moment);
        if self.cm.deadline().is_some_and(|due| due <= moment) {
            self.cm.expire(moment);
        }
        for _ in 0..CM_A_TURN {
            let Some(search) = self.cm.next_search(moment) else {
                break;
            };
            if self.host.knows(search.port, search.sgid, search.dgid, now) {
                self.cm.found(&search, moment);
            } else {
                self.cm.missed(search, moment);
            }
        }
        for _ in 0..CM_A_TURN {
            let Some((port, outgoing)) = self.cm.next_outgoing() else {
                break;
            };
            self.host.send_datagram(&datagram(port, &outgoing), now);
            worked = true;
        }
        worked |= self.take_datagrams(moment);
        worked | self.cm.is_sending()
    }

    fn take_datagrams(&mut self, moment: Duration) -> bool {
        let mut taken = false;
        for _ in 0..CM_A_TURN {
            let Some(datagram) = self.host.next_datagram() else {
                // What was sent to adapters of this host has arrived by now, too.
                self.cm.delivered();
                break;
            };
            let received = Received {
                ends: Ends {
                    local: datagram.local,
                    remote: datagram.remote,
                },
                qpn: datagram.qpn,
                pkey: datagram.pkey,
                bytes: &datagram.bytes,
            };
            self.cm.receive(datagram.port, &received, moment);
            taken = true;
        }
        taken
    }

    /// When connection management needs a turn.
    pub(super) fn cm_deadline(&self) -> Option<Time> {
        let due = self.cm.deadline()?;
        Some(Time(due.as_nanos() as u64))
    }
}

/// Returns what the service has to know of an adapter.
pub(super) fn spec(spec: &ProcessSpec) -> AdapterSpec {
    let address = spec.ip.map(|ip| match ip {
        IpAddr::V4(v4) => Gid::from_ipv4(v4),
        IpAddr::V6(v6) => Gid(v6.octets()),
    });
    AdapterSpec {
        port: spec.port,
        name: Arc::clone(&spec.name),
        mac: spec.mac,
        address: address.unwrap_or_else(|| Gid::link_local(spec.mac)),
        mtu: PATH_MTU,
    }
}

fn since_start(now: Time) -> Duration {
    Duration::from_nanos(now.0)
}

fn datagram(port: PortId, outgoing: &Outgoing) -> Datagram {
    Datagram {
        port,
        local: outgoing.ends.local,
        remote: outgoing.ends.remote,
        qpn: Qpn::GSI,
        pkey: Pkey::DEFAULT,
        bytes: outgoing.to_bytes(),
    }
}
