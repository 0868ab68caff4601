//! The keeper's program, and what its workers do.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, getpid, kill_process};
use vrdma_keep::{
    Capacity, EXIT_AGAIN, End, Life, Options, Outcome, Record, Store, Succession, Successor,
    supervise,
};

use super::SOCKET;

const OPTIONS: Options<'_> = Options {
    program: "lives",
    capacity: Capacity { small: 8, large: 8 },
    crashes_max: 3,
    successor: Successor {
        arguments: &[],
        question: super::QUESTION,
        answer: ANSWER,
    },
};
const ANSWER: &str = "it can";
const SOCKET_KIND: u16 = 1;

/// Keeps workers that play a role. Returns the code to exit with.
pub(crate) fn play(part: &str, directory: &Path) -> i32 {
    match part {
        "descriptors" => supervise(OPTIONS, None, |life| keep_descriptors(life, directory)),
        "crash" => supervise(OPTIONS, None, |_| kill_myself()),
        "panic" => supervise(OPTIONS, None, |_| panic!("as it should")),
        "signals" => supervise(OPTIONS, None, |_| tell_signals(directory)),
        "thread" => beside_a_thread(),
        "upgrade" => upgrade(directory),
        other => panic!("nobody plays {other}"),
    }
}

fn kill_myself() -> i32 {
    kill_process(getpid(), Signal::KILL).unwrap();
    unreachable!("a process that was killed does nothing more")
}

fn beside_a_thread() -> i32 {
    let (end, is_over) = mpsc::channel::<()>();
    let thread = thread::spawn(move || is_over.recv().is_err());
    let code = supervise(OPTIONS, None, |_| 0);
    drop(end);
    assert!(thread.join().unwrap());
    code
}

/// Three lives of one socket: opened, then killed; claimed, then ended for another start; claimed, then ended for good.
fn keep_descriptors(mut life: Life<'_>, directory: &Path) -> i32 {
    let opened = Store::open(life.area).unwrap();
    assert_eq!(opened.unsound, 0);
    let mut store = opened.store;
    let lock = directory.join("lock");
    if life.number == 0 {
        assert_eq!(life.previous_end, None);
        let socket = UnixStream::connect(directory.join(SOCKET)).unwrap();
        let number = socket.as_raw_fd().to_le_bytes();
        store.insert(SOCKET_KIND, 5, &number).unwrap();
        store.commit();
        (&socket).write_all(b"0").unwrap();
        let lock = File::create(&lock).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        kill_myself();
    }
    let mut socket = claim(&mut life, &opened.records);
    socket
        .write_all(life.number.to_string().as_bytes())
        .unwrap();
    if life.number == 1 {
        assert_eq!(life.previous_end, Some(End::Killed(9)));
        free_lock(life, &lock);
        // Stays open at the exit, and so in the next life.
        let _ = socket.into_raw_fd();
        return EXIT_AGAIN;
    }
    assert_eq!(life.previous_end, Some(End::Exited(EXIT_AGAIN)));
    assert_eq!(life.inherited.close_rest().unwrap().count, 0);
    7
}

fn claim(life: &mut Life<'_>, records: &[Record]) -> UnixStream {
    let [record] = records else {
        panic!("one record was committed, not {records:?}");
    };
    assert_eq!((record.kind, record.key), (SOCKET_KIND, 5));
    let number = RawFd::from_le_bytes(record.bytes.as_slice().try_into().unwrap());
    let socket: OwnedFd = life.inherited.claim(number).unwrap();
    for taken in [number, 0, 1, 2, life.area.as_raw_fd()] {
        assert!(life.inherited.claim(taken).is_none());
    }
    socket.into()
}

/// Shows that the previous worker's lock is held until unclaimed descriptors are closed.
fn free_lock(life: Life<'_>, path: &Path) {
    let file = File::open(path).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap_err();
    let rest = life.inherited.close_rest().unwrap();
    // The lock, and the line to the keeper.
    assert_eq!((rest.count, rest.is_closed), (2, true));
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
}

/// Reports which signals come, and kills itself after the second SIGTERM.
fn tell_signals(directory: &Path) -> i32 {
    let signals = blocked_signals();
    let mut socket = UnixStream::connect(directory.join(SOCKET)).unwrap();
    socket.write_all(b"0").unwrap();
    let mut terms = 0;
    while terms < 2 {
        let mut signal = 0;
        // SAFETY: the set is initialised, and `signal` has room for a number.
        assert_eq!(unsafe { libc::sigwait(&signals, &mut signal) }, 0);
        let is_term = signal == libc::SIGTERM;
        terms += i32::from(is_term);
        socket.write_all(if is_term { b"t" } else { b"i" }).unwrap();
    }
    kill_myself()
}

fn blocked_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set; the old mask is not asked for.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGHUP);
        let set = set.assume_init();
        assert_eq!(
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()),
            0
        );
        set
    }
}

/// Returns the behaviour of this program, which is in a file beside it, since all programs have this code. The previous
/// program has lost its file name to the other.
fn behaviour() -> String {
    let program = std::env::current_exe().unwrap();
    if program
        .as_os_str()
        .as_encoded_bytes()
        .ends_with(b" (deleted)")
    {
        return "before".to_owned();
    }
    fs::read_to_string(program.with_extension("behaviour")).unwrap()
}

/// Answers whether it can go on, according to its behaviour.
pub(crate) fn answer() -> i32 {
    match behaviour().as_str() {
        "refuses" => {
            eprintln!("lives: it cannot");
            2
        }
        "does not know" => 0,
        _ => {
            println!("{ANSWER}");
            0
        }
    }
}

/// Runs a keeper whose program is replaced.
fn upgrade(directory: &Path) -> i32 {
    let succession = Succession::from_environment();
    if let Some(succession) = succession.clone()
        && behaviour() == "cannot begin"
    {
        succession.go_back("it cannot begin");
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let options = Options {
        successor: Successor {
            arguments: &arguments,
            ..OPTIONS.successor
        },
        ..OPTIONS
    };
    supervise(options, succession, |life| {
        live_through_upgrades(life, directory)
    })
}

/// Reports through a socket, which is opened once: the worker's number, and the outcomes that it is told.
fn live_through_upgrades(mut life: Life<'_>, directory: &Path) -> i32 {
    let behaviour = behaviour();
    if behaviour == "crashes" {
        kill_myself();
    }
    let signals = blocked_signals();
    let opened = Store::open(life.area).unwrap();
    let socket = match opened.records.as_slice() {
        [] => {
            let socket = UnixStream::connect(directory.join(SOCKET)).unwrap();
            let mut store = opened.store;
            let number = socket.as_raw_fd().to_le_bytes();
            store.insert(SOCKET_KIND, 5, &number).unwrap();
            store.commit();
            socket
        }
        records => claim(&mut life, records),
    };
    life.inherited.close_rest().unwrap();
    let tell = |text: String| (&socket).write_all(text.as_bytes()).unwrap();
    tell(format!("{} {behaviour}\n", life.number));
    life.line.tell_ready();
    let mut known = 0;
    loop {
        let last = life.line.last_attempt();
        if let Some(attempt) = last.filter(|attempt| attempt.number > known) {
            known = attempt.number;
            let outcome = match attempt.outcome {
                Outcome::Done => "done",
                Outcome::Refused => "refused",
                Outcome::WentBack => "went back",
            };
            tell(format!("{outcome}: {}\n", attempt.sentence));
        }
        match next_signal(&signals) {
            Some(libc::SIGHUP) => {
                let _ = socket.into_raw_fd();
                return EXIT_AGAIN;
            }
            Some(_) => return 7,
            None => {}
        }
    }
}

fn next_signal(signals: &libc::sigset_t) -> Option<i32> {
    let wait = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    // SAFETY: the set and the time are initialised; nothing is asked about the signal.
    let signal = unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &wait) };
    (signal > 0).then_some(signal)
}
