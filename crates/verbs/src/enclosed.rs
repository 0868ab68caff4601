//! Short messages that go with their completion, and that the owner of the completion queue puts in place. Real
//! adapters call it "scatter to CQE".
//!
//! ```text
//!   SEND, datagram ──► keys, bounds, rights ──► bytes kept here ──► front end ──► completion queue
//! ```
//!
//! Only bytes that nobody may look at before the completion go that way, so no WRITE does.

use alloc::vec::Vec;
use core::ops::Range;

use vrdma_wire::Lkey;

use crate::attr::Access;
use crate::buffers::{Carried, MoveError, pieces};
use crate::hca::Hca;
use crate::memory::{CopyFault, Memory};
use crate::object::{CqId, MrId, PdId};
use crate::shared::Shared;
use crate::work::{Completion, Sge};

/// Longest message that goes with its completion. It is copied three times on its way: longer messages are stored for
/// the same cost.
pub const ENCLOSED_MAX: u32 = 4096 + 40;

/// Most bytes that a front end needs for a message beside its payload, and for each of its buffers.
pub const ENCLOSED_HEAD: u32 = 128;
/// See [`ENCLOSED_HEAD`].
pub const ENCLOSED_PIECE: u32 = 16;

/// Messages on their way to the front end.
#[derive(Default)]
pub(crate) struct Enclosures {
    /// Whether any completion queue has ever had room for one.
    is_used: bool,
    known: Vec<Enclosure>,
    pieces: Vec<Sge>,
    bytes: Vec<u8>,
}

struct Enclosure {
    pieces: Range<usize>,
    bytes: Range<usize>,
}

impl Enclosures {
    /// Forgets a message that was begun behind these ends.
    fn cut(&mut self, pieces: usize, bytes: usize) {
        self.pieces.truncate(pieces);
        self.bytes.truncate(bytes);
    }
}

impl<R> Hca<R> {
    /// Lets `bytes` go with the completions of a queue from now on, counted with [`ENCLOSED_HEAD`] and
    /// [`ENCLOSED_PIECE`]. Call it when the front end has taken all output.
    pub fn set_enclosing_room(&mut self, id: CqId, bytes: u32) {
        if let Some(cq) = self.shared.cqs.get_mut(id.0) {
            cq.room = bytes;
            self.shared.enclosures.is_used |= bytes > 0;
        }
    }

    /// Returns the message that goes with a completion, and the buffers of the receive that it belongs in. Together
    /// they are as long as the message.
    pub fn enclosed(&self, completion: &Completion) -> Option<(&[Sge], &[u8])> {
        let enclosures = &self.shared.enclosures;
        let enclosure = enclosures.known.get(completion.enclosed? as usize)?;
        let sges = enclosures.pieces.get(enclosure.pieces.clone())?;
        Some((sges, enclosures.bytes.get(enclosure.bytes.clone())?))
    }

    /// Forgets all messages: the front end has taken all output.
    #[inline]
    pub fn forget_enclosed(&mut self) {
        let enclosures = &mut self.shared.enclosures;
        if !enclosures.known.is_empty() {
            debug_assert!(!self.shared.outputs.has_entries(), "all output is taken");
            enclosures.known.clear();
            enclosures.cut(0, 0);
        }
    }

    /// Returns the key of a region for its owner.
    pub fn lkey_of(&self, region: MrId) -> Option<Lkey> {
        let mr = self.shared.mrs.get(region.0)?;
        Some(Lkey::from_parts(
            self.shared.mrs.number(region.0),
            mr.variant,
        ))
    }

    /// Returns the region or window that a key names, in any variant.
    #[inline]
    pub fn named_by(&self, lkey: Lkey) -> Option<MrId> {
        self.shared.mrs.slot_named(lkey.index()).map(MrId)
    }

    /// Stores a message that the front end has taken and the owner has not put in place, since some of its buffers are
    /// in a region that goes. Buffers that the owner has no right to any more are left out.
    pub fn put_in_place<M: Memory<Region = R>>(
        &self,
        region: MrId,
        sges: &[Sge],
        bytes: &[u8],
        memory: &M,
    ) {
        let Some(pd) = self.shared.mrs.get(region.0).map(|mr| mr.pd) else {
            return;
        };
        let mut rest = bytes;
        for sge in sges {
            let Some((now, later)) = rest.split_at_checked(sge.length as usize) else {
                return;
            };
            let sges = core::slice::from_ref(sge);
            // Nobody misses the bytes of a buffer that is gone.
            let _ = self.shared.scatter_bytes(pd, sges, 0, now, memory);
            rest = later;
        }
    }

    /// Returns the completion queues of a region's owner.
    pub fn cqs_beside(&self, region: MrId) -> Vec<CqId> {
        let shared = &self.shared;
        let owner = shared.mrs.get(region.0);
        let owner = owner.and_then(|mr| Some(shared.pds.get(mr.pd.0)?.owner));
        let belongings = owner.and_then(|owner| shared.owners.get(owner));
        let cqs = belongings.map(|all| all.cqs.iter(&shared.cqs).map(|(index, _)| CqId(index)));
        cqs.into_iter().flatten().collect()
    }
}

/// A whole message, and its destination.
pub(crate) struct Incoming<'a, R, M> {
    /// Queue of its completion.
    pub(crate) cq: CqId,
    pub(crate) pd: PdId,
    /// Buffers of the receive.
    pub(crate) sges: &'a [Sge],
    /// Bytes in front of the payload.
    pub(crate) head: &'a [u8],
    pub(crate) payload: Carried<'a, R, M>,
}

impl<R> Shared<R> {
    /// Lets a message go with its completion if it is short, the completion queue has room, and all its buffers are of
    /// a kind that their owner fills. `None`: the message must be stored or refused.
    #[inline]
    pub(crate) fn enclose<M: Memory<Region = R>>(
        &mut self,
        message: &Incoming<'_, R, M>,
        memory: &M,
    ) -> Result<Option<u32>, MoveError> {
        if !self.enclosures.is_used {
            return Ok(None);
        }
        let Incoming { head, payload, .. } = *message;
        let length = head.len() as u64 + payload.length();
        if length == 0 || length > u64::from(ENCLOSED_MAX) {
            return Ok(None);
        }
        let length = length as u32;
        let before = (self.enclosures.pieces.len(), self.enclosures.bytes.len());
        let Some(needed) = self.enclose_pieces(message, length, memory) else {
            self.enclosures.cut(before.0, before.1);
            return Ok(None);
        };
        let room = self.cqs.get_mut(message.cq.0).map(|cq| &mut cq.room);
        let Some(room) = room.filter(|room| needed <= **room) else {
            self.enclosures.cut(before.0, before.1);
            return Ok(None);
        };
        let bytes = &mut self.enclosures.bytes;
        bytes.extend_from_slice(head);
        if let Err(fault) = payload.append_to(bytes) {
            self.enclosures.cut(before.0, before.1);
            return Err(CopyFault::source(fault).into());
        }
        *room -= needed;
        let Enclosures {
            known,
            pieces,
            bytes,
            ..
        } = &mut self.enclosures;
        known.push(Enclosure {
            pieces: before.0..pieces.len(),
            bytes: before.1..bytes.len(),
        });
        Ok(Some(known.len() as u32 - 1))
    }

    /// Notes the buffers of a message; returns the room that it needs.
    fn enclose_pieces<M: Memory<Region = R>>(
        &mut self,
        message: &Incoming<'_, R, M>,
        length: u32,
        memory: &M,
    ) -> Option<u32> {
        let mut needed = ENCLOSED_HEAD + length;
        for piece in pieces(message.sges, 0, length) {
            let right = Access::LOCAL_WRITE;
            let spot = self.local(message.pd, piece.lkey, piece.addr, piece.length, right)?;
            memory.is_filled_by_owner(spot.region).then_some(())?;
            needed += ENCLOSED_PIECE;
            self.enclosures.pieces.push(piece);
        }
        Some(needed)
    }
}
