//! Datagrams from peers with and without a key, and from others, as a fuzz input tells.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use vrdma_wire::Mac;

use super::ingress::{Ingress, Taker};
use crate::counters::Counters;
use crate::peers::{PeerSpec, Peers};
use crate::seal::{Channel, OVERHEAD, Opened, Sealing};
use crate::strays::Stray;
use crate::sys::Arrival;
use crate::vxlan::{self, Vni};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Addresses of the peers: one in the clear, one with a key, one with one network and station.
const PEERS: [[u8; 4]; 3] = [[192, 0, 2, 2], [192, 0, 2, 3], [192, 0, 2, 4]];
const SEALED: usize = 1;
const PORT: u16 = 4789;

/// Most datagrams that the script may send again.
const KEPT_MAX: usize = 64;

/// Why the lock is not poisoned: no thread survives a panic with it.
const SOUND: &str = "a panic ends the run";

/// Offset of the number in a frame of ours: after VXLAN and Ethernet headers.
const NUMBER_AT: usize = vxlan::LEN + 14;

/// Plays an input as a script.
pub fn ingress(input: &[u8]) {
    let mut world = World::new();
    let mut rest = input;
    while let Some((&[op, a, b, c], later)) = rest.split_first_chunk() {
        let (bytes, later) = later.split_at(later.len().min(c.into()));
        world.step(op, [a, b], bytes);
        rest = later;
    }
}

struct World {
    peers: Mutex<Peers>,
    counters: Counters,
    now: Instant,
    /// The peer with the key.
    other: Sealing,
    kept: Vec<Vec<u8>>,
    next: u64,
    taken: BTreeSet<u64>,
}

fn address(peer: usize) -> SocketAddr {
    (PEERS[peer % PEERS.len()], PORT).into()
}

impl World {
    fn new() -> Self {
        let local: SocketAddr = ([192, 0, 2, 1], PORT).into();
        let keys = || KEY.parse().expect("it is a key");
        let mut peers = Peers::new(local, Channel::Rest);
        for peer in 0..PEERS.len() {
            let mut spec = PeerSpec::from(address(peer));
            match peer {
                SEALED => spec.keys = Some(keys()),
                2 => {
                    spec.networks = Vec::from_iter(Vni::new(5));
                    spec.stations = vec![Mac([2, 0, 0, 0, 0, 7])];
                }
                _ => {}
            }
            peers.add(spec).expect("three hosts");
        }
        Self {
            peers: Mutex::new(peers),
            counters: Counters::default(),
            now: Instant::now(),
            other: Sealing::new(keys(), Channel::Rest).expect("there is randomness"),
            kept: Vec::new(),
            next: 0,
            taken: BTreeSet::new(),
        }
    }

    fn step(&mut self, op: u8, [a, b]: [u8; 2], bytes: &[u8]) {
        match op % 8 {
            0 => self.receive(a.into(), Some(b), bytes),
            1 => self.now += Duration::from_millis(u64::from(a) * u64::from(b)),
            2 => self.agree(),
            3 | 4 => self.sealed(bytes),
            5 => self.again(a, b, bytes),
            6 => {
                let peers = self.peers.get_mut().expect(SOUND);
                peers.take_calls(self.now);
                peers.take_complaint(self.now);
                peers.age(self.now);
            }
            _ => self.receive(a.into(), None, bytes),
        }
    }

    /// Takes a call of the other side, and one of ours, up to its end.
    fn agree(&mut self) {
        if let Some(call) = self.other.tend(self.now) {
            self.keep(&call);
            self.receive(SEALED, None, &call);
        }
        let calls = self.peers.get_mut().expect(SOUND).calls(self.now);
        for (_, call) in calls {
            self.answer(&call);
        }
    }

    /// Takes the other side's answer to a datagram of ours.
    fn answer(&mut self, datagram: &[u8]) {
        let mut room = vec![0; datagram.len()];
        if let Ok(Opened::Reply(reply)) = self.other.open(datagram, &mut room, self.now) {
            self.keep(&reply);
            self.receive(SEALED, None, &reply);
        }
    }

    /// Takes a frame with a number of its own, sealed like the peer's.
    fn sealed(&mut self, bytes: &[u8]) {
        let Some(sealer) = self.other.sealer() else {
            return;
        };
        self.next += 1;
        let mut plain = vxlan::header(Vni::new(5).expect("it is short")).to_vec();
        plain.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0]);
        plain.extend(self.next.to_be_bytes());
        plain.extend(bytes);
        let mut datagram = vec![0; plain.len() + OVERHEAD];
        if sealer.seal(&plain, &mut datagram) {
            self.keep(&datagram);
            self.receive(SEALED, None, &datagram);
        }
    }

    /// Takes a datagram that was sent before again, perhaps changed, perhaps from elsewhere.
    fn again(&mut self, which: u8, peer: u8, changes: &[u8]) {
        let Some(mut datagram) = self.kept.get(usize::from(which) % KEPT_MAX).cloned() else {
            return;
        };
        for change in changes.chunks_exact(2) {
            let at = usize::from(change[0]) % datagram.len();
            datagram[at] ^= change[1];
        }
        self.receive(peer.into(), None, &datagram);
    }

    fn keep(&mut self, datagram: &[u8]) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(datagram.to_vec());
        }
    }

    fn receive(&mut self, peer: usize, joined: Option<u8>, bytes: &[u8]) {
        let from = match peer {
            255 => ([192, 0, 2, 99], PORT).into(),
            peer => address(peer),
        };
        let arrival = Arrival {
            len: bytes.len(),
            from: Some(from),
            joined: joined.map(usize::from),
            ..Arrival::default()
        };
        let taken = &mut self.taken;
        let mut taker = |stray: Stray<'_>, received: Option<crate::Received<'_>>| {
            if received.is_some() {
                judge(stray, taken);
            }
            Taker::Owner
        };
        let mut ingress = Ingress {
            peers: &self.peers,
            counters: &mut self.counters,
            now: self.now,
            clear: &mut Vec::new(),
            replies: Vec::new(),
        };
        ingress.receive(arrival, bytes, &mut taker);
        for (to, reply) in ingress.replies {
            assert_eq!(to, address(SEALED), "nobody else is answered");
            self.answer(&reply);
        }
    }
}

/// Checks that a frame of the peer with the key was sealed, by it, and comes once.
fn judge(stray: Stray<'_>, taken: &mut BTreeSet<u64>) {
    assert_eq!(stray.opened, stray.from == address(SEALED));
    if stray.opened {
        let number = stray.datagram[NUMBER_AT..].first_chunk();
        let number = u64::from_be_bytes(*number.expect("a frame of ours"));
        assert!(taken.insert(number), "a frame comes twice");
    }
}
