//! A VM whose own client takes the adapter along, by `DEVICE_FEATURE` and `MIG_DATA` of vfio-user. Nobody else takes
//! part. What `vrdma migrate` ([`arriving`](super::super::arriving)) does in steps of its own follows here from the
//! client's states:
//!
//! | client | here |
//! |---|---|
//! | RUNNING to STOP | the device is frozen, and its records are kept |
//! | STOP_COPY | the data is made of them |
//! | all data was read, and the client leaves without RUNNING | the VM goes on elsewhere: the adapter is *away* |
//! | RESUMING | accepted for a device without driver, away or not |
//! | RESUMING to STOP | the data is checked, and a frozen device is made of it |
//! | STOP to RUNNING, after that | the adapter is *here*, and goes on |
//! | STOP to RUNNING, without that | the device goes on where it stopped, whatever was read |
//!
//! The data is a [`Context`] without pages: registers, configuration space as the device knows it, and all objects with
//! their progress. It holds no guest memory. That is the client's, which asks by `DMA_LOGGING_REPORT` what the device
//! wrote, once more after STOP, unless it copies all memory then. The data holds neither the MSI-X table nor the wiring
//! of BARs and interrupts: those are the client's, too. So memory is mapped in its place before a client leaves
//! RESUMING: the device looks its queues up in it.
//!
//! Steps of the control API and of the client exclude each other: the one that began has the device.

use std::ops::Range;
use std::sync::Arc;

use vrdma_memory::PAGE;
use vrdma_pvrdma::{Context, Device, DeviceState, SavedRecord};
use vrdma_vfio_user::message::DATA_MAX;
use vrdma_vfio_user::{Errno, Migration};

use super::Backend;
use super::allowance::Allowance;
use super::held::Held;

/// State of the client's own migration.
#[derive(Debug, Default)]
pub(in crate::vm) struct ByClient {
    stopped: Option<Stopped>,
    /// Pages that the device writes are logged.
    is_logging: bool,
    /// Where the VM goes on from now on: elsewhere, or here.
    away: Option<bool>,
    allowance: Allowance,
    held: Held,
}

/// A device that the client has stopped.
#[derive(Debug)]
struct Stopped {
    records: Vec<SavedRecord>,
    /// The device had no driver.
    was_fresh: bool,
    /// The device was made from data, and has not worked yet.
    is_loaded: bool,
    /// The client has all of the device's data.
    is_saved: bool,
}

impl ByClient {
    /// Returns why nobody else may migrate the adapter now, if that is so: a sentence.
    pub(in crate::vm) fn refusal(&self) -> Option<&'static str> {
        let is_busy = self.stopped.is_some() || self.is_logging;
        is_busy.then_some("the VM's own client migrates the adapter: let it end that first")
    }

    /// Whether the client stopped a device that worked.
    pub(in crate::vm) fn has_stopped(&self) -> bool {
        let stopped = self.stopped.as_ref();
        stopped.is_some_and(|it| !it.was_fresh && !it.is_loaded)
    }

    /// Returns once whether the VM has left, or come.
    pub(in crate::vm) fn take_away(&mut self) -> Option<bool> {
        self.away.take()
    }
}

impl Backend {
    /// Ends the client's migration, since it has left; a device whose data it has read completely goes on elsewhere.
    pub(super) fn end_by_client(&mut self) {
        self.stop_logging();
        let stopped = self.by_client.stopped.take();
        self.by_client.held = Held::default();
        if stopped.is_some_and(|stopped| stopped.is_saved) {
            self.by_client.away = Some(true);
        }
    }

    /// Forgets a stopped device that was reset.
    pub(super) fn forget_stopped(&mut self) {
        self.by_client.stopped = None;
        self.by_client.held = Held::default();
    }

    /// Stops the device again, as it was with the worker before.
    pub(in crate::vm) fn stop_again(&mut self) {
        self.freeze_for_client(false);
    }

    fn freeze_for_client(&mut self, was_fresh: bool) {
        let records = self.device.freeze();
        self.interrupt();
        self.by_client.stopped = Some(Stopped {
            records,
            was_fresh,
            is_loaded: false,
            is_saved: false,
        });
    }

    /// Does work that may take long, unless the client had too much of that lately.
    fn charged<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Errno>) -> Result<T, Errno> {
        let began = self.clock.now();
        if !self.by_client.allowance.allows(began) {
            return Err(Errno::BUSY);
        }
        let done = work(self);
        let ended = self.clock.now();
        self.by_client.allowance.spend(began, ended);
        done
    }

    fn device_of(&self, data: &[u8]) -> anyhow::Result<Stopped> {
        let context = Context::decode(data)?;
        context.check(self.device.config())?;
        anyhow::ensure!(
            context.pages.is_empty(),
            "it has pages of memory, which are its VM's"
        );
        Ok(Stopped {
            records: context.records,
            was_fresh: false,
            is_loaded: true,
            is_saved: false,
        })
    }

    fn load_from(&mut self, data: &[u8]) -> anyhow::Result<()> {
        let stopped = self.device_of(data)?;
        let doorbells = self.device.doorbell_fd();
        let doorbells = doorbells.map(|fd| fd.try_clone_to_owned()).transpose()?;
        let (config, memory) = (*self.device.config(), Arc::clone(&self.memory));
        let (records, now) = (&stopped.records, self.clock.now());
        let mut device = Device::resume(config, memory, doorbells, records, None, now)?;
        device.keep_frozen(self.device.take_journal());
        self.device = device;
        self.by_client.stopped = Some(stopped);
        Ok(())
    }
}

impl Migration for Backend {
    fn stop(&mut self) -> Result<(), Errno> {
        let is_elsewhere = self.tracked || self.restoring.is_some() || self.device.is_frozen();
        if is_elsewhere {
            return Err(Errno::BUSY);
        }
        self.charged(|backend| {
            let was_fresh = backend.device.snapshot().state == DeviceState::Reset;
            backend.freeze_for_client(was_fresh);
            Ok(())
        })
    }

    fn go_on(&mut self) -> Result<(), Errno> {
        let stopped = self.by_client.stopped.take().ok_or(Errno::BUSY)?;
        self.device.thaw(self.clock.now());
        if stopped.is_loaded {
            // Earlier records are those of the device before.
            if let Some(journal) = self.device.take_journal() {
                self.device.record_to(journal);
            }
            self.keep_doorbells();
            self.by_client.away = Some(false);
        }
        Ok(())
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Errno> {
        self.by_client.held.resize(bytes)
    }

    fn save(&mut self) -> Result<Vec<u8>, Errno> {
        self.charged(|backend| {
            let mac = backend.device.config().identity.mac;
            let stopped = backend.by_client.stopped.as_mut().ok_or(Errno::BUSY)?;
            let context = Context {
                mac,
                records: std::mem::take(&mut stopped.records),
                pages: Vec::new(),
            };
            let data = context.encode();
            stopped.records = context.records;
            match data.len() <= DATA_MAX {
                true => Ok(data),
                false => Err(Errno::FBIG),
            }
        })
    }

    fn saved(&mut self) {
        if let Some(stopped) = &mut self.by_client.stopped {
            stopped.is_saved = true;
        }
    }

    fn prepare(&mut self) -> Result<(), Errno> {
        let stopped = self.by_client.stopped.as_ref();
        let is_fresh = stopped.is_some_and(|stopped| stopped.was_fresh);
        match is_fresh {
            true => self.charged(|_| Ok(())),
            false => Err(Errno::BUSY),
        }
    }

    fn load(&mut self, data: &[u8]) -> Result<(), Errno> {
        let began = self.clock.now();
        let loaded = self.load_from(data);
        let ended = self.clock.now();
        self.by_client.allowance.spend(began, ended);
        loaded.map_err(|error| {
            self.tell(&format_args!(
                "the VM's client brought the state of no such adapter, which stands still until it is reset: {error:#}"
            ));
            Errno::INVAL
        })
    }

    fn start_logging(&mut self) -> Result<(), Errno> {
        if self.by_client.is_logging {
            return Err(Errno::INVAL);
        }
        if self.tracked {
            return Err(Errno::BUSY);
        }
        self.memory.dirty_log().enable();
        self.by_client.is_logging = true;
        Ok(())
    }

    fn stop_logging(&mut self) {
        if std::mem::take(&mut self.by_client.is_logging) {
            self.memory.dirty_log().disable();
        }
    }

    fn take_written(&mut self, range: Range<u64>) -> Result<Vec<Range<u64>>, Errno> {
        if !self.by_client.is_logging {
            return Err(Errno::INVAL);
        }
        let runs = self.memory.dirty_log().take(range).into_iter();
        Ok(runs
            .map(|run| run.iova..run.iova + run.pages * PAGE)
            .collect())
    }
}
