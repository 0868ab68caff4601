//! Memory of clients that is not what they claimed it to be.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mm::{
    MapFlags, ProtFlags, UserfaultfdFlags, mmap, mmap_anonymous, munmap, userfaultfd,
};
use vrdma_inventory::ShardOptions;
use vrdma_provider::layout::{Buffer, SendHeader};
use vrdma_provider::message::{FileRange, Hello, MrReply, RegMr, ReregMr, Userfaultfd, access};

use crate::child::Child;
use crate::client::{
    ALL_RIGHTS, Client, Host, Memory, Queues, assert_works, errno, hello, pair, send, write,
};
use crate::{LOC_PROT_ERR, REM_ACCESS_ERR, REM_OP_ERR, two};
use rustix::io::Errno;

/// The descriptor that a hello passes: this process's memory.
pub(crate) fn own_memory() -> OwnedFd {
    let options = File::options()
        .read(true)
        .write(true)
        .open("/proc/self/mem");
    options.unwrap().into()
}

/// Bytes of a message that is long enough for every way to reach memory.
const LENGTH: u32 = 20_000;
const MAPPED: usize = 1 << 16;

/// Checks that `bad`'s memory at `at` cannot be reached: sending from it and writing to it fail, the rest works.
/// Returns the queues, so that the caller may keep them from being unmapped.
pub(crate) fn assert_fails_alone(bad: &Client, good: &Client, at: u64) -> [(Queues, Queues); 2] {
    let (mut sending, mut writing) = (pair(bad, good), pair(good, bad));
    let rkey = assert_cannot_be_sent(bad, good, &mut sending, at);
    assert_cannot_be_written(good, &mut writing.0, at, rkey);
    [sending, writing]
}

/// Checks that sending fails. Returns the key of the region, with which writing fails, too.
pub(crate) fn assert_cannot_be_sent(
    bad: &Client,
    good: &Client,
    queues: &mut (Queues, Queues),
    at: u64,
) -> u32 {
    let region = bad.register(at, MAPPED as u64);
    let gone = Buffer {
        addr: at,
        length: LENGTH,
        lkey: region.lkey,
    };
    let to = Memory::new(good, 0, LENGTH as usize);
    good.post_recv(&mut queues.1, 1, to.buffer());
    bad.post_send(&mut queues.0, send(1), gone);
    assert_eq!(queues.0.wait().status, LOC_PROT_ERR);
    region.rkey
}

fn assert_cannot_be_written(client: &Client, queues: &mut Queues, at: u64, rkey: u32) {
    let from = Memory::new(client, 1, LENGTH as usize);
    let header = SendHeader {
        remote_addr: at,
        rkey,
        ..write(1, &from)
    };
    client.post_send(queues, header, from.buffer());
    let status = queues.wait().status;
    assert!(matches!(status, REM_ACCESS_ERR | REM_OP_ERR), "{status}");
}

/// Returns address space that was mapped and is no longer. The kernel maps nothing of other tests there: it would have
/// to be asked for that address.
fn hole() -> u64 {
    const FAR: usize = 0x1234_5000_0000;
    let (place, flags) = (FAR as *mut _, MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE);
    // SAFETY: a fresh mapping that replaces none, and nothing points into it when it goes.
    unsafe {
        let at = mmap_anonymous(place, MAPPED, ProtFlags::READ, flags).unwrap();
        munmap(at, MAPPED).unwrap();
        at as u64
    }
}

fn pages(rights: ProtFlags) -> u64 {
    // SAFETY: a fresh mapping.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), MAPPED, rights, MapFlags::PRIVATE) };
    at.unwrap() as u64
}

#[test]
fn rule_p27_memory_that_went_away_fails_the_request_that_needs_it() {
    let (_host, a, b) = two();
    let mut good = pair(&a, &b);
    assert_fails_alone(&a, &b, hole());
    assert_works(&a, &b, &mut good);
}

#[test]
fn rule_p31_a_memory_descriptor_that_died_fails_its_client_alone() {
    let host = Host::with_adapters(2);
    let mut child = Child::start("memory", &host.path());
    let said = child.numbers();
    let path = format!("/proc/{}/mem", child.pid().as_raw_nonzero());
    let memory = File::options().read(true).write(true).open(path).unwrap();
    let greeting = Hello {
        nonce_address: said[0],
        nonce: said[1],
        ..hello(0)
    };
    let bad = Client::open_with(&host.path(), greeting, memory.into(), 0);
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut good = pair(&a, &b);
    let mut works = pair(&bad, &b);
    let region = bad.register(said[2], said[3]);
    let buffer = Buffer {
        addr: said[2],
        length: LENGTH,
        lkey: region.lkey,
    };
    let to = Memory::new(&b, 0, LENGTH as usize);
    b.post_recv(&mut works.1, 1, to.buffer());
    bad.post_send(&mut works.0, send(1), buffer);
    assert_eq!((works.0.wait().status, to.first()), (0, 7));
    drop(child);
    assert_fails_alone(&bad, &b, said[2]);
    assert_works(&a, &b, &mut good);
}

/// A page that only another thread of the client could bring, and which therefore never comes. This kind of page needs
/// no privilege; the kernel refuses it to the daemon, which does not wait.
#[test]
fn rule_p30_a_page_that_never_comes_fails_the_request_that_needs_it() {
    let (_host, a, b) = two();
    let mut good = pair(&a, &b);
    let at = pages(ProtFlags::READ | ProtFlags::WRITE);
    let flags = UserfaultfdFlags::CLOEXEC | USER_MODE_ONLY;
    // SAFETY: a new descriptor, which concerns no memory before it is told to.
    let fault = unsafe { userfaultfd(flags) }.unwrap();
    register_missing(&fault, at);
    assert_fails_alone(&a, &b, at);
    assert_works(&a, &b, &mut good);
}

/// `UFFD_USER_MODE_ONLY` (linux/userfaultfd.h).
const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);

/// `UFFDIO_API` and `UFFDIO_REGISTER` for missing pages (linux/userfaultfd.h).
fn register_missing(fault: impl AsFd, at: u64) {
    const API: Opcode = 0xc018_aa3f;
    const REGISTER: Opcode = 0xc020_aa00;
    const VERSION: u64 = 0xaa;
    const MISSING: u64 = 1;
    let mut api = [VERSION, 0, 0];
    let mut range = [at, MAPPED as u64, MISSING, 0];
    // SAFETY: both requests read and write structures of as many words; the range is a mapping of
    // this test that nobody else touches.
    unsafe {
        ioctl(&fault, Updater::<API, _>::new(&mut api)).unwrap();
        ioctl(&fault, Updater::<REGISTER, _>::new(&mut range)).unwrap();
    }
}

/// A library refuses to register such memory (`ibv_reg_mr` fails with `EFAULT`); a client without a library finds that
/// nobody can write there.
#[test]
fn rule_p28_read_only_memory_cannot_be_written() {
    let (_host, a, b) = two();
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, MAPPED as u64).unwrap();
    let place = std::ptr::null_mut();
    // SAFETY: a fresh mapping.
    let at = unsafe { mmap(place, MAPPED, ProtFlags::READ, MapFlags::SHARED, &file, 0) };
    let at = at.unwrap() as u64;
    let mut queues = (pair(&a, &b), pair(&a, &b));
    let region = b.register(at, MAPPED as u64);
    assert_cannot_be_written(&a, &mut queues.0.0, at, region.rkey);
    let mut first = [9];
    rustix::io::pread(&file, &mut first, 0).unwrap();
    assert_eq!(first, [0]);
    assert_works(&a, &b, &mut queues.1);
}

#[test]
fn a_region_that_is_registered_again_keeps_its_keys() {
    let (host, a, b) = two();
    let other = Client::open(&host, 1);
    let (mut works, mut refused) = (pair(&a, &b), pair(&a, &b));
    let (old, new) = (Memory::new(&b, 0, 64), Memory::new(&b, 0, 64));
    let from = Memory::new(&a, 5, 64);
    let again = |access| ReregMr {
        wanted: RegMr {
            address: new.bytes.as_ptr() as u64,
            length: 64,
            iova: old.bytes.as_ptr() as u64,
            pd: b.pd,
            access,
            ..RegMr::default()
        },
        mr: old.mr.mr,
        reserved: 0,
    };
    assert_eq!(b.call(&again(ALL_RIGHTS)).unwrap(), old.mr);
    a.post_send(&mut works.0, write(1, &old), from.buffer());
    assert_eq!((works.0.wait().status, old.first(), new.first()), (0, 0, 5));
    let remote_without_local = access::REMOTE_WRITE;
    let inval = Errno::INVAL.raw_os_error();
    assert_eq!(errno(b.call(&again(remote_without_local))), inval);
    assert_eq!(
        errno(other.call(&again(ALL_RIGHTS))),
        Errno::NOENT.raw_os_error()
    );
    a.post_send(&mut works.0, write(2, &old), from.buffer());
    assert_eq!(works.0.wait().status, 0, "a refusal changes nothing");
    b.call(&again(access::LOCAL_WRITE)).unwrap();
    a.post_send(&mut refused.0, write(3, &old), from.buffer());
    assert_eq!(refused.0.wait().status, REM_ACCESS_ERR);
}

/// A region that is a file mapped shared: the daemon gets the file.
#[test]
fn rule_p29_a_region_in_a_file_outlives_its_mapping_and_its_file_may_shrink() {
    let (_host, a, b) = two();
    let mut queues = (pair(&a, &b), pair(&a, &b), pair(&a, &b));
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, MAPPED as u64).unwrap();
    let at = 0x7777_0000;
    let request = RegMr {
        address: at,
        length: MAPPED as u64,
        iova: at,
        pd: b.pd,
        access: ALL_RIGHTS,
        file: FileRange {
            offset: 0,
            length: MAPPED as u64,
            address: at,
        },
        ..RegMr::default()
    };
    let region = b.connection.call(&request, &[file.as_fd()]).unwrap().body;
    let from = Memory::new(&a, 6, LENGTH as usize);
    let header = SendHeader {
        remote_addr: at,
        rkey: region.rkey,
        ..write(1, &from)
    };
    // Nothing is mapped at the address: only the file counts.
    a.post_send(&mut queues.0.0, header, from.buffer());
    assert_eq!(queues.0.0.wait().status, 0);
    let mut last = [0];
    rustix::io::pread(&file, &mut last, u64::from(LENGTH) - 1).unwrap();
    assert_eq!(last, [6]);
    ftruncate(&file, 4096).unwrap();
    assert_cannot_be_written(&a, &mut queues.1.0, at, region.rkey);
    assert_works(&a, &b, &mut queues.2);
}

/// A region whose whole pages were moved into a file.
#[test]
fn a_region_may_be_a_file_in_its_middle() {
    const MIDDLE: u64 = 8192;
    let (_host, a, b) = two();
    let mut queues = pair(&a, &b);
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, MIDDLE).unwrap();
    let to = Memory::new(&b, 0, LENGTH as usize);
    let address = to.bytes.as_ptr() as u64;
    let middle = (address + 1).next_multiple_of(4096);
    let request = RegMr {
        address,
        length: LENGTH.into(),
        iova: address,
        pd: b.pd,
        access: ALL_RIGHTS,
        file: FileRange {
            offset: 0,
            length: MIDDLE,
            address: middle,
        },
        ..RegMr::default()
    };
    let region = b.connection.call(&request, &[file.as_fd()]).unwrap().body;
    let from = Memory::new(&a, 6, LENGTH as usize);
    let header = SendHeader {
        rkey: region.rkey,
        ..write(1, &to)
    };
    a.post_send(&mut queues.0, header, from.buffer());
    assert_eq!(queues.0.wait().status, 0);
    let mut in_file = [0; MIDDLE as usize];
    rustix::io::pread(&file, &mut in_file, 0).unwrap();
    assert_eq!(in_file, [6; MIDDLE as usize]);
    let lead = (middle - address) as usize;
    let (edge, end) = (&to.bytes[..lead], &to.bytes[lead + MIDDLE as usize..]);
    assert!(edge.iter().chain(end).all(|byte| *byte == 6));
    let hidden = &to.bytes[lead..lead + MIDDLE as usize];
    assert!(hidden.iter().all(|byte| *byte == 0), "went by its address");
    let nonsense = RegMr {
        adoption: 1000,
        ..request
    };
    let refused = b.connection.call(&nonsense, &[file.as_fd()]).map(drop);
    assert!(refused.is_err());
    assert_works(&a, &b, &mut queues);
}

/// The tests run as root, which may open the device.
#[test]
fn the_device_of_userfaultfds_is_lent_where_it_may_be() {
    let options = |hands_out_userfaultfd| ShardOptions {
        hands_out_userfaultfd,
        ..ShardOptions::unpinned(1)
    };
    let (lends, keeps) = (
        Host::with(1, &options(true)),
        Host::with(1, &options(false)),
    );
    let client = Client::open(&lends, 0);
    let answer = client.connection.call(&Userfaultfd {}, &[]).unwrap();
    let lent = rustix::fs::fstat(&answer.fds[0]).unwrap();
    let device = rustix::fs::stat("/dev/userfaultfd").unwrap();
    assert_eq!(lent.st_rdev, device.st_rdev);
    let refused = Client::open(&keeps, 0).call(&Userfaultfd {});
    assert_eq!(errno(refused), Errno::NODEV.raw_os_error());
}

/// A region beyond the quota of mapped files is reached by its address.
#[test]
fn files_beyond_the_quota_are_memory_like_any_other() {
    let (_host, a, b) = two();
    let mut queues = pair(&a, &b);
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, MAPPED as u64).unwrap();
    let to = Memory::new(&b, 0, 4096);
    let request = RegMr {
        address: to.bytes.as_ptr() as u64,
        length: 64,
        iova: to.bytes.as_ptr() as u64,
        pd: b.pd,
        access: ALL_RIGHTS,
        file: FileRange {
            offset: 0,
            length: 8192,
            address: to.bytes.as_ptr() as u64 & !4095,
        },
        ..RegMr::default()
    };
    let register = || b.connection.call(&request, &[file.as_fd()]).unwrap().body;
    let regions: Vec<_> = (0..1025).map(|_| register()).collect();
    let from = Memory::new(&a, 8, 64);
    let mut reached = |region: &MrReply| {
        let header = SendHeader {
            rkey: region.rkey,
            ..write(1, &to)
        };
        a.post_send(&mut queues.0, header, from.buffer());
        assert_eq!(queues.0.wait().status, 0);
        to.first()
    };
    assert_eq!(reached(&regions[1023]), 0, "the file");
    assert_eq!(reached(&regions[1024]), 8, "the memory");
}
