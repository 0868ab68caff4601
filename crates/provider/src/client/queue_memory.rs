//! The memory of a queue, as the program maps it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::atomics::Area;
use crate::message::QueueGeometry;

const PAGE: u32 = 4096;

/// The pages of a file that hold one queue, without the pages of other queues.
#[derive(Debug)]
pub struct QueueMemory {
    area: Arc<Area>,
    /// Offset of the first page in the file.
    from: u32,
}

impl QueueMemory {
    /// Maps the file from the page of the queue's header up to byte `end`.
    pub fn map(fd: BorrowedFd<'_>, header: u32, end: u32) -> io::Result<Self> {
        let from = header - header % PAGE;
        let length = end.checked_sub(from).ok_or(io::ErrorKind::InvalidData)?;
        let area = Area::map_from(fd, from as usize, length as usize)?;
        Ok(Self {
            area: Arc::new(area),
            from,
        })
    }

    /// The mapped pages.
    pub fn area(&self) -> Arc<Area> {
        Arc::clone(&self.area)
    }

    /// Converts a queue's place in the file, as the daemon told it, to its place in these pages.
    pub fn place(&self, in_file: QueueGeometry) -> io::Result<QueueGeometry> {
        in_file
            .shifted_back(self.from)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::daemon::SrqPlan;

    #[test]
    fn a_queue_is_mapped_without_the_others_in_its_file() {
        let ring = SrqPlan::new(4, 1).unwrap().ring;
        let (file, fd) = Area::create("test", 5 * 4096).unwrap();
        let told = ring.shifted(2 * 4096);
        let memory = QueueMemory::map(fd.as_fd(), told.header, 4 * 4096).unwrap();
        assert_eq!(memory.place(told).unwrap(), ring);
        assert_eq!(memory.area().length(), 2 * 4096);
        memory.area().u32(0).store(7, Relaxed);
        assert_eq!(file.u32(2 * 4096).load(Relaxed), 7);
        assert!(memory.place(ring).is_err(), "it lies before them");
        assert!(QueueMemory::map(fd.as_fd(), told.header, 4096).is_err());
    }
}
