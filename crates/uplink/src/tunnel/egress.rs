//! Chooses the peers that frames go to, and queues the frames.

use std::net::SocketAddr;
use std::sync::PoisonError;

use smallvec::{SmallVec, smallvec};
use vrdma_wire::Mac;

use super::Tunnel;
use super::opening::INNER_HEADER_BYTES;
use crate::batch::fill_behind_heads;
use crate::counters::Loss;
use crate::peers::PeerPath;
use crate::raw::destination;
use crate::segment::{Hop, Segment};
use crate::vxlan::{self, Vni};

/// Paths that a frame takes; mostly one.
type Ways = SmallVec<[PeerPath; 1]>;

impl Tunnel {
    /// Queues a frame; the batch leaves when it is full or flushed.
    pub fn send(&mut self, hop: Hop, frame: &[u8]) {
        if let Err(loss) = self.queue(hop, frame) {
            self.counters.lose(loss);
        }
    }

    /// Queues frames for the station `to` that `fill` writes in place. Returns `false` if they must come one by one, or
    /// if `fill` returned it.
    pub fn send_in_place(
        &mut self,
        hop: Hop,
        to: Mac,
        lengths: &[usize],
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let Segment::Vni(number) = hop.segment else {
            return false;
        };
        let way = |vni| {
            let peers = self.peers_mut();
            peers.way(peers.behind(vni, to)?).ok()
        };
        let way = Vni::new(number).and_then(|vni| Some((vni, way(vni)?)));
        let bytes = lengths.iter().map(|length| length + vxlan::LEN).sum();
        let Some((vni, way)) =
            way.filter(|_| hop.peer.is_none() && self.batch.has_room(bytes, lengths.len()))
        else {
            return false;
        };
        let head = vxlan::header(vni);
        if way.sealer.is_some() {
            return self.seal_in_place(&way, &head, lengths, fill);
        }
        self.batch.push_in_place(&head, lengths, Some(way.to), fill)
    }

    /// Has `fill` write the frames outside the batch, and seals each into it.
    fn seal_in_place(
        &mut self,
        way: &PeerPath,
        head: &[u8],
        lengths: &[usize],
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let whole: usize = lengths.iter().map(|length| head.len() + length).sum();
        let mut clear = std::mem::take(&mut self.clear);
        if clear.len() < whole {
            clear.resize(whole, 0);
        }
        let filled = fill_behind_heads(&mut clear, head, lengths, fill);
        if filled {
            let mut rest = &clear[..];
            for length in lengths {
                let (datagram, behind) = rest.split_at(head.len() + length);
                self.push(way, &[datagram]);
                rest = behind;
            }
        }
        self.clear = clear;
        filled
    }

    /// Queues the parts of one datagram for one peer.
    fn push(&mut self, way: &PeerPath, parts: &[&[u8]]) {
        let Some(sealer) = &way.sealer else {
            return self.batch.push(parts, [Some(way.to)]);
        };
        let sealed = match parts {
            [whole] => self.batch.push_sealed(whole, sealer, way.to),
            parts => {
                self.clear.clear();
                parts
                    .iter()
                    .for_each(|part| self.clear.extend_from_slice(part));
                self.batch.push_sealed(&self.clear, sealer, way.to)
            }
        };
        if !sealed {
            self.counters.lose(Loss::NoSession);
        }
    }

    fn queue(&mut self, hop: Hop, frame: &[u8]) -> Result<(), Loss> {
        let vni = match hop.segment {
            Segment::Vni(number) => Vni::new(number).ok_or(Loss::Segment)?,
            Segment::Untagged | Segment::Vlan(_) => return Err(Loss::Segment),
        };
        if frame.len() < INNER_HEADER_BYTES as usize {
            return Err(Loss::Runt);
        }
        let ways = self.ways(hop.peer, vni, frame)?;
        let receivers = ways.len();
        if !self.batch.has_room(frame.len(), receivers) {
            self.flush();
            if !self.batch.has_room(frame.len(), receivers) {
                return Err(Loss::NoRoom);
            }
        }
        let parts = [&vxlan::header(vni)[..], frame];
        let (sealed, clear): (Ways, Ways) = ways.into_iter().partition(|way| way.sealer.is_some());
        if !clear.is_empty() {
            let all = clear.iter().map(|way| Some(way.to));
            self.batch.push(&parts, all);
        }
        sealed.iter().for_each(|way| self.push(way, &parts));
        Ok(())
    }

    /// Returns where a frame goes: to the named peer, or to the one that its station is behind, else to all of its
    /// network.
    fn ways(&mut self, named: Option<SocketAddr>, vni: Vni, frame: &[u8]) -> Result<Ways, Loss> {
        let peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let one = match named {
            Some(peer) if !peers.takes_part(peer, vni) => return Err(Loss::NoPeer),
            Some(peer) => Some(peer),
            None => destination(frame).and_then(|mac| peers.behind(vni, mac)),
        };
        if let Some(peer) = one {
            return Ok(smallvec![peers.way(peer)?]);
        }
        let mut ways = Ways::new();
        let mut without = 0;
        for way in peers.of_network(vni) {
            match way {
                Ok(way) => ways.push(way),
                Err(_) => without += 1,
            }
        }
        match (ways.is_empty(), without) {
            (true, 0) => return Err(Loss::NoPeer),
            (true, _) => return Err(Loss::NoSession),
            (false, _) => self.counters.lose_many(Loss::NoSession, without),
        }
        Ok(ways)
    }
}
