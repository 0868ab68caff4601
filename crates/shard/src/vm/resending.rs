//! Pages that a frozen device has written, which QEMU is to send as if the guest had.
//!
//! ```text
//!   the log's pages ──► written with what is in them, by a message to QEMU ──► QEMU's own log has them
//! ```
//! QEMU's log is of what QEMU knows of, and the device writes past it. A page that QEMU sends goes as the rest of the memory
//! does; one of a context goes through whoever carries that, while the VM stands still. Nobody but QEMU
//! may write them meanwhile: the VM has stopped, and so have all its adapters. Of the last page of a message one byte is enough.
//!
//! It does not know why, or whose turn is next.

use std::collections::VecDeque;

use vrdma_memory::{DirtyRun, PAGE, Space};
use vrdma_threads::{Reply, is_withdrawn};
use vrdma_vfio_user::{Connection, DmaRefused, Errno};

use super::Vm;
use super::backend::{Backend, RESENT};

/// What is to be sent again.
#[derive(Debug)]
pub struct Resending {
    /// In whole pages.
    pub runs: Vec<DirtyRun>,
    /// Told when QEMU knows of all, or why it does not: a sentence.
    pub reply: Reply<Result<(), String>>,
}

/// The most bytes of a message: what a shard copies in a few microseconds.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// What QEMU is being told.
pub(super) struct Telling {
    left: VecDeque<DirtyRun>,
    /// Messages that QEMU has not answered.
    open: usize,
    failed: Option<String>,
    /// Whoever asked; nobody is left to if that was at the worker before.
    reply: Option<Reply<Result<(), String>>>,
}

impl Telling {
    fn new(Resending { runs, reply }: Resending) -> Self {
        Self {
            left: runs.into(),
            open: 0,
            failed: None,
            reply: Some(reply),
        }
    }

    /// Tells of as many as QEMU takes at a time; whether there were any.
    fn go_on(&mut self, memory: &Space, connection: &mut Connection) -> bool {
        let before = self.open;
        if self.reply.as_ref().is_some_and(is_withdrawn) {
            self.fail("nobody waits for it any more");
        }
        let most = connection.dma_write_max().min(MESSAGE_BYTES_MAX) as u64;
        let pages_max = most.div_ceil(PAGE);
        let mut bytes = Vec::new();
        while self.failed.is_none() {
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

    /// Nothing is to come, whether or not it went well. As long as QEMU has not answered a message, it may still write its byte.
    fn is_over(&self) -> bool {
        let all = self.left.is_empty() || self.failed.is_some();
        self.open == 0 && all
    }
}

impl Vm {
    /// QEMU is to send what the frozen device has written.
    pub(crate) fn resend(&mut self, resending: Resending) {
        if let Err(sentence) = self.check_resend() {
            // As for one that ends.
            let _ = resending.reply.send(Err(sentence.to_owned()));
            return;
        }
        self.backend.telling = Some(Telling::new(resending));
    }

    fn check_resend(&self) -> Result<(), &'static str> {
        if !self.backend.tracked || !self.backend.device.is_frozen() {
            return Err("the adapter is not tracked and frozen: freeze it first");
        }
        match &self.backend.telling {
            None => Ok(()),
            Some(_) => Err("QEMU is being told already what the adapter has written"),
        }
    }

    /// Goes on with that; whether there is something for QEMU to read.
    pub(super) fn go_on_telling(&mut self) -> bool {
        let (Some(telling), Some(connection)) = (&mut self.backend.telling, &mut self.connection)
        else {
            return false;
        };
        let has_said = telling.go_on(&self.backend.memory, connection);
        if telling.is_over() {
            self.backend.end_telling();
        }
        has_said
    }
}

impl Backend {
    pub(super) fn resent(&mut self, result: Result<(), Errno>) {
        if let Some(telling) = &mut self.telling {
            telling.answered(result);
        }
    }

    /// The device is to go on, and QEMU must not write then what it wrote before. The error is a sentence.
    pub(super) fn stop_telling(&mut self) -> Result<(), &'static str> {
        let Some(telling) = &mut self.telling else {
            return Ok(());
        };
        telling.fail("the adapter was thawed");
        if !telling.is_over() {
            return Err(
                "QEMU is still being told what the adapter has written: thaw it in a moment",
            );
        }
        self.end_telling();
        Ok(())
    }

    /// QEMU has left.
    pub(super) fn give_up_telling(&mut self) {
        if let Some(telling) = &mut self.telling {
            telling.fail("QEMU left; see its log");
        }
        self.end_telling();
    }

    /// QEMU may still write what the worker before had asked for: until it has answered, the device stands still.
    pub(super) fn await_answers(&mut self, open: usize) {
        self.device.freeze();
        self.telling = Some(Telling {
            left: VecDeque::new(),
            open,
            failed: None,
            reply: None,
        });
    }

    fn end_telling(&mut self) {
        let Some(Telling { failed, reply, .. }) = self.telling.take() else {
            return;
        };
        match reply {
            Some(reply) => {
                // Whoever asked may be gone; QEMU knows what it knows.
                let _ = reply.send(failed.map_or(Ok(()), Err));
            }
            None if self.device.is_frozen() => self.go_on(),
            None => {}
        }
    }
}
