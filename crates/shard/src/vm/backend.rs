//! The device behind the vfio-user session: regions, memory, interrupts.

mod allowance;
mod held;
mod interrupts;
mod keeping;
mod migrating;

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vrdma_api::{DoorbellMode, Name};
use vrdma_inventory::AdapterSpec;
use vrdma_memory::{MAX_MAPS, MapError, Protection, Space, is_in_memory};
use vrdma_process::{Lines, Recorder};
use vrdma_pvrdma::{BarRegion, Device, DeviceConfig};
use vrdma_threads::Disposal;
use vrdma_verbs::Time;
use vrdma_verbs::object::Identity;
use vrdma_vfio_user as vfio;
use vrdma_vfio_user::message::{CONFIG_REGION, MSIX_IRQ};
use vrdma_vfio_user::{ClientFd, Errno, Eventfd, IrqVectors, SessionState};

use super::arriving::Restoring;
use super::fresh_seed;
use super::kept::Kept;
use super::resending::Resender;
use super::sharing::{SAMPLE_BYTES, Sharing};
use crate::shard::clock::Clock;
use interrupts::Refusal;
use keeping::wiring;
use migrating::ByClient;

// QEMU is told of as many maps as there is room for.
const _: () = assert!(vrdma_vfio_user::message::MAX_DMA_MAPS == MAX_MAPS as u64);

/// VFIO's interrupt type for errors.
const ERROR_IRQ: u32 = 3;

/// MSI-X vectors: command response, asynchronous events, completions.
const VECTORS: u16 = 3;

/// Quiet time after which QEMU counts as done with its memory map: far longer than the pause between the messages of
/// one change, far shorter than anybody waits for a dead device.
const MEMORY_SETTLES: Duration = Duration::from_millis(100);

/// BAR1 and the registers that name the driver's shared region.
const REGISTERS: u32 = 1;
const DSR_LOW: u64 = 0x04;
const DSR_HIGH: u64 = 0x08;

pub(super) struct Backend {
    pub(super) device: Device,
    pub(super) memory: Arc<Space>,
    pub(super) sharing: Sharing,
    /// Its name for log lines.
    name: Name,
    lines: Lines,
    irqs: IrqVectors<Eventfd>,
    /// The log was told that its interrupts make the shard wait.
    is_blocked: bool,
    refusal: Refusal,
    pub(super) clock: Clock,
    disposal: Disposal,
    /// When the device shall look at its memory again.
    settles: Option<Time>,
    /// The kept descriptors, if another worker would go on for this one.
    kept: Option<Kept>,
    /// Writes of the device are logged, and have been since before its guest's memory was mapped last.
    pub(super) tracked: bool,
    /// A restore that waits for QEMU's answer.
    pub(super) restoring: Option<Restoring>,
    /// The device is being made elsewhere; until it is there, everything that QEMU sends waits.
    pub(super) awaits_device: bool,
    /// The device was made from a context; meaningful only while it is frozen.
    pub(super) restored: bool,
    /// QEMU's answer to the write of its MSI-X table.
    pub(super) table: Option<Result<(), Errno>>,
    /// The pages written by the device that QEMU is still to send.
    pub(super) resender: Option<Resender>,
    /// The migration that the VM's client does by itself.
    pub(super) by_client: ByClient,
}

/// Tokens of requests to QEMU: a sample of memory, an MSI-X table, and pages to be sent again.
pub(super) const SAMPLE: u64 = 0;
pub(super) const MSIX_TABLE: u64 = 1;
pub(super) const RESENT: u64 = 2;

impl Backend {
    pub(super) fn new(
        spec: &AdapterSpec,
        clock: Clock,
        disposal: Disposal,
        recorder: Option<Recorder>,
    ) -> std::io::Result<Self> {
        let memory = Arc::new(Space::new());
        let mut device = Device::new(config(spec), Arc::clone(&memory))?;
        let kept = recorder.is_some().then(Kept::default);
        if let Some(recorder) = recorder {
            device.record_to(Box::new(recorder));
        }
        let mut backend = Self {
            device,
            memory,
            sharing: Sharing::default(),
            name: spec.name.clone(),
            lines: Lines::default(),
            irqs: IrqVectors::new(VECTORS),
            is_blocked: false,
            refusal: Refusal::default(),
            clock,
            disposal,
            settles: None,
            kept,
            tracked: false,
            restoring: None,
            awaits_device: false,
            restored: false,
            table: None,
            resender: None,
            by_client: ByClient::default(),
        };
        backend.keep_doorbells();
        Ok(backend)
    }

    /// Ends everything that QEMU gave, since it is gone: its memory and its descriptors.
    pub(super) fn disconnected(&mut self) {
        self.device.reset();
        self.device.record();
        self.keep(|kept, journal| {
            kept.disconnected(journal);
            Ok(())
        });
        self.commit_records();
        self.disposal.free(self.memory.unmap_all());
        self.settles = None;
        self.end_tracking();
        self.end_by_client();
        self.end_restoring();
        self.abandon_resending();
        self.irqs = IrqVectors::new(VECTORS);
        self.is_blocked = false;
        self.sharing = Sharing::default();
    }

    /// Frees a value that takes long to free, on another thread.
    pub(super) fn dispose(&self, what: impl Send + 'static) {
        self.disposal.free(what);
    }

    pub(super) fn fault(&self) -> Option<&'static str> {
        self.sharing.fault()
    }

    pub(super) fn log_lines_left_out(&self) -> u64 {
        self.lines.left_out()
    }

    pub(super) fn memory_settles_at(&self) -> Option<Time> {
        self.settles
    }

    pub(super) fn renew_memory(&mut self, now: Time) {
        if self.settles.is_some_and(|time| time <= now) {
            self.settles = None;
            self.device.memory_changed();
        }
    }

    /// Notes that memory changes. When its map changes anywhere, QEMU takes all memory away and gives it back in
    /// pieces: the device must not take the first half for the loss of its rings.
    fn memory_moves(&mut self) {
        self.settles = Some(self.clock.now() + MEMORY_SETTLES);
    }

    fn unusable(&self, error: &MapError) -> Errno {
        self.tell(&format_args!(
            "a part of the guest's memory is not usable: {error}"
        ));
        Errno::INVAL
    }

    /// Warns in the log at a limited rate: QEMU and the guest can cause any number of warnings.
    fn tell(&self, what: &(impl Display + ?Sized)) {
        if self.lines.allow(Instant::now()) {
            tracing::warn!(adapter = %self.name, "{what}");
        }
    }

    fn follow_shared_region(&mut self, region: u32, offset: u64, data: &[u8]) {
        let Ok(value) = data.try_into().map(u32::from_le_bytes) else {
            return;
        };
        match (region, offset) {
            (REGISTERS, DSR_LOW) => self.sharing.low(value),
            (REGISTERS, DSR_HIGH) => self.sharing.high(value),
            _ => {}
        }
    }
}

impl vfio::Backend for Backend {
    fn commit(&mut self, state: &SessionState) {
        self.device.record();
        self.keep(|kept, journal| kept.state(journal, state));
        self.commit_records();
    }

    fn is_busy(&self) -> bool {
        self.device.is_busy() || self.awaits_device
    }

    fn migration(&mut self) -> Option<&mut dyn vfio::Migration> {
        Some(self)
    }

    fn region(&self, index: u32) -> Option<vfio::Region> {
        let size = self.device.region_bytes(region_at(index)?);
        Some(vfio::Region {
            size,
            readable: true,
            writable: true,
        })
    }

    /// Every BAR is announced as mappable, whether or not there is something to map: that alone makes
    /// QEMU wait for each write, and the stock driver reads the answer of its DSRHIGH write from
    /// memory.
    fn region_mmap(&self, index: u32) -> Option<vfio::RegionMmap> {
        let region = region_at(index).filter(|region| *region != BarRegion::Config)?;
        let mapped = self
            .device
            .mapped_area()
            .filter(|_| region == BarRegion::Doorbells);
        let areas = mapped
            .into_iter()
            .map(|area| vfio::MmapArea {
                offset: area.start,
                size: area.end - area.start,
            })
            .collect::<Vec<_>>();
        let fd = self.device.doorbell_fd().filter(|_| !areas.is_empty());
        let fd = fd.and_then(|fd| fd.try_clone_to_owned().ok());
        Some(vfio::RegionMmap {
            areas,
            fd,
            offset: 0,
        })
    }

    fn irq_count(&self, index: u32) -> u32 {
        match index {
            MSIX_IRQ => u32::from(VECTORS),
            // QEMU warns about a device without this interrupt; it is never raised.
            ERROR_IRQ => 1,
            _ => 0,
        }
    }

    fn read(&mut self, region: u32, offset: u64, data: &mut [u8]) {
        if let Some(region) = region_at(region) {
            self.device.read(region, offset, data);
        }
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        if let Some(region) = region_at(region) {
            self.device.write(region, offset, data, self.clock.now());
        }
        self.follow_shared_region(region, offset, data);
        // A command's interrupt must not wait for the shard's next turn.
        self.interrupt();
    }

    fn dma_map(&mut self, map: vfio::DmaMap, fd: Option<ClientFd>) -> Result<(), Errno> {
        // Memory without a descriptor (firmware, other devices' BARs) is no place for queues or
        // payload: the device treats it as not mapped.
        let Some(fd) = fd else { return Ok(()) };
        // Access to any other file may make the accessing thread wait, if it is on a file system that QEMU's user
        // serves.
        if !is_in_memory(&fd) {
            self.tell("a part of the guest's memory is a file that is not in memory, which its adapter cannot reach: use memory-backend-memfd, or a file on tmpfs or hugetlbfs");
            return Ok(());
        }
        let fd = fd.into_harmless();
        let kept = self.kept.as_ref().map(|_| fd.try_clone()).transpose();
        let kept = kept.map_err(|_| Errno::MFILE)?;
        map_into(&self.memory, map, fd).map_err(|error| self.unusable(&error))?;
        if let Some(fd) = kept {
            self.keep(|kept, journal| kept.mapped(journal, map, fd));
        }
        self.memory_moves();
        Ok(())
    }

    fn dma_unmap(&mut self, unmap: vfio::DmaUnmap) -> Result<(), Errno> {
        let unmapped = match unmap {
            vfio::DmaUnmap::All => self.memory.unmap_all(),
            vfio::DmaUnmap::Range { iova, size } => {
                let unmapped = self.memory.unmap(iova, size);
                unmapped.map_err(|error| {
                    self.tell(&error);
                    Errno::INVAL
                })?
            }
        };
        // The log of the maps that are gone is lost.
        self.end_tracking();
        vfio::Migration::stop_logging(self);
        self.disposal.free(unmapped);
        self.keep(|kept, journal| {
            kept.unmapped(journal, unmap);
            Ok(())
        });
        self.memory_moves();
        Ok(())
    }

    fn set_irqs(&mut self, irqs: vfio::SetIrqs<'_>) -> Result<(), Errno> {
        match irqs.index {
            MSIX_IRQ => {
                let wired = self.kept.as_ref().map(|_| wiring(&irqs)).transpose()?;
                self.irqs.apply(irqs)?;
                for (vector, fd) in wired.into_iter().flatten() {
                    self.keep(|kept, journal| kept.wired(journal, vector, fd));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn reset(&mut self) {
        self.forget_stopped();
        self.device.reset();
        self.irqs.reset();
    }

    fn dma_done(&mut self, token: u64, result: Result<&[u8], Errno>) {
        if token == MSIX_TABLE {
            self.table_written(result.map(drop));
            return;
        }
        if token == RESENT {
            self.resent(result.map(drop));
            return;
        }
        let mut mapped = [0; SAMPLE_BYTES as usize];
        let shown = self.memory.view().read(self.sharing.asked(), &mut mapped);
        if let (Ok(told), Ok(())) = (result, shown) {
            self.sharing.compare(told, &mapped);
        }
        if let Some(fault) = self.fault() {
            self.tell(&fault);
        }
    }
}

fn map_into(space: &Space, map: vfio::DmaMap, fd: OwnedFd) -> Result<(), MapError> {
    let protection = Protection {
        read: map.readable,
        write: map.writable,
    };
    space.map(map.iova, map.size, protection, fd, map.offset)
}

fn config(spec: &AdapterSpec) -> DeviceConfig {
    let identity = Identity {
        mac: spec.mac,
        seed: fresh_seed(),
    };
    DeviceConfig {
        maps_doorbells: spec.doorbells == DoorbellMode::Mapped,
        ..DeviceConfig::new(identity)
    }
}

/// Returns the region of a VFIO index: BARs first.
fn region_at(index: u32) -> Option<BarRegion> {
    Some(match index {
        0 => BarRegion::Msix,
        1 => BarRegion::Registers,
        2 => BarRegion::Doorbells,
        CONFIG_REGION => BarRegion::Config,
        _ => return None,
    })
}
