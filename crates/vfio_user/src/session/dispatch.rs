//! Execution of commands: one function each.

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::Peer;
use super::input::Attached;
use super::migrating::Migrating;
use crate::backend::{Backend, SetIrqs};
use crate::client_fd::ClientFd;
use crate::message::{
    Header, IRQ_TYPE_COUNT, Query, REGION_COUNT, Refusal, RegionAccess, Request, VersionRequest,
    Write, WriteMulti, device_info, irq_info, region_info,
};

/// Direction of a region access.
#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl Peer {
    pub(super) fn command(
        &mut self,
        header: &Header,
        payload: &[u8],
        attached: Attached,
        backend: &mut dyn Backend,
    ) {
        let done = take_fds(attached)
            .and_then(|fds| Request::parse(header.command, payload, fds))
            .and_then(|request| self.perform(header, request, backend));
        if let Err(refusal) = done {
            self.refuse(header, refusal.errno, refusal.reason);
        }
    }

    fn perform(
        &mut self,
        to: &Header,
        request: Request<'_>,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        self.check_order(&request)?;
        match request {
            Request::Version(version) => self.negotiate(to, version),
            Request::DmaMap(map, fd) => {
                backend.dma_map(map, fd)?;
                self.output.reply_with(to, &[]);
            }
            Request::DmaUnmap(unmap, entry) => {
                backend.dma_unmap(unmap)?;
                self.output.reply_with(to, entry);
            }
            Request::DeviceGetInfo => self.output.reply_with(to, &device_info()),
            Request::DeviceGetRegionInfo(query) => self.region_info(to, query, backend)?,
            Request::DeviceGetIrqInfo(query) => self.irq_info(to, query, backend)?,
            Request::DeviceSetIrqs(irqs) => self.set_irqs(to, irqs, backend)?,
            Request::RegionRead(access) => self.region_read(to, access, backend)?,
            Request::RegionWrite(write) => self.region_write(to, write, backend)?,
            Request::RegionWriteMulti(writes) => self.write_multi(to, writes, backend)?,
            Request::DeviceReset => {
                backend.reset();
                self.migrating = Migrating::default();
                self.output.reply_with(to, &[]);
            }
            Request::DeviceFeature(feature) => self.feature(to, feature, backend)?,
            Request::MigDataRead(size) => self.read_data(to, size, backend)?,
            Request::MigDataWrite(data) => self.write_data(to, data, backend)?,
        }
        Ok(())
    }

    /// Checks the order; section "Version": that command comes first, and once.
    fn check_order(&self, request: &Request<'_>) -> Result<(), Refusal> {
        match (request, self.max_transfer) {
            (Request::Version(_), Some(_)) => {
                Err(Refusal::invalid("the version is agreed already"))
            }
            (Request::Version(_), None) | (_, Some(_)) => Ok(()),
            (_, None) => Err(Refusal::invalid(
                "the version comes before any other command",
            )),
        }
    }

    fn negotiate(&mut self, to: &Header, version: VersionRequest) {
        self.max_transfer = Some(version.capabilities().max_transfer());
        self.output.reply_with(to, &version.reply());
    }

    fn region_info(
        &mut self,
        to: &Header,
        query: Query,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        if query.index >= REGION_COUNT {
            return Err(Refusal::invalid("PCI devices have nine regions"));
        }
        let region = backend.region(query.index);
        let mmap = region.and_then(|_| backend.region_mmap(query.index));
        let payload = region_info(query, region, mmap.as_ref());
        self.output
            .reply_with_fd(to, &payload, mmap.and_then(|mmap| mmap.fd));
        Ok(())
    }

    fn irq_info(
        &mut self,
        to: &Header,
        query: Query,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        if query.index >= IRQ_TYPE_COUNT {
            return Err(Refusal::invalid("PCI devices have five interrupt types"));
        }
        let count = backend.irq_count(query.index);
        self.output.reply_with(to, &irq_info(query.index, count));
        Ok(())
    }

    fn set_irqs(
        &mut self,
        to: &Header,
        irqs: SetIrqs<'_>,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        if irqs.index >= IRQ_TYPE_COUNT {
            return Err(Refusal::invalid("PCI devices have five interrupt types"));
        }
        let known = backend.irq_count(irqs.index);
        let end = irqs.start.checked_add(irqs.count);
        if end.is_none_or(|end| end > known) {
            return Err(Refusal::invalid("the device has no such interrupt vector"));
        }
        backend.set_irqs(irqs)?;
        self.output.reply_with(to, &[]);
        Ok(())
    }

    /// Reads from a region. A read without a reply has no effect at all: nobody would see its data, and a register that
    /// clears on read would be cleared for nothing.
    fn region_read(
        &mut self,
        to: &Header,
        access: &RegionAccess,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        check_access(access, Direction::Read, backend)?;
        let count = access.count.get() as usize;
        let Some(space) = self.output.reply(to, size_of::<RegionAccess>() + count) else {
            return Ok(());
        };
        let (head, data) = space.split_at_mut(size_of::<RegionAccess>());
        head.copy_from_slice(access.as_bytes());
        if count > 0 {
            backend.read(access.region.get(), access.offset.get(), data);
        }
        Ok(())
    }

    fn region_write(
        &mut self,
        to: &Header,
        write: Write<'_>,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        check_access(write.access, Direction::Write, backend)?;
        apply(write, backend);
        self.output.reply_with(to, write.access.as_bytes());
        Ok(())
    }

    /// Makes all writes or none: each is checked before the first is done.
    fn write_multi(
        &mut self,
        to: &Header,
        writes: WriteMulti<'_>,
        backend: &mut dyn Backend,
    ) -> Result<(), Refusal> {
        for write in writes.writes() {
            check_access(write.access, Direction::Write, backend)?;
        }
        for write in writes.writes() {
            apply(write, backend);
        }
        self.output.reply_with(to, &writes.count().to_le_bytes());
        Ok(())
    }
}

fn apply(write: Write<'_>, backend: &mut dyn Backend) {
    if !write.data.is_empty() {
        backend.write(
            write.access.region.get(),
            write.access.offset.get(),
            write.data,
        );
    }
}

fn check_access(
    access: &RegionAccess,
    way: Direction,
    backend: &dyn Backend,
) -> Result<(), Refusal> {
    let index = access.region.get();
    let region = (index < REGION_COUNT)
        .then(|| backend.region(index))
        .flatten();
    let region = region.ok_or(Refusal::invalid("the device has no such region"))?;
    let allowed = match way {
        Direction::Read => region.readable,
        Direction::Write => region.writable,
    };
    if !allowed {
        return Err(Refusal {
            errno: Errno::ACCESS,
            reason: "the region does not allow this",
        });
    }
    let end = access
        .offset
        .get()
        .checked_add(u64::from(access.count.get()));
    if end.is_none_or(|end| end > region.size) {
        return Err(Refusal::invalid("the access reaches beyond the region"));
    }
    Ok(())
}

/// Takes the descriptors of a message. A message that lost some on the way, because it had more than the server accepts
/// or because this process may not open more, cannot be trusted to mean what it says.
fn take_fds(attached: Attached) -> Result<Vec<ClientFd>, Refusal> {
    if attached.lost {
        return Err(Refusal {
            errno: Errno::MFILE,
            reason: "too many file descriptors came along",
        });
    }
    Ok(attached.fds)
}
