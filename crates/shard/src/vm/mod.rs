//! One VM's adapter: its vfio-user socket, its device and its memory.
//!
//! ```text
//!   listening ──QEMU connects──► connected ──QEMU leaves──► listening
//!                                             (device reset, memory unmapped)
//! ```

mod arriving;
mod backend;
mod incoming;
mod kept;
mod making;
mod resending;
mod sharing;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vrdma_inventory::AdapterSpec;
use vrdma_memory::{Space, View};
use vrdma_process::{Admission, Recorder};
use vrdma_pvrdma::{Activity, Device, DeviceSnapshot};
use vrdma_threads::{Disposal, QemuGuard, Relocated};
use vrdma_verbs::Time;
use vrdma_verbs::outline::Outline;
use vrdma_verbs::unit::Route;
use vrdma_vfio_user::{Closed, Connection, Listener};
use vrdma_wire::Gid;

use crate::shard::clock::Clock;
pub use arriving::{Frozen, Restoring};
use backend::Backend;
pub(crate) use kept::{Past, descriptors};
pub use making::{Made, Maker};
pub use resending::Resending;

/// An adapter of a VM.
pub(crate) struct Vm {
    spec: AdapterSpec,
    guard: QemuGuard,
    listener: Listener,
    connection: Option<Connection>,
    backend: Backend,
}

impl Vm {
    /// Waits for QEMU at the adapter's socket.
    pub(crate) fn new(
        spec: AdapterSpec,
        listener: Listener,
        clock: Clock,
        disposal: Disposal,
        admission: Arc<Admission>,
        recorder: Option<Recorder>,
    ) -> anyhow::Result<Self> {
        let backend = Backend::new(&spec, clock, disposal, recorder)?;
        let guard = QemuGuard::new(admission, spec.port, spec.name.clone());
        Ok(Self {
            spec,
            guard,
            listener,
            connection: None,
            backend,
        })
    }

    /// Makes the VM of the worker before, with its connection to QEMU.
    pub(crate) fn resume(
        spec: AdapterSpec,
        listener: Listener,
        clock: Clock,
        disposal: Disposal,
        admission: Arc<Admission>,
        past: Past,
    ) -> anyhow::Result<Self> {
        let closing = disposal.closing();
        let mut backend = Backend::resume(&spec, clock, disposal, past.device)?;
        let connection = Connection::resume(past.connection, &past.state, closing)?;
        backend.connected(&connection);
        if connection.is_stopped() {
            backend.stop_again();
        }
        let open = connection.open_requests(backend::RESENT);
        if open > 0 {
            backend.await_answers(open);
        }
        let guard = QemuGuard::new(admission, spec.port, spec.name.clone());
        Ok(Self {
            spec,
            guard,
            listener,
            connection: Some(connection),
            backend,
        })
    }

    /// Ends the records of an adapter that is being removed: no worker is to go on with it.
    pub(crate) fn end_records(&mut self) {
        self.backend.end_records();
    }

    pub(crate) fn spec(&self) -> &AdapterSpec {
        &self.spec
    }

    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    pub(crate) fn device(&mut self) -> &mut Device {
        &mut self.backend.device
    }

    /// Returns the routes to its peers.
    pub(crate) fn peers(&self) -> Vec<Route> {
        self.backend.device.peers()
    }

    pub(crate) fn has_peer(&self, peer: Gid) -> bool {
        self.backend.device.has_peer(peer)
    }

    /// Whether its device is frozen.
    pub(crate) fn is_still(&self) -> bool {
        self.backend.device.is_frozen()
    }

    /// Whether its client has stopped its device, which may go on at another host.
    pub(crate) fn is_stopped_by_client(&self) -> bool {
        self.backend.by_client.has_stopped()
    }

    /// Returns the epoch of what its peers were told of that last.
    pub(crate) fn epoch(&self) -> u64 {
        self.backend.device.epoch()
    }

    pub(crate) fn memory(&self) -> Arc<Space> {
        Arc::clone(&self.backend.memory)
    }

    pub(crate) fn snapshot(&self) -> DeviceSnapshot {
        self.backend.device.snapshot()
    }

    pub(crate) fn outline(&self, most: usize) -> Outline {
        self.backend.device.outline(most)
    }

    pub(crate) fn activity(&self) -> Activity {
        self.backend.device.activity()
    }

    /// When the adapter needs its turn without a doorbell.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let device = self.backend.device.next_deadline();
        device
            .into_iter()
            .chain(self.backend.memory_settles_at())
            .min()
    }

    /// Looks at doorbells, rings and timers; `true` if there was anything to do.
    pub(crate) fn poll(&mut self, memory: &View<'_>, now: Time) -> bool {
        self.backend.device.poll(memory, now)
    }

    /// Lets the device look at its memory again once QEMU is done rearranging it.
    pub(crate) fn renew_memory(&mut self, now: Time) {
        self.backend.renew_memory(now);
    }

    /// Returns once whether the VM's client took the adapter elsewhere, or brought it here.
    pub(crate) fn take_relocated(&mut self) -> Option<Relocated> {
        let away = self.backend.by_client.take_away()?;
        let name = self.spec.name.clone();
        Some(Relocated { name, away })
    }

    /// Returns what is wrong with the guest's set-up, if anything is.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.backend.fault()
    }

    /// Returns the number of log lines about its QEMUs, besides those about its guest, that were left out.
    pub(crate) fn log_lines_left_out(&self) -> u64 {
        self.guard.log_lines_left_out() + self.backend.log_lines_left_out()
    }

    /// Takes a waiting client; `true` when a new connection stands.
    pub(crate) fn accept(&mut self) -> std::io::Result<bool> {
        let Some(connection) = self.listener.accept()? else {
            return Ok(false);
        };
        let is_new = (self.guard).lets_in(connection.as_fd(), self.connection.is_some())
            && !self.backend.refuses();
        if is_new {
            let adapter = &self.spec.name;
            self.guard
                .tell(|| tracing::info!(%adapter, "QEMU connected"));
            let connection = match self.backend.is_kept() {
                true => connection.keep()?,
                false => connection,
            };
            self.backend.connected(&connection);
            self.connection = Some(connection);
        } else {
            drop(connection);
        }
        Ok(is_new)
    }

    /// Warns if the QEMU that has just connected waits for a VM that QEMU alone migrates, to an adapter that is here.
    pub(crate) fn warn_of_migration(&self) {
        let Some(connection) = &self.connection else {
            return;
        };
        if incoming::is_expected(connection.as_fd()) {
            let adapter = &self.spec.name;
            self.guard.tell(|| {
                tracing::warn!(
                    "{adapter}: the QEMU that connected waits for a VM (-incoming), and QEMU alone leaves the adapter behind, dead \
                     for its guest: use `vrdma migrate`, for which it is `away` here, or `vrdma adapter restore`"
                );
            });
        }
    }

    /// Whether what QEMU sends waits for the end of a long command.
    pub(crate) fn is_busy(&self) -> bool {
        self.backend.device.is_busy()
    }

    /// Whether QEMU is not read, since its device is being made.
    pub(crate) fn awaits_device(&self) -> bool {
        self.backend.awaits_device
    }

    /// Serves what QEMU sent. Returns the connection if it broke: stop watching it, and drop it.
    pub(crate) fn on_socket(&mut self, readable: bool, writable: bool) -> Option<Connection> {
        let outcome = self.converse(readable, writable);
        self.backend.conclude_restoring();
        let reason = outcome.err()?;
        let adapter = &self.spec.name;
        self.guard
            .tell(|| tracing::info!(%adapter, "QEMU left: {reason}"));
        self.backend.disconnected();
        self.connection.take()
    }

    fn converse(&mut self, readable: bool, writable: bool) -> Result<(), Closed> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        if self.backend.awaits_device && has_hung_up(connection.as_fd()) {
            self.backend.end_restoring();
        }
        if writable {
            connection.on_writable(&mut self.backend)?;
        }
        // The rest is read the next time: a client that writes without end gets its turn as any other.
        if readable {
            connection.on_readable(&mut self.backend)?;
        }
        if let Some(address) = self.backend.sharing.take_question() {
            // A session with so many open questions is not worth another.
            let _ = connection.dma_read(backend::SAMPLE, address, sharing::SAMPLE_BYTES);
            connection.on_writable(&mut self.backend)?;
        }
        if self.resend_more()
            && let Some(connection) = &mut self.connection
        {
            connection.on_writable(&mut self.backend)?;
        }
        Ok(())
    }

    /// Ends an adapter that is gone: nobody finds its socket any more. The rest, which takes long to free, is returned.
    pub(crate) fn hang_up(self) -> impl Send {
        self.backend
    }

    /// Raises the interrupts that the device asked for since the last call.
    pub(crate) fn interrupt(&mut self) {
        self.backend.interrupt();
        if self.backend.take_blocked()
            && let Some(connection) = &self.connection
        {
            // The end is noticed as that of any other connection, wherever this was called from.
            connection.hang_up();
        }
    }
}

/// Whether the other end of a socket is closed. For a socket that cannot be asked, reading tells.
fn has_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut socket = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    let polled = poll(&mut socket, Some(&Timespec::default()));
    let ends = PollFlags::HUP | PollFlags::ERR;
    polled.is_err() || socket[0].revents().intersects(ends)
}

/// Returns a seed: numbers of an earlier daemon's QPs and keys must be stale, and nobody may guess those of this one.
pub(crate) fn fresh_seed() -> u64 {
    // The system always has random bytes once programs run; if not, the seed of the standard library's tables has to
    // do.
    getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
}
