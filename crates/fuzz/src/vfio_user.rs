//! The stream of a VM's client: messages in any pieces, with descriptors at any place.

mod migrator;

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use vrdma_vfio_user::message::{
    CONFIG_REGION, Command, DMA_PAGE_SIZE, Header, IRQ_TYPE_COUNT, Kind, MAX_DATA, MSIX_IRQ,
    REGION_COUNT,
};
use vrdma_vfio_user::session::OUTPUT_LIMIT;
use vrdma_vfio_user::{
    Backend, ClientFd, Closing, DmaMap, DmaUnmap, IrqData, Migration, MmapArea, Region, RegionMmap,
    Session, SetIrqs,
};

use crate::input::Input;
use migrator::Migrator;

/// Bytes of each region of the device.
const REGION_BYTES: u64 = 0x1000;
const VECTORS: u32 = 4;
/// The region with a part that may be mapped.
const MAPPABLE: u32 = 2;

const GREETING: &[u8] = b"\0\0\0\0{\"capabilities\": {\"max_msg_fds\": 16}}\0";

/// Runs an input as a script of messages.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut talk = Talk::default();
    if input.is_odd() {
        talk.feed(&message(0, Command::Version as u16, 0, GREETING), 0);
    }
    while !input.is_empty() && talk.goes_on {
        talk.step(&mut input);
    }
    talk.session.abandon(&mut talk.device);
}

struct Talk {
    session: Session,
    device: Device,
    goes_on: bool,
    /// Token of the next request for memory of the client.
    token: u64,
}

impl Default for Talk {
    fn default() -> Self {
        Self {
            session: Session::new(),
            device: Device::default(),
            goes_on: true,
            token: 0,
        }
    }
}

/// A message with the correct size.
fn message(id: u16, command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        id,
        command,
        payload: payload.len() as u32,
        kind: Kind::Command { no_reply: false },
    };
    let mut bytes = [&header.emit()[..], payload].concat();
    bytes[8..12].copy_from_slice(&flags.to_le_bytes());
    bytes
}

impl Talk {
    fn step(&mut self, input: &mut Input<'_>) {
        let fds = usize::from(input.byte()).saturating_sub(200);
        match input.below(10) {
            0 => self.feed(input.block(), fds),
            1 => self.take(input),
            2 => self.ask(input),
            3 => self.device.is_busy = input.is_odd(),
            _ => {
                let (id, command) = (u16::from(input.byte()), u16::from(input.byte() % 20));
                let flags = u32::from(input.byte()) & 0x3f;
                let payload = input.block();
                self.feed(&message(id, command, flags, payload), fds);
            }
        }
        self.go_on();
        self.check();
    }

    fn feed(&mut self, mut bytes: &[u8], mut fds: usize) {
        while !bytes.is_empty() && self.goes_on {
            let space = self.session.space();
            let (now, later) = bytes.split_at(bytes.len().min(space.len()));
            space[..now.len()].copy_from_slice(now);
            bytes = later;
            let fds = (0..std::mem::take(&mut fds)).map(|_| sent()).collect();
            let received = self
                .session
                .received(now.len(), fds, false, &mut self.device);
            self.goes_on = received.is_ok();
            self.device.is_busy &= self.goes_on;
            self.go_on();
        }
    }

    /// Ends the device's busy state and continues.
    fn go_on(&mut self) {
        if self.goes_on && std::mem::take(&mut self.device.is_busy) {
            self.goes_on = self.session.go_on(&mut self.device).is_ok();
        }
    }

    /// Lets the client read some answers, perhaps not to their end.
    fn take(&mut self, input: &mut Input<'_>) {
        for _ in 0..input.below(8) {
            let Some(outgoing) = self.session.outgoing() else {
                return;
            };
            let length = outgoing.bytes.len();
            let taken = length.saturating_sub(usize::from(input.byte()).saturating_sub(240));
            self.session.sent(taken);
        }
    }

    /// Requests memory for which the device has no descriptor.
    fn ask(&mut self, input: &mut Input<'_>) {
        self.token += 1;
        let (address, count) = (input.number(), u32::from(input.half()));
        // Requests beyond the limits of number and size are refused.
        let _asked = match input.is_odd() {
            true => self.session.dma_read(self.token, address, count),
            false => self.session.dma_write(self.token, address, input.block()),
        };
    }

    fn check(&mut self) {
        if self.goes_on {
            let waiting = self
                .session
                .outgoing()
                .map_or(0, |outgoing| outgoing.bytes.len());
            assert!(waiting <= OUTPUT_LIMIT);
            assert!(!self.session.space().is_empty());
        }
    }
}

fn any_fd() -> OwnedFd {
    File::open("/dev/null")
        .expect("every Linux system has it")
        .into()
}

fn sent() -> ClientFd {
    ClientFd::new(any_fd(), Closing::by(drop))
}

/// A device that asserts that everything that reaches it was checked.
#[derive(Default)]
struct Device {
    is_busy: bool,
    migrator: Migrator,
}

impl Device {
    fn check(&self, region: u32, offset: u64, length: usize) {
        let region = self
            .region(region)
            .expect("only regions that exist are reached");
        assert!(length > 0 && length <= MAX_DATA as usize);
        let end = offset.checked_add(length as u64);
        assert!(end.is_some_and(|end| end <= region.size));
    }
}

impl Backend for Device {
    fn is_busy(&self) -> bool {
        self.is_busy
    }

    fn migration(&mut self) -> Option<&mut dyn Migration> {
        Some(&mut self.migrator)
    }

    fn region(&self, index: u32) -> Option<Region> {
        let exists = index == CONFIG_REGION || index <= MAPPABLE;
        exists.then_some(Region {
            size: REGION_BYTES << index,
            readable: index != 1,
            writable: index != 0,
        })
    }

    fn region_mmap(&self, index: u32) -> Option<RegionMmap> {
        (index == MAPPABLE).then(|| RegionMmap {
            areas: vec![MmapArea {
                offset: 0,
                size: DMA_PAGE_SIZE,
            }],
            fd: Some(any_fd()),
            offset: 0,
        })
    }

    fn irq_count(&self, index: u32) -> u32 {
        if index == MSIX_IRQ { VECTORS } else { 0 }
    }

    fn read(&mut self, region: u32, offset: u64, data: &mut [u8]) {
        self.check(region, offset, data.len());
        assert!(region < REGION_COUNT && data.iter().all(|byte| *byte == 0));
        data.fill(0xa5);
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        self.check(region, offset, data.len());
    }

    fn dma_map(&mut self, map: DmaMap, _: Option<ClientFd>) -> Result<(), Errno> {
        assert!(map.size > 0 && map.iova.checked_add(map.size - 1).is_some());
        Ok(())
    }

    fn dma_unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno> {
        if let DmaUnmap::Range { iova, size } = unmap {
            assert!(size > 0 && iova.checked_add(size - 1).is_some());
        }
        Ok(())
    }

    fn set_irqs(&mut self, irqs: SetIrqs<'_>) -> Result<(), Errno> {
        assert!(irqs.index < IRQ_TYPE_COUNT);
        let end = irqs.start.checked_add(irqs.count);
        assert!(end.is_some_and(|end| end <= self.irq_count(irqs.index)));
        match irqs.data {
            IrqData::None => {}
            IrqData::Bool(bytes) => assert_eq!(bytes.len(), irqs.count as usize),
            IrqData::Eventfd(fds) => assert!(fds.is_empty() || fds.len() == irqs.count as usize),
        }
        Ok(())
    }

    fn reset(&mut self) {
        self.migrator.reset();
    }

    fn dma_done(&mut self, token: u64, result: Result<&[u8], Errno>) {
        assert!(
            token > 0 && result.is_ok_and(|data| data.len() <= MAX_DATA as usize)
                || result.is_err()
        );
    }
}
