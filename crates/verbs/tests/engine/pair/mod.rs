//! Two adapters with a wire between them whose faults the test chooses, and a clock that stands still until the test
//! moves it.

mod frames;
pub(crate) mod memory;
pub(crate) mod node;
mod outputs;
pub(crate) mod path;
mod told;

use std::collections::VecDeque;
use std::time::Duration;

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{Limits, QpId, QpType};
use vrdma_verbs::packet::Train;
use vrdma_verbs::unit::{Request, Response, Route};
use vrdma_verbs::{Flow, Pace, Path, Paths, Source, Time};

pub(crate) use memory::{Memory, Region};
pub(crate) use node::{Node, Setup, limits};

/// The fate of a unit on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It arrives.
    Arrive,
    /// It does not arrive.
    Lose,
    /// It arrives twice.
    Double,
    /// It arrives after the one behind it.
    Delay,
}

/// A unit on its way to the node with this index.
#[derive(Clone, Debug)]
pub(crate) enum Unit {
    Request(Request<Region>),
    Response(Response<Region>),
    /// A frame in place of both, when the peers are behind a wire.
    Frame(Vec<u8>),
}

/// The wires, as the engine sees them.
struct Ways {
    pace: Pace,
    train_bytes: u32,
    /// The wire that is full. Wires are numbered by traffic class.
    full: Option<u32>,
}

impl Paths for Ways {
    fn epoch(&self) -> u64 {
        self.pace.epoch()
    }

    fn path(&mut self, route: &Route) -> Path {
        match self.pace {
            Pace::Local => Path::Local(0),
            Pace::Wire => Path::Wire(u32::from(route.traffic_class)),
        }
    }

    fn is_any_full(&self) -> bool {
        self.full.is_some()
    }

    fn is_full(&mut self, path: Path, _: Flow) -> bool {
        self.full.map(Path::Wire) == Some(path)
    }

    fn train_bytes(&self) -> u32 {
        self.train_bytes
    }
}

type Fates = Box<dyn FnMut(&Unit) -> Fate>;

pub(crate) struct Pair {
    pub(crate) nodes: [Node; 2],
    pub(crate) now: Time,
    pub(crate) unit_bytes: u32,
    pub(crate) pace: Pace,
    /// The wire that is full, by traffic class.
    pub(crate) full: Option<u32>,
    /// Most payload of a unit for a wire.
    train_bytes: u32,
    wire: VecDeque<(usize, Unit)>,
    fates: Fates,
}

impl Pair {
    /// Makes two adapters, each with one queue pair in RTS; those of a connected service are connected.
    pub(crate) fn new(qp_type: QpType) -> Self {
        Self::with(qp_type, Setup::default())
    }

    pub(crate) fn with(qp_type: QpType, setup: Setup) -> Self {
        Self::with_limits(qp_type, &setup, limits())
    }

    pub(crate) fn with_limits(qp_type: QpType, setup: &Setup, limits: Limits) -> Self {
        let mut nodes = [1, 2].map(|number| Node::with_limits(number, qp_type, setup, limits));
        let names = [0, 1].map(|i| nodes[i].name());
        nodes[0].connect(names[1], setup, QpState::Rts);
        nodes[1].connect(names[0], setup, QpState::Rts);
        Self {
            nodes,
            now: Time(0),
            unit_bytes: 64 * 1024,
            pace: Pace::Local,
            full: None,
            train_bytes: 0,
            wire: VecDeque::new(),
            fates: Box::new(|_| Fate::Arrive),
        }
    }

    /// Makes the same with a wire between the two.
    pub(crate) fn wired(qp_type: QpType, setup: Setup) -> Self {
        let mut pair = Self::with(qp_type, setup);
        pair.pace = Pace::Wire;
        pair
    }

    /// Makes units of several packets at both ends from now on.
    pub(crate) fn run_trains(&mut self, bytes: u32) {
        self.train_bytes = bytes;
        for node in &mut self.nodes {
            node.train = Some(Train::default());
        }
    }

    pub(crate) fn rc() -> Self {
        Self::new(QpType::Rc)
    }

    pub(crate) fn uc() -> Self {
        Self::new(QpType::Uc)
    }

    pub(crate) fn ud() -> Self {
        Self::new(QpType::Ud)
    }

    /// Makes another connection beside the first.
    pub(crate) fn connect_more(&mut self, setup: &Setup) -> [QpId; 2] {
        let qps = [0, 1].map(|i| self.nodes[i].another());
        let names = [0, 1].map(|i| self.nodes[i].name_of(qps[i]));
        self.nodes[0].connect_qp(qps[0], names[1], setup, QpState::Rts);
        self.nodes[1].connect_qp(qps[1], names[0], setup, QpState::Rts);
        qps
    }

    pub(crate) fn a(&mut self) -> &mut Node {
        &mut self.nodes[0]
    }

    /// Returns the bytes that both nodes copied with non-temporal stores.
    pub(crate) fn non_temporal(&self) -> u64 {
        let nodes = self.nodes.iter();
        nodes.map(|node| node.memory.non_temporal.get()).sum()
    }

    pub(crate) fn b(&mut self) -> &mut Node {
        &mut self.nodes[1]
    }

    /// Lets `fates` decide about every unit from now on.
    pub(crate) fn fates(&mut self, fates: impl FnMut(&Unit) -> Fate + 'static) {
        self.fates = Box::new(fates);
    }

    /// Lets everything arrive from now on.
    pub(crate) fn heal(&mut self) {
        self.fates = Box::new(|_| Fate::Arrive);
    }

    /// Moves units until nothing more moves without the clock.
    pub(crate) fn run(&mut self) {
        while self.step() {}
        self.nodes.iter_mut().for_each(Node::drain_outputs);
    }

    /// Moves one unit, if there is one.
    pub(crate) fn step(&mut self) -> bool {
        self.collect();
        let Some((to, unit)) = self.wire.pop_front() else {
            return false;
        };
        self.carry(to, unit);
        // The units behind it are moved before either end sends.
        while self.nodes[to].train.is_some()
            && self.wire.front().is_some_and(|(next, _)| *next == to)
            && let Some((_, unit)) = self.wire.pop_front()
        {
            self.carry(to, unit);
        }
        self.nodes[to].end_train(self.now);
        true
    }

    /// Loses everything that is under way between the two.
    pub(crate) fn drop_units(&mut self) {
        self.wire.clear();
    }

    /// Moves the clock and everything that moves with it.
    pub(crate) fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        self.run();
        while let Some(next) = self.next_deadline().filter(|at| *at <= until) {
            self.now = next.max(self.now);
            self.expire();
            self.run();
        }
        self.now = until;
    }

    /// Moves the clock until both sides have nothing to wait for.
    pub(crate) fn run_dry(&mut self) {
        self.run();
        while let Some(next) = self.next_deadline() {
            self.now = next.max(self.now);
            self.expire();
            self.run();
        }
    }

    pub(crate) fn expire(&mut self) {
        let now = self.now;
        self.nodes
            .iter_mut()
            .for_each(|node| node.hca.handle_timeout(now));
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.nodes
            .iter()
            .filter_map(|node| node.hca.next_deadline())
            .min()
    }

    /// Takes the units that a node would send now.
    pub(crate) fn transmit(&mut self, from: usize) -> Vec<Request<Region>> {
        let (now, unit_bytes) = (self.now, self.unit_bytes);
        let mut ways = self.ways();
        let hca = &mut self.nodes[from].hca;
        let mut units = Vec::new();
        while let Some(qp) = hca.next_ready() {
            units.extend(hca.poll_transmit(qp, now, unit_bytes, &mut ways));
        }
        units
    }

    fn ways(&self) -> Ways {
        Ways {
            pace: self.pace,
            train_bytes: self.train_bytes,
            full: self.full,
        }
    }

    /// Delivers a unit by hand.
    pub(crate) fn deliver(
        &mut self,
        to: usize,
        request: &Request<Region>,
    ) -> Option<Response<Region>> {
        let [a, b] = &mut self.nodes;
        let (node, peer) = if to == 0 { (a, &*b) } else { (b, &*a) };
        let response = node
            .hca
            .deliver(request, Source::Memory(&peer.memory), &node.memory);
        node.drain_outputs();
        response
    }

    /// Delivers a response by hand.
    pub(crate) fn respond(&mut self, to: usize, response: &Response<Region>) {
        let now = self.now;
        let [a, b] = &mut self.nodes;
        let (node, peer) = if to == 0 { (a, &*b) } else { (b, &*a) };
        node.hca
            .respond(response, Source::Memory(&peer.memory), &node.memory, now);
        node.drain_outputs();
    }

    /// Takes the frames that a node would send now: requests, then answers.
    pub(crate) fn frames_of(&mut self, from: usize) -> Vec<Vec<u8>> {
        let units = self.transmit(from);
        let mut ways = self.ways();
        let node = &mut self.nodes[from];
        let mut frames: Vec<_> = units.iter().flat_map(|unit| node.frames(unit)).collect();
        while let Some(reply) = node.hca.poll_reply(self.now, &mut ways) {
            frames.extend(node.reply_frames(&reply));
        }
        frames
    }

    fn collect(&mut self) {
        for from in [0, 1] {
            if self.pace == Pace::Wire {
                for frame in self.frames_of(from) {
                    self.put_on_wire(1 - from, Unit::Frame(frame));
                }
                continue;
            }
            for unit in self.transmit(from) {
                self.put_on_wire(1 - from, Unit::Request(unit));
            }
        }
    }

    fn put_on_wire(&mut self, to: usize, unit: Unit) {
        match (self.fates)(&unit) {
            Fate::Arrive => self.wire.push_back((to, unit)),
            Fate::Lose => {}
            Fate::Double => {
                self.wire.push_back((to, unit.clone()));
                self.wire.push_back((to, unit));
            }
            Fate::Delay => {
                let before_last = self.wire.len().saturating_sub(1);
                self.wire.insert(before_last, (to, unit));
            }
        }
    }

    fn carry(&mut self, to: usize, unit: Unit) {
        match unit {
            Unit::Request(request) => {
                if let Some(response) = self.deliver(to, &request) {
                    self.put_on_wire(1 - to, Unit::Response(response));
                }
            }
            Unit::Response(response) => self.respond(to, &response),
            Unit::Frame(frame) => {
                let now = self.now;
                self.nodes[to].receive_frame(&frame, now);
            }
        }
    }
}
