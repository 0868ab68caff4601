//! Probing and removing the driver (`pvrdma_main.c`): everything up to ACTIVATE, and RESET.

use vrdma_pvrdma::abi::doorbell::Doorbell;
use vrdma_pvrdma::abi::region::{Capabilities, RingPages, SharedRegion, gid_type};
use vrdma_pvrdma::abi::register::{Control, Register};
use vrdma_pvrdma::abi::{PAGE, version};

use crate::directory::Directory;
use crate::guest::Guest;
use crate::ram::{DOORBELL_BASE, Ram};
use crate::ring::ConsumerRing;

/// Pages of a device ring: one state page and three pages of entries (`PVRDMA_NUM_RING_PAGES`).
const RING_PAGES: usize = 4;
const EVENT_BYTES: u32 = 8;
const NOTIFY_BYTES: u32 = 4;
/// Code of 64-bit Linux.
const GUEST_OS: u32 = 0x46;
/// Offset of the receive half of a ring's state page.
const RX: u64 = 8;

/// A probed driver.
#[derive(Debug)]
pub struct Driver {
    /// Protocol version.
    pub version: u32,
    /// Bus address of the shared region.
    pub region: u64,
    /// Capabilities that the device wrote.
    pub caps: Capabilities,
    /// Bus address of the command slot.
    pub command_slot: u64,
    /// Bus address of the response slot.
    pub response_slot: u64,
    /// Pages of the event ring.
    pub event_pages: Directory,
    /// Pages of the notification ring.
    pub notify_pages: Directory,
    pub(crate) event_ring: ConsumerRing,
    pub(crate) notify_ring: ConsumerRing,
    /// Doorbell pages in use; page 0 is the kernel's.
    pub(crate) pages_in_use: Vec<bool>,
}

/// Reasons why probing failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProbeError {
    /// The device is older than the driver accepts.
    #[error("device version {0}")]
    Version(u32),
    /// Not RoCE, or not exactly one GID type.
    #[error("mode {mode}, GID types {gid_types}")]
    Unsupported {
        /// `caps.mode`
        mode: u8,
        /// `caps.gid_types`
        gid_types: u8,
    },
    /// The number of doorbell pages is not a power of two.
    #[error("{0} doorbell pages")]
    DoorbellPages(u32),
    /// The error register after ACTIVATE.
    #[error("not activated: {0}")]
    Activate(u32),
}

impl Guest {
    /// Probes with the current driver.
    pub fn probe(&mut self) -> Result<(), ProbeError> {
        self.probe_as(version::QP_HANDLE)
    }

    /// Probes as a driver of protocol version `driver_version`.
    pub fn probe_as(&mut self, driver_version: u32) -> Result<(), ProbeError> {
        self.set_bus_master(true);
        let device_version = self.read_register(Register::Version);
        if device_version < version::ROCE_V1 {
            return Err(ProbeError::Version(device_version));
        }
        let mut driver = Driver::allocate(&mut self.ram, driver_version);
        driver.fill_region(&self.ram);
        self.write_region_address(driver.region);
        driver.read_caps(&self.ram)?;
        self.driver = Some(driver);
        self.write_register(Register::InterruptMask, 0);
        match self.write_checked(Register::Control, Control::Activate as u32) {
            0 => Ok(()),
            error => Err(ProbeError::Activate(error)),
        }
    }

    /// Writes DSRLOW and DSRHIGH.
    pub fn write_region_address(&mut self, region: u64) {
        self.write_register(Register::DsrLow, region as u32);
        self.write_register(Register::DsrHigh, (region >> 32) as u32);
    }

    /// Removes the driver: RESET, and its pages are freed at once.
    pub fn remove(&mut self) {
        self.write_register(Register::InterruptMask, u32::MAX);
        self.write_register(Register::Control, Control::Reset as u32);
        if let Some(driver) = self.driver.take() {
            driver.free(&mut self.ram);
        }
    }

    /// Drops the driver without a RESET: kexec, or a crash.
    pub fn forget_driver(&mut self) -> Option<Driver> {
        self.driver.take()
    }

    /// Tells the device that the paired network device came up.
    pub fn unquiesce(&mut self) -> u32 {
        self.write_checked(Register::Control, Control::Unquiesce as u32)
    }

    pub(crate) fn is_mapped(&self, page: u32) -> bool {
        page != 0 && self.device.mapped_area().is_some()
    }

    /// Rings a doorbell as the guest would: a store if the page is mapped, else a trap.
    pub fn ring(&mut self, page: u32, doorbell: Doorbell, value: u32) {
        if self.is_mapped(page) {
            let offset = u64::from(page) * PAGE + doorbell.offset();
            self.ram.store(DOORBELL_BASE + offset, value);
        } else {
            self.write_doorbell(page, doorbell, value);
        }
    }
}

impl Driver {
    fn allocate(ram: &mut Ram, version: u32) -> Self {
        let region = ram.take();
        let (command_slot, response_slot) = (ram.take(), ram.take());
        let event_pages = Directory::with_pages(ram, RING_PAGES);
        let notify_pages = Directory::with_pages(ram, RING_PAGES);
        Self {
            version,
            region,
            caps: Capabilities::default(),
            command_slot,
            response_slot,
            event_ring: device_ring(&event_pages, EVENT_BYTES),
            notify_ring: device_ring(&notify_pages, NOTIFY_BYTES),
            event_pages,
            notify_pages,
            pages_in_use: vec![true],
        }
    }

    fn fill_region(&self, ram: &Ram) {
        let ring = |pages: &Directory| RingPages {
            num_pages: pages.count().into(),
            reserved: 0.into(),
            pdir_dma: pages.address.into(),
        };
        ram.write(
            self.region,
            &SharedRegion {
                driver_version: self.version.into(),
                guest_os: GUEST_OS.into(),
                cmd_slot_dma: self.command_slot.into(),
                resp_slot_dma: self.response_slot.into(),
                async_ring: ring(&self.event_pages),
                cq_ring: ring(&self.notify_pages),
                uar_pfn: (DOORBELL_BASE / PAGE).into(),
                ..SharedRegion::default()
            },
        );
    }

    /// Reads the capabilities: they are there as soon as DSRHIGH was written, and the driver reads them only once.
    fn read_caps(&mut self, ram: &Ram) -> Result<(), ProbeError> {
        self.caps = ram.read::<SharedRegion>(self.region).caps;
        let (mode, gid_types) = (self.caps.mode, self.caps.gid_types);
        let wanted = match self.version {
            0..version::ROCE_V2 => gid_types == gid_type::ROCE_V1,
            _ => gid_types == gid_type::ROCE_V1 || gid_types == gid_type::ROCE_V2,
        };
        if mode != 0 || !wanted {
            return Err(ProbeError::Unsupported { mode, gid_types });
        }
        let pages = self.caps.max_uar.get();
        if !pages.is_power_of_two() {
            return Err(ProbeError::DoorbellPages(pages));
        }
        self.pages_in_use.resize(pages as usize, false);
        Ok(())
    }

    fn free(self, ram: &mut Ram) {
        ram.free([self.region, self.command_slot, self.response_slot]);
        self.event_pages.free(ram);
        self.notify_pages.free(ram);
    }
}

fn device_ring(pages: &Directory, entry_bytes: u32) -> ConsumerRing {
    let entries = (RING_PAGES as u32 - 1) * PAGE as u32 / entry_bytes;
    let state = pages.pages[0] + RX;
    ConsumerRing::new(entries, entry_bytes, state, pages.pages[1..].to_vec())
}
