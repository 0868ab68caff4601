//! Pages that a frozen device has written, which QEMU is to send as if the guest had written them.
//!
//! ```text
//!   the log's pages ──► written with their own content, by a message to QEMU ──► QEMU's own log has them
//! ```
//! QEMU logs only writes that it knows of, and the device writes past it. A page that QEMU sends goes as the rest of
//! the memory does; a page of a context goes with the context, while the VM stands still. Nobody but QEMU may write the
//! pages meanwhile: the VM has stopped, and so have all its adapters. Of the last page of a message one byte is enough.
//!
//! This module does not know the reason, or which adapter is next.

use std::collections::VecDeque;

use vrdma_memory::{DirtyRun, PAGE, Space};
use vrdma_threads::{Reply, is_withdrawn};
use vrdma_vfio_user::{Connection, DmaRefused, Errno};

use super::Vm;
use super::backend::{Backend, RESENT};

/// The pages that are to be sent again.
#[derive(Debug)]
pub struct Resending {
    /// Runs of whole pages.
    pub runs: Vec<DirtyRun>,
    /// Told that QEMU knows of all pages, or why it does not: a sentence.
    pub reply: Reply<Result<(), String>>,
}

/// Most bytes of a message, and of the messages of one turn, which others wait for: some 20 us.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
const TURN_BYTES_MAX: usize = 128 << 10;

/// The pages that QEMU is being told of.
pub(super) struct Resender {
    left: VecDeque<DirtyRun>,
    /// Number of messages that QEMU has not answered.
    open: usize,
    failed: Option<String>,
    /// The caller's reply; `None` if the caller asked the worker before.
    reply: Option<Reply<Result<(), String>>>,
}

impl Resender {
    fn new(Resending { runs, reply }: Resending) -> Self {
        Self {
            left: runs.into(),
            open: 0,
            failed: None,
            reply: Some(reply),
        }
    }

    /// Sends the messages of a turn, as far as QEMU takes them; whether there were any. Each answer of QEMU brings
    /// another turn.
    fn send(&mut self, memory: &Space, connection: &mut Connection) -> bool {
        let before = self.open;
        if self.reply.as_ref().is_some_and(is_withdrawn) {
            self.fail("nobody waits for it any more");
        }
        let most = connection.dma_write_max().min(MESSAGE_BYTES_MAX) as u64;
        let pages_max = most.div_ceil(PAGE);
        let mut bytes = Vec::new();
        let mut sent = 0;
        while self.failed.is_none() && sent < TURN_BYTES_MAX {
            let Some(run) = self.left.front_mut() else {
                break;
            };
            let pages = run.pages.min(pages_max);
            bytes.resize((pages.saturating_sub(1) * PAGE) as usize + 1, 0);
            if memory.view().read(run.iova, &mut bytes).is_err() {
                self.fail(
                    "the guest's memory was mapped anew meanwhile: begin the migration again",
                );
                break;
            }
            match connection.dma_write(RESENT, run.iova, &bytes) {
                Ok(()) => {
                    self.open += 1;
                    sent += bytes.len();
                    run.iova += pages * PAGE;
                    run.pages -= pages;
                    if run.pages == 0 {
                        self.left.pop_front();
                    }
                }
                Err(DmaRefused::Busy) => break,
                Err(error) => self.fail(&format!("QEMU cannot be told: {error}")),
            }
        }
        self.open > before
    }

    fn fail(&mut self, sentence: &str) {
        self.failed.get_or_insert_with(|| sentence.to_owned());
    }

    fn answered(&mut self, result: Result<(), Errno>) {
        self.open = self.open.saturating_sub(1);
        if let Err(error) = result {
            self.fail(&format!(
                "QEMU did not take what the adapter has written: {error}"
            ));
        }
    }

    /// Whether nothing is to come, successful or not. As long as QEMU has not answered a message, it may still write
    /// its bytes.
    fn is_over(&self) -> bool {
        let all = self.left.is_empty() || self.failed.is_some();
        self.open == 0 && all
    }
}

impl Vm {
    /// Begins to have QEMU send what the frozen device has written.
    pub(crate) fn resend(&mut self, resending: Resending) {
        if let Err(sentence) = self.check_resend() {
            // The caller may be gone, as when resending ends.
            let _ = resending.reply.send(Err(sentence.to_owned()));
            return;
        }
        self.backend.resender = Some(Resender::new(resending));
    }

    fn check_resend(&self) -> Result<(), &'static str> {
        if !self.backend.tracked || !self.backend.device.is_frozen() {
            return Err("the adapter is not tracked and frozen: freeze it first");
        }
        match &self.backend.resender {
            None => Ok(()),
            Some(_) => Err("what the adapter has written is being resent already"),
        }
    }

    /// Continues to resend; whether there is something for QEMU to read.
    pub(super) fn resend_more(&mut self) -> bool {
        let (Some(resender), Some(connection)) = (&mut self.backend.resender, &mut self.connection)
        else {
            return false;
        };
        let has_sent = resender.send(&self.backend.memory, connection);
        if resender.is_over() {
            self.backend.end_resending();
        }
        has_sent
    }
}

impl Backend {
    pub(super) fn resent(&mut self, result: Result<(), Errno>) {
        if let Some(resender) = &mut self.resender {
            resender.answered(result);
        }
    }

    /// Stops resending, since the device is to go on and QEMU must not write older content then. The error is a
    /// sentence.
    pub(super) fn stop_resending(&mut self) -> Result<(), &'static str> {
        let Some(resender) = &mut self.resender else {
            return Ok(());
        };
        resender.fail("the adapter was thawed");
        if !resender.is_over() {
            return Err("what the adapter has written is still being resent: thaw it in a moment");
        }
        self.end_resending();
        Ok(())
    }

    /// Ends resending, since QEMU has left.
    pub(super) fn abandon_resending(&mut self) {
        if let Some(resender) = &mut self.resender {
            resender.fail("QEMU left; see its log");
        }
        self.end_resending();
    }

    /// Keeps the device still until QEMU has answered: it may still write what the worker before had asked for.
    pub(super) fn await_answers(&mut self, open: usize) {
        self.device.freeze();
        self.resender = Some(Resender {
            left: VecDeque::new(),
            open,
            failed: None,
            reply: None,
        });
    }

    fn end_resending(&mut self) {
        let Some(Resender { failed, reply, .. }) = self.resender.take() else {
            return;
        };
        match reply {
            Some(reply) => {
                // The caller may be gone; QEMU knows the pages all the same.
                let _ = reply.send(failed.map_or(Ok(()), Err));
            }
            None if self.device.is_frozen() => self.go_on(),
            None => {}
        }
    }
}
