//! A PCI device that only shows what a client does to it. Start it with `dummy_device /run/dummy.sock`, then
//!
//! ```text
//! qemu-system-x86_64 -object memory-backend-memfd,id=ram,size=512M,share=on -machine q35,memory-backend=ram \
//!   -device '{"driver":"vfio-user-pci","addr":"5","socket":{"path":"/run/dummy.sock","type":"unix"}}' ...
//! ```
//!
//! ```text
//!   BAR 0  MSI-X table and pending bits (QEMU keeps them)
//!   BAR 1  registers: a write to 0 raises vector 0, a 64-bit guest address written to 8 is read
//!          from there and written back 8 bytes further
//!   BAR 2  64 KiB, the second page mapped
//! ```

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use vrdma_vfio_user::message::{CONFIG_REGION, MSIX_IRQ};
use vrdma_vfio_user::{
    Backend, ClientFd, Closing, Connection, DmaMap, DmaUnmap, Errno, Eventfd, IrqVectors, Listener,
    MmapArea, Region, RegionMmap, SetIrqs,
};

const VECTORS: u16 = 3;
const PAGE: u64 = 4096;
const DMA_BYTES: u32 = 8;

struct Dummy {
    config: [u8; 256],
    irqs: IrqVectors<Eventfd>,
    memory: OwnedFd,
    /// Guest address to read from.
    read_from: Option<u64>,
    /// Guest address to write to, and the bytes.
    write_to: Option<(u64, Vec<u8>)>,
}

/// A type 0 header with three memory BARs and an MSI-X capability for BAR 0.
fn config_space() -> [u8; 256] {
    const STATUS_CAPABILITIES: u8 = 0x10;
    const MSIX: u8 = 0x40;
    let mut config = [0; 256];
    config[..4].copy_from_slice(&[0xad, 0x15, 0xff, 0x0f]);
    config[6] = STATUS_CAPABILITIES;
    config[0x0b] = 0xff;
    config[0x34] = MSIX;
    let capability = [0x11, 0, VECTORS as u8 - 1, 0, 0, 0, 0, 0, 0, 8, 0, 0];
    config[MSIX.into()..][..12].copy_from_slice(&capability);
    config
}

impl Backend for Dummy {
    fn region(&self, index: u32) -> Option<Region> {
        let size = match index {
            0 | 1 => PAGE,
            2 => 16 * PAGE,
            CONFIG_REGION => 256,
            _ => return None,
        };
        Some(Region {
            size,
            readable: true,
            writable: true,
        })
    }

    fn region_mmap(&self, index: u32) -> Option<RegionMmap> {
        let fd = self.memory.try_clone().ok()?;
        let areas = vec![MmapArea {
            offset: PAGE,
            size: PAGE,
        }];
        (index == 2).then_some(RegionMmap {
            areas,
            fd: Some(fd),
            offset: 0,
        })
    }

    fn irq_count(&self, index: u32) -> u32 {
        if index == MSIX_IRQ {
            self.irqs.count()
        } else {
            0
        }
    }

    fn read(&mut self, region: u32, offset: u64, data: &mut [u8]) {
        if region == CONFIG_REGION {
            data.copy_from_slice(&self.config[offset as usize..][..data.len()]);
        }
        println!("read {region} {offset:#x} = {data:x?}");
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        println!("write {region} {offset:#x} = {data:x?}");
        match (region, offset) {
            (CONFIG_REGION, _) => {
                self.config[offset as usize..][..data.len()].copy_from_slice(data)
            }
            (1, 0) => self.irqs.raise(0),
            (1, 8) => self.read_from = data.try_into().ok().map(u64::from_le_bytes),
            _ => {}
        }
    }

    fn dma_map(&mut self, map: DmaMap, fd: Option<ClientFd>) -> Result<(), Errno> {
        println!("{map:x?} fd {}", fd.is_some());
        Ok(())
    }

    fn dma_unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno> {
        println!("{unmap:x?}");
        Ok(())
    }

    fn set_irqs(&mut self, irqs: SetIrqs<'_>) -> Result<(), Errno> {
        println!("{irqs:?}");
        self.irqs.apply(irqs)
    }

    fn reset(&mut self) {
        println!("reset");
        self.irqs.reset();
    }

    fn dma_done(&mut self, token: u64, result: Result<&[u8], Errno>) {
        println!("dma {token:#x}: {result:x?}");
        if let Ok(data @ [_, ..]) = result {
            self.write_to = Some((token + u64::from(DMA_BYTES), data.to_vec()));
        }
    }
}

impl Dummy {
    fn new() -> Result<Self, Errno> {
        let memory = memfd_create("dummy", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, 16 * PAGE)?;
        let (config, irqs) = (config_space(), IrqVectors::new(VECTORS));
        Ok(Dummy {
            config,
            irqs,
            memory,
            read_from: None,
            write_to: None,
        })
    }

    /// Starts the DMA that the last messages requested.
    fn start_dma(&mut self, client: &mut Connection) -> Result<(), Box<dyn std::error::Error>> {
        if let Some(from) = self.read_from.take() {
            client.dma_read(from, from, DMA_BYTES)?;
        }
        if let Some((to, data)) = self.write_to.take() {
            client.dma_write(to, to, &data)?;
        }
        Ok(client.on_writable(self)?)
    }

    fn serve(&mut self, listener: &Listener, mut client: Connection) {
        loop {
            let interest = PollFlags::IN;
            let mut fds = [
                PollFd::new(&client, interest),
                PollFd::new(listener, interest),
            ];
            if poll(&mut fds, None).is_err() {
                continue;
            }
            let [wakes, knocks] = fds.map(|fd| !fd.revents().is_empty());
            if knocks && listener.accept().is_ok() {
                println!("a second client was sent away");
            }
            let served = if wakes {
                client.on_readable(self).map(drop)
            } else {
                Ok(())
            };
            let served = served
                .map_err(Into::into)
                .and_then(|()| self.start_dma(&mut client));
            if let Err(error) = served {
                return println!("{error}");
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("usage: dummy_device SOCKET")?;
    let listener = Listener::bind(path, Closing::by(drop))?;
    loop {
        poll(&mut [PollFd::new(&listener.as_fd(), PollFlags::IN)], None)?;
        if let Some(client) = listener.accept()? {
            Dummy::new()?.serve(&listener, client);
        }
    }
}
