//! One adapter's Ethernet: its socket, the connected QEMU, and counters.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use vrdma_api::{EthernetStats, Name};
use vrdma_process::Admission;
use vrdma_switch::{Bridge, DropReason, PortCounts, PortId};
use vrdma_threads::socket::BoundSocket;
use vrdma_threads::{Disposal, QemuGuard, StreamRecords};
use vrdma_uplink::Tap;
use vrdma_wire::qemu_stream::HEADER_BYTES;

use super::client::Client;
use super::kept::Kept;
use super::poller::{Poller, Token, Watched};
use super::station::Station;
use super::stream::Stream;

/// A port of the switch with a socket.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) port: PortId,
    pub(super) name: Name,
    /// Socket that a guest's QEMU connects to, and the guard that decides which may.
    socket: Option<(BoundSocket, QemuGuard)>,
    client: Option<Station>,
    /// How the poller watches this client.
    watched: Watched,
    /// Whether input is left in its socket.
    waits: bool,
    /// Where connections are recorded, if another worker goes on for this one.
    records: Option<Arc<dyn StreamRecords>>,
    /// Frames of the read in progress that go to this port.
    pub(super) pending: Vec<Range<usize>>,
    /// Number of frames for a guest that was not there.
    unconnected: u64,
}

impl Link {
    /// A link for a guest that may connect later.
    pub(super) fn of_guest(
        port: PortId,
        name: Name,
        socket: BoundSocket,
        admission: Arc<Admission>,
        records: Option<Arc<dyn StreamRecords>>,
    ) -> Self {
        let guard = QemuGuard::new(admission, port, name.clone());
        let link = Self::new(port, name, Some((socket, guard)), None);
        Self { records, ..link }
    }

    /// Goes on with the connection that the previous worker has left. Its input waits until [`go_on`](Self::go_on),
    /// because the ports that frames are for may still be missing.
    pub(super) fn follow(
        &mut self,
        left: OwnedFd,
        poller: &Poller,
        disposal: &Disposal,
    ) -> io::Result<()> {
        self.client = Some(self.connected(UnixStream::from(left), poller, disposal)?);
        self.waits = true;
        tracing::info!("{}: Ethernet goes on", self.name);
        Ok(())
    }

    fn connected(
        &self,
        stream: UnixStream,
        poller: &Poller,
        disposal: &Disposal,
    ) -> io::Result<Station> {
        let stream = Stream::new(stream, poller, disposal)?;
        let records = self.records.clone();
        let kept = records.map(|records| Kept::connected(records, self.name.clone(), &stream));
        Ok(Station::Guest(Client::new(stream, kept)))
    }

    /// A link for the host, which is always there.
    pub(super) fn of_host(port: PortId, name: Name, tap: Tap) -> Self {
        Self::new(port, name, None, Some(Station::Host(tap)))
    }

    fn new(
        port: PortId,
        name: Name,
        socket: Option<(BoundSocket, QemuGuard)>,
        client: Option<Station>,
    ) -> Self {
        Self {
            port,
            name,
            socket,
            client,
            watched: Watched::default(),
            waits: false,
            records: None,
            pending: Vec::new(),
            unconnected: 0,
        }
    }

    /// Starts to watch the listener and the client.
    pub(super) fn register(&self, poller: &Poller) -> io::Result<()> {
        if let Some((socket, _)) = &self.socket {
            poller.add(socket.listener(), Token::Listener(self.port))?;
        }
        match &self.client {
            Some(station) => poller.add(station, Token::Client(self.port)),
            None => Ok(()),
        }
    }

    /// Takes input from now on: all ports are there.
    pub(super) fn go_on(&mut self, poller: &Poller) {
        self.waits = false;
        self.watch(poller);
    }

    /// Stops watching its listener, or watches it again.
    pub(super) fn mute(&self, poller: &Poller, muted: bool) {
        let watched = self.socket.as_ref().map(|(socket, _)| {
            let token = Token::Listener(self.port);
            poller.watch_listener(socket.listener(), token, !muted)
        });
        if let Some(Err(error)) = watched {
            tracing::error!("{}: cannot watch its listener: {error}", self.name);
        }
    }

    /// Accepts the waiting connection, or refuses it while another one is served: a second QEMU on one socket would be
    /// a second station with the first one's address.
    pub(super) fn accept(&mut self, poller: &Poller, disposal: &Disposal) -> io::Result<()> {
        let Some((socket, guard)) = &self.socket else {
            return Ok(());
        };
        let stream = match socket.listener().accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        if !guard.lets_in(stream.as_fd(), self.client.is_some()) {
            disposal.close(stream);
            return Ok(());
        }
        let client = self.connected(stream, poller, disposal)?;
        poller.add(&client, Token::Client(self.port))?;
        guard.tell(|| tracing::info!("{}: Ethernet connected", self.name));
        self.client = Some(client);
        self.watched = Watched::default();
        Ok(())
    }

    /// Reads one batch of bytes from the guest; `None` when there are none.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match self.client.as_mut()?.receive(buffer) {
            Ok(filled) => filled,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.detach("QEMU closed it");
                None
            }
            Err(error) => {
                self.detach(&error.to_string());
                None
            }
        }
    }

    /// Keeps the beginning of a frame, in the buffer of the last [`receive`](Self::receive), until its end comes.
    pub(super) fn carry(&mut self, buffer: &mut [u8], rest: Range<usize>, poller: &Poller) {
        let Some(client) = &mut self.client else {
            return;
        };
        match client.carry(buffer, rest) {
            Ok(()) => self.watch(poller),
            Err(error) => self.detach(&error.to_string()),
        }
    }

    /// Closes the listener of a port that is gone. Clients may be waiting at it, with descriptors that they sent.
    pub(super) fn close(mut self, poller: &Poller, disposal: &Disposal) {
        if let Some((socket, _)) = self.socket.take() {
            poller.remove(socket.listener());
            disposal.close(socket.into_listener());
        }
    }

    /// Ends the connection and logs why.
    pub(super) fn detach(&mut self, why: &str) {
        if self.client.take().is_none() {
            return;
        }
        let tell = || tracing::info!("{}: Ethernet disconnected: {why}", self.name);
        match &self.socket {
            Some((_, guard)) => guard.tell(tell),
            // A TAP can be lost only once.
            None => tell(),
        }
    }

    /// Sends the pending frames of `bytes` to the guest; the bridge counts those that it does not get.
    pub(super) fn transmit(&mut self, bytes: &[u8], poller: &Poller, bridge: &mut Bridge) {
        let port = self.port;
        let mut give_up = |frame: usize| bridge.not_taken(port, frame);
        let Some(client) = &mut self.client else {
            self.unconnected += self.pending.len() as u64;
            self.pending
                .drain(..)
                .for_each(|frame| give_up(frame.len() - HEADER_BYTES));
            return;
        };
        let outcome = client.send(bytes, &self.pending, give_up);
        self.pending.clear();
        match outcome {
            Ok(()) => self.watch(poller),
            Err(error) => self.detach(&error.to_string()),
        }
    }

    /// Returns the counters from the guest's point of view: what the bridge received, the guest sent.
    pub(super) fn stats(&self, bridge: &Bridge) -> EthernetStats {
        let counts = bridge.counts(self.port).unwrap_or_default();
        EthernetStats {
            connected: self.client.is_some(),
            tx_frames: counts.received.frames,
            tx_bytes: counts.received.bytes,
            rx_frames: counts.sent.frames,
            rx_bytes: counts.sent.bytes,
            drops: self.drops(&counts),
        }
    }

    /// Returns the drops. The bridge counts a frame for an absent guest as one that was not taken.
    fn drops(&self, counts: &PortCounts) -> BTreeMap<String, u64> {
        let mut drops: BTreeMap<_, _> = DropReason::ALL
            .into_iter()
            .map(|reason| (word(reason).to_owned(), counts.dropped(reason)))
            .collect();
        if let Some(congested) = drops.get_mut(word(DropReason::Congested)) {
            *congested = congested.saturating_sub(self.unconnected);
        }
        drops.insert("guest-not-connected".to_owned(), self.unconnected);
        drops.retain(|_, count| *count > 0);
        drops
    }

    /// Sends waiting frames: the guest has room again.
    pub(super) fn flush(&mut self, poller: &Poller) {
        let Some(client) = &mut self.client else {
            return;
        };
        match client.flush() {
            Ok(()) => self.watch(poller),
            Err(error) => self.detach(&error.to_string()),
        }
    }

    pub(super) fn watch(&mut self, poller: &Poller) {
        let Some(client) = &self.client else { return };
        let wanted = Watched {
            waits: self.waits,
            room: client.is_waiting(),
            stalled: client.is_stalled(),
        };
        if wanted == self.watched {
            return;
        }
        let token = Token::Client(self.port);
        match poller.watch_as(client, token, wanted) {
            Ok(()) => self.watched = wanted,
            Err(error) => self.detach(&error.to_string()),
        }
    }
}

/// Returns a reason as a key of the API.
pub(super) fn word(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Detached => "detached",
        DropReason::Runt => "runt",
        DropReason::Oversize => "oversize",
        DropReason::BadSource => "bad-source",
        DropReason::Spoofed => "spoofed-source",
        DropReason::Reserved => "reserved-destination",
        DropReason::Returning => "returning",
        DropReason::Elsewhere => "elsewhere",
        DropReason::OtherAddress => "spoofed-address",
        DropReason::Roce => "roce",
        DropReason::Notice => "notice",
        DropReason::Congested => "congested",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_row_in_the_guide() {
        let page = include_str!("../../../docs/troubleshooting.md");
        let (_, table) = page.split_once("Adapters, `Ethernet drops`").unwrap();
        let table = table.split("\n\n").nth(1).unwrap();
        // Nothing is counted for a port that does not exist.
        let counted = DropReason::ALL
            .into_iter()
            .filter(|reason| *reason != DropReason::Detached);
        for word in counted.map(word).chain(["guest-not-connected"]) {
            assert!(table.contains(&format!("`{word}`")), "{word}");
        }
    }
}
