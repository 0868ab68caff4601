//! A daemon for tests: at the other end of a socket pair, with the shared memory that a real one
//! would make, and no engine behind it.
//!
//! ```text
//!   test ──► entry points ── socket pair ──► thread: notes the request, answers by the script if
//!     │                                      there is one for it, else as a daemon that has room
//!     └──► daemon(): what was asked, the other ends of rings, doorbells and pipes
//! ```
//!
//! Handles of all kinds come from one counter, so that a test sees when one is taken for another.

pub(crate) mod answers;
pub(crate) mod objects;

use std::collections::{HashMap, VecDeque};
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use vrdma_provider::area::Area;
use vrdma_provider::client::Connection;
use vrdma_provider::daemon::{Answer, CqPlan, QpPlan, Request, SrqPlan, send_answer, take};
use vrdma_provider::doorbell::Listener;
use vrdma_provider::message::{AdapterReply, AsyncEvent, Call, Name};

use zerocopy::IntoBytes;

use crate::device::Listed;
use crate::open::OpenDevice;

/// The first handle; the others follow.
const FIRST_HANDLE: u32 = 100;

/// An open device, and the daemon behind it. The thread ends when the device's connection does, so
/// it is the last field.
pub(crate) struct TestDevice {
    device: Box<OpenDevice>,
    state: Arc<Mutex<State>>,
    _thread: Thread,
}

struct Thread(Option<JoinHandle<()>>);

/// The memory of a queue, from the daemon's end.
pub(crate) struct Memory<P> {
    pub(crate) handle: u32,
    pub(crate) cookie: u64,
    pub(crate) area: Arc<Area>,
    pub(crate) plan: P,
}

type Outcome = Result<Answer, Errno>;

/// State of the daemon.
pub(crate) struct State {
    asked: Vec<Request>,
    script: HashMap<u32, VecDeque<Outcome>>,
    last_handle: u32,
    pub(crate) doorbells: Listener,
    pub(crate) events: Option<OwnedFd>,
    /// Descriptor that goes along with the hello's answer: a page of grants, for clients that reach peers by
    /// themselves.
    pub(crate) page: Option<OwnedFd>,
    /// The writing ends of completion channels.
    pub(crate) channels: Vec<OwnedFd>,
    pub(crate) queue_pairs: Vec<Memory<QpPlan>>,
    pub(crate) cqs: Vec<Memory<CqPlan>>,
    pub(crate) srqs: Vec<Memory<SrqPlan>>,
}

impl State {
    fn handle(&mut self) -> u32 {
        self.last_handle += 1;
        self.last_handle
    }

    fn answer(&mut self, request: &Request) -> Outcome {
        let scripted = self.script.get_mut(&request.code());
        match scripted.and_then(VecDeque::pop_front) {
            Some(outcome) => outcome,
            None => answers::usual(self, request),
        }
    }

    fn script<T: Call>(&mut self, outcome: Outcome) {
        self.script.entry(T::CODE).or_default().push_back(outcome);
    }

    /// Refuses the next request of this kind.
    pub(crate) fn refuse<T: Call>(&mut self, errno: Errno) {
        self.script::<T>(Err(errno));
    }

    /// Answers the next request of this kind with `body`.
    pub(crate) fn reply<T: Call>(&mut self, body: &T::Reply) {
        self.reply_with::<T>(body, Vec::new());
    }

    /// Answers the next request of this kind with `body`, and descriptors along with it.
    pub(crate) fn reply_with<T: Call>(&mut self, body: &T::Reply, fds: Vec<OwnedFd>) {
        self.script::<T>(Ok(Answer::new::<T>(body, fds)));
    }

    /// Forgets scripted answers to requests that did not come.
    pub(crate) fn forget_script(&mut self) {
        self.script.clear();
    }

    /// Returns all requests of one kind so far, in order.
    pub(crate) fn asked<T: Call>(&self) -> Vec<T> {
        let of_kind = self.asked.iter().filter(|asked| asked.code() == T::CODE);
        of_kind.filter_map(Request::parse).collect()
    }

    /// Raises an asynchronous event.
    pub(crate) fn raise(&self, event: &AsyncEvent) {
        let pipe = self.events.as_ref().expect("the hello made it");
        rustix::io::write(pipe, event.as_bytes()).expect("room in the pipe");
    }

    /// Notifies of a completion queue.
    pub(crate) fn notify(&self, channel: usize, cookie: u64) {
        rustix::io::write(&self.channels[channel], &cookie.to_ne_bytes()).expect("room");
    }

    /// Returns the doorbells rung since the last call.
    pub(crate) fn rung(&self) -> Vec<u32> {
        let mut rung = Vec::new();
        self.doorbells.take(|bit| rung.push(bit));
        rung
    }
}

impl TestDevice {
    /// Opens a device.
    pub(crate) fn open() -> Self {
        Self::open_prepared(|_| {})
    }

    /// Opens a device at a daemon that was prepared before.
    pub(crate) fn open_prepared(prepare: impl FnOnce(&mut State)) -> Self {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .expect("a pair of sockets");
        let state = Arc::new(Mutex::new(State {
            asked: Vec::new(),
            script: HashMap::new(),
            last_handle: FIRST_HANDLE,
            doorbells: Listener::new().expect("a page"),
            events: None,
            page: None,
            channels: Vec::new(),
            queue_pairs: Vec::new(),
            cqs: Vec::new(),
            srqs: Vec::new(),
        }));
        prepare(&mut state.lock());
        let of_thread = Arc::clone(&state);
        let thread = std::thread::spawn(move || serve(&theirs, &of_thread));
        let listed = Listed::new(0, adapter());
        let listed = Box::leak(Box::new(listed));
        let device = OpenDevice::over(Connection::new(ours), listed).expect("it opens");
        Self {
            device,
            state,
            _thread: Thread(Some(thread)),
        }
    }

    /// Ends the daemon, and with it its ends of all pipes.
    pub(crate) fn end_daemon(&self) {
        self.device.hang_up();
        let mut daemon = self.state.lock();
        daemon.events = None;
        daemon.channels.clear();
    }

    /// Returns the daemon's state. The test must let go of it before it asks something.
    pub(crate) fn daemon(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns the last request of a kind.
    pub(crate) fn last<T: Call>(&self) -> T {
        *self.daemon().asked().last().expect("it was asked")
    }
}

impl Deref for TestDevice {
    type Target = OpenDevice;

    fn deref(&self) -> &OpenDevice {
        &self.device
    }
}

/// The adapter of the tests.
pub(crate) fn adapter() -> AdapterReply {
    AdapterReply {
        name: Name::new("test").expect("a short name"),
        guid: [2, 0, 0, 0xff, 0xfe, 0, 0, 9],
        ip_version: 4,
        ..AdapterReply::default()
    }
}

/// Answers until the other end hangs up.
fn serve(socket: &OwnedFd, state: &Mutex<State>) {
    loop {
        let mut set = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut set, None).expect("a socket can be polled");
        match take(socket.as_fd(), drop) {
            Ok(Some(request)) => {
                let mut state = state.lock();
                let (header, answer) = (request.header(), state.answer(&request));
                state.asked.push(request);
                drop(state);
                let answer = answer.as_ref().map_err(|errno| *errno);
                send_answer(socket.as_fd(), header, answer).expect("the test waits for it");
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let ended = self.0.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(
                matches!(ended, Some(Ok(()))),
                "the daemon of the test panicked"
            );
        }
    }
}
