//! The device's part in survival: what is recorded for another worker, when records take effect, and a device that goes
//! on.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use vrdma_adapter::Journal;
use vrdma_inventory::AdapterSpec;
use vrdma_memory::Space;
use vrdma_process::Lines;
use vrdma_pvrdma::Device;
use vrdma_threads::Disposal;
use vrdma_vfio_user as vfio;
use vrdma_vfio_user::{ClientFd, Connection, Errno, Eventfd, IrqData, IrqVectors};

use super::super::kept::{Kept, Mapped, NoRoom, ResumedDevice};
use super::super::sharing::Sharing;
use super::interrupts::Refusal;
use super::{Backend, ByClient, VECTORS, config, map_into};
use crate::shard::clock::Clock;

impl Backend {
    /// Makes the device go on for the worker before.
    pub(in crate::vm) fn resume(
        spec: &AdapterSpec,
        clock: Clock,
        disposal: Disposal,
        past: ResumedDevice,
    ) -> anyhow::Result<Self> {
        let memory = Arc::new(Space::new());
        for Mapped { map, fd, .. } in &past.memory {
            map_into(&memory, *map, fd.try_clone()?)?;
        }
        let mut irqs = IrqVectors::new(VECTORS);
        for (vector, fd) in &past.interrupts {
            let fd = ClientFd::new(fd.try_clone()?, disposal.closing());
            irqs.set(*vector, Some(Eventfd::adopt(fd)?));
        }
        let device = Device::resume(
            config(spec),
            Arc::clone(&memory),
            past.doorbells,
            &past.device,
            Some(Box::new(past.recorder)),
            clock.now(),
        )?;
        let mut backend = Self {
            device,
            memory,
            sharing: Sharing::default(),
            name: spec.name.clone(),
            lines: Lines::default(),
            irqs,
            is_blocked: false,
            refusal: Refusal::default(),
            clock,
            disposal,
            settles: None,
            tracked: false,
            restoring: None,
            awaits_device: false,
            restored: false,
            table: None,
            resender: None,
            by_client: ByClient::default(),
            kept: Some(Kept::resume(past.memory, past.interrupts)),
        };
        backend.keep_doorbells();
        Ok(backend)
    }

    /// Whether QEMU's connection is to outlive this worker.
    pub(in crate::vm) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Notes that QEMU has connected, or that its connection goes on.
    pub(in crate::vm) fn connected(&mut self, connection: &Connection) {
        if let (Some(kept), Some(descriptors)) = (&mut self.kept, connection.descriptors()) {
            kept.connected(&descriptors);
        }
        if let Some(state) = connection.state() {
            vfio::Backend::commit(self, &state);
        }
    }

    /// Ends the records of an adapter that is being removed: no worker is to go on with it.
    pub(in crate::vm) fn end_records(&mut self) {
        self.device.stop_recording();
    }

    pub(super) fn keep(
        &mut self,
        record: impl FnOnce(&mut Kept, &mut dyn Journal) -> Result<(), NoRoom>,
    ) {
        let Some(kept) = &mut self.kept else { return };
        let recorded = match self.device.journal() {
            Some(journal) => record(kept, &mut **journal),
            None => Ok(()),
        };
        if let Err(NoRoom) = recorded {
            self.tell("there is no room to record what its VM has: it will not survive the end of the worker");
            self.device.stop_recording();
        }
    }

    pub(in crate::vm) fn keep_doorbells(&mut self) {
        let fd = self.device.doorbell_fd();
        let fd = fd.and_then(|fd| fd.try_clone_to_owned().ok());
        self.keep(|kept, journal| kept.doorbells(journal, fd));
    }

    /// Makes records take effect, and closes descriptors that only the replaced records named.
    pub(in crate::vm) fn commit_records(&mut self) {
        if let Some(journal) = self.device.journal() {
            journal.commit();
        }
        self.kept.iter_mut().for_each(Kept::committed);
    }
}

/// Returns the vectors that a request changes, and what each is wired to afterwards.
pub(super) fn wiring(irqs: &vfio::SetIrqs<'_>) -> Result<Vec<(u32, Option<OwnedFd>)>, Errno> {
    let end = irqs.start.saturating_add(irqs.count).min(VECTORS.into());
    let unwired = |vectors: Range<u32>| vectors.map(|vector| (vector, None)).collect();
    match &irqs.data {
        IrqData::None if irqs.count == 0 => Ok(unwired(0..VECTORS.into())),
        IrqData::Eventfd(fds) if fds.is_empty() => Ok(unwired(irqs.start..end)),
        IrqData::Eventfd(fds) => {
            let copies = fds.iter().map(|fd| fd.as_fd().try_clone_to_owned());
            let numbered = (irqs.start..end).zip(copies);
            let wired = numbered.map(|(vector, fd)| Ok((vector, Some(fd?))));
            let wired: std::io::Result<Vec<_>> = wired.collect();
            wired.map_err(|_| Errno::MFILE)
        }
        _ => Ok(Vec::new()),
    }
}
