//! Accesses to regions, and the sizes that a VMM needs to map them.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use vrdma_verbs::Time;

use super::Device;
use crate::abi::PAGE;
use crate::abi::doorbell::Doorbell;
use crate::abi::register::Register;
use crate::config::DeviceConfig;
use crate::config_space::{CONFIG_BYTES, MSIX_BAR_BYTES, REGISTER_BAR_BYTES};

/// Regions of the PCI function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BarRegion {
    /// BAR 0: MSI-X table and pending bits, which the VMM emulates.
    Msix,
    /// BAR 1: registers.
    Registers,
    /// BAR 2, 64 bit: doorbells.
    Doorbells,
    /// Configuration space.
    Config,
}

/// Bytes of BAR 2.
pub(super) fn doorbell_bytes(config: &DeviceConfig) -> u64 {
    u64::from(config.limits.uar_pages) * PAGE
}

impl Device {
    /// Size of a region in bytes.
    pub fn region_bytes(&self, region: BarRegion) -> u64 {
        match region {
            BarRegion::Msix => MSIX_BAR_BYTES,
            BarRegion::Registers => REGISTER_BAR_BYTES,
            BarRegion::Doorbells => doorbell_bytes(&self.config),
            BarRegion::Config => CONFIG_BYTES as u64,
        }
    }

    /// File descriptor of the memory behind BAR 2, if doorbells are mapped.
    pub fn doorbell_fd(&self) -> Option<BorrowedFd<'_>> {
        self.doorbell_pages.as_ref().map(|pages| pages.fd())
    }

    /// The part of BAR 2 that a VMM may map from [`doorbell_fd`](Self::doorbell_fd), at the same
    /// offsets. The kernel's page 0 is not in it.
    pub fn mapped_area(&self) -> Option<Range<u64>> {
        let mapped = self.config.maps_doorbells;
        mapped.then(|| PAGE..doorbell_bytes(&self.config))
    }

    /// Reads from a region. Bytes that cannot be read are all ones, as on a bus.
    pub fn read(&mut self, region: BarRegion, offset: u64, out: &mut [u8]) {
        match region {
            BarRegion::Config => self.config_space.read(offset, out),
            BarRegion::Msix => out.fill(0),
            BarRegion::Doorbells => out.fill(0xff),
            BarRegion::Registers => {
                self.finish_command(self.batch_time);
                let register = Register::at(offset).filter(|_| out.len() == size_of::<u32>());
                match register {
                    Some(register) => {
                        let value = self.read_register(register);
                        out.copy_from_slice(&value.to_le_bytes());
                    }
                    None => out.fill(0xff),
                }
            }
        }
    }

    /// Writes to a region. All that the write asks for is done when it returns, except a long command
    /// ([`is_busy`](Self::is_busy)). The calling thread must hold no view of the space: a write may turn bus mastering
    /// on or off.
    pub fn write(&mut self, region: BarRegion, offset: u64, data: &[u8], now: Time) {
        match region {
            BarRegion::Config => self.write_config(offset, data),
            BarRegion::Msix => {}
            BarRegion::Registers => {
                self.finish_command(now);
                if let (Some(register), Some(value)) = (Register::at(offset), word(data)) {
                    self.write_register(register, value, now);
                }
            }
            BarRegion::Doorbells => {
                if let (Some(doorbell), Some(value)) = (Doorbell::at(offset % PAGE), word(data)) {
                    self.ring(offset / PAGE, doorbell, value, now);
                }
            }
        }
    }

    fn write_config(&mut self, offset: u64, data: &[u8]) {
        let before = self.config_space.bus_master();
        self.config_space.write(offset, data);
        let after = self.config_space.bus_master();
        if before != after {
            self.space.set_bus_master(after);
        }
    }
}

/// The word in an access. Registers and doorbells are written 32 bits at a time; other widths have no meaning.
fn word(data: &[u8]) -> Option<u32> {
    data.try_into().ok().map(u32::from_le_bytes)
}
