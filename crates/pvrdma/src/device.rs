//! The device as a PCI function: registers, life cycle, and the data path behind them.
//!
//! ```text
//!            DSRHIGH ok              ACTIVATE ok
//!   Reset ─────────────► Configured ─────────────► Active ──► Failed
//!     ▲  any RESET, DSRHIGH, reset()                  own rings or slots gone
//!     └─────────────────────────────────────────────────────────┘
//! ```
//!
//! Writing DSRHIGH resets whatever went before, since a guest that crashed or restarted by kexec
//! says nothing else. Only `Active` touches guest memory on its own account, and only while bus
//! mastering is on.
//!
//! The device does not know how register accesses reach it, nor who carries requests to peers. It
//! belongs to one thread; every call does a bounded amount of work and none blocks.

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

/// Where in its life the device is.
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
    /// What the driver wrote into the shared region, while it is configured or active.
    handshake: Option<Box<Handshake>>,
    /// Where it is written down what another process needs to go on; an adapter has it while it lives, unless
    /// that one is not to count yet ([`Device::keep_frozen`]).
    journal: Option<Box<dyn Journal>>,
    /// The low half of the shared region's address, latched.
    dsr_low: u32,
    /// Outcome of the last control or request write.
    error: u32,
    /// What the guest wrote into the MAC registers, which have no effect.
    mac: [u32; 2],
    /// Time of the last unit taken in.
    batch_time: Time,
    /// While a life lasts it has the bucket.
    log_limit: LogLimit,
    /// Lives so far: each starts with other queue pair numbers and keys.
    lives: u64,
    /// The last life, until somebody takes it away.
    ended: Option<Ended>,
    /// Addresses were bound when the last life ended.
    gids_cleared: bool,
    /// Another device may go on in its place: it does nothing.
    frozen: bool,
    /// Of what peers were told of that last.
    epoch: u64,
}

impl Device {
    /// A device in reset, over the memory of one guest.
    ///
    /// Errors: memory for the doorbell pages.
    ///
    /// # Panics
    /// If a limit that must be a power of two is none.
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

    /// What it was made with.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }

    /// The payload of one packet that the port offers from now on, because the way out of the host
    /// has become wider or narrower. Queue pairs keep what they were connected with.
    pub fn set_mtu(&mut self, mtu: Mtu) {
        self.config.mtu = mtu;
        if let Stage::Active(adapter, _) = &mut self.stage {
            adapter.set_mtu(mtu);
        }
    }

    /// Whether it may reach memory and raise interrupts.
    fn may_work(&self) -> bool {
        self.config_space.bus_master() && !self.frozen
    }

    /// The guest memory it works on.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// The vectors to fire now, one bit each. Call it at the end of a batch: the guest is shown what
    /// the batch has done so far.
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

    /// The next change of the addresses at which the device is reached, oldest first. While it is frozen there is
    /// none: another one may be reached there.
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
