//! Stress: nothing gets lost while pages are exchanged to and fro, neither stores of other threads, nor atomics, nor
//! what system calls and another process read and write. The other process does not write while pages become private
//! again: the kernel does not tell which process has pinned a page of the file, see [`exchange::undo`].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::errno::Errno;

/// Exchanges of a run. `VRDMA_ADOPT_ROUNDS` makes it longer.
const ROUNDS: usize = 300;
/// Pages that go to and fro, and pages on each side that stay.
const MOVING: usize = 16;
const MARGIN: usize = 4;
const PAGES: usize = MOVING + 2 * MARGIN;
/// Most time that an exchange without protection may take to lose something.
const PATIENCE: Duration = Duration::from_secs(60);

/// The use of each page: words of two threads and one of both in one cache line, and room for system calls.
const SHARED: usize = 16;
const READ_INTO: usize = 1024;
const WRITTEN_FROM: usize = 2048;
const FOREIGN: usize = 3072;
const PIECE: usize = 512;

struct Stress {
    field: Field,
    stop: AtomicBool,
    lost: AtomicU64,
    done: [AtomicU64; 4],
    told: &'static Told,
}

impl Stress {
    fn at(&self, page: usize, offset: usize) -> usize {
        self.field.start() + page * PAGE + offset
    }

    fn pages(&self) -> impl Iterator<Item = usize> {
        std::iter::repeat_with(|| 0..PAGES)
            .take_while(|_| !self.stop.load(Ordering::Relaxed))
            .flatten()
    }

    fn check(&self, is_well: bool) {
        if !is_well {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts in words of this thread's own, and in words that threads share.
    fn count(&self, thread: usize) {
        let mut expected = [0u64; PAGES];
        for page in self.pages() {
            let own = self.at(page, thread * 8) as *mut u64;
            // SAFETY: a word of the field that only this thread writes.
            unsafe {
                self.check(own.read_volatile() == expected[page]);
                expected[page] += 1;
                own.write_volatile(expected[page]);
            }
            let shared = self.at(page, SHARED) as *mut u64;
            // SAFETY: an aligned word that is only used so.
            unsafe { AtomicU64::from_ptr(shared) }.fetch_add(1, Ordering::Relaxed);
            self.done[thread].fetch_add(1, Ordering::Relaxed);
        }
        for (page, expected) in expected.iter().enumerate() {
            // SAFETY: as above.
            let found = unsafe { (self.at(page, thread * 8) as *const u64).read_volatile() };
            self.check(found == *expected);
        }
    }

    /// Reads into the pages by `pread`.
    fn read(&self, source: &File) {
        let mut number = 0u8;
        for page in self.pages() {
            number = number.wrapping_add(1);
            source.write_all_at(&[number; PIECE], 0).unwrap();
            let to = self.at(page, READ_INTO) as *mut [u8; PIECE];
            // SAFETY: bytes that only this thread uses.
            unsafe {
                let read = libc::pread(descriptor(source), to.cast(), PIECE, 0);
                self.check(read == PIECE as isize && to.read_volatile() == [number; PIECE]);
            }
            self.done[2].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes from the pages by `pwrite`.
    fn write(&self, target: &File) {
        let (mut number, mut found) = (0u8, [0; PIECE]);
        for page in self.pages() {
            number = number.wrapping_add(1);
            let from = self.at(page, WRITTEN_FROM) as *mut [u8; PIECE];
            // SAFETY: bytes that only this thread uses.
            let written = unsafe {
                from.write_volatile([number; PIECE]);
                libc::pwrite(descriptor(target), from.cast(), PIECE, 0)
            };
            target.read_exact_at(&mut found, 0).unwrap();
            self.check(written == PIECE as isize && found == [number; PIECE]);
            self.done[3].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the pages of this process from another process, and reads them back; counts how often it did, and how
    /// often that went wrong. It allocates nothing.
    fn foreign(&self, told: &Told) {
        // SAFETY: reads a number.
        let parent = unsafe { libc::getppid() };
        let mut number = 0u8;
        for page in std::iter::repeat_with(|| 0..PAGES).flatten() {
            if !told.may_go_on() {
                return;
            }
            number = number.wrapping_add(1);
            let (mut ours, mut back) = ([number; PIECE], [0u8; PIECE]);
            let vector = |base: *mut u8| libc::iovec {
                iov_base: base.cast(),
                iov_len: PIECE,
            };
            let there = vector(self.at(page, FOREIGN) as *mut u8);
            let (from, to) = (vector(ours.as_mut_ptr()), vector(back.as_mut_ptr()));
            // SAFETY: the two arrays are as long; the other addresses are looked up in the other process.
            let moved = unsafe {
                (
                    libc::process_vm_writev(parent, &raw const from, 1, &raw const there, 1, 0),
                    libc::process_vm_readv(parent, &raw const to, 1, &raw const there, 1, 0),
                )
            };
            let is_well = moved == (PIECE as isize, PIECE as isize) && back == ours;
            told.count(is_well);
        }
    }
}

/// What the other process is told, and what it tells. All zeros at the start.
struct Told {
    wish: AtomicU64,
    /// The last wish that it has seen.
    seen: AtomicU64,
    done: AtomicU64,
    wrong: AtomicU64,
}

impl Told {
    const GO: u64 = 0;
    const STAND_ASIDE: u64 = 1;
    const END: u64 = 2;

    /// In the other process: waits while it has to stand aside. False if it has to end.
    fn may_go_on(&self) -> bool {
        loop {
            let wish = self.wish.load(Ordering::Acquire);
            self.seen.store(wish, Ordering::Release);
            if wish != Self::STAND_ASIDE {
                return wish == Self::GO;
            }
            std::thread::yield_now();
        }
    }

    fn count(&self, is_well: bool) {
        let counter = if is_well { &self.done } else { &self.wrong };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs something while the other process touches nothing.
    fn while_aside<T>(&self, run: impl FnOnce() -> T) -> T {
        self.wish.store(Self::STAND_ASIDE, Ordering::Release);
        while self.seen.load(Ordering::Acquire) != Self::STAND_ASIDE {
            std::thread::yield_now();
        }
        let outcome = run();
        self.wish.store(Self::GO, Ordering::Release);
        outcome
    }
}

fn descriptor(file: &File) -> i32 {
    use std::os::fd::AsRawFd;
    file.as_raw_fd()
}

/// Ends the other threads even if an exchange fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs all threads and the other process while `exchanges` runs; returns how much was lost.
fn run(exchanges: impl FnOnce(&Stress, Range)) -> (u64, Vec<u64>) {
    let stress = Stress {
        field: Field::new(PAGES),
        stop: AtomicBool::new(false),
        lost: AtomicU64::new(0),
        done: [const { AtomicU64::new(0) }; 4],
        told: shared_words(),
    };
    let moving = Range::of(stress.at(MARGIN, 0), MOVING * PAGE);
    let files = [(); 2].map(|()| tempfile::tempfile().unwrap());
    // SAFETY: the child makes system calls and touches memory only, until it ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: asks to be ended where the test fails.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        stress.foreign(stress.told);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    std::thread::scope(|scope| {
        let stress = &stress;
        scope.spawn(|| stress.count(0));
        scope.spawn(|| stress.count(1));
        scope.spawn(|| stress.read(&files[0]));
        scope.spawn(|| stress.write(&files[1]));
        let _stop = StopAtEnd(&stress.stop);
        exchanges(stress, moving);
    });
    stress.told.wish.store(Told::END, Ordering::Release);
    // SAFETY: waits for the child.
    unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
    let done = |index: usize| stress.done[index].load(Ordering::Relaxed);
    let atomics: u64 = (0..PAGES)
        // SAFETY: nobody else is left.
        .map(|page| unsafe { (stress.at(page, SHARED) as *const u64).read() })
        .sum();
    let missing = (done(0) + done(1)).abs_diff(atomics);
    let foreign = stress.told.wrong.load(Ordering::Relaxed);
    let lost = stress.lost.load(Ordering::Relaxed) + missing + foreign;
    let mut work: Vec<_> = (0..4).map(done).collect();
    work.push(stress.told.done.load(Ordering::Relaxed));
    (lost, work)
}

/// Maps words that a child shares.
fn shared_words() -> &'static Told {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: fresh zero pages, which are never unmapped.
    unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(core::ptr::null_mut(), PAGE, rights, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED);
        &*at.cast()
    }
}

fn rounds() -> usize {
    let said = std::env::var("VRDMA_ADOPT_ROUNDS").ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(ROUNDS)
}

/// Runs something in a thread of its own, as the library does.
fn apart<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    thread::apart(move || {
        let _state = STATE.lock();
        run()
    })
    .unwrap()
}

#[test]
fn nothing_is_lost_while_pages_go_to_and_fro() {
    let tools = tools(|| None).unwrap();
    if !is_full() {
        // Without a full userfaultfd nothing of the kind is tried.
        let field = Field::new(4);
        let range = field.range();
        let adopted = registering().adopt(range.start as u64, range.size() as u64);
        return assert_eq!(adopted, Adoption::Threads);
    }
    let mut exchanged = 0;
    let (lost, work) = run(|stress, moving| {
        for round in 0..rounds() {
            match apart(move || exchange::exchange(tools, moving)) {
                Ok(()) => exchanged += 1,
                // The other process was in the middle of a write, which pins the page: it is left alone.
                Err(Errno(libc::EBUSY)) => continue,
                Err(other) => panic!("round {round}: {other:?}"),
            }
            let back = || apart(move || exchange::undo(tools, moving));
            stress.told.while_aside(back).unwrap();
        }
    });
    assert!(exchanged > rounds() / 2, "{exchanged} exchanges");
    assert_eq!(lost, 0);
    assert!(work.iter().all(|done| *done > 0), "{work:?}");
}

/// The same without userfaultfd: shows that the check above would see a loss.
#[test]
fn a_careless_exchange_loses_something() {
    let tools = tools(|| None).unwrap();
    let begun = Instant::now();
    let (lost, _) = run(|stress, moving| {
        while stress.lost.load(Ordering::Relaxed) == 0 && begun.elapsed() < PATIENCE {
            let _state = STATE.lock();
            careless(tools, moving);
        }
    });
    assert!(lost > 0);
}

/// Copies, and maps the copy, while others write.
fn careless(tools: &Tools, range: Range) {
    let (from, flags) = (
        range.start as *const u8,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a fresh mapping, which takes the range's place; what others write is torn, as it is meant to be.
    unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let fresh = libc::mmap(core::ptr::null_mut(), range.size(), rights, flags, -1, 0);
        assert_ne!(fresh, libc::MAP_FAILED);
        core::ptr::copy(from, fresh.cast(), range.size());
        kernel::move_over(fresh as usize, range).unwrap();
    }
    assert!(tools.is_whole());
}
