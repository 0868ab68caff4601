//! The thread's loop: which descriptor is ready, what was received, where it goes.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vrdma_host::{Learner, Segments, Shared};
use vrdma_process::Admission;
use vrdma_switch::{Bridge, GroupId, Host, Kept, PortId, Sources, UplinkId, Verdict};
use vrdma_threads::uplink::marks_of;
use vrdma_threads::{Disposal, Inbox, Known, Outbox, PortPast, Snooped};
use vrdma_wire::Mac;
use vrdma_wire::qemu_stream::{FRAME_BYTES_MAX, HEADER_BYTES, Piece, piece};

use super::client::FRAMES_MAX;
use super::hosts::Hosts;
use super::link::Link;
use super::paused::Paused;
use super::poller::{Poller, Token};
use super::snapshot::Snapshots;
use super::wire::{self, Taken, UplinkPort};
use super::{Behind, Command, EthernetPort};

/// Bytes of one read: the content of two full Unix sockets at Linux's default, so that a burst is one batch.
const READ_BYTES: usize = 384 << 10;

/// A carried frame must leave room to read its end.
const _: () = assert!(READ_BYTES > 2 * (HEADER_BYTES + FRAME_BYTES_MAX));

pub(super) struct Exchange {
    inbox: Inbox<Command>,
    pub(super) poller: Poller,
    pub(super) bridge: Bridge,
    /// In the order of their ports, so that a snapshot can go on where it stopped.
    pub(super) links: BTreeMap<PortId, Link>,
    pub(super) wires: BTreeMap<UplinkId, UplinkPort>,
    pub(super) segments: Segments,
    pub(super) hosts: Hosts,
    pub(super) started: Instant,
    pub(super) buffer: Box<[u8]>,
    pub(super) taken: Taken,
    /// Answers to the senders of frames in this batch that are too long.
    told: Vec<(PortId, Vec<u8>)>,
    /// Links whose `pending` is not empty.
    pub(super) touched: Vec<PortId>,
    /// Listeners that could not accept.
    paused: Paused,
    /// Users that the listeners let in.
    admission: Arc<Admission>,
    /// Owner of each address, as the shards know it.
    addresses: Arc<Shared>,
    snapshots: Snapshots,
    /// Closes refused connections.
    disposal: Disposal,
    stopping: bool,
}

/// Why sorting stopped, and at which offset.
enum Stop {
    /// A batch is full; more may follow from here on.
    Full(usize),
    /// The rest is less than a whole frame.
    End(usize),
    /// The length of a frame is one that no QEMU sends.
    Malformed(u32),
}

impl Exchange {
    pub(super) fn new(
        inbox: Inbox<Command>,
        says: Vec<Outbox<Snooped>>,
        known: &Known,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&inbox, Token::Inbox)?;
        Ok(Self {
            inbox,
            poller,
            bridge: Bridge::new(),
            links: BTreeMap::new(),
            wires: BTreeMap::new(),
            segments: Segments::default(),
            hosts: Hosts::new(says),
            started: Instant::now(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            taken: Taken::default(),
            told: Vec::new(),
            touched: Vec::new(),
            paused: Paused::default(),
            admission: Arc::clone(&known.processes.admission),
            addresses: Arc::clone(&known.addresses),
            snapshots: Snapshots::default(),
            disposal: Disposal::start()?,
            stopping: false,
        })
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        let mut ready = Vec::new();
        while !self.stopping {
            self.inbox.beat();
            if let Err(error) = self.poller.wait(&mut ready, self.until_next()) {
                tracing::error!("the Ethernet thread cannot wait for its sockets: {error}");
                return;
            }
            for (token, room) in &ready {
                self.serve(*token, *room);
            }
            self.tend_wires();
            self.snapshots.go_on(&self.links, &self.bridge);
            while let Some(port) = self.paused.take_due() {
                if let Some(link) = self.links.get(&port) {
                    link.mute(&self.poller, false);
                }
            }
        }
    }

    fn until_next(&self) -> Option<Duration> {
        let times = [
            self.patience(),
            self.paused.patience(),
            self.snapshots.patience(),
        ];
        times.into_iter().flatten().min()
    }

    fn serve(&mut self, token: Token, room: bool) {
        match token {
            Token::Inbox => self.obey(),
            Token::Listener(port) => self.accept(port),
            Token::UplinkPort(uplink) => self.serve_wire(uplink, room),
            Token::Client(port) => {
                if room && let Some(link) = self.links.get_mut(&port) {
                    link.flush(&self.poller);
                }
                self.receive(port);
            }
        }
    }

    fn obey(&mut self) {
        self.inbox.clear();
        while let Some(command) = self.inbox.take() {
            match command {
                command if command.is_withdrawn() => {}
                Command::AddPort(port, reply) => {
                    let number = port.port;
                    if let Err(Ok(())) = reply.send(self.add_port(port)) {
                        self.remove_port(number);
                    }
                }
                Command::RemovePort(port, reply) => {
                    self.remove_port(port);
                    let _ = reply.send(());
                }
                Command::SetAway(port, is_away, reply) => {
                    self.bridge.set_away(port, is_away);
                    let _ = reply.send(());
                }
                Command::Keep(port, kept, reply) => {
                    self.keep(port, kept);
                    let _ = reply.send(());
                }
                Command::GoOn(reply) => {
                    let links = self.links.values_mut();
                    links.for_each(|link| link.go_on(&self.poller));
                    let _ = reply.send(());
                }
                Command::Snapshot(reply) => self.snapshots.begin(reply),
                Command::Uplink(change, reply) => {
                    let undo = change.undo();
                    if let (Err(Ok(())), Some(undo)) =
                        (reply.send(self.change_uplink(change)), undo)
                    {
                        let _ = self.change_uplink(undo);
                    }
                }
                Command::Uplinks(reply) => {
                    let _ = reply.send(self.uplink_snapshot());
                }
                Command::Stop => self.stopping = true,
            }
        }
    }

    fn remove_port(&mut self, port: PortId) {
        self.bridge.detach(port);
        self.segments.unplug(port);
        if let Some(link) = self.links.remove(&port) {
            link.close(&self.poller, &self.disposal);
        }
        self.hosts.remove(port);
    }

    fn add_port(&mut self, port: EthernetPort) -> Result<(), String> {
        let EthernetPort { port: number, .. } = port;
        match port.behind {
            Behind::Guest(socket) => {
                let PortPast { records, left } = port.past;
                let admission = Arc::clone(&self.admission);
                let mut link = Link::of_guest(number, port.name, socket, admission, records);
                if let Some(left) = left {
                    let followed = link.follow(left, &self.poller, &self.disposal);
                    followed.map_err(|error| format!("cannot go on with a connection: {error}"))?;
                }
                self.add_link(link, port.group, port.mac)?;
            }
            Behind::Host(tap) => {
                let link = Link::of_host(number, port.name, tap);
                self.add_link(link, port.group, port.mac)?;
            }
            Behind::Nobody(addresses) => {
                self.attach(number, port.group, port.mac)?;
                let host = Host::new(port.mac, addresses);
                self.hosts.insert(number, port.group, host);
            }
        }
        self.keep(number, port.kept);
        if port.away {
            self.bridge.set_away(number, true);
        }
        if port.may_send_roce {
            self.bridge.allow_roce(number);
        }
        self.segments
            .plug(number, port.group, marks_of(port.segment));
        self.join(port.group);
        Ok(())
    }

    fn keep(&mut self, port: PortId, kept: Kept) {
        let sources = match kept {
            Kept::Any => Sources::Any,
            Kept::Stated(gids) => Sources::Stated(gids),
            Kept::Learned => {
                let learner = Learner::new(Arc::clone(&self.addresses), port);
                Sources::Learned(Box::new(learner))
            }
        };
        self.bridge.pin(port, sources);
    }

    fn add_link(&mut self, link: Link, group: GroupId, mac: Mac) -> Result<(), String> {
        link.register(&self.poller)
            .map_err(|error| format!("cannot watch the Ethernet port: {error}"))?;
        self.attach(link.port, group, mac)?;
        let port = link.port;
        self.links.insert(port, link);
        if let Some(link) = self.links.get_mut(&port) {
            link.watch(&self.poller);
        }
        Ok(())
    }

    fn attach(&mut self, port: PortId, group: GroupId, mac: Mac) -> Result<(), String> {
        let attached = self.bridge.attach(port, group, mac);
        attached.map_err(|error| error.to_string())
    }

    /// Accepts a connection. A QEMU that restarts connects while the end of its predecessor's connection is unread, so
    /// the old connection is looked at first.
    fn accept(&mut self, port: PortId) {
        self.receive(port);
        let Some(link) = self.links.get_mut(&port) else {
            return;
        };
        if let Err(error) = link.accept(&self.poller, &self.disposal) {
            if self.paused.is_news() {
                tracing::warn!("{}: cannot take a connection: {error}", link.name);
            }
            link.mute(&self.poller, true);
            self.paused.add(port);
        }
    }

    /// Takes one read from a guest and passes it on.
    fn receive(&mut self, port: PortId) {
        let Some(link) = self.links.get_mut(&port) else {
            return;
        };
        let Some(filled) = link.receive(&mut self.buffer) else {
            return;
        };
        let mut at = 0;
        loop {
            let stop = self.sort(port, at, filled);
            self.deliver();
            self.answer();
            self.tell();
            self.flush_wires();
            match stop {
                Stop::Full(next) => at = next,
                Stop::End(rest) => return self.carry(port, rest..filled),
                Stop::Malformed(length) => return self.hang_up(port, length),
            }
        }
    }

    /// Queues a batch of whole frames at their destinations.
    fn sort(&mut self, port: PortId, mut at: usize, filled: usize) -> Stop {
        let now = self.started.elapsed().as_nanos() as u64;
        for _ in 0..FRAMES_MAX {
            match piece(&self.buffer[..filled], at) {
                Piece::Whole(range) => {
                    at = range.end;
                    self.route(port, range, now);
                }
                Piece::Partial => return Stop::End(at),
                Piece::Malformed(length) => return Stop::Malformed(length),
            }
        }
        Stop::Full(at)
    }

    fn carry(&mut self, port: PortId, rest: Range<usize>) {
        if let Some(link) = self.links.get_mut(&port) {
            link.carry(&mut self.buffer, rest, &self.poller);
        }
    }

    fn hang_up(&mut self, port: PortId, length: u32) {
        if let Some(link) = self.links.get_mut(&port) {
            link.detach(&format!(
                "it announced a frame of {length} bytes and QEMU sends 1 to {FRAME_BYTES_MAX}; is it `-netdev stream`?"
            ));
        }
    }

    pub(super) fn route(&mut self, port: PortId, range: Range<usize>, now: u64) {
        let frame = &self.buffer[range.start + HEADER_BYTES..range.end];
        let group = self.bridge.group(port);
        let Verdict::Deliver(recipients) = self.bridge.forward(port, frame, now) else {
            return;
        };
        if let Some(group) = group {
            let uplinks = recipients.uplinks();
            let told = wire::send(&mut self.wires, &self.segments, uplinks, group, frame);
            self.told.extend(told.map(|answer| (port, answer)));
        }
        for recipient in recipients {
            self.hosts.ask(recipient, frame);
            queue(&mut self.links, &mut self.touched, recipient, range.clone());
        }
    }

    /// Sends the answers to their senders. No frame of the buffer waits meanwhile.
    fn tell(&mut self) {
        for (port, frame) in std::mem::take(&mut self.told) {
            let mut framed = framed(&frame);
            let end = framed.len();
            std::mem::swap(&mut self.buffer, &mut framed);
            queue(&mut self.links, &mut self.touched, port, 0..end);
            self.deliver();
            std::mem::swap(&mut self.buffer, &mut framed);
        }
    }

    pub(super) fn deliver(&mut self) {
        for port in self.touched.drain(..) {
            if let Some(link) = self.links.get_mut(&port) {
                link.transmit(&self.buffer, &self.poller, &mut self.bridge);
            }
        }
    }
}

/// Returns a frame with its header, as QEMU expects it.
pub(super) fn framed(frame: &[u8]) -> Box<[u8]> {
    let length = (frame.len() as u32).to_be_bytes();
    [&length[..], frame].concat().into_boxed_slice()
}

/// Queues a frame of the buffer for a port.
pub(super) fn queue(
    links: &mut BTreeMap<PortId, Link>,
    touched: &mut Vec<PortId>,
    port: PortId,
    frame: Range<usize>,
) {
    let Some(link) = links.get_mut(&port) else {
        return;
    };
    if link.pending.is_empty() {
        touched.push(port);
    }
    link.pending.push(frame);
}
