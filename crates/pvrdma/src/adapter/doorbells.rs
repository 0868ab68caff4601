//! Doorbells: serving a word, and finding what overwritten words asked for.
//!
//! Each write to a trapped page arrives. A mapped page is memory with one word for all queue pairs of a program, one
//! for its completion queues and one for its shared receive queues, and the next doorbell overwrites the last. So a
//! word seen there is served at once, and is also a hint: every ring of the context is looked at once more, a slice in
//! each poll.

use vrdma_adapter::{Failing, Publishing, Sending};
use vrdma_memory::SharedPages;
use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{CqId, Owner, QpId, SrqId};

use super::{Adapter, Turn, notify};
use crate::abi::PAGE;
use crate::abi::doorbell::{CqFlags, Doorbell, HANDLE_MASK, QpFlags, SrqFlags};
use crate::arming::{CqDoorbell, Touches};

/// Doorbell pages looked at in one poll: one cache line each.
const PAGES_PER_POLL: usize = 64;

/// Rings of one context looked at in one poll.
const SCAN_SLICE: usize = 32;

impl Adapter {
    /// Serves a doorbell rung in page `page`. Its effects are still in the engine: publish afterwards.
    /// Doorbells race with destruction, so one that names no object is only counted.
    pub(crate) fn ring(&mut self, turn: Turn<'_, '_>, page: u32, doorbell: Doorbell, value: u32) {
        let Some(owner) = self.contexts.at_page(page).map(|context| context.owner) else {
            self.violations.doorbells += 1;
            return;
        };
        let known = match doorbell {
            Doorbell::Qp => self.ring_qp(turn, owner, value),
            Doorbell::Cq => self.ring_cq(turn, owner, value),
            Doorbell::Srq => self.ring_srq(turn, owner, value),
        };
        self.violations.doorbells += u64::from(known.is_none());
    }

    fn ring_qp(&mut self, turn: Turn<'_, '_>, owner: Owner, value: u32) -> Option<()> {
        let (id, flags) = (
            QpId(value & HANDLE_MASK),
            QpFlags::from_bits_truncate(value),
        );
        let qp = self.qps.get_mut(id.0)?;
        may_ring(owner, qp.owner())?;
        let state = self.core.hca.qp_state(id)?;
        // Until the command that resets returns, the guest's indices are still the old ones.
        if state == QpState::Reset {
            return Some(());
        }
        if flags.contains(QpFlags::RECV)
            && let Err(error) = qp.check_receives(turn.memory)
        {
            self.fail_qp(turn, id, error);
        }
        if flags.contains(QpFlags::SEND) || state == QpState::Err {
            self.wake(id);
        }
        Some(())
    }

    fn ring_srq(&mut self, turn: Turn<'_, '_>, owner: Owner, value: u32) -> Option<()> {
        let (id, flags) = (
            SrqId(value & HANDLE_MASK),
            SrqFlags::from_bits_truncate(value),
        );
        let srq = self.srqs.get_mut(id.0)?;
        may_ring(owner, srq.owner)?;
        if flags.contains(SrqFlags::RECV)
            && !srq.dead
            && let Err(error) = srq.available(turn.memory)
        {
            self.fail_srq(turn, id, error);
        }
        Some(())
    }

    fn ring_cq(&mut self, turn: Turn<'_, '_>, owner: Owner, value: u32) -> Option<()> {
        let (id, flags) = (
            CqId(value & HANDLE_MASK),
            CqFlags::from_bits_truncate(value),
        );
        may_ring(owner, self.cqs.get(id.0)?.owner)?;
        let words = [
            (CqFlags::ARM_SOLICITED, CqDoorbell::ArmSolicited),
            (CqFlags::ARM, CqDoorbell::Arm),
            (CqFlags::POLL, CqDoorbell::Poll),
        ];
        for (_, word) in words.iter().filter(|(flag, _)| flags.contains(*flag)) {
            self.show(turn, id, |arming, state| {
                arming.rung(*word, state, turn.now)
            });
        }
        Some(())
    }

    /// Clears the doorbells of a page, so that a new context finds nothing of its predecessor there.
    pub(crate) fn clear_doorbells(&mut self, page: u32) {
        if let Some(pages) = &self.doorbell_pages {
            for doorbell in Doorbell::ALL {
                take_word(pages, (u64::from(page) * PAGE + doorbell.offset()) as usize);
            }
        }
    }

    /// Takes the completion doorbell of a mapped page and returns how often the page was touched.
    pub(super) fn hear(&mut self, turn: Turn<'_, '_>, owner: Owner) -> Touches {
        let page = self.contexts.page_of(owner);
        self.take_and_ring(turn, page, Doorbell::Cq);
        notify::touches(&mut self.contexts, owner)
    }

    /// Looks at mapped doorbell pages and goes on with the scans they caused; true if something is
    /// still to be looked at. A word alone is no reason to look again at once: a guest that polls an
    /// empty queue writes one every time.
    pub(super) fn look_at_pages(&mut self, turn: Turn<'_, '_>) -> bool {
        let mut busy = false;
        for _ in 0..self.contexts.live().len().min(PAGES_PER_POLL) {
            let live = self.contexts.live();
            let page = live[self.page_cursor % live.len()];
            self.page_cursor = self.page_cursor.wrapping_add(1);
            for doorbell in Doorbell::ALL {
                self.take_and_ring(turn, page, doorbell);
            }
            self.publish(turn);
            busy |= self.scan_qps(turn, page) | self.show_heard(turn, page);
        }
        busy
    }

    /// Takes a word out of a mapped page, if there is one, and serves it.
    fn take_and_ring(&mut self, turn: Turn<'_, '_>, page: u32, doorbell: Doorbell) {
        let offset = u64::from(page) * PAGE + doorbell.offset();
        let word = match &self.doorbell_pages {
            Some(pages) if page != 0 => take_word(pages, offset as usize),
            _ => 0,
        };
        if word != 0 {
            self.look_behind(page, doorbell);
            self.ring(turn, page, doorbell, word);
        }
    }

    /// Schedules a look at what `doorbell` may hide: the word may have overwritten others.
    fn look_behind(&mut self, page: u32, doorbell: Doorbell) {
        let Some(context) = self.contexts.at_page(page) else {
            return;
        };
        match doorbell {
            Doorbell::Qp => context.qp_scan.restart(context.qps.len()),
            Doorbell::Cq => {
                context.touches.touch();
                context.heard.extend(context.unheard.drain(..));
            }
            // Receives are fetched when a message needs one, doorbell or not.
            Doorbell::Srq => {}
        }
    }

    fn scan_qps(&mut self, turn: Turn<'_, '_>, page: u32) -> bool {
        for _ in 0..SCAN_SLICE {
            let Some(id) = self.next_scanned_qp(page) else {
                return false;
            };
            self.scan_qp(turn, id);
        }
        true
    }

    fn next_scanned_qp(&mut self, page: u32) -> Option<QpId> {
        let context = self.contexts.at_page(page)?;
        let at = context.qp_scan.next(context.qps.len())?;
        context.qps.get(at).copied()
    }

    fn scan_qp(&mut self, turn: Turn<'_, '_>, id: QpId) {
        let Some(qp) = self.qps.get_mut(id.0).filter(|qp| !qp.run.is_queued()) else {
            return;
        };
        let state = self.core.hca.qp_state(id);
        match state {
            Some(QpState::Err) => self.wake(id),
            Some(QpState::Rts | QpState::Sqe) => match qp.has_sends(turn.memory) {
                Ok(true) => self.wake(id),
                Ok(false) => {}
                Err(error) => self.fail_qp(turn, id, error),
            },
            _ => {}
        }
    }

    fn show_heard(&mut self, turn: Turn<'_, '_>, page: u32) -> bool {
        for _ in 0..SCAN_SLICE {
            let context = self.contexts.at_page(page);
            let Some(id) = context.and_then(|context| context.heard.pop_front()) else {
                return false;
            };
            self.show(turn, id, |arming, state| {
                arming.page_touched(state, turn.now)
            });
        }
        true
    }
}

/// Whether the owner of a page may ring for an object. The kernel's page is for everything.
fn may_ring(page: Owner, object: Owner) -> Option<()> {
    (page == Owner::KERNEL || page == object).then_some(())
}

/// Takes a word away, so that the next one can be told from it. The load before the exchange keeps the cache line
/// shared with the guest while nothing happens.
fn take_word(pages: &SharedPages, offset: usize) -> u32 {
    match pages.load_u32(offset) {
        Ok(0) => 0,
        Ok(_) => pages.swap_u32(offset, 0).unwrap_or(0),
        Err(_) => 0,
    }
}
