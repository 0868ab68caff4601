//! The signals of a keeper: blocked, and waited for in one place.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use rustix::process::Signal;

const WAITED_FOR: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD];

pub(super) struct Signals {
    set: libc::sigset_t,
    /// The earlier mask, without these signals: workers begin with it.
    before: libc::sigset_t,
}

pub(super) struct Received {
    pub(super) signal: Signal,
    /// Whether the worker got it as well: a terminal sends its interrupt to the whole group, so passing it on would
    /// deliver it twice.
    pub(super) went_to_the_worker_too: bool,
}

impl Signals {
    pub(super) fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises the set before it is used and cannot fail, and neither can
        // `sigaddset` with these numbers; `before` is written if `sigprocmask` succeeds, and is used only then.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in WAITED_FOR {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            // If a parent had SIGCHLD ignored, the end of a worker could not be queried.
            if libc::signal(libc::SIGCHLD, libc::SIG_DFL) == libc::SIG_ERR {
                return Err(io::Error::last_os_error());
            }
            if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            // If this keeper follows another program, that program had them blocked.
            for signal in WAITED_FOR {
                libc::sigdelset(before.as_mut_ptr(), signal);
            }
            Ok(Self {
                set: set.assume_init(),
                before: before.assume_init(),
            })
        }
    }

    /// Gives a worker the mask that the keeper began with.
    pub(super) fn restore(&self) -> io::Result<()> {
        // SAFETY: the set was given by the kernel; the old mask is not asked for.
        let result = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
        if result == 0 {
            return Ok(());
        }
        Err(io::Error::last_os_error())
    }

    /// Returns the next signal; `None` if none has come within `at_most`.
    pub(super) fn wait(&self, at_most: Option<Duration>) -> io::Result<Option<Received>> {
        let at_most = at_most.map(|duration| libc::timespec {
            tv_sec: duration.as_secs() as libc::time_t,
            tv_nsec: duration.subsec_nanos().into(),
        });
        let at_most = at_most.as_ref().map_or(ptr::null(), ptr::from_ref);
        loop {
            let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
            // SAFETY: the set is initialised, `info` has room for what is written, and the time is null or lives on.
            let number = unsafe { libc::sigtimedwait(&self.set, info.as_mut_ptr(), at_most) };
            let Some(signal) = Signal::from_named_raw(number) else {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::Interrupted => continue,
                    io::ErrorKind::WouldBlock => return Ok(None),
                    _ => return Err(error),
                }
            };
            // SAFETY: `sigtimedwait` succeeded, so it wrote all of it.
            let code = unsafe { info.assume_init() }.si_code;
            return Ok(Some(Received {
                signal,
                went_to_the_worker_too: signal == Signal::INT && code == libc::SI_KERNEL,
            }));
        }
    }
}
