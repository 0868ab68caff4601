//! Datagram sockets: a UD queue pair at each adapter that the socket is bound to.
//!
//! ```text
//!   rbind ───► an identifier of the UDP port space listens; the daemon answers questions for its port
//!              with the queue pair that it is offered, whatever this process does meanwhile
//!   rsendto ─► whom we know: header | data by UD     whom we do not: SIDR question ──► the peer's daemon
//!   rrecvfrom ◄─ header | data, if the header names the address that the datagram really came from
//! ```
//! Queue pairs exchange what librdmacm's datagram rsockets send: their header ([`header`]), their key. Queue pairs are
//! found in another way: librdmacm asks by datagrams of a UDP socket of the kernel, at the address and port of the
//! rsocket. Behind the address of a process adapter there is no kernel that has such sockets, so here the communication
//! manager is asked, as `udaddy` asks it. A peer with librdmacm's own rsockets is therefore not found, and does not
//! find these.
//!
//! A port belongs to the socket that is bound to it: a datagram goes where the daemon of its address says, never where
//! another datagram says that it came from. This module knows nothing of streams.

mod asking;
mod header;
mod peers;
mod pieces;
mod place;
mod queue_pair;
mod station;

use core::ffi::c_int;

pub(in crate::cm::sockets) use header::Address;
pub(in crate::cm::sockets) use pieces::Pieces;

use crate::cm::abi;
use crate::errno::{Errno, Result};
use asking::Question;
use peers::Peers;
use station::Station;
use vrdma_provider::cm::{Endpoint, family};

/// What a datagram socket has besides its identifier.
pub(super) struct Datagrams {
    /// [`family`] of its addresses.
    family: u16,
    channel: *mut abi::EventChannel,
    /// The socket's own port and address, if it is bound; the address may be any.
    bound: Option<Address>,
    stations: Vec<Station>,
    peers: Peers,
    questions: Vec<Question>,
    pub(super) connected: Option<Address>,
    /// An error that the next call returns.
    error: Option<Errno>,
}

// SAFETY: channels, identifiers, queue pairs and queues may be used from any thread.
unsafe impl Send for Datagrams {}

/// The outcome of sending a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// The datagram is on its way, or is lost.
    Done,
    /// The datagram waits until the peer is found.
    Waits,
    /// There is no room for the datagram now.
    Full,
}

/// A datagram that was received.
pub(super) struct Taken {
    /// Bytes that were copied.
    pub(super) count: usize,
    /// Bytes that the datagram has.
    pub(super) length: usize,
    /// The sender, as sockets of this family name it.
    pub(super) from: Endpoint,
}

impl Datagrams {
    /// # Safety
    /// `channel` outlives the result.
    pub(super) unsafe fn new(is_v4: bool, channel: *mut abi::EventChannel) -> Self {
        // SAFETY: as promised. An event that was announced may be gone: nothing must wait for it.
        unsafe {
            let flags = libc::fcntl((*channel).fd, libc::F_GETFL);
            libc::fcntl((*channel).fd, libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        Self {
            family: if is_v4 { family::INET } else { family::INET6 },
            channel,
            bound: None,
            stations: Vec::new(),
            peers: Peers::default(),
            questions: Vec::new(),
            connected: None,
            error: None,
        }
    }

    /// Talks to one peer from now on, or to all again.
    pub(super) fn connect(&mut self, to: Option<Address>) -> Result<()> {
        (self.connected, self.error) = (to, None);
        if let Some(to) = to {
            self.ask(to);
        }
        self.keep_wanted()
    }

    /// Drops datagrams that did not come from the one peer.
    fn keep_wanted(&mut self) -> Result<()> {
        let Some(to) = self.connected else {
            return Ok(());
        };
        let at = real(&self.peers, to);
        let mut stations = self.stations.iter_mut();
        stations.try_for_each(|station| station.keep_only(|from| *from == at))
    }

    /// Whether no datagram to a peer waits for an answer.
    pub(super) fn is_settled(&self, of: Address) -> bool {
        self.peers.get(&of).is_none_or(|peer| !peer.is_asked)
    }

    pub(super) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    /// Takes completions of the queue pairs, and answers to questions.
    pub(super) fn process(&mut self) {
        self.advance();
        let only = self.connected.map(|to| real(&self.peers, to));
        let peers = &mut self.peers;
        let mut stations = self.stations.iter_mut();
        let taken = stations.try_for_each(|station| {
            station.process(|from, qpn| only.is_none_or(|at| at == *from) && peers.trust(from, qpn))
        });
        if let Err(error) = taken {
            // An adapter that is gone does not come back to a queue pair.
            self.stations.clear();
            self.peers.clear();
            self.error = Some(error);
        }
        for doubted in self.peers.take_doubted() {
            self.ask(doubted);
        }
    }

    pub(super) fn has_data(&self) -> bool {
        self.error.is_some() || self.stations.iter().any(|one| one.first().is_some())
    }

    pub(super) fn has_error(&self) -> bool {
        self.error.is_some()
    }

    pub(super) fn can_send(&self) -> bool {
        self.error.is_some() || self.bound.is_none() || self.stations.iter().all(Station::can_send)
    }

    /// Whether all that was sent has left.
    pub(super) fn all_sent(&self) -> bool {
        self.questions.is_empty() && self.stations.iter().all(Station::all_sent)
    }

    /// Returns the most bytes of data that one datagram may have.
    fn longest(&self, to: Address) -> usize {
        let way = self.peers.get(&to).and_then(|peer| peer.way.as_ref());
        let station = way.and_then(|way| self.stations.get(way.station));
        let longest = match station {
            Some(station) => Some(station.longest),
            None => self.stations.iter().map(|one| one.longest).min(),
        };
        longest
            .unwrap_or_default()
            .saturating_sub(to.header_bytes())
    }

    /// Sends a datagram.
    pub(super) fn send(&mut self, to: Address, data: &Pieces<'_>) -> Result<Sent> {
        if self.stations.is_empty() {
            return Err(Errno(libc::ENETDOWN));
        }
        if data.length() > self.longest(to) {
            return Err(Errno(libc::EMSGSIZE));
        }
        self.ask(to);
        let peer = self.peers.of(to);
        if peer.way.is_some() {
            return self.post(to, data);
        }
        if !peer.is_asked {
            // No peer was there just now, or too many are being asked for.
            return Ok(if peer.is_gone() {
                Sent::Done
            } else {
                Sent::Full
            });
        }
        if !peer.has_room() {
            return Ok(Sent::Full);
        }
        peer.keep(data.copied(data.length()));
        Ok(Sent::Waits)
    }

    /// Sends to a peer that is known.
    fn post(&mut self, to: Address, data: &Pieces<'_>) -> Result<Sent> {
        let own = self.bound.ok_or(Errno(libc::EINVAL))?;
        let Some(way) = self.peers.get(&to).and_then(|peer| peer.way.as_ref()) else {
            return Ok(Sent::Done);
        };
        let station = self.stations.get_mut(way.station);
        let station = station.ok_or(Errno(libc::ENETDOWN))?;
        let from = Address {
            gid: way.own,
            ..own
        };
        if data.length() + from.header_bytes() > station.longest {
            return Err(Errno(libc::EMSGSIZE));
        }
        let sent = station.send(way, &from, data)?;
        Ok(if sent { Sent::Done } else { Sent::Full })
    }

    /// Takes the next datagram, if one has come. With `peek` it stays.
    pub(super) fn take(&mut self, to: &Pieces<'_>, peek: bool) -> Result<Option<Taken>> {
        for station in &mut self.stations {
            while let Some(arrived) = station.first() {
                let from = arrived.from.endpoint(self.family);
                let taken = from.map(|from| Taken {
                    count: station.read(&arrived, to),
                    length: arrived.length,
                    from,
                });
                if taken.is_none() || !peek {
                    station.drop_first()?;
                }
                if taken.is_some() {
                    return Ok(taken);
                }
            }
        }
        Ok(None)
    }

    /// Arms the completions; returns the descriptors that become readable when something has happened.
    pub(super) fn arm(&self) -> Vec<c_int> {
        self.stations.iter().map(Station::arm).collect()
    }

    /// Takes the notification of a descriptor that became readable.
    pub(super) fn woken(&mut self, fd: c_int) {
        self.stations.iter_mut().for_each(|one| one.woken(fd));
    }
}

/// Returns where a peer's datagrams come from.
fn real(peers: &Peers, to: Address) -> Address {
    let way = peers.get(&to).and_then(|peer| peer.way.as_ref());
    way.map_or(to, |way| way.at)
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.forget_questions();
    }
}
