//! A stranger on the network, who is no peer: it sends garbage, fragments, old frames, and packets with a single thing
//! wrong. None of it may change what connections do.

use std::collections::VecDeque;

use fastrand::Rng;
use vrdma_wire::{
    Addresses, Bth, Extension, MAX_FRAME, Packet, PacketBuilder, Pkey, Qpn, Service, Transport,
};

/// Frames that the stranger keeps.
const MEMORY: usize = 64;

/// A distance of PSNs larger than any window.
const FAR: u32 = 1 << 22;

/// A partition that nobody here belongs to.
const FOREIGN: Pkey = Pkey(0x8123);

/// The single thing that is wrong with a forged packet.
#[derive(Clone, Copy)]
enum Lie {
    Destination,
    Sender,
    Partition,
    Future,
    Key,
}

/// The stranger, which hears every frame.
pub(crate) struct Stranger {
    random: Rng,
    /// Frames sent for each thousand heard.
    zeal: u32,
    heard: VecDeque<Vec<u8>>,
    pub(crate) sent: u64,
}

impl Stranger {
    pub(crate) fn new(seed: u64, zeal: u32) -> Self {
        Self {
            random: Rng::with_seed(seed),
            zeal,
            heard: VecDeque::new(),
            sent: 0,
        }
    }

    /// Returns what the stranger sends to the host that this frame is for.
    pub(crate) fn provoked(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        if self.zeal == 0 || self.random.u32(..1000) >= self.zeal {
            return None;
        }
        if self.heard.len() == MEMORY {
            self.heard.pop_front();
        }
        self.heard.push_back(frame.to_vec());
        self.sent += 1;
        Some(match self.random.u8(..8) {
            0 => self.garbage(),
            1 => frame[..self.random.usize(..frame.len())].to_vec(),
            2 => self.turned(frame),
            3 => self.heard[self.random.usize(..self.heard.len())].clone(),
            _ => self.forged(frame).unwrap_or_else(|| self.garbage()),
        })
    }

    fn garbage(&mut self) -> Vec<u8> {
        let length = self.random.usize(..300);
        std::iter::repeat_with(|| self.random.u8(..))
            .take(length)
            .collect()
    }

    fn turned(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        let at = self.random.usize(..frame.len());
        frame[at] ^= 1 << self.random.u8(..8);
        frame
    }

    /// Returns the packet with one lie in it and a right ICRC.
    fn forged(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let packet = Packet::parse(frame).ok()?;
        let lies: &[Lie] = match packet.info().service {
            Service::Rc => &[Lie::Destination, Lie::Sender, Lie::Partition, Lie::Future],
            Service::Uc => &[Lie::Destination, Lie::Sender, Lie::Partition],
            Service::Ud | Service::Cnp => &[Lie::Destination, Lie::Partition, Lie::Key],
        };
        let lie = lies[self.random.usize(..lies.len())];
        let (mut path, mut bth, mut extension) =
            (packet.path(), *packet.bth(), *packet.extension());
        match lie {
            Lie::Sender => path.addresses = elsewhere(path.addresses),
            _ => self.tell(lie, &mut bth, &mut extension),
        }
        let transport = Transport::new(bth, extension)?;
        let mut buffer = [0; MAX_FRAME];
        let payload = packet.payload();
        let mut builder = PacketBuilder::new(&path, &transport, payload.len(), &mut buffer).ok()?;
        builder.push(payload);
        Some(builder.finish().to_vec())
    }

    fn tell(&mut self, lie: Lie, bth: &mut Bth, extension: &mut Extension) {
        match lie {
            Lie::Destination => {
                bth.destination =
                    Qpn::from_low_bits(bth.destination.get() ^ self.random.u32(1..1 << 24));
            }
            Lie::Partition => bth.pkey = FOREIGN,
            Lie::Future => bth.psn = bth.psn.plus(FAR + self.random.u32(..FAR)),
            Lie::Key => match extension {
                Extension::Datagram(deth) | Extension::DatagramImmediate(deth, _) => {
                    deth.qkey.0 ^= 1
                }
                _ => bth.pkey = FOREIGN,
            },
            Lie::Sender => {}
        }
    }
}

/// Replaces the source by an address that nobody here has.
fn elsewhere(addresses: Addresses) -> Addresses {
    match addresses {
        Addresses::V4 {
            source,
            destination,
            identification,
        } => Addresses::V4 {
            source: (u32::from(source) ^ 0x8000).into(),
            destination,
            identification,
        },
        Addresses::V6 {
            source,
            destination,
            flow_label,
        } => Addresses::V6 {
            source: (u128::from(source) ^ 0x8000).into(),
            destination,
            flow_label,
        },
    }
}
