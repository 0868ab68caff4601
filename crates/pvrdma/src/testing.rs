//! A fake guest for unit tests: RAM, page directories, and the command channel as the driver uses it.

mod link;

use std::sync::Arc;

use vrdma_memory::{PAGE, Protection, SharedPages, Space};
use vrdma_verbs::Time;
use vrdma_verbs::object::Identity;
use vrdma_wire::Mac;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::abi::command::{Command, RESPONSE_BYTES, RequestHeader, ResponseHeader};
use crate::abi::doorbell::Doorbell;
use crate::abi::region::{RingPages, SharedRegion};
use crate::abi::register::{Control, Register};
use crate::abi::request::Handle;
use crate::config::{DeviceConfig, DeviceLimits};
use crate::device::{BarRegion, Device};

pub(crate) use link::{Link, SENDS};

/// Guest RAM starts here, so that address 0 is never mapped.
pub(crate) const RAM: u64 = 0x10_0000;
const RAM_PAGES: usize = 4096;
const COMMAND_REGISTER: u64 = 4;
const MEMORY_AND_BUS_MASTER: [u8; 2] = [6, 0];

/// A guest, its memory and its device.
pub(crate) struct Guest {
    pub(crate) space: Arc<Space>,
    pub(crate) device: Device,
    pub(crate) now: Time,
    pub(crate) region: SharedRegion,
    pub(crate) region_at: u64,
    ram: SharedPages,
    next_page: u64,
}

/// Small tables, so that tests can fill them.
pub(crate) fn small_limits() -> DeviceLimits {
    DeviceLimits {
        uar_pages: 8,
        pds: 4,
        mrs: 4,
        cqs: 4,
        qps: 5,
        srqs: 3,
        queue_requests: 256,
        queue_completions: 1024,
        gids: 4,
        listed_pages: 1024,
        ..DeviceLimits::default()
    }
}

pub(crate) fn config() -> DeviceConfig {
    let mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
    DeviceConfig {
        limits: small_limits(),
        maps_doorbells: false,
        ..DeviceConfig::new(Identity { mac, seed: 1 })
    }
}

impl Guest {
    /// A guest with a device in reset; the driver has enabled bus mastering.
    pub(crate) fn new(config: DeviceConfig) -> Self {
        let space = Arc::new(Space::new());
        let device = Device::new(config, Arc::clone(&space)).unwrap();
        let mut guest = Self {
            space,
            device,
            now: Time(0),
            region: SharedRegion::default(),
            region_at: 0,
            ram: SharedPages::new(RAM_PAGES).unwrap(),
            next_page: RAM,
        };
        guest.map_ram();
        guest.bus_master(true);
        guest.fill_region();
        guest
    }

    /// A guest whose driver has activated the device.
    pub(crate) fn active() -> Self {
        Self::activated(config())
    }

    pub(crate) fn activated(config: DeviceConfig) -> Self {
        let mut guest = Self::new(config);
        guest.hand_over_region();
        guest.write_register(Register::InterruptMask, 0);
        assert_eq!(guest.control(Control::Activate), 0);
        guest
    }

    fn map_ram(&mut self) {
        let fd = self.ram.fd().try_clone_to_owned().unwrap();
        let rights = Protection {
            read: true,
            write: true,
        };
        let bytes = RAM_PAGES as u64 * PAGE;
        self.space.map(RAM, bytes, rights, fd, 0).unwrap();
    }

    pub(crate) fn bus_master(&mut self, on: bool) {
        let value = if on { MEMORY_AND_BUS_MASTER } else { [2, 0] };
        self.device
            .write(BarRegion::Config, COMMAND_REGISTER, &value, self.now);
    }

    fn fill_region(&mut self) {
        self.region_at = self.page();
        self.region.driver_version = 20.into();
        self.region.cmd_slot_dma = self.page().into();
        self.region.resp_slot_dma = self.page().into();
        self.region.async_ring = self.ring_pages();
        self.region.cq_ring = self.ring_pages();
    }

    fn ring_pages(&mut self) -> RingPages {
        RingPages {
            num_pages: 4.into(),
            pdir_dma: self.directory(4).0.into(),
            ..RingPages::default()
        }
    }

    /// Writes the shared region and its address.
    pub(crate) fn hand_over_region(&mut self) {
        let region = self.region;
        self.put(self.region_at, &region);
        self.write_register(Register::DsrLow, self.region_at as u32);
        self.write_register(Register::DsrHigh, (self.region_at >> 32) as u32);
    }

    /// Allocates a page.
    pub(crate) fn page(&mut self) -> u64 {
        let page = self.next_page;
        self.next_page += PAGE;
        assert!(
            self.next_page <= RAM + RAM_PAGES as u64 * PAGE,
            "out of guest memory"
        );
        page
    }

    /// A directory of `count` new pages (at most 512), and those pages.
    pub(crate) fn directory(&mut self, count: u32) -> (u64, Vec<u64>) {
        let (directory, table) = (self.page(), self.page());
        let pages: Vec<u64> = (0..count).map(|_| self.page()).collect();
        self.put(directory, &table);
        for (index, page) in (0..).zip(&pages) {
            self.put(table + index * 8, page);
        }
        (directory, pages)
    }

    pub(crate) fn put<T: IntoBytes + Immutable + ?Sized>(&self, at: u64, value: &T) {
        self.space.view().write(at, value.as_bytes()).unwrap();
    }

    pub(crate) fn get<T: FromBytes + IntoBytes>(&self, at: u64) -> T {
        let mut value = T::new_zeroed();
        self.space.view().read(at, value.as_mut_bytes()).unwrap();
        value
    }

    pub(crate) fn write_register(&mut self, register: Register, value: u32) {
        let data = value.to_le_bytes();
        self.device
            .write(BarRegion::Registers, register.offset(), &data, self.now);
    }

    pub(crate) fn read_register(&mut self, register: Register) -> u32 {
        let mut data = [0; 4];
        self.device
            .read(BarRegion::Registers, register.offset(), &mut data);
        u32::from_le_bytes(data)
    }

    /// Writes the control register and reads the error register.
    pub(crate) fn control(&mut self, control: Control) -> u32 {
        self.write_register(Register::Control, control as u32);
        self.read_register(Register::Error)
    }

    pub(crate) fn ring(&mut self, page: u32, doorbell: Doorbell, value: u32) {
        let offset = u64::from(page) * PAGE + doorbell.offset();
        self.device
            .write(BarRegion::Doorbells, offset, &value.to_le_bytes(), self.now);
    }

    /// Rings a doorbell in mapped memory.
    pub(crate) fn store_doorbell(&mut self, page: u32, doorbell: Doorbell, value: u32) {
        let fd = self
            .device
            .doorbell_fd()
            .unwrap()
            .try_clone_to_owned()
            .unwrap();
        let space = Space::new();
        let rights = Protection {
            read: true,
            write: true,
        };
        let bytes = self.device.region_bytes(BarRegion::Doorbells);
        space.map(0, bytes, rights, fd, 0).unwrap();
        let at = u64::from(page) * PAGE + doorbell.offset();
        space.view().store_u32_release(at, value).unwrap();
    }

    pub(crate) fn destroy_qp(&mut self, qp: u32) {
        let body = Handle {
            handle: qp.into(),
            ..Handle::default()
        };
        assert_eq!(self.execute(Command::DestroyQp, &body), 0);
    }

    /// Revokes the device's rights to one page.
    pub(crate) fn protect(&mut self, page: u64) {
        let rights = Protection {
            read: true,
            write: true,
        };
        let (before, behind) = (page - RAM, RAM + RAM_PAGES as u64 * PAGE - page - PAGE);
        self.space.unmap_all();
        for (at, bytes) in [(RAM, before), (page + PAGE, behind)] {
            let fd = self.ram.fd().try_clone_to_owned().unwrap();
            self.space.map(at, bytes, rights, fd, at - RAM).unwrap();
        }
        self.device.memory_changed();
    }

    /// New entries of the event ring since the last call.
    pub(crate) fn events(&mut self) -> Vec<(u32, u32)> {
        let (state, entries) = self.ring_of(&self.region.async_ring.clone());
        let (producer, consumer): (u32, u32) = (self.get(state + 8), self.get(state + 12));
        self.put(state + 12, &producer);
        let slots = (consumer..producer).map(|index| entries + u64::from(index) * 8);
        slots.map(|at| (self.get(at), self.get(at + 4))).collect()
    }

    /// Completion queues in the notification ring, new since the last call.
    pub(crate) fn notifications(&mut self) -> Vec<u32> {
        let (state, entries) = self.ring_of(&self.region.cq_ring.clone());
        let (producer, consumer): (u32, u32) = (self.get(state + 8), self.get(state + 12));
        self.put(state + 12, &producer);
        (consumer..producer)
            .map(|index| self.get(entries + u64::from(index) * 4))
            .collect()
    }

    /// State page and first page of entries.
    fn ring_of(&self, ring: &RingPages) -> (u64, u64) {
        let table: u64 = self.get(ring.pdir_dma.get());
        (self.get(table), self.get(table + 8))
    }

    /// Executes a command and returns the error register.
    pub(crate) fn execute<T: IntoBytes + Immutable>(&mut self, command: Command, body: &T) -> u32 {
        self.execute_code(command as u32, body)
    }

    pub(crate) fn execute_code<T: IntoBytes + Immutable>(&mut self, code: u32, body: &T) -> u32 {
        let slot = self.region.cmd_slot_dma.get();
        let header = RequestHeader {
            command: code.into(),
            ..RequestHeader::default()
        };
        // Beyond the request are bytes of the driver's stack.
        self.put(slot, &[0xa5_u8; 184]);
        self.put(slot, &header);
        self.put(slot + size_of::<RequestHeader>() as u64, body);
        self.put(self.region.resp_slot_dma.get(), &[0x5a_u8; RESPONSE_BYTES]);
        self.write_register(Register::Request, 0);
        self.read_register(Register::Error)
    }

    pub(crate) fn response_header(&self) -> ResponseHeader {
        self.get(self.region.resp_slot_dma.get())
    }

    /// Body of the response in the slot.
    pub(crate) fn response<R: FromBytes + IntoBytes>(&self) -> R {
        self.get(self.region.resp_slot_dma.get() + size_of::<ResponseHeader>() as u64)
    }

    /// Executes a command that must succeed and returns its response.
    pub(crate) fn ask<T, R>(&mut self, command: Command, body: &T) -> R
    where
        T: IntoBytes + Immutable,
        R: FromBytes + IntoBytes,
    {
        assert_eq!(self.execute(command, body), 0, "{command:?}");
        self.response()
    }
}
