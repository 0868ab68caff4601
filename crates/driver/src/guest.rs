//! A virtual machine: its memory, its PVRDMA device, and the driver after it is probed.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use vrdma_memory::{PAGE, Protection, Space};
use vrdma_pvrdma::abi::doorbell::Doorbell;
use vrdma_pvrdma::abi::register::Register;
use vrdma_pvrdma::{BarRegion, Device, DeviceConfig};
use vrdma_verbs::Time;
use vrdma_wire::{Gid, Mac};

use crate::clock::Clock;
use crate::interrupt::Interrupts;
use crate::probe::Driver;
use crate::ram::{RAM_BASE, Ram};

/// Pages of a guest: 256 MiB, of which only written pages take memory.
const RAM_PAGES: u64 = 1 << 16;

/// PCI COMMAND, and its bits for memory decoding and bus mastering.
const PCI_COMMAND: u64 = 4;
const PCI_MEMORY: u16 = 1 << 1;
const PCI_MASTER: u16 = 1 << 2;

/// A guest.
pub struct Guest {
    /// The device, for uses that no method here covers.
    pub device: Device,
    /// The guest's memory.
    pub ram: Ram,
    /// Interrupts of the device.
    pub interrupts: Interrupts,
    pub(crate) clock: Clock,
    pub(crate) driver: Option<Driver>,
    pub(crate) dma: Arc<Space>,
}

impl Guest {
    /// Makes a guest that has not probed its device yet.
    pub fn new(config: DeviceConfig, clock: Clock) -> io::Result<Self> {
        let ram = Ram::new(RAM_PAGES)?;
        let dma = Arc::new(Space::new());
        dma.map(RAM_BASE, ram.bytes(), Protection::BOTH, ram.fd()?, 0)
            .map_err(io::Error::other)?;
        let device = Device::new(config, Arc::clone(&dma))?;
        if let Some(fd) = device.doorbell_fd() {
            ram.map_doorbells(fd, device.region_bytes(BarRegion::Doorbells))?;
        }
        Ok(Self {
            device,
            ram,
            interrupts: Interrupts::default(),
            clock,
            driver: None,
            dma,
        })
    }

    /// The device's mapping of the memory.
    pub fn dma(&self) -> &Arc<Space> {
        &self.dma
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The state of the driver.
    ///
    /// # Panics
    /// If the driver is not probed.
    pub fn driver(&self) -> &Driver {
        self.driver.as_ref().expect("the test probes first")
    }

    /// Whether no driver is probed.
    pub fn driver_is_gone(&self) -> bool {
        self.driver.is_none()
    }

    /// MAC address of the device.
    pub fn mac(&self) -> Mac {
        self.device.config().identity.mac
    }

    /// The GID that the driver binds at index 0.
    pub fn gid(&self) -> Gid {
        Gid::link_local(self.mac())
    }

    /// Reads a register.
    pub fn read_register(&mut self, register: Register) -> u32 {
        let mut bytes = [0; 4];
        self.device
            .read(BarRegion::Registers, register.offset(), &mut bytes);
        u32::from_le_bytes(bytes)
    }

    /// Writes a register.
    pub fn write_register(&mut self, register: Register, value: u32) {
        let now = self.clock.now();
        let bytes = value.to_le_bytes();
        self.device
            .write(BarRegion::Registers, register.offset(), &bytes, now);
    }

    /// Writes a register and returns the error register.
    pub fn write_checked(&mut self, register: Register, value: u32) -> u32 {
        self.write_register(register, value);
        self.read_register(Register::Error)
    }

    /// Turns bus mastering on or off.
    pub fn set_bus_master(&mut self, on: bool) {
        let command = PCI_MEMORY | if on { PCI_MASTER } else { 0 };
        let now = self.clock.now();
        self.device
            .write(BarRegion::Config, PCI_COMMAND, &command.to_le_bytes(), now);
    }

    /// Writes a doorbell through the BAR, even if the page is mapped.
    pub fn write_doorbell(&mut self, page: u32, doorbell: Doorbell, value: u32) {
        let now = self.clock.now();
        let offset = u64::from(page) * PAGE + doorbell.offset();
        self.device
            .write(BarRegion::Doorbells, offset, &value.to_le_bytes(), now);
    }

    /// Takes pages away from the device, as a hot-unplug or a vIOMMU does.
    pub fn unmap(&mut self, at: u64, bytes: u64) {
        self.dma.unmap(at, bytes).expect("a range of whole maps");
        self.device.memory_changed();
    }

    /// Maps one page separately with other rights, so that it can be unmapped alone.
    ///
    /// Errors: those of the mapping.
    pub fn isolate(&mut self, page: u64, protection: Protection) -> io::Result<()> {
        let end = RAM_BASE + self.ram.bytes();
        self.dma.unmap_all();
        self.map(RAM_BASE..page, Protection::BOTH)?;
        self.map(page..page + PAGE, protection)?;
        self.map(page + PAGE..end, Protection::BOTH)
    }

    fn map(&self, range: Range<u64>, protection: Protection) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let (size, offset) = (range.end - range.start, range.start - RAM_BASE);
        self.dma
            .map(range.start, size, protection, self.ram.fd()?, offset)
            .map_err(io::Error::other)
    }
}

impl Drop for Guest {
    /// Checks that no device wrote to memory that its driver had freed.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.ram.check_freed(), None, "a freed page was written to");
        }
    }
}
