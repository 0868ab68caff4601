//! DMA requests of the server: guest memory read and written through the client.
//!
//! The server's ids and the client's are independent: each side numbers its own commands.

use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::{Peer, SessionError};
use crate::backend::Backend;
use crate::message::{Command, DmaAccess, Header, Kind};
use crate::state::Pending;

/// Most DMA requests of the server at a time. The client answers them in a batch, and reads of this many pages keep a
/// walk through a page directory busy.
pub const MAX_PENDING_DMA: usize = 64;

/// Reasons why a DMA request was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DmaRefused {
    /// The client's version was not accepted yet.
    #[error("the client has not negotiated a version yet")]
    NotReady,
    /// The transfer is larger than the client or the server accepts.
    #[error("at most {0} bytes go in one DMA transfer")]
    TooLarge(u32),
    /// [`MAX_PENDING_DMA`] requests are open ([`MAX_KEPT_DMA`](crate::state::MAX_KEPT_DMA) on a kept connection), or
    /// the client is slow to read: try again after the next [`Backend::dma_done`].
    #[error("too much DMA is waiting for the client")]
    Busy,
}

/// The requests that wait for their replies.
#[derive(Debug)]
pub(super) struct DmaTable {
    pub(super) next_id: u16,
    pub(super) pending: Vec<Pending>,
    /// Most requests at a time.
    pub(super) limit: usize,
}

impl Default for DmaTable {
    fn default() -> Self {
        Self {
            next_id: 0,
            pending: Vec::new(),
            limit: MAX_PENDING_DMA,
        }
    }
}

impl DmaTable {
    fn new_id(&mut self) -> u16 {
        loop {
            let id = self.next_id;
            self.next_id = self.next_id.wrapping_add(1);
            if self.pending.iter().all(|pending| pending.id != id) {
                return id;
            }
        }
    }

    fn take(&mut self, header: &Header) -> Option<Pending> {
        let command = Command::from_code(header.command)?;
        let matches = |pending: &Pending| pending.id == header.id && pending.command == command;
        self.pending
            .iter()
            .position(matches)
            .map(|at| self.pending.swap_remove(at))
    }

    pub(super) fn reply(
        &mut self,
        header: &Header,
        error: Option<u32>,
        payload: &[u8],
        backend: &mut dyn Backend,
    ) -> Result<(), SessionError> {
        let pending = self
            .take(header)
            .ok_or(SessionError::UnexpectedReply(header.id))?;
        let result = match error {
            Some(raw) => Err(errno(raw)),
            None => pending.data(payload).ok_or(Errno::IO),
        };
        backend.dma_done(pending.token, result);
        Ok(())
    }

    pub(super) fn abandon(&mut self, backend: &mut dyn Backend) {
        for pending in self.pending.drain(..) {
            backend.dma_done(pending.token, Err(Errno::CONNRESET));
        }
    }

    /// Fails the requests that were never sent, of a session that another process began.
    pub(super) fn abandon_unsent(&mut self, backend: &mut dyn Backend) {
        for pending in self.pending.extract_if(.., |pending| !pending.is_sent) {
            backend.dma_done(pending.token, Err(Errno::CONNRESET));
        }
    }

    /// Notes that the request with this id is sent, whatever happens to this process.
    pub(super) fn leaves(&mut self, id: u16) {
        let mut pending = self.pending.iter_mut();
        if let Some(pending) = pending.find(|pending| pending.id == id) {
            pending.is_sent = true;
        }
    }
}

impl Pending {
    /// The data of a reply, if it is the reply to this request. The count in a write's reply has 4 bytes in the
    /// specification and 8 in QEMU, so only the address and the low half are checked.
    fn data<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        if self.command == Command::DmaWrite {
            let (address, count) = payload.split_first_chunk::<8>()?;
            let count = count.first_chunk::<4>()?;
            let same = u64::from_le_bytes(*address) == self.iova
                && u32::from_le_bytes(*count) == self.count;
            return same.then_some(&[]);
        }
        let (access, data) = DmaAccess::ref_from_prefix(payload).ok()?;
        let same = access.address.get() == self.iova
            && access.count.get() == u64::from(self.count)
            && data.len() == self.count as usize;
        same.then_some(data)
    }
}

/// The errno that a client sent, which may be any number.
fn errno(raw: u32) -> Errno {
    match raw {
        1..=4095 => Errno::from_raw_os_error(raw as i32),
        _ => Errno::IO,
    }
}

impl Peer {
    pub(super) fn dma_read(&mut self, token: u64, iova: u64, count: u32) -> Result<(), DmaRefused> {
        self.dma_request(Command::DmaRead, token, iova, count, &[])
    }

    pub(super) fn dma_write(
        &mut self,
        token: u64,
        iova: u64,
        data: &[u8],
    ) -> Result<(), DmaRefused> {
        let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.dma_request(Command::DmaWrite, token, iova, count, data)
    }

    fn dma_request(
        &mut self,
        command: Command,
        token: u64,
        iova: u64,
        count: u32,
        data: &[u8],
    ) -> Result<(), DmaRefused> {
        let limit = self.max_transfer.ok_or(DmaRefused::NotReady)?;
        if count > limit {
            return Err(DmaRefused::TooLarge(limit));
        }
        let payload = size_of::<DmaAccess>() + data.len();
        if self.dma.pending.len() == self.dma.limit || !self.output.has_room(payload) {
            return Err(DmaRefused::Busy);
        }
        let id = self.dma.new_id();
        let kind = Kind::Command { no_reply: false };
        let space = self.output.message(id, command as u16, kind, payload);
        let space = space.expect("there is room, as was just asked");
        let access = DmaAccess {
            address: iova.into(),
            count: u64::from(count).into(),
        };
        let (head, body) = space.split_at_mut(size_of::<DmaAccess>());
        head.copy_from_slice(access.as_bytes());
        body.copy_from_slice(data);
        self.dma.pending.push(Pending {
            id,
            command,
            token,
            iova,
            count,
            is_sent: false,
        });
        Ok(())
    }
}
