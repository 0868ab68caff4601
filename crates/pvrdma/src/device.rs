//! The device as a PCI function: registers, life cycle, and the data path behind them.
//!
//! ```text
//!            DSRHIGH ok              ACTIVATE ok
//!   Reset ─────────────► Configured ─────────────► Active ──► Failed
//!     ▲  any RESET, DSRHIGH, reset()                  own rings or slots gone
//!     └─────────────────────────────────────────────────────────┘
//! ```
//!
//! Writing DSRHIGH resets everything before, since a guest that crashed or restarted by kexec gives no other sign. Only
//! `Active` touches guest memory of its own accord, and only while bus mastering is on.
//!
//! The device knows neither how register accesses reach it nor how requests reach peers. It belongs to one thread;
//! every call does a bounded amount of work and none blocks.

mod data_path;
mod frozen;
mod kept;
mod life_cycle;
mod pci;
mod peers;
mod registers;
mod snapshot;

use std::io;
use std::sync::Arc;

use vrdma_memory::{SharedPages, Space};
use vrdma_verbs::Time;
use vrdma_wire::Mtu;

use crate::abi::register::Vector;
use vrdma_adapter::{GidChange, Journal, LogLimit};

use crate::adapter::Adapter;
use crate::config::DeviceConfig;
use crate::config_space::ConfigSpace;
use crate::handshake::{Handshake, Slots};
use crate::interrupts::Interrupts;

pub use life_cycle::Ended;
pub use pci::BarRegion;
pub use snapshot::{Activity, DeviceSnapshot, DeviceState};

/// The stages of the device's life.
enum Stage {
    Reset,
    Configured,
    Active(Box<Adapter>, Slots),
    Failed,
}

/// One PVRDMA device.
pub struct Device {
    config: DeviceConfig,
    space: Arc<Space>,
    config_space: ConfigSpace,
    doorbell_pages: Option<Arc<SharedPages>>,
    interrupts: Interrupts,
    stage: Stage,
    /// The driver's part of the shared region, while the device is configured or active.
    handshake: Option<Box<Handshake>>,
    /// Journal of the records that another process needs to go on. While a life lasts the adapter has it, unless that
    /// adapter's records do not count yet ([`Device::keep_frozen`]).
    journal: Option<Box<dyn Journal>>,
    /// The low half of the shared region's address, latched.
    dsr_low: u32,
    /// Outcome of the last control or request write.
    error: u32,
    /// Values that the guest wrote into the MAC registers; they have no effect.
    mac: [u32; 2],
    /// Time of the last unit received.
    batch_time: Time,
    /// Rate limit of log lines; the adapter has the bucket while a life lasts.
    log_limit: LogLimit,
    /// Lives so far: each starts with other queue pair numbers and keys.
    lives: u64,
    /// The last life, until [`take_ended`](Device::take_ended).
    ended: Option<Ended>,
    /// Whether addresses were bound when the last life ended.
    gids_cleared: bool,
    /// Whether another device may go on in its place; then this one does nothing.
    frozen: bool,
    /// Epoch of the last message to peers that this device stands still or goes on.
    epoch: u64,
}

impl Device {
    /// Makes a device in reset, over the memory of one guest.
    ///
    /// Errors: no memory for the doorbell pages.
    ///
    /// # Panics
    /// If a limit that must be a power of two is not one.
    pub fn new(config: DeviceConfig, space: Arc<Space>) -> io::Result<Self> {
        config.limits.assert_consistent();
        let pages = config.limits.uar_pages;
        let doorbell_pages = match config.maps_doorbells {
            true => Some(Arc::new(SharedPages::new(pages as usize)?)),
            false => None,
        };
        Ok(Self::with_pages(config, space, doorbell_pages))
    }

    fn with_pages(
        config: DeviceConfig,
        space: Arc<Space>,
        doorbell_pages: Option<Arc<SharedPages>>,
    ) -> Self {
        // A PCI function comes up with bus mastering off, and the space follows it.
        space.set_bus_master(false);
        Self {
            config,
            space,
            config_space: ConfigSpace::new(Vector::COUNT, pci::doorbell_bytes(&config)),
            doorbell_pages,
            interrupts: Interrupts::new(),
            stage: Stage::Reset,
            handshake: None,
            journal: None,
            dsr_low: 0,
            error: registers::NOT_ACTIVE,
            mac: [0; 2],
            batch_time: Time::default(),
            log_limit: LogLimit::new(),
            lives: 0,
            ended: None,
            gids_cleared: false,
            frozen: false,
            epoch: 0,
        }
    }

    /// The configuration that the device was made with.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// Sets the payload of one packet that the port reports from now on, because the uplink's MTU has changed. Queue
    /// pairs keep the MTU that they were connected with.
    pub fn set_mtu(&mut self, mtu: Mtu) {
        self.config.mtu = mtu;
        if let Stage::Active(adapter, _) = &mut self.stage {
            adapter.set_mtu(mtu);
        }
    }

    /// Whether the device may reach memory and raise interrupts.
    fn may_work(&self) -> bool {
        self.config_space.bus_master() && !self.frozen
    }

    /// The guest memory that the device works on.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Takes the vectors to fire now, one bit each. Call it at the end of a batch: it first shows the guest what the
    /// batch has done so far.
    pub fn take_interrupts(&mut self) -> u32 {
        self.end_batch();
        if let Stage::Active(adapter, _) = &mut self.stage {
            self.interrupts.raise(adapter.take_raised());
        }
        match self.may_work() {
            true => self.interrupts.take(),
            false => 0,
        }
    }

    /// Takes the oldest change of the addresses at which the device is reached. A frozen device has none: another
    /// device may be reached at its addresses.
    pub fn take_gid_change(&mut self) -> Option<GidChange> {
        if self.frozen {
            return None;
        }
        if std::mem::take(&mut self.gids_cleared) {
            return Some(GidChange::Cleared);
        }
        match &mut self.stage {
            Stage::Active(adapter, _) => adapter.gids.take_change(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
