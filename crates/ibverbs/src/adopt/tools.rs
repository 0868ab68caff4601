//! Descriptors and places that are made once, for all exchanges.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use super::HUGE;
use super::kernel::{self, Range};
use super::places::{Identity, Places};
use super::unmapped::Unmapping;
use super::userfault::Userfault;

/// Bytes of the file, which has a place for each address that a program can have on a machine with 47 or 48 bits of
/// address; without pages it takes no memory.
const FILE_BYTES: i64 = 1 << 47;

/// See the module. It is never dropped: all of it stays until the process ends.
pub(super) struct Tools {
    pub(super) userfault: Userfault,
    /// The watch that tells which adopted memory is unmapped, where that is possible.
    pub(super) unmapping: Option<Unmapping>,
    pub(super) places: Places,
    pub(super) pagemap: File,
    /// The memory that pages go to: offsets are addresses.
    file: File,
    identity: Identity,
    /// The place that pages are taken to: [`HUGE`] bytes, which begin at a multiple of it.
    pub(super) taken: usize,
    /// The place where the file is mapped while it is filled; of the same size and alignment.
    pub(super) side: usize,
}

impl Tools {
    /// Opens the tools. If this process may not have a userfaultfd by itself, it gets one of the device that `lent`
    /// gives. Fails if the kernel lacks something.
    pub(super) fn open(lent: impl Fn() -> Option<OwnedFd>) -> io::Result<Self> {
        let file = memory_file()?;
        let userfault = Userfault::open(&lent)?;
        // Programs of one thread adopt without a full userfaultfd, and must keep to one thread.
        let unmapping = userfault.is_full().then(|| Unmapping::begin(&lent));
        Ok(Self {
            userfault,
            unmapping: unmapping.and_then(Result::ok),
            places: Places::open()?,
            pagemap: File::open("/proc/self/pagemap")?,
            identity: identity(&file)?,
            file,
            taken: area(libc::PROT_READ | libc::PROT_WRITE)?,
            side: area(libc::PROT_NONE)?,
        })
    }

    /// Whether the descriptor is still that of our file: programs close descriptors that they do not know, and the
    /// number is another file's then.
    pub(super) fn is_whole(&self) -> bool {
        identity(&self.file).is_ok_and(|now| now == self.identity)
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Gives back what the file has for addresses where it is not mapped: memory that was unmapped where this library
    /// did not see it. `EBUSY`: it was moved instead.
    pub(super) fn clear(&self, range: Range) -> io::Result<()> {
        if !self.has_data(range) {
            return Ok(());
        }
        if self.places.has_moved(self.identity, range) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        kernel::punch(self.descriptor(), range)
    }

    fn has_data(&self, range: Range) -> bool {
        self.data_from(range.start)
            .is_some_and(|data| data < range.end)
    }

    /// Returns where the file's next bytes are that were ever written.
    pub(super) fn data_from(&self, offset: usize) -> Option<usize> {
        self.seek(offset, libc::SEEK_DATA)
    }

    /// Returns where the file has no bytes any more.
    pub(super) fn hole_from(&self, offset: usize) -> Option<usize> {
        self.seek(offset, libc::SEEK_HOLE)
    }

    fn seek(&self, offset: usize, to: i32) -> Option<usize> {
        // SAFETY: takes numbers; nobody uses the position that it sets.
        let found = unsafe { libc::lseek(self.descriptor(), offset as libc::off_t, to) };
        usize::try_from(found).ok()
    }

    /// Returns the first part of a range that is not adopted any more.
    pub(super) fn gap(&self, range: Range) -> Option<Range> {
        let mut at = range.start;
        while at < range.end {
            let place = self.places.at_or_behind(at).ok();
            let place = place.filter(|place| place.range.start < range.end);
            let ours = place.as_ref().filter(|place| place.is_of(self.identity));
            match (ours, &place) {
                (Some(ours), _) if ours.range.start <= at => at = ours.range.end,
                (Some(ours), _) => {
                    return Some(Range {
                        start: at,
                        end: ours.range.start,
                    });
                }
                (None, Some(other)) => {
                    let end = other.range.end.min(range.end);
                    return Some(Range { start: at, end });
                }
                (None, None) => {
                    return Some(Range {
                        start: at,
                        end: range.end,
                    });
                }
            }
        }
        None
    }

    /// Empties the side place, so that file memory that is mapped nowhere else can be told from moved memory.
    pub(super) fn clear_side(&self) {
        let (rights, flags) = (libc::PROT_NONE, libc::MAP_FIXED);
        // SAFETY: a place of ours, which only the thread that has the lock uses.
        let cleared = unsafe { kernel::map_private(self.side, HUGE, rights, flags) };
        debug_assert!(cleared.is_ok(), "a place that was mapped before");
    }

    /// Closes the tools in a child, which has another memory.
    pub(super) fn close(&self) {
        let files = [self.file.as_raw_fd(), self.pagemap.as_raw_fd()];
        for fd in files {
            // SAFETY: they are of the parent, where they stay open; nothing uses them in a child.
            unsafe { libc::close(fd) };
        }
        self.userfault.close();
        if let Some(unmapping) = &self.unmapping {
            unmapping.close();
        }
        self.places.close();
    }

    /// Returns the part at the beginning of a range that is all adopted, or all not; and which of the two it is.
    pub(super) fn run(&self, range: Range) -> io::Result<(Range, bool)> {
        let mut run: Option<(Range, bool)> = None;
        let mut at = range.start;
        while at < range.end {
            let place = match self.places.at(at) {
                Ok(place) => place,
                Err(_) if run.is_some() => break,
                Err(error) => return Err(error),
            };
            let is_ours = place.is_of(self.identity);
            let end = place.range.end.min(range.end);
            match &mut run {
                Some((_, before)) if *before != is_ours => break,
                Some((run, _)) => run.end = end,
                None => run = Some((Range { start: at, end }, is_ours)),
            }
            at = end;
        }
        run.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
    }
}

impl AsFd for Tools {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes a file that cannot change its size.
fn memory_file() -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a C string.
    let made = unsafe { libc::memfd_create(c"adopted".as_ptr(), flags) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(made) });
    let seals = libc::F_SEAL_GROW | libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: take numbers only.
    let failed = unsafe {
        libc::ftruncate(made, FILE_BYTES) != 0 || libc::fcntl(made, libc::F_ADD_SEALS, seals) != 0
    };
    if failed {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

fn identity(file: &File) -> io::Result<Identity> {
    let status = file.metadata()?;
    Ok(Identity {
        device: (libc::major(status.dev()), libc::minor(status.dev())),
        inode: status.ino(),
    })
}

/// Maps room for a huge page, which no child gets.
fn area(rights: i32) -> io::Result<usize> {
    // SAFETY: the kernel chooses the place.
    let at = unsafe { kernel::map_private(0, 2 * HUGE, rights, 0) }?;
    // SAFETY: memory of ours that nobody has used yet.
    unsafe { kernel::advise(Range::of(at, 2 * HUGE), libc::MADV_DONTFORK) }?;
    Ok(at.next_multiple_of(HUGE))
}
