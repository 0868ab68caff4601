//! The driver's part of the shared region, copied once, and the terms agreed from it.
//!
//! ```text
//!   DSRHIGH ──► Handshake: private copy, capabilities written
//!   ACTIVATE ─► Terms: version, slots and ring pages, all checked
//! ```

use vrdma_memory::{Fault, PageList, Right, View};
use zerocopy::{FromZeros, IntoBytes};

use crate::abi::command::{REQUEST_BYTES, RESPONSE_BYTES};
use crate::abi::region::{RingPages, SharedRegion};
use crate::abi::version;
use crate::capabilities;
use crate::config::DeviceConfig;

/// Bounds on the pages of a device ring, with the state page. The driver uses 4; a huge number would make the device
/// walk directories for nothing (CVE-2023-1544).
const RING_PAGES: core::ops::RangeInclusive<u32> = 2..=512;
/// Alignment of the region and the slots, which hold 64-bit numbers.
const ALIGNMENT: u64 = 8;

/// The private copy of a shared region.
#[derive(Clone)]
pub(crate) struct Handshake {
    region: SharedRegion,
}

/// Reasons for refusing the driver's terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("driver version {0} is older than 17")]
    Version(u32),
    #[error("the {0} slot at {1:#x} is not aligned or not mapped")]
    Slot(&'static str, u64),
    #[error("a device ring has {0} pages, not 2 to 512")]
    RingPages(u32),
    #[error("the pages of a device ring: {0}")]
    Ring(vrdma_memory::PageError),
}

/// Addresses of the command slot and the response slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slots {
    pub(crate) request: u64,
    pub(crate) response: u64,
}

impl Slots {
    /// Whether both slots are still mapped.
    pub(crate) fn are_mapped(&self, memory: &View<'_>) -> bool {
        is_usable(memory, self.request, REQUEST_BYTES, Right::Read)
            && is_usable(memory, self.response, RESPONSE_BYTES, Right::Write)
    }
}

/// The terms that device and driver agreed on.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) driver_version: u32,
    pub(crate) slots: Slots,
    pub(crate) event_pages: PageList,
    pub(crate) notify_pages: PageList,
}

impl Handshake {
    /// Copies the region at `address` and writes the capabilities into it.
    pub(crate) fn read(
        memory: &View<'_>,
        address: u64,
        config: &DeviceConfig,
    ) -> Result<Self, Fault> {
        if !address.is_multiple_of(ALIGNMENT) {
            return Err(Fault::Gone);
        }
        memory.check(address, size_of::<SharedRegion>() as u64, Right::Write)?;
        let mut region = SharedRegion::new_zeroed();
        let guest_part = &mut region.as_mut_bytes()[..SharedRegion::GUEST_BYTES];
        memory.read(address, guest_part)?;
        let caps = capabilities::advertise(config, region.driver_version.get());
        memory.write(address + SharedRegion::GUEST_BYTES as u64, caps.as_bytes())?;
        Ok(Self { region })
    }

    /// The handshake that was read before, from its [`guest_part`](Self::guest_part).
    pub(crate) fn resume(guest_part: &[u8]) -> Option<Self> {
        let mut region = SharedRegion::new_zeroed();
        let part = &mut region.as_mut_bytes()[..SharedRegion::GUEST_BYTES];
        (part.len() == guest_part.len()).then(|| part.copy_from_slice(guest_part))?;
        Some(Self { region })
    }

    /// The bytes that the driver wrote.
    pub(crate) fn guest_part(&self) -> &[u8] {
        &self.region.as_bytes()[..SharedRegion::GUEST_BYTES]
    }

    /// Checks the copied region.
    pub(crate) fn agree(&self, memory: &View<'_>) -> Result<Terms, Refusal> {
        let driver_version = self.region.driver_version.get();
        if driver_version < version::ROCE_V1 {
            return Err(Refusal::Version(driver_version));
        }
        Ok(Terms {
            driver_version,
            slots: self.slots(memory)?,
            event_pages: ring_pages(memory, &self.region.async_ring)?,
            notify_pages: ring_pages(memory, &self.region.cq_ring)?,
        })
    }

    fn slots(&self, memory: &View<'_>) -> Result<Slots, Refusal> {
        let request = self.region.cmd_slot_dma.get();
        let response = self.region.resp_slot_dma.get();
        if !is_usable(memory, request, REQUEST_BYTES, Right::Read) {
            return Err(Refusal::Slot("command", request));
        }
        if !is_usable(memory, response, RESPONSE_BYTES, Right::Write) {
            return Err(Refusal::Slot("response", response));
        }
        Ok(Slots { request, response })
    }
}

fn is_usable(memory: &View<'_>, address: u64, bytes: usize, right: Right) -> bool {
    address.is_multiple_of(ALIGNMENT) && memory.check(address, bytes as u64, right).is_ok()
}

fn ring_pages(memory: &View<'_>, ring: &RingPages) -> Result<PageList, Refusal> {
    let count = ring.num_pages.get();
    if !RING_PAGES.contains(&count) {
        return Err(Refusal::RingPages(count));
    }
    PageList::resolve(memory, ring.pdir_dma.get(), count, Right::Write).map_err(Refusal::Ring)
}
