//! An adapter in pieces: a record for each object, written when the object is made or changed by its owner, and the
//! [progress](super::progress) of each queue pair. So nothing has to be saved at once, and another process goes on with
//! what was written last.
//!
//! Whatever is not in the pieces begins anew: counters, time-outs, and the names of empty slots.

use alloc::vec::Vec;

use prost::Message;
use vrdma_wire::Mac;

use crate::hca::Hca;
use crate::names::Name;
use crate::object::Limits;
use crate::object::{CqId, PdId, QpId, SrqId};
use crate::requester::Phase;
use crate::saved::convert::restore_limits;
use crate::saved::progress::Progress;
use crate::saved::work::{restore_receive, save_receive};
use crate::saved::{
    FindRegion, RestoreError, SaveRegion, check, is_readable, objects, older, queue_pair, record,
};
use crate::work::RecvWr;

/// An object of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// A protection domain.
    Pd(PdId),
    /// A memory region or window, by its slot.
    Mr(u32),
    /// A completion queue.
    Cq(CqId),
    /// A shared receive queue, with the receives that are staged.
    Srq(SrqId),
    /// A queue pair, without its work, and its multicast groups.
    Qp(QpId),
}

/// The pieces of an adapter as they were read; nothing in them is trusted.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// The frame that [`Hca::save_frame`] wrote.
    pub frame: Vec<u8>,
    /// Protection domains.
    pub pds: Vec<Vec<u8>>,
    /// Regions and windows.
    pub mrs: Vec<Vec<u8>>,
    /// Completion queues.
    pub cqs: Vec<Vec<u8>>,
    /// Shared receive queues.
    pub srqs: Vec<Vec<u8>>,
    /// Queue pairs.
    pub qps: Vec<QpPiece>,
    /// Position in the adapter's own sequence from which new names are drawn: any, but another one each time.
    pub seed: u64,
}

/// A queue pair's part of [`Pieces`].
#[derive(Clone, Debug)]
pub struct QpPiece {
    /// The record that [`Hca::save_piece`] wrote.
    pub record: Vec<u8>,
    /// The last progress that [`Hca::save_progress`] wrote.
    pub progress: Vec<u8>,
    /// The receive at the front of its own ring, or the one that [`Hca::receive_under_way`] returned: a SEND that is
    /// under way goes on in it.
    pub receive: Option<RecvWr>,
}

/// Reads the adapter's MAC address and limits from a frame, before anything is made of it.
///
/// # Errors
/// The bytes are no frame, or one of another version.
pub fn read_frame(frame: &[u8]) -> Result<(Mac, Limits), RestoreError> {
    let adapter: record::Adapter = decode(frame)?;
    check(
        is_readable(adapter.version),
        "the frame has another version",
    )?;
    let mac = adapter.mac.as_slice().try_into().map(Mac);
    let mac = mac.map_err(|_| RestoreError::Inconsistent("a MAC has not 6 bytes"))?;
    Ok((mac, restore_limits(&adapter.limits)?))
}

impl<R: Clone> Hca<R> {
    /// Saves the adapter itself, without its objects.
    pub fn save_frame(&self) -> Vec<u8> {
        objects::save_frame(self).encode_to_vec()
    }

    /// Saves one object; `region` names registered memory. `None` if there is no such object.
    pub fn save_piece(
        &self,
        piece: Piece,
        mut region: impl FnMut(&R) -> Vec<u8>,
    ) -> Option<Vec<u8>> {
        let region: SaveRegion<'_, R> = &mut region;
        let shared = &self.shared;
        Some(match piece {
            Piece::Pd(id) => objects::save_pd(id.0, shared.pds.get(id.0)?).encode_to_vec(),
            Piece::Mr(id) => {
                let (mr, number) = (shared.mrs.get(id)?, shared.mrs.number(id));
                crate::saved::regions::save_mr(id, mr, number, region).encode_to_vec()
            }
            Piece::Cq(id) => objects::save_cq(id.0, shared.cqs.get(id.0)?).encode_to_vec(),
            Piece::Srq(id) => objects::save_srq(id.0, shared.srqs.get(id.0)?).encode_to_vec(),
            Piece::Qp(id) => {
                let groups = shared.groups.of(id).map(|group| group.0.to_vec());
                let piece = record::QpPiece {
                    qp: queue_pair::save_still(self.qps.get(id.0)?),
                    groups: groups.collect(),
                };
                piece.encode_to_vec()
            }
        })
    }

    /// Returns the receive of a SEND that is under way: the oldest one of the queue pair's own ring, or one that is in
    /// no shared ring any more.
    pub fn receive_under_way(&self, id: QpId) -> Option<&RecvWr> {
        self.qps.get(id.0)?.responder.receive_under_way()
    }

    /// Returns the same as a record, for [`read_receive`].
    pub fn save_receive_under_way(&self, id: QpId) -> Option<Vec<u8>> {
        let receive = self.receive_under_way(id)?;
        Some(save_receive(receive).encode_to_vec())
    }

    /// Makes an adapter that goes on with the contents of its pieces. `region` finds registered memory by the name
    /// under which it was saved.
    pub fn assemble(
        pieces: Pieces,
        mut region: impl FnMut(&[u8]) -> Option<R>,
    ) -> Result<Self, RestoreError> {
        let region: FindRegion<'_, R> = &mut region;
        let mut adapter: record::Adapter = decode(&pieces.frame)?;
        check(
            is_readable(adapter.version),
            "the frame has another version",
        )?;
        adapter.pds = decode_all(&pieces.pds)?;
        adapter.mrs = decode_all(&pieces.mrs)?;
        older::number_regions(&mut adapter);
        adapter.cqs = decode_all(&pieces.cqs)?;
        adapter.srqs = decode_all(&pieces.srqs)?;
        let mut later = Vec::new();
        for piece in &pieces.qps {
            let record::QpPiece { mut qp, groups } = decode(&piece.record)?;
            let progress = Progress::new(&piece.progress)?;
            let receive = piece.receive.as_ref().filter(|_| progress.wants_receive());
            progress.apply(&mut qp, receive.map(save_receive))?;
            let attachment = |group| record::Attachment { qp: qp.id, group };
            adapter
                .attachments
                .extend(groups.into_iter().map(attachment));
            later.push((qp.id, progress.done_ahead(), progress.newest_data()));
            adapter.qps.push(qp);
        }
        number_slots(&mut adapter, pieces.seed);
        let mut hca = objects::restore(&adapter, region)?;
        for (id, done, newest_data) in later {
            if let Some(qp) = hca.qps.get_mut(id) {
                qp.requester.done_before = done;
                qp.responder.newest_data = newest_data;
            }
        }
        Ok(hca)
    }
}

/// Returns the name of a region's memory from a record of [`Hca::save_piece`].
pub fn region_name(record: &[u8]) -> Option<Vec<u8>> {
    decode::<record::Mr>(record).ok()?.region
}

/// Reads a record of [`Hca::save_receive_under_way`].
pub fn read_receive(bytes: &[u8]) -> Result<RecvWr, RestoreError> {
    restore_receive(&decode(bytes)?)
}

/// Whether a SEND is under way, according to a progress of [`Hca::save_progress`].
pub fn is_receiving(progress: &[u8]) -> bool {
    Progress::new(progress).is_ok_and(|progress| progress.wants_receive())
}

fn decode<T: Message + Default>(bytes: &[u8]) -> Result<T, RestoreError> {
    let decoded = T::decode(bytes).map_err(|_| RestoreError::Unreadable)?;
    match decoded.encoded_len() == bytes.len() {
        true => Ok(decoded),
        false => Err(RestoreError::Leftover),
    }
}

fn decode_all<T: Message + Default>(all: &[Vec<u8>]) -> Result<Vec<T>, RestoreError> {
    all.iter().map(|bytes| decode(bytes)).collect()
}

/// Makes slots up to the last object; empty ones in between are free.
fn number_slots(adapter: &mut record::Adapter, seed: u64) {
    let plain = Name::new(0, 0);
    let pds = adapter.pds.iter().map(|pd| (pd.id, plain));
    adapter.pd_slots = slots(pds.collect(), 0, seed);
    let mrs = adapter.mrs.iter().map(|mr| (mr.id, mr.name()));
    adapter.mr_slots = slots(mrs.collect(), 0, seed);
    let cqs = adapter.cqs.iter().map(|cq| (cq.id, plain));
    adapter.cq_slots = slots(cqs.collect(), 0, seed);
    let srqs = adapter.srqs.iter().map(|srq| (srq.id, plain));
    adapter.srq_slots = slots(srqs.collect(), 0, seed);
    let qps = adapter.qps.iter().map(|qp| (qp.id, qp.name()));
    let first = crate::hca::first_qp(adapter.plain_numbers);
    adapter.qp_slots = slots(qps.collect(), first, seed);
}

fn slots(objects: Vec<(u32, Name)>, first: u32, seed: u64) -> record::Slots {
    let end = objects.iter().map(|(slot, _)| slot.saturating_add(1)).max();
    // A slot beyond every table is refused when the table is filled.
    let end = end.unwrap_or(0).clamp(first, 1 << 24);
    let mut slots = record::Slots {
        names: alloc::vec![Name::NONE.0; end as usize],
        drawn: seed,
        ..record::Slots::default()
    };
    let mut is_free = alloc::vec![true; end as usize];
    for (slot, name) in objects {
        if let Some(place) = slots.names.get_mut(slot as usize) {
            *place = name.0;
            is_free[slot as usize] = false;
        }
    }
    slots.free = (first..end)
        .filter(|slot| is_free[*slot as usize])
        .collect();
    slots
}

impl crate::responder::Responder {
    fn receive_under_way(&self) -> Option<&RecvWr> {
        match &self.message {
            crate::responder::Message::Send { receive, .. } => Some(receive),
            _ => None,
        }
    }
}

impl<R> crate::requester::Requester<R> {
    /// Whether the request that is posted next was finished before a restart.
    pub(crate) fn take_done_before(&mut self) -> Phase {
        let was_done = self.done_before & 1 != 0;
        self.done_before >>= 1;
        match was_done {
            true => {
                self.done_early += 1;
                Phase::Done
            }
            false => Phase::Posted,
        }
    }
}
