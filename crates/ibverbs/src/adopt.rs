//! Adopted memory: private pages of registered regions become pages of one file of this process, which the daemon
//! maps, so that it reaches them by loads and stores and not by system calls.
//!
//! ```text
//!   ibv_reg_mr ─► rules ─ no ─► by address, as before
//!                   │ yes
//!                   ▼
//!   thread ─► exchange, some pages at a time ─► the file; offset = address ─► the daemon's mapping
//!                                                 ▲            ▲
//!                  fork: a copy for the child ────┘            └─── madvise, munmap, mremap (calls)
//! ```
//!
//! No store is lost and no system call fails meanwhile: a thread that touches a page under exchange waits
//! ([`userfault`]). Pages stay adopted when the region ends: programs register the same memory again. Which memory is
//! left alone, and why, is in [`rules`]. The program's environment can forbid all of it.

mod addresses;
mod budget;
pub mod calls;
mod exchange;
mod forking;
mod kernel;
mod places;
mod ranges;
mod rules;
mod stacks;
mod thread;
mod tools;
pub(crate) mod unmapped;
mod userfault;

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use vrdma_provider::message::{Adoption, FileRange, Userfaultfd};
use vrdma_provider::socket::ADOPT_VARIABLE;

use crate::open::OpenDevice;
pub(crate) use addresses::Reached;
use budget::{Budget, Stopwatch};
use calls::Bounds;
use kernel::Range;
use ranges::Ranges;
use tools::Tools;

/// Bytes of a page. On systems with another page size the library adopts nothing.
const PAGE: usize = 4096;
/// Bytes that are exchanged at once, which bounds how long a thread may have to wait.
const CHUNK: usize = 64 << 10;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Ranges that are checked at each adoption for memory that is gone.
const FORGET_AT_ONCE: usize = 16;

/// State that exchanges change. The thread that has the lock allocates nothing.
struct State {
    ranges: Ranges,
    budget: Budget,
    /// Index of the range that is checked next for being still there.
    next: usize,
}

static STATE: Mutex<State> = Mutex::new(State {
    ranges: Ranges::new(),
    budget: Budget::new(),
    next: 0,
});

static TOOLS: OnceLock<Result<Tools, Adoption>> = OnceLock::new();

/// One registration at a time, until the daemon has answered: a region by address must be known before another
/// registration could exchange its pages.
static REGISTERING: Mutex<()> = Mutex::new(());

/// Runs when the library is loaded.
extern "C" fn on_load() {
    calls::find_next();
    forking::watch();
}

// Names of libc are looked up, and one handler registered: nothing else happens before the first call.
// SAFETY: the section has pointers to functions that the dynamic linker calls.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

fn tools(lent: impl Fn() -> Option<OwnedFd>) -> Result<&'static Tools, Adoption> {
    let open = || {
        if !calls::are_in_front() {
            return Err(Adoption::NotPreloaded);
        }
        if crate::region::page_size() != PAGE as u64 {
            return Err(Adoption::Kernel);
        }
        if has_size_limit() {
            return Err(Adoption::FileLimit);
        }
        Tools::open(lent).map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Adoption::Filter,
            _ => Adoption::Kernel,
        })
    };
    TOOLS.get_or_init(open).as_ref().map_err(|why| *why)
}

fn tools_if_open() -> Option<&'static Tools> {
    TOOLS.get()?.as_ref().ok()
}

/// Whether files have a size limit: creating the file would then be answered by a signal.
fn has_size_limit() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a place for the answer.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    failed != 0 || limit.rlim_cur != libc::RLIM_INFINITY
}

fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    let asked = || std::env::var_os(ADOPT_VARIABLE).is_none_or(|value| value != "0");
    // A test that adopts does not ask here.
    !cfg!(test) && !forking::is_child() && *WANTED.get_or_init(asked)
}

impl State {
    /// Forgets the parts of some ranges that are not adopted any more, and gives back the file's pages left behind
    /// there.
    fn forget_gone(&mut self, tools: &Tools) {
        for _ in 0..FORGET_AT_ONCE.min(self.ranges.all().len()) {
            self.look_after_next(tools);
        }
    }

    /// Does the same for all ranges.
    fn forget_all_gone(&mut self, tools: &Tools) {
        self.next = 0;
        while self.next < self.ranges.all().len() {
            self.look_after_next(tools);
        }
    }

    fn look_after_next(&mut self, tools: &Tools) {
        let Some(range) = self.ranges.all().get(self.next).copied() else {
            self.next = 0;
            return;
        };
        match tools.gap(range) {
            Some(gap) if self.ranges.remove(gap) => {
                // Pages that were moved keep their contents.
                let _ = tools.clear(gap);
            }
            _ => self.next += 1,
        }
    }

    /// Adopts the parts of a range that are not adopted yet, as far as possible.
    fn adopt(&mut self, tools: &Tools, range: Range) -> Result<(), Adoption> {
        self.budget.allows(range.size(), Instant::now())?;
        self.forget_gone(tools);
        let mut rest = range;
        while !rest.is_empty() {
            let (run, is_ours) = tools.run(rest).map_err(|_| Adoption::NotPlain)?;
            rest.start = run.end;
            if !is_ours {
                let part = first_chunk(run);
                self.adopt_chunk(tools, part)?;
                rest.start = part.end;
            }
        }
        Ok(())
    }

    fn adopt_chunk(&mut self, tools: &Tools, part: Range) -> Result<(), Adoption> {
        if !self.ranges.has_room(part) {
            self.forget_all_gone(tools);
        }
        if !self.ranges.has_room(part) {
            return Err(Adoption::TooManyRanges);
        }
        let spent = Stopwatch::begin();
        let exchanged = exchange::exchange(tools, part);
        self.budget.spend(spent.elapsed());
        exchanged.map_err(|errno| match errno.0 {
            libc::EBUSY => Adoption::Pinned,
            libc::EINVAL => Adoption::Locked,
            _ => Adoption::Kernel,
        })?;
        self.ranges.add(part);
        Bounds::widen(part);
        // SAFETY: changes no contents. It is memory of a file, which takes this advice.
        let kept = unsafe { kernel::advise(part, libc::MADV_DONTFORK) };
        debug_assert!(kept.is_ok(), "a mapping of ours");
        Ok(())
    }

    /// Adopts plain memory where adopted memory was, as far as possible, whatever time it takes.
    fn adopt_again(&mut self, tools: &Tools, range: Range) {
        let mut rest = range;
        while !rest.is_empty() {
            let part = first_chunk(rest);
            rest.start = part.end;
            let is_adopted = self.adopt_chunk(tools, part).is_ok();
            if let Some(unmapping) = tools.unmapping.as_ref().filter(|_| is_adopted) {
                unmapping.watch(part);
            }
        }
    }

    fn make_private(&mut self, tools: &Tools, range: Range) -> bool {
        let mut rest = range;
        while !rest.is_empty() {
            let Ok((run, is_ours)) = tools.run(rest) else {
                return true;
            };
            rest.start = run.end;
            if is_ours {
                let part = first_chunk(run);
                if exchange::undo(tools, part).is_err() {
                    return false;
                }
                self.ranges.remove(part);
                rest.start = part.end;
            }
        }
        true
    }
}

/// Returns the part that is exchanged at once: a huge page's place if the range covers it, else less.
fn first_chunk(range: Range) -> Range {
    let size = if range.start.is_multiple_of(HUGE) && range.size() >= HUGE {
        HUGE
    } else {
        CHUNK
    };
    let end = (range.start + 1).next_multiple_of(size);
    Range {
        start: range.start,
        end: end.min(range.end),
    }
}

/// Makes a range private again, for a call that needs private memory. False: it could not be.
fn make_private(tools: &'static Tools, range: Range) -> bool {
    thread::apart(move || STATE.lock().make_private(tools, range)).unwrap_or(false)
}

/// A registration under way, of a process that adopts.
pub(crate) struct Registering<'d> {
    _held: MutexGuard<'static, ()>,
    /// The device whose daemon is asked for a userfaultfd.
    daemon: Option<&'d OpenDevice>,
}

/// The part of a region that the daemon may map.
pub(crate) struct Adopted {
    pub(crate) file: OwnedFd,
    pub(crate) range: FileRange,
}

impl Adopted {
    /// Watches for the program unmapping the memory, from here on. Called once all of its pages are there: in watched
    /// memory the kernel maps them one at a time.
    pub(crate) fn watch(&self) {
        let range = Range::of(self.range.address as usize, self.range.length as usize);
        let unmapping = tools_if_open().and_then(|tools| tools.unmapping.as_ref());
        if let Some(unmapping) = unmapping {
            unmapping.watch(range);
        }
    }
}

impl<'d> Registering<'d> {
    /// Begins a registration; `None` if this process does not adopt.
    pub(crate) fn begin(daemon: &'d OpenDevice) -> Option<Self> {
        is_wanted().then(|| Self {
            _held: REGISTERING.lock(),
            daemon: Some(daemon),
        })
    }

    /// Asks the daemon for its `/dev/userfaultfd`.
    fn lent(&self) -> Option<OwnedFd> {
        let answer = self.daemon?.call_with(&Userfaultfd {}, &[]).ok()?;
        answer.fds.into_iter().next()
    }

    /// Adopts whole pages of the memory, if the rules allow it.
    pub(crate) fn adopt(&self, address: u64, length: u64) -> Adoption {
        self.try_to_adopt(address, length)
            .err()
            .unwrap_or(Adoption::Adopted)
    }

    fn try_to_adopt(&self, address: u64, length: u64) -> Result<(), Adoption> {
        let start = (address as usize).checked_next_multiple_of(PAGE);
        let end = (address as usize).checked_add(length as usize);
        let (Some(start), Some(end)) = (start, end) else {
            return Err(Adoption::NotPlain);
        };
        let range = Range {
            start,
            end: end & !(PAGE - 1),
        };
        if range.is_empty() {
            return Err(Adoption::NoWholePage);
        }
        let tools = tools(|| self.lent())?;
        if !rules::judge(tools, range)? {
            return Ok(());
        }
        let adopted = thread::apart(move || STATE.lock().adopt(tools, range));
        adopted.unwrap_or(Err(Adoption::Kernel))
    }

    /// Returns the file that the memory is, if it was adopted: with all of its pages, or with those that lie wholly
    /// inside it.
    pub(crate) fn file(&self, address: u64, length: u64) -> Option<Adopted> {
        let tools = tools_if_open().filter(|tools| tools.is_whole())?;
        let (start, end) = (
            address as usize,
            (address as usize).checked_add(length as usize)?,
        );
        let all = Range {
            start: start & !(PAGE - 1),
            end: end.checked_next_multiple_of(PAGE)?,
        };
        let inner = Range {
            start: start.checked_next_multiple_of(PAGE)?,
            end: end & !(PAGE - 1),
        };
        let is_file = |range: &Range| {
            !range.is_empty() && tools.run(*range).is_ok_and(|run| run == (*range, true))
        };
        let range = [all, inner].into_iter().find(is_file)?;
        Some(Adopted {
            file: tools.as_fd().try_clone_to_owned().ok()?,
            range: FileRange {
                offset: range.start as u64,
                length: range.size() as u64,
                address: range.start as u64,
            },
        })
    }

    /// Notes what the daemon reaches of a region. `file` is the part that is a file: adopted memory, or the program's
    /// own.
    pub(crate) fn reached(
        &self,
        address: u64,
        length: u64,
        file: Option<FileRange>,
        is_adopted: bool,
    ) -> Vec<Reached> {
        let start = address as usize;
        let end = start.saturating_add(length as usize);
        let (from, to) = file.map_or((end, end), |file| {
            (file.address as usize, (file.address + file.length) as usize)
        });
        let edges = [Range { start, end: from }, Range { start: to, end }];
        let edges = edges.into_iter().filter(|edge| edge.start < edge.end);
        let inner = is_adopted.then_some(Range {
            start: from,
            end: to,
        });
        let inner = inner.filter(|inner| !inner.is_empty());
        edges
            .map(Reached::by_address)
            .chain(inner.map(Reached::adopted))
            .collect()
    }
}

#[cfg(test)]
mod tests;
