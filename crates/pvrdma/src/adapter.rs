//! An activated device: the engine, the device's part of its objects, and the rings between it and the guest.
//!
//! ```text
//!   doorbells ──► vrdma_adapter (run queue, engine, batches) ◄──► requests and responses of peers
//!                     ▲                │
//!   commands ─────────┘                ▼ front_end
//!                        completion rings, event ring ──► interrupts
//! ```
//!
//! ACTIVATE makes it and each kind of reset drops it, so no state can survive a reset.
//! It knows neither registers nor how requests reach peers.

mod completion;
mod doorbells;
mod events;
mod front_end;
mod gids;
mod notify;

use std::sync::Arc;

use vrdma_adapter::{Core, Journal, LogLimit, Slots};
use vrdma_memory::{Region, SharedPages, View};
use vrdma_verbs::Hca;
use vrdma_verbs::Time;
use vrdma_verbs::object::{Identity, Limits};
use vrdma_wire::Mtu;

use crate::abi::event::{EventEntry, NotifyEntry};
use crate::abi::register::Vector;
use crate::abi::version;
use crate::commands::Long;
use crate::config::{DeviceConfig, DeviceLimits};
use crate::handshake::Terms;
use crate::object::Mr;
use crate::object::context::Contexts;
use crate::object::cq::Cq;
use crate::object::qp::Qp;
use crate::object::srq::Srq;
use crate::queue::device::DeviceRing;
use crate::quota::Quota;

pub(crate) use events::{CQ_EVENTS, QP_EVENTS, SRQ_EVENTS};
use notify::Watch;

/// What every step works with: a view of the guest's memory, and the time.
pub(crate) type Turn<'a, 'v> = vrdma_adapter::Turn<'a, View<'v>>;

/// Counts of what the guest did wrong without being told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Violations {
    /// Doorbells for objects that do not exist or belong to another page.
    pub doorbells: u64,
    /// Commands that were refused.
    pub commands: u64,
    /// Queues that became unusable.
    pub queues: u64,
}

/// The adapter; see the module.
pub(crate) struct Adapter {
    pub(crate) config: DeviceConfig,
    pub(crate) driver_version: u32,
    pub(crate) core: Core<Region>,
    pub(crate) contexts: Contexts,
    pub(crate) mrs: Slots<Mr>,
    pub(crate) cqs: Slots<Cq>,
    pub(crate) qps: Slots<Qp>,
    pub(crate) srqs: Slots<Srq>,
    pub(crate) gids: gids::GidLedger,
    pub(crate) quota: Quota,
    pub(crate) violations: Violations,
    pub(crate) log_limit: LogLimit,
    watch: Watch,
    /// Where the next look at doorbell pages begins.
    page_cursor: usize,
    events: DeviceRing<EventEntry>,
    notifications: DeviceRing<NotifyEntry>,
    /// When to try again to move waiting events and notifications into the rings.
    retry_at: Option<Time>,
    ring_faults: u32,
    /// A command under way, which is executed piece by piece.
    pub(crate) long: Option<Box<Long>>,
    /// The doorbell pages of programs, if they are memory.
    doorbell_pages: Option<Arc<SharedPages>>,
    /// Vectors raised and not yet passed on.
    raised: u32,
    /// The device's own rings or slots are unusable.
    broken: bool,
    /// Journal of the records that another process needs to go on.
    pub(crate) journal: Option<Box<dyn Journal>>,
    /// Number of records of the engine's frame.
    pub(crate) frame_pieces: u32,
    /// Buffer in which a record is put together.
    pub(crate) record_buffer: Vec<u8>,
}

impl Adapter {
    /// Makes the adapter of a driver that agreed to `terms`.
    pub(crate) fn new(
        config: DeviceConfig,
        identity: Identity,
        terms: Terms,
        doorbell_pages: Option<Arc<SharedPages>>,
        log_limit: LogLimit,
    ) -> Self {
        let hca = engine(&config, identity, terms.driver_version);
        Self::with_engine(hca, config, terms, doorbell_pages, log_limit)
    }

    /// Makes an adapter around an engine that may have objects.
    pub(crate) fn with_engine(
        hca: Hca<Region>,
        config: DeviceConfig,
        terms: Terms,
        doorbell_pages: Option<Arc<SharedPages>>,
        log_limit: LogLimit,
    ) -> Self {
        Self {
            config,
            driver_version: terms.driver_version,
            core: Core::new(hca, config.unit_bytes),
            contexts: Contexts::new(config.limits.uar_pages),
            mrs: Slots::new(),
            cqs: Slots::new(),
            qps: Slots::new(),
            srqs: Slots::new(),
            gids: gids::GidLedger::new(config.limits.gids),
            quota: Quota::new(config.limits.listed_pages),
            violations: Violations::default(),
            log_limit,
            watch: Watch::default(),
            page_cursor: 0,
            events: DeviceRing::new(terms.event_pages),
            notifications: DeviceRing::new(terms.notify_pages),
            retry_at: None,
            ring_faults: 0,
            long: None,
            doorbell_pages,
            raised: 0,
            broken: false,
            journal: None,
            frame_pieces: 0,
            record_buffer: Vec::new(),
        }
    }

    /// Raises a vector.
    pub(crate) fn raise(&mut self, vector: Vector) {
        self.raised |= vector.bit();
    }

    /// Takes the vectors raised since the last call.
    pub(crate) fn take_raised(&mut self) -> u32 {
        core::mem::take(&mut self.raised)
    }

    /// Marks the device's own rings or slots as unusable: nothing can go on until a reset.
    pub(crate) fn break_down(&mut self) {
        self.broken = true;
    }

    /// Whether [`break_down`](Self::break_down) was called.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }
}

/// Makes the engine. Drivers before version 20 use one number as a queue pair's handle and QPN.
fn engine(config: &DeviceConfig, identity: Identity, driver_version: u32) -> Hca<Region> {
    let mut hca = Hca::new(identity, engine_limits(config));
    if driver_version < version::QP_HANDLE {
        hca.number_plainly();
    }
    hca
}

impl Adapter {
    /// See [`Device::set_mtu`](crate::Device::set_mtu).
    pub(crate) fn set_mtu(&mut self, mtu: Mtu) {
        self.config.mtu = mtu;
        self.core.hca.set_port_mtu(mtu);
        self.record_frame();
    }
}

pub(crate) fn engine_limits(config: &DeviceConfig) -> Limits {
    let limits = &config.limits;
    Limits {
        pds: limits.pds,
        mrs: limits.mrs,
        cqs: limits.cqs,
        qps: limits.qps,
        srqs: limits.srqs,
        gids: limits.gids,
        rd_atomic: limits.rd_atomic,
        message_bytes: DeviceLimits::MESSAGE_BYTES,
        port_mtu: config.mtu,
    }
}

#[cfg(test)]
mod tests;
