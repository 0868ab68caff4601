//! Drafts of work requests between `ibv_wr_start` and `ibv_wr_complete`.

use vrdma_provider::BUFFERS_MAX;
use vrdma_provider::layout::{Buffer, SendHeader};

use crate::errno::{Errno, Result};
use crate::open::OpenDevice;
use crate::qp::QueuePair;
use crate::send::{Payload, RTS, SendSide};

/// A request that is not finished.
pub(crate) struct Draft {
    pub(crate) header: SendHeader,
    /// Its part of the builder's buffers.
    buffers: core::ops::Range<usize>,
    /// Its part of the builder's bytes, when it is inline.
    inline: Option<core::ops::Range<usize>>,
}

/// The drafts between start and complete; memory is kept for the next time.
#[derive(Default)]
pub(crate) struct Builder {
    pub(crate) drafts: Vec<Draft>,
    buffers: Vec<Buffer>,
    bytes: Vec<u8>,
    failure: Option<Errno>,
}

impl Builder {
    pub(crate) fn clear(&mut self) {
        self.drafts.clear();
        self.buffers.clear();
        self.bytes.clear();
        self.failure = None;
    }

    pub(crate) fn begin(&mut self, header: SendHeader) {
        self.drafts.push(Draft {
            header,
            buffers: 0..0,
            inline: None,
        });
    }

    pub(crate) fn fail(&mut self, error: Errno) {
        self.failure.get_or_insert(error);
    }

    pub(crate) fn add_buffers(&mut self, list: impl Iterator<Item = Buffer>) {
        let Some(draft) = self.drafts.last_mut() else {
            return;
        };
        let start = self.buffers.len();
        self.buffers.extend(list.take(BUFFERS_MAX as usize + 1));
        draft.buffers = start..self.buffers.len();
    }

    /// Copies inline data at once: the program may use its memory again when the call returns.
    ///
    /// # Safety
    /// Each piece is readable.
    pub(crate) unsafe fn add_inline(
        &mut self,
        pieces: impl Iterator<Item = (*const u8, usize)>,
        most: usize,
    ) {
        let start = self.bytes.len();
        for (from, length) in pieces {
            if length > most - (self.bytes.len() - start) {
                return self.fail(Errno(libc::EINVAL));
            }
            if length > 0 {
                // SAFETY: as promised.
                self.bytes
                    .extend_from_slice(unsafe { core::slice::from_raw_parts(from, length) });
            }
        }
        if let Some(draft) = self.drafts.last_mut() {
            draft.inline = Some(start..self.bytes.len());
        }
    }
}

/// # Safety
/// As for [`SendSide::push`].
pub(crate) unsafe fn finish(
    queue_pair: &QueuePair,
    device: &OpenDevice,
    side: &mut SendSide,
) -> Result<()> {
    if queue_pair.state() < RTS {
        return Err(Errno(libc::EINVAL));
    }
    let builder = std::mem::take(&mut side.builder);
    // SAFETY: as promised.
    let outcome = unsafe { push_all(queue_pair, device, side, &builder) };
    side.builder = builder;
    outcome?;
    side.queue.publish();
    Ok(())
}

/// # Safety
/// As for [`SendSide::push`].
unsafe fn push_all(
    queue_pair: &QueuePair,
    device: &OpenDevice,
    side: &mut SendSide,
    builder: &Builder,
) -> Result<()> {
    if let Some(error) = builder.failure {
        return Err(error);
    }
    if side.queue.room() < builder.drafts.len() as u32 {
        return Err(Errno(libc::ENOMEM));
    }
    let most = queue_pair.capacity.max_send_sge as usize;
    if builder
        .drafts
        .iter()
        .any(|draft| draft.buffers.len() > most)
    {
        return Err(Errno(libc::EINVAL));
    }
    for draft in &builder.drafts {
        let bytes = draft.inline.clone().map(|range| &builder.bytes[range]);
        let own = bytes.map(|bytes| Buffer {
            addr: bytes.as_ptr() as u64,
            length: bytes.len() as u32,
            lkey: 0,
        });
        let payload = match &own {
            Some(buffer) => Payload {
                buffers: core::slice::from_ref(buffer),
                inline: true,
            },
            None => Payload {
                buffers: &builder.buffers[draft.buffers.clone()],
                inline: false,
            },
        };
        // SAFETY: inline bytes are the builder's, the others as promised.
        unsafe { side.push(queue_pair, device, &draft.header, payload)? };
    }
    Ok(())
}
