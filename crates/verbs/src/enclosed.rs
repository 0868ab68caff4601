//! Short messages that their owner puts in place, from its completion queue. Adapters know that as
//! "scatter to CQE".
//!
//! ```text
//!   SEND, datagram ──► keys, bounds, rights ──► bytes kept here ──► front end ──► completion queue
//! ```
//!
//! Only what nobody may look at before its completion goes that way: no WRITE does.

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

/// Longest message that goes with its completion. It is copied three times on its way: longer ones are
/// stored for the same price.
pub const ENCLOSED_MAX: u32 = 4096 + 40;

/// What a front end needs for a message beside its bytes, at most, and for each of its buffers.
pub const ENCLOSED_HEAD: u32 = 128;
/// See [`ENCLOSED_HEAD`].
pub const ENCLOSED_PIECE: u32 = 16;

/// Messages on their way to the front end.
#[derive(Default)]
pub(crate) struct Enclosures {
    /// A completion queue had room for some once.
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
    /// Forgets what was begun behind these ends.
    fn cut(&mut self, pieces: usize, bytes: usize) {
        self.pieces.truncate(pieces);
        self.bytes.truncate(bytes);
    }
}

impl<R> Hca<R> {
    /// Lets so many bytes go with the completions of a queue from now on, counted with
    /// [`ENCLOSED_HEAD`] and [`ENCLOSED_PIECE`]. Call it when the front end has taken all output.
    pub fn set_enclosing_room(&mut self, id: CqId, bytes: u32) {
        if let Some(cq) = self.shared.cqs.get_mut(id.0) {
            cq.room = bytes;
            self.shared.enclosures.is_used |= bytes > 0;
        }
    }

    /// The message that goes with a completion, and where its bytes belong: buffers of the receive, as long
    /// as they are together.
    pub fn enclosed(&self, completion: &Completion) -> Option<(&[Sge], &[u8])> {
        let enclosures = &self.shared.enclosures;
        let enclosure = enclosures.known.get(completion.enclosed? as usize)?;
        let sges = enclosures.pieces.get(enclosure.pieces.clone())?;
        Some((sges, enclosures.bytes.get(enclosure.bytes.clone())?))
    }

    /// The front end has taken all output.
    #[inline]
    pub fn forget_enclosed(&mut self) {
        let enclosures = &mut self.shared.enclosures;
        if !enclosures.known.is_empty() {
            debug_assert!(!self.shared.outputs.has_entries(), "all output is taken");
            enclosures.known.clear();
            enclosures.cut(0, 0);
        }
    }

    /// The key of a region for its owner.
    pub fn lkey_of(&self, region: MrId) -> Option<Lkey> {
        let mr = self.shared.mrs.get(region.0)?;
        Some(Lkey::from_parts(
            self.shared.mrs.number(region.0),
            mr.variant,
        ))
    }

    /// The region or window that a key names, in whichever variant.
    #[inline]
    pub fn named_by(&self, lkey: Lkey) -> Option<MrId> {
        self.shared.mrs.slot_named(lkey.index()).map(MrId)
    }

    /// Stores a message that a front end was given and its owner has not put in place: some of the buffers
    /// are in a region that goes. Those that the owner has no right to any more are left out.
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
            // A buffer that is not there any more is nobody's loss.
            let _ = self
                .shared
                .scatter_bytes(pd, (core::slice::from_ref(sge), 0), now, memory);
            rest = later;
        }
    }

    /// The completion queues of whoever a region belongs to.
    pub fn cqs_beside(&self, region: MrId) -> Vec<CqId> {
        let shared = &self.shared;
        let owner = shared.mrs.get(region.0);
        let owner = owner.and_then(|mr| Some(shared.pds.get(mr.pd.0)?.owner));
        let belongings = owner.and_then(|owner| shared.owners.get(owner));
        let cqs = belongings.map(|all| all.cqs.iter(&shared.cqs).map(|(index, _)| CqId(index)));
        cqs.into_iter().flatten().collect()
    }
}

/// A whole message, and where it belongs.
pub(crate) struct Incoming<'a, R, M> {
    /// Where its completion goes.
    pub(crate) cq: CqId,
    pub(crate) pd: PdId,
    /// Of the receive.
    pub(crate) sges: &'a [Sge],
    /// Comes before the payload.
    pub(crate) head: &'a [u8],
    pub(crate) payload: Carried<'a, R, M>,
}

impl<R> Shared<R> {
    /// Takes a message along with its completion, if it is short, the completion queue has room and all its
    /// buffers are of a kind that their owner fills. `None`: it is to be stored, or refused.
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

    /// Notes the buffers of a message: the room that it needs.
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
