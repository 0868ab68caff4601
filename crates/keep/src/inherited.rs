//! The descriptors that a worker finds open: those of earlier workers.
//!
//! No descriptor is asked anything that its file system would answer: a file system that a client serves may answer
//! whenever it likes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, RawDir, fstat, openat};
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, getsockname};

/// How long a start waits for descriptors to close.
const PATIENCE: Duration = Duration::from_millis(200);
const STDIO: std::ops::RangeInclusive<RawFd> = 0..=2;

/// Open descriptors that nobody owns yet. A descriptor that is dropped unclaimed stays open.
#[derive(Debug)]
pub struct Inherited {
    numbers: BTreeSet<RawFd>,
    /// Descriptors from elsewhere, by the numbers under which they are claimed.
    given: BTreeMap<RawFd, OwnedFd>,
}

/// Result of closing the descriptors that nobody claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Number of these descriptors.
    pub count: usize,
    /// Whether all are closed. If not, a thread is still closing them.
    pub is_closed: bool,
}

impl Inherited {
    /// Takes all descriptors that are open and not in `except`, nor standard input, output or error.
    ///
    /// # Safety
    /// Nothing in this process owns an open descriptor that is not in `except`, and no other thread
    /// opens any meanwhile.
    pub(crate) unsafe fn take_stock(except: &BTreeSet<RawFd>) -> io::Result<Self> {
        let mut numbers = open_numbers()?;
        numbers.retain(|number| !except.contains(number) && !STDIO.contains(number));
        Ok(Self::of_numbers(numbers))
    }

    fn of_numbers(numbers: BTreeSet<RawFd>) -> Self {
        Self {
            numbers,
            given: BTreeMap::new(),
        }
    }

    /// Takes descriptors from elsewhere, each with the number that it is known by.
    pub fn given(given: BTreeMap<RawFd, OwnedFd>) -> Self {
        Self {
            numbers: BTreeSet::new(),
            given,
        }
    }

    /// Returns the descriptor with this number, the first time that it is claimed.
    pub fn claim(&mut self, number: RawFd) -> Option<OwnedFd> {
        if let Some(given) = self.given.remove(&number) {
            return Some(given);
        }
        let is_there = self.numbers.remove(&number);
        // SAFETY: it was open when stock was taken, with no owner; it has left the set just now, so this
        // is its only owner.
        is_there.then(|| unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// Returns the Unix sockets that listen at a path, by path. Connections made since the earlier worker ended wait in
    /// them. If two sockets have the same path, neither is returned: there is no telling which of them clients reach.
    pub fn take_listeners(&mut self) -> BTreeMap<PathBuf, OwnedFd> {
        let mut sockets = BTreeMap::<PathBuf, Vec<(u64, RawFd)>>::new();
        let mut note = |number: RawFd, fd: BorrowedFd<'_>| {
            if let (Some(path), Ok(socket)) = (listens_at(fd), fstat(fd)) {
                let of_path = sockets.entry(path).or_default();
                of_path.push((socket.st_ino, number));
            }
        };
        for number in &self.numbers {
            // SAFETY: it was open when stock was taken and has no owner, so nobody closes it meanwhile.
            note(*number, unsafe { BorrowedFd::borrow_raw(*number) });
        }
        for (number, fd) in &self.given {
            note(*number, fd.as_fd());
        }
        let mut listeners = BTreeMap::new();
        for (path, descriptors) in sockets {
            let (socket, number) = descriptors[0];
            if descriptors.iter().all(|(other, _)| *other == socket)
                && let Some(fd) = self.claim(number)
            {
                listeners.insert(path, fd);
            }
        }
        listeners
    }

    /// No descriptors.
    pub fn none() -> Self {
        Self::of_numbers(BTreeSet::new())
    }

    /// Splits off the descriptors with these numbers.
    pub fn split(&mut self, numbers: impl IntoIterator<Item = RawFd>) -> Self {
        let mut apart = Self::none();
        for number in numbers {
            if self.numbers.remove(&number) {
                apart.numbers.insert(number);
            } else if let Some(given) = self.given.remove(&number) {
                apart.given.insert(number, given);
            }
        }
        apart
    }

    /// Closes all unclaimed descriptors, and waits for that, but not long: a thread closes them, since `close` may take
    /// as long as the sender of a descriptor likes. Descriptors with an address that the next worker needs are closed
    /// first.
    pub fn close_rest(mut self) -> io::Result<Rest> {
        let mut rest: Vec<OwnedFd> = std::mem::take(&mut self.given).into_values().collect();
        while let Some(number) = self.numbers.first().copied() {
            rest.extend(self.claim(number));
        }
        rest.sort_by_key(|fd| !has_address(fd));
        let count = rest.len();
        let (done, is_done) = mpsc::channel();
        let close = move || {
            rest.into_iter().for_each(drop);
            // Nobody waits any more if it took long.
            let _ = done.send(());
        };
        thread::Builder::new()
            .name("close-rest".into())
            .spawn(close)?;
        let is_closed = is_done.recv_timeout(PATIENCE).is_ok();
        Ok(Rest { count, is_closed })
    }
}

/// Returns the path that a Unix socket listens at.
fn listens_at(fd: BorrowedFd<'_>) -> Option<PathBuf> {
    if socket_acceptconn(fd) != Ok(true) {
        return None;
    }
    let address = SocketAddrUnix::try_from(getsockname(fd).ok()?).ok()?;
    let path = address.path()?;
    Some(OsStr::from_bytes(path.to_bytes()).into())
}

/// Whether it is a listener, or a datagram socket of the network: closing one never takes long.
fn has_address(fd: &OwnedFd) -> bool {
    let is_listener = socket_acceptconn(fd) == Ok(true);
    let is_datagram = || socket_type(fd) == Ok(SocketType::DGRAM);
    let is_inet = || {
        socket_domain(fd).is_ok_and(|it| it == AddressFamily::INET || it == AddressFamily::INET6)
    };
    is_listener || is_datagram() && is_inet()
}

/// Returns the numbers of all open descriptors, except the one used to find them.
pub(crate) fn open_numbers() -> io::Result<BTreeSet<RawFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, "/proc/self/fd", flags, Mode::empty())?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&directory, &mut buffer);
    let mut numbers = BTreeSet::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_str().ok();
        numbers.extend(name.and_then(|name| name.parse::<RawFd>().ok()));
    }
    numbers.remove(&directory.as_raw_fd());
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use super::*;

    #[test]
    fn listeners_are_found_by_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let others: [OwnedFd; 3] = [
            TcpListener::bind("127.0.0.1:0").unwrap().into(),
            client.try_clone().unwrap().into(),
            std::fs::File::open("/dev/null").unwrap().into(),
        ];
        // A worker may have two descriptors of the listener.
        let twice = listener.try_clone().unwrap();
        let all = others.into_iter().chain([listener.into(), twice.into()]);
        let given = all.map(|fd: OwnedFd| (fd.as_raw_fd(), fd)).collect();
        let mut inherited = Inherited::given(given);
        let mut listeners = inherited.take_listeners();
        assert_eq!(listeners.len(), 1);
        let again = UnixListener::from(listeners.remove(&path).unwrap());
        // A client that has connected before is served.
        again.accept().unwrap().0.write_all(b"x").unwrap();
        client.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn only_who_waits_at_an_address_has_one() {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let with: [OwnedFd; 3] = [
            UnixListener::bind(folder.path().join("socket"))
                .unwrap()
                .into(),
            UdpSocket::bind("[::1]:0").unwrap().into(),
            listener.into(),
        ];
        assert!(with.iter().all(has_address));
        let without: [OwnedFd; 4] = [
            stream.into(),
            UnixStream::pair().unwrap().0.into(),
            UnixDatagram::unbound().unwrap().into(),
            std::fs::File::open("/dev/null").unwrap().into(),
        ];
        assert!(!without.iter().any(has_address));
    }
}
