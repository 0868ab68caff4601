//! Files whose bytes never come and whose `close` never ends: a client may serve its own file system.
//!
//! The shard must not touch such a file, whichever client's it is. Each test has a daemon, a client process of the
//! daemon's own user, which serves such a file in namespaces of its own, and a pair of other clients. The first daemon
//! does not trust such a process; the second one was told to.

pub(crate) mod late;
mod server;

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use rustix::net::{RecvFlags, SendFlags};
use vrdma_inventory::ShardOptions;
use vrdma_memory::ClientMemory;
use vrdma_provider::client::Connection;
use vrdma_provider::message::{Call, FileRange, Header, PACKET_MAX, RegMr, encode, split};
use vrdma_provider::socket;

use crate::LOC_PROT_ERR;
use crate::adapters::shards;
use crate::child::{self, Child};
use crate::client::{ALL_RIGHTS, Client, Host, Memory, assert_works, hello, pair, send};
use crate::memory::assert_cannot_be_sent;
use server::Server;

/// Limit after which the child gives up, while it can still close its file; the file's server then fails all requests.
const PATIENCE: Timespec = Timespec {
    tv_sec: 20,
    tv_nsec: 0,
};

/// How the child uses its file.
#[derive(Clone, Copy)]
enum Use {
    /// Registers a mapping of the file and sends from there; then sends other memory by another connection.
    Memory = 1,
    /// Passes the file off as its memory.
    Greeting,
    /// Claims that registered memory is mapped from the file.
    Region,
    /// Maps the file over the memory that it has shown at the greeting.
    Nonce,
}

/// The child's role.
pub(crate) fn serves_a_file(socket: &Path) {
    let place = tempfile::NamedTempFile::new().unwrap();
    let server = server::mount_over(place.path());
    let file = File::options().read(true).write(true).open(place.path());
    let file = file.unwrap();
    // The file's status, with its length, is fetched now.
    assert_eq!(file.metadata().unwrap().len(), server::LENGTH);
    child::say(&[]);
    let told = child::listen();
    let uses = [Use::Memory, Use::Greeting, Use::Region, Use::Nonce];
    let found = uses.into_iter().find(|way| Some(*way as u64) == told);
    match found.unwrap() {
        Use::Memory => is_memory(socket, file, &server),
        Use::Greeting => is_a_greeting(socket, file),
        Use::Region => is_a_region(socket, file),
        Use::Nonce => hides_the_nonce(file, &server),
    }
    child::say(&[1]);
    assert_eq!(child::listen(), None);
}

fn is_memory(socket: &Path, file: File, server: &Server) {
    let (one, other) = (Client::open_at(socket, 0), Client::open_at(socket, 1));
    let (mut queues, mut others) = (pair(&one, &other), pair(&other, &one));
    assert_cannot_be_sent(&one, &other, &mut queues, mapped(&file));
    drop(file);
    // The kernel may hold a lock of this address space while the read waits, and then access to it by another
    // connection waits too.
    let (from, to) = (Memory::new(&other, 7, 64), Memory::new(&one, 0, 64));
    one.post_recv(&mut others.1, 1, to.buffer());
    other.post_send(&mut others.0, send(1), from.buffer());
    let status = others.0.wait().status;
    assert!(matches!(status, 0 | LOC_PROT_ERR), "{status}");
    server.let_go();
}

/// Maps the file. This process does not touch the mapping before its bytes have come.
fn mapped(file: &File) -> u64 {
    let (rights, place) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
    let length = server::LENGTH as usize;
    // SAFETY: the mapping replaces none.
    let at = unsafe { mmap(place, length, rights, MapFlags::PRIVATE, file, 0) };
    at.unwrap() as u64
}

fn hides_the_nonce(file: File, server: &Server) {
    let (rights, place) = (ProtFlags::READ | ProtFlags::WRITE, std::ptr::null_mut());
    let length = server::LENGTH as usize;
    // SAFETY: a fresh mapping.
    let at = unsafe { mmap_anonymous(place, length, rights, MapFlags::PRIVATE) }.unwrap();
    let address = at as u64;
    // SAFETY: the mapping begins with room for a word.
    unsafe { at.cast::<u64>().write(7) };
    let mut options = File::options();
    let own = options.read(true).write(true).open("/proc/self/mem");
    let memory = ClientMemory::new(own.unwrap().into(), address, 7, Arc::default());
    let mut memory = memory.unwrap();
    // SAFETY: replaces the mapping, which this process does not touch any more.
    unsafe {
        mmap(
            at,
            length,
            rights,
            MapFlags::PRIVATE | MapFlags::FIXED,
            &file,
            0,
        )
    }
    .unwrap();
    drop(file);
    let (told, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        memory.trust(rustix::process::getpid(), address, 7);
        told.send(memory.is_trusted())
    });
    let trusted = heard.recv_timeout(Duration::from_secs(PATIENCE.tv_sec as u64));
    server.let_go();
    assert_eq!(trusted, Ok(false));
}

/// Sends a request with the file. Returns the status of the answer.
fn ask<T: Call>(connection: &Connection, request: &T, file: &File) -> u32 {
    let mut buffer = [0; PACKET_MAX];
    let packet = encode(Header::of::<T>(0), request, &mut buffer);
    let fds = [file.as_fd()];
    socket::send(connection.as_fd(), packet, &fds, SendFlags::empty()).unwrap();
    let mut answered = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::IN)];
    let count = poll(&mut answered, Some(&PATIENCE)).unwrap();
    assert_eq!(count, 1, "the shard does not answer");
    let flags = RecvFlags::empty();
    let answer = socket::receive(connection.as_fd(), flags);
    let answer = answer.unwrap().expect("an answer");
    split(answer.bytes()).unwrap().0.errno
}

fn is_a_greeting(path: &Path, file: File) {
    let connection = Connection::open(path).unwrap();
    assert_eq!(
        ask(&connection, &hello(0), &file),
        Errno::AGAIN.raw_os_error() as u32
    );
    let refused = ask(&connection, &hello(0), &file);
    assert_eq!(
        refused,
        Errno::INVAL.raw_os_error() as u32,
        "none is taken now"
    );
}

fn is_a_region(path: &Path, file: File) {
    let client = Client::open_at(path, 0);
    let bytes = [0u8; 64];
    let request = RegMr {
        address: bytes.as_ptr() as u64,
        length: bytes.len() as u64,
        iova: bytes.as_ptr() as u64,
        pd: client.pd,
        access: ALL_RIGHTS,
        file: FileRange {
            offset: 0,
            length: server::LENGTH,
            address: bytes.as_ptr() as u64 & !4095,
        },
        ..RegMr::default()
    };
    for _ in 0..8 {
        assert_eq!(ask(&client.connection, &request, &file), 0);
    }
}

fn assert_stalls_nobody(way: Use) {
    for trusts_own_user in [false, true] {
        assert_stalls_nobody_with(way, trusts_own_user);
    }
}

fn assert_stalls_nobody_with(way: Use, trusts_own_user: bool) {
    assert!(
        Path::new("/dev/fuse").exists(),
        "this test serves a file: it needs /dev/fuse (modprobe fuse)"
    );
    let options = ShardOptions {
        trusts_own_user,
        ..ShardOptions::unpinned(shards())
    };
    let host = Host::with(2, &options);
    let mut child = Child::start_apart("file", &host.path());
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut queues = pair(&a, &b);
    assert!(child.numbers().is_empty(), "it serves");
    assert_works(&a, &b, &mut queues);
    child.tell(way as u64);
    assert_eq!(child.numbers(), [1], "it was answered");
    assert_works(&a, &b, &mut queues);
    drop(child);
    assert_works(&a, &b, &mut queues);
}

#[test]
fn registered_memory_of_a_file_that_never_answers_fails_alone() {
    assert_stalls_nobody(Use::Memory);
}

#[test]
fn rule_p11_a_greeting_with_a_file_that_never_answers_is_refused() {
    assert_stalls_nobody(Use::Greeting);
}

#[test]
fn a_nonce_that_never_comes_again_trusts_nobody() {
    assert_stalls_nobody(Use::Nonce);
}

#[test]
fn rule_p32_a_region_of_a_file_that_never_answers_is_not_taken_for_memory() {
    assert_stalls_nobody(Use::Region);
}
