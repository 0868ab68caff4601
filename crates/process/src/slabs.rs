//! The memory of a client's queues. Each file, a slab, holds many queues: a file costs a descriptor, two mappings, and
//! time when a worker goes on after another one.
//!
//! ```text
//!   slab   queue pair | free | completion queue | queue pair | never used
//! ```
//! No slab has queues of two clients: each client may write everything that it maps. A slab ends with its last queue.
//!
//! A unit on its way may still read the data area of a queue pair that has ended. Until it has done so, these bytes are
//! not given to another queue: the unit's peer would get data of that queue.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::io::Errno;
use vrdma_memory::{FileRegion, MapError};
use vrdma_provider::area::Area;

use crate::quota::Kind;
use crate::requests::Cost;

/// Bytes of a client's first slab. Each further one is as large as all before it together, up to the largest.
const SMALLEST: usize = 256 << 10;
/// Bytes of the largest slab, unless one queue needs more.
const LARGEST: usize = 4 << 20;

/// A client's slabs.
#[derive(Default)]
pub(crate) struct Slabs(Vec<Used>);

struct Used {
    slab: Arc<Slab>,
    /// Number of its queues that have not ended.
    queues: u32,
}

/// One file.
pub(crate) struct Slab {
    fd: OwnedFd,
    area: Area,
    /// The same bytes for the engine, as a read-only region.
    data: FileRegion,
    ranges: Mutex<Ranges>,
}

/// The ranges that are taken: length by start. All are whole pages.
struct Ranges {
    taken: BTreeMap<usize, usize>,
    /// Ranges of queue pairs that have ended, as long as their regions are in use.
    read: Vec<(usize, FileRegion)>,
    /// Number of bytes that are not taken.
    free: usize,
    /// Offset from which on no byte was ever taken.
    reached: usize,
}

/// Memory of one queue, or of the two of a queue pair. Free for others once this is dropped and its region is not in
/// use.
pub(crate) struct Part {
    slab: Arc<Slab>,
    offset: usize,
    region: OnceLock<FileRegion>,
    pub(crate) area: Arc<Area>,
}

impl Slabs {
    /// Takes memory in a slab that has room.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<Part> {
        // The newest is the largest, and the last to be full.
        let mut newest_first = self.0.iter_mut().rev();
        newest_first.find_map(|used| used.take(bytes))
    }

    /// Takes memory in a new slab; [`cost_of_next`](Self::cost_of_next) tells its cost.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<Part, Errno> {
        let slab = Slab::create(self.next(bytes)).map_err(|_| Errno::NOMEM)?;
        self.add(Arc::new(slab)).take(bytes).ok_or(Errno::NOMEM)
    }

    fn next(&self, bytes: usize) -> usize {
        let all: usize = self.0.iter().map(|used| used.slab.area.length()).sum();
        bytes.max(all.clamp(SMALLEST, LARGEST))
    }

    /// The cost of the next slab, if it is made for that many bytes.
    pub(crate) fn cost_of_next(&self, bytes: usize) -> [Cost; 3] {
        cost(self.next(bytes))
    }

    /// Notes that a queue has ended; its memory may be in use for a while. Returns the cost that its slab gives back,
    /// if that has ended, too.
    pub(crate) fn end(&mut self, part: &Part) -> Option<[Cost; 3]> {
        let is_its = |used: &Used| Arc::ptr_eq(&used.slab, &part.slab);
        let index = self.0.iter().position(is_its)?;
        let used = &mut self.0[index];
        used.queues -= 1;
        let has_ended = used.queues == 0;
        has_ended.then(|| self.0.remove(index).slab.cost())
    }

    /// Adds a slab of the earlier worker, whose ranges are yet to be [taken again](Self::take_again).
    pub(crate) fn resume(&mut self, fd: OwnedFd) -> Option<Arc<Slab>> {
        let slab = Arc::new(Slab::resume(fd).ok()?);
        self.add(Arc::clone(&slab));
        Some(slab)
    }

    /// Takes the memory that a queue had before; `None` if that cannot be right.
    pub(crate) fn take_again(
        &mut self,
        slab: &Arc<Slab>,
        offset: usize,
        bytes: usize,
    ) -> Option<Part> {
        let used = self
            .0
            .iter_mut()
            .rev()
            .find(|used| Arc::ptr_eq(&used.slab, slab))?;
        slab.ranges().is_free(offset, bytes).then_some(())?;
        used.part(offset, bytes)
    }

    fn add(&mut self, slab: Arc<Slab>) -> &mut Used {
        self.0.push(Used { slab, queues: 0 });
        self.0.last_mut().expect("one was added")
    }
}

impl Used {
    fn take(&mut self, bytes: usize) -> Option<Part> {
        let offset = self.slab.ranges().gap(bytes, self.slab.area.length())?;
        let was_used = offset < self.slab.ranges().reached;
        let part = self.part(offset, bytes)?;
        if was_used {
            part.area.clear();
        }
        Some(part)
    }

    fn part(&mut self, offset: usize, bytes: usize) -> Option<Part> {
        let area = Arc::new(self.slab.area.part(offset, bytes)?);
        self.slab.ranges().take(offset, bytes);
        self.queues += 1;
        Some(Part {
            slab: Arc::clone(&self.slab),
            offset,
            region: OnceLock::new(),
            area,
        })
    }
}

impl Slab {
    fn create(bytes: usize) -> io::Result<Self> {
        let (area, fd) = Area::create("vrdma-queues", bytes)?;
        Self::new(fd, area, 0)
    }

    /// Goes on with a slab of an earlier worker, which may have used all of it.
    fn resume(fd: OwnedFd) -> io::Result<Self> {
        let area = Area::map_all(fd.as_fd())?;
        let reached = area.length();
        Self::new(fd, area, reached)
    }

    fn new(fd: OwnedFd, area: Area, reached: usize) -> io::Result<Self> {
        let free = area.length();
        let data = FileRegion::new(&fd, 0, free as u64, 0, false).map_err(io::Error::other)?;
        Ok(Self {
            fd,
            area,
            data,
            ranges: Mutex::new(Ranges {
                taken: BTreeMap::new(),
                read: Vec::new(),
                free,
                reached,
            }),
        })
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cost(&self) -> [Cost; 3] {
        cost(self.area.length())
    }
}

fn cost(bytes: usize) -> [Cost; 3] {
    [
        (Kind::RingBytes, bytes as u64),
        (Kind::Mapping, 2),
        (Kind::Descriptor, 1),
    ]
}

impl Ranges {
    /// Finds the first gap that is long enough.
    fn gap(&mut self, bytes: usize, end: usize) -> Option<usize> {
        self.forget_read();
        // Most slabs are full.
        (bytes <= self.free).then_some(())?;
        let mut start = 0;
        for (taken, length) in &self.taken {
            if taken - start >= bytes {
                return Some(start);
            }
            start = taken + length;
        }
        (end - start >= bytes).then_some(start)
    }

    fn is_free(&self, offset: usize, bytes: usize) -> bool {
        let Some(end) = offset.checked_add(bytes) else {
            return false;
        };
        let before = self.taken.range(..end).next_back();
        before.is_none_or(|(start, length)| start + length <= offset)
    }

    fn take(&mut self, offset: usize, bytes: usize) {
        self.taken.insert(offset, bytes);
        self.free -= bytes;
        self.reached = self.reached.max(offset + bytes);
    }

    fn release(&mut self, offset: usize) {
        self.free += self.taken.remove(&offset).unwrap_or_default();
    }

    /// Releases the ranges that nobody reads any more.
    fn forget_read(&mut self) {
        let mut ended = Vec::new();
        self.read.retain_mut(|(offset, region)| {
            let is_alone = region.is_alone();
            ended.extend(is_alone.then_some(*offset));
            !is_alone
        });
        ended.into_iter().for_each(|offset| self.release(offset));
    }
}

impl Part {
    /// A descriptor for the client.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd, Errno> {
        self.slab.fd.try_clone().map_err(|_| Errno::MFILE)
    }

    /// The number by which the next worker finds the file.
    pub(crate) fn number(&self) -> RawFd {
        self.slab.fd.as_raw_fd()
    }

    /// Offset of the memory in the file.
    pub(crate) fn offset(&self) -> u32 {
        self.offset as u32
    }

    /// Returns a range as a read-only region: the same range for all callers.
    pub(crate) fn region(&self, offset: u32, bytes: u32) -> Result<FileRegion, MapError> {
        let start = self.offset as u64 + u64::from(offset);
        let made = self.slab.data.part(start, bytes.into())?;
        Ok(self.region.get_or_init(|| made).clone())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut ranges = self.slab.ranges();
        match self.region.take() {
            Some(region) => {
                ranges.read.push((self.offset, region));
                ranges.forget_read();
            }
            None => ranges.release(self.offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use vrdma_memory::{Memory, Region, Space};

    use super::*;

    const PAGE: usize = 4096;

    fn take(slabs: &mut Slabs, pages: usize) -> Part {
        let bytes = pages * PAGE;
        slabs
            .take(bytes)
            .unwrap_or_else(|| slabs.grow(bytes).unwrap())
    }

    /// The first word, read through the file.
    fn word(part: &Part) -> u32 {
        let fd = part.descriptor().unwrap();
        let theirs = Area::map_from(fd.as_fd(), part.offset() as usize, PAGE).unwrap();
        theirs.u32(0).load(Relaxed)
    }

    #[test]
    fn queues_share_a_file_until_it_is_full() {
        let mut slabs = Slabs::default();
        let parts: Vec<_> = (0..64).map(|_| take(&mut slabs, 1)).collect();
        assert_eq!(slabs.0.len(), 1);
        for (number, part) in (1..).zip(&parts) {
            part.area.u32(0).store(number, Relaxed);
        }
        let words: Vec<_> = parts.iter().map(word).collect();
        assert_eq!(words, (1..=64).collect::<Vec<_>>());
        let _next = take(&mut slabs, 1);
        let _large = take(&mut slabs, 5000);
        assert_eq!(slabs.0.len(), 3);
    }

    #[test]
    fn memory_of_a_queue_that_ended_is_zeros_for_the_next() {
        let mut slabs = Slabs::default();
        let [first, second, _third] = [1, 2, 1].map(|pages| take(&mut slabs, pages));
        second.area.write(0, &[7; 2 * PAGE]);
        assert!(slabs.end(&second).is_none());
        // Its memory may still be read.
        assert_eq!(take(&mut slabs, 2).offset(), 4 * PAGE as u32);
        drop(second);
        let again = take(&mut slabs, 2);
        assert_eq!((again.offset(), word(&again)), (PAGE as u32, 0));
        assert_eq!(word(&first), 0);
    }

    #[test]
    fn what_a_unit_still_reads_is_not_given_to_another_queue() {
        let mut slabs = Slabs::default();
        let [ended, _other] = [1, 1].map(|pages| take(&mut slabs, pages));
        ended.area.u32(0).store(7, Relaxed);
        let on_its_way = ended.region(0, PAGE as u32).unwrap();
        assert!(slabs.end(&ended).is_none());
        drop(ended);
        let next = take(&mut slabs, 1);
        assert_eq!(next.offset(), 2 * PAGE as u32);
        let mut view = [0; 4];
        let space = Space::new();
        let region = Region::File(on_its_way);
        Memory::read(&space.view(), &region, 0, &mut view).unwrap();
        assert_eq!(u32::from_le_bytes(view), 7);
        drop(region);
        assert_eq!(take(&mut slabs, 1).offset(), 0);
    }

    #[test]
    fn a_file_ends_with_its_last_queue() {
        let mut slabs = Slabs::default();
        let before = slabs.cost_of_next(PAGE);
        let [first, second] = [1, 1].map(|pages| take(&mut slabs, pages));
        assert!(slabs.end(&first).is_none());
        let given_back = slabs.end(&second).expect("it has ended");
        assert_eq!((given_back, slabs.0.len()), (before, 0));
        assert_eq!(word(&second), 0, "who holds it may use it");
    }

    #[test]
    fn another_worker_takes_what_was_taken_and_nothing_else() {
        let mut before = Slabs::default();
        let parts = [1, 2, 1].map(|pages| take(&mut before, pages));
        parts[1].area.u32(0).store(7, Relaxed);
        parts[2].area.u32(0).store(8, Relaxed);
        let mut slabs = Slabs::default();
        let slab = slabs.resume(parts[0].descriptor().unwrap()).unwrap();
        let mut again = |page, pages| slabs.take_again(&slab, page * PAGE, pages * PAGE);
        let second = again(1, 2).unwrap();
        assert_eq!(second.area.u32(0).load(Relaxed), 7);
        for (page, pages) in [(1, 2), (0, 2), (2, 1), (1, 1), (63, 2), (1 << 51, 1 << 51)] {
            assert!(again(page, pages).is_none(), "{page} {pages}");
        }
        let first = again(0, 1).unwrap();
        assert!(first.region(0, PAGE as u32).is_ok());
        // The third was lost, and with it its bytes.
        assert_eq!(word(&take(&mut slabs, 1)), 0);
    }
}
