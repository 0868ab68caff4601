//! Grants to reach a peer without the daemon: which client gets them, and when they end.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use vrdma_inventory::ShardOptions;
use vrdma_provider::client::CallError;
use vrdma_provider::message::{
    DeregMr, FileRange, Hello, ModifyQp, QpAttributes, Reach, Reached, RegMr, access, hello_flag,
};

use crate::child::{self, Child};
use crate::client::{Client, Host, Memory, Queues, SHORT, assert_works, errno, hello, pair};
use crate::memory::own_memory;

fn open(host: &Host, number: u8) -> Client {
    let greeting = Hello {
        flags: hello_flag::FAST_LOCAL,
        ..hello(number)
    };
    Client::open_with(&host.path(), greeting, own_memory(), number)
}

fn two() -> (Host, Client, Client) {
    let host = Host::with(2, &ShardOptions::default());
    let (a, b) = (open(&host, 0), open(&host, 1));
    (host, a, b)
}

/// Requests a grant; returns it and its descriptor.
fn reach(client: &Client, queues: &Queues, rkey: u32) -> Result<(Reached, File), CallError> {
    let qp = queues.reply.qp;
    let answer = client.connection.call(&Reach { qp, rkey }, &[])?;
    let [memory] = <[_; 1]>::try_from(answer.fds).unwrap();
    Ok((answer.body, memory.into()))
}

fn refusal(client: &Client, queues: &Queues, rkey: u32) -> i32 {
    errno(reach(client, queues, rkey))
}

fn enters(client: &Client, reached: &Reached) -> bool {
    let page = client.grants.as_ref().unwrap();
    let entered = page.enter(reached.index, reached.generation);
    if entered {
        page.exit(reached.index);
    }
    entered
}

fn access() -> i32 {
    Errno::ACCESS.raw_os_error()
}

#[test]
fn a_grant_leads_to_the_region() {
    let (_host, a, b) = two();
    let mut queues = pair(&a, &b);
    let to = Memory::new(&b, 0, 4096);
    let (reached, memory) = reach(&a, &queues.0, to.mr.rkey).unwrap();
    assert_eq!(
        (reached.start, reached.length),
        (to.bytes.as_ptr() as u64, 4096)
    );
    assert_eq!(reached.access, access::REMOTE_READ | access::REMOTE_WRITE);
    assert!(enters(&a, &reached));
    memory.write_all_at(&[9], reached.offset).unwrap();
    assert_eq!(to.first(), 9);
    assert_works(&a, &b, &mut queues);
}

#[test]
fn a_grant_for_a_file_leads_to_the_file() {
    let (_host, a, b) = two();
    let queues = pair(&a, &b);
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 8192).unwrap();
    let request = RegMr {
        address: 0x7777_0010,
        length: 100,
        iova: 0,
        pd: b.pd,
        access: access::LOCAL_WRITE | access::REMOTE_WRITE,
        file: FileRange {
            offset: 4096,
            length: 4096,
            address: 0x7777_0000,
        },
        ..RegMr::default()
    };
    let region = b.connection.call(&request, &[file.as_fd()]).unwrap().body;
    let (reached, memory) = reach(&a, &queues.0, region.rkey).unwrap();
    assert_eq!((reached.start, reached.offset), (0, 4096 + 0x10));
    assert_eq!(reached.access, access::REMOTE_WRITE);
    memory.write_all_at(&[7], reached.offset).unwrap();
    let mut first = [0];
    rustix::io::pread(&file, &mut first, 4096 + 0x10).unwrap();
    assert_eq!(first, [7]);
}

/// A grant to read lends a descriptor that cannot be written.
#[test]
fn rule_p44_a_grant_to_read_does_not_let_write() {
    let (_host, a, b) = two();
    let queues = pair(&a, &b);
    let bytes = [5u8; 64];
    let file = memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 4096).unwrap();
    rustix::io::pwrite(&file, &bytes, 0).unwrap();
    let region = RegMr {
        address: bytes.as_ptr() as u64,
        length: 64,
        iova: 0,
        pd: b.pd,
        access: access::REMOTE_READ,
        ..RegMr::default()
    };
    let in_file = RegMr {
        address: 0x7777_0000,
        file: FileRange {
            offset: 0,
            length: 4096,
            address: 0x7777_0000,
        },
        ..region
    };
    let of_memory = b.call(&region).unwrap();
    let of_file = b.connection.call(&in_file, &[file.as_fd()]).unwrap().body;
    for rkey in [of_memory.rkey, of_file.rkey] {
        let (reached, memory) = reach(&a, &queues.0, rkey).unwrap();
        assert_eq!(reached.access, access::REMOTE_READ);
        let mut first = [0];
        memory.read_exact_at(&mut first, reached.offset).unwrap();
        assert_eq!(first, [5]);
        let written = memory.write_at(&[9], reached.offset).unwrap_err();
        assert_eq!(written.raw_os_error(), Some(Errno::BADF.raw_os_error()));
    }
}

/// The child's role: a client with a region, as the peer of a client of the test.
pub(crate) fn lends(socket: &Path) {
    let greeting = Hello {
        flags: hello_flag::FAST_LOCAL,
        ..hello(1)
    };
    let client = Client::open_with(socket, greeting, own_memory(), 1);
    let (queues, memory) = (client.queues(64), Memory::new(&client, 7, 64));
    let (number, rkey) = (queues.reply.qp_num, memory.mr.rkey);
    let may_have_some = u64::from(client.grants.is_some());
    child::say(&[may_have_some, number.into(), rkey.into()]);
    let peer = child::listen().unwrap() as u32;
    client.connect(&queues, 0, peer, SHORT);
    child::say(&[]);
    assert_eq!(child::listen(), None);
}

/// Returns whether the child may have grants, and the grant for its region if there is one.
fn lent_by(host: &Host, mut child: Child) -> (bool, Option<Reached>) {
    let a = open(host, 0);
    let queues = a.queues(64);
    let said = child.numbers();
    child.tell(queues.reply.qp_num.into());
    assert!(child.numbers().is_empty());
    a.connect(&queues, 1, said[1] as u32, SHORT);
    let reached = reach(&a, &queues, said[2] as u32);
    (said[0] == 1, reached.ok().map(|(reached, _)| reached))
}

#[test]
fn rule_p43_programs_in_different_containers_get_no_grants() {
    let host = Host::with(2, &ShardOptions::default());
    let path = host.path();
    let (may_have_some, given) = lent_by(&host, Child::start("fast", &path));
    assert!(may_have_some && given.is_some(), "it lives where we do");
    let (may_have_some, given) = lent_by(&host, Child::start_apart("fast", &path));
    assert!(!may_have_some && given.is_none(), "other users");
    if rustix::process::geteuid().is_root() {
        let (_, given) = lent_by(&host, Child::start_contained("fast", &path));
        assert_eq!(given, None, "other processes");
    } else {
        println!("not tested: only root can make a PID namespace alone");
    }
}

#[test]
fn rule_p42_grants_are_given_only_between_two_that_want_it() {
    let (host, a, b) = two();
    let plain = Client::open(&host, 1);
    let (to_plain, queues) = (pair(&a, &plain), pair(&a, &b));
    let (theirs, ours) = (Memory::new(&plain, 0, 64), Memory::new(&b, 0, 64));
    assert_eq!(refusal(&a, &to_plain.0, theirs.mr.rkey), access());
    assert_eq!(refusal(&plain, &to_plain.1, ours.mr.rkey), access());
    assert_eq!(
        refusal(&a, &queues.0, theirs.mr.rkey),
        access(),
        "another domain"
    );
    assert_eq!(refusal(&a, &queues.0, ours.mr.rkey ^ 1), access());
    assert_eq!(
        refusal(&a, &a.queues(16), ours.mr.rkey),
        access(),
        "not connected"
    );
    let noent = Errno::NOENT.raw_os_error();
    assert_eq!(refusal(&open(&host, 0), &queues.0, ours.mr.rkey), noent);
    let local = RegMr {
        address: ours.bytes.as_ptr() as u64,
        length: 64,
        pd: b.pd,
        access: access::LOCAL_WRITE,
        ..RegMr::default()
    };
    let local = b.call(&local).unwrap();
    assert_eq!(refusal(&a, &queues.0, local.rkey), access(), "no right");
}

#[test]
fn a_grant_ends_with_region_queue_pair_and_client() {
    let (host, a, b) = two();
    let grant = || {
        let (queues, to) = (pair(&a, &b), Memory::new(&b, 0, 64));
        let (reached, _) = reach(&a, &queues.0, to.mr.rkey).unwrap();
        (queues, to, reached)
    };
    let (_queues, to, reached) = grant();
    b.call(&DeregMr { mr: to.mr.mr }).unwrap();
    assert!(!enters(&a, &reached), "the region");
    let error = |client: &Client, queues: &Queues| {
        let request = ModifyQp {
            qp: queues.reply.qp,
            mask: 1,
            attributes: QpAttributes {
                state: 6,
                ..QpAttributes::default()
            },
        };
        client.call(&request).unwrap();
    };
    let (queues, _to, reached) = grant();
    error(&b, &queues.1);
    assert!(!enters(&a, &reached), "the peer's queue pair");
    let (queues, _to, reached) = grant();
    error(&a, &queues.0);
    assert!(!enters(&a, &reached), "the own queue pair");
    let third = open(&host, 1);
    let (queues, to) = (pair(&a, &third), Memory::new(&third, 0, 64));
    let (reached, _) = reach(&a, &queues.0, to.mr.rkey).unwrap();
    drop(third);
    // Waits until the daemon has heard of the client's end.
    while host.objects(1)[3] > 3 {
        std::thread::yield_now();
    }
    assert!(!enters(&a, &reached), "the peer");
}

#[test]
fn the_end_of_a_region_waits_for_a_copy_but_not_for_ever() {
    let (host, a, b) = two();
    let again = Errno::AGAIN.raw_os_error();
    let queues = pair(&a, &b);
    let page = a.grants.as_ref().unwrap();
    let begin = |to: &Memory| {
        let (reached, _) = reach(&a, &queues.0, to.mr.rkey).unwrap();
        assert!(page.enter(reached.index, reached.generation));
        reached
    };
    let to = Memory::new(&b, 0, 64);
    let end = DeregMr { mr: to.mr.mr };
    let reached = begin(&to);
    assert_eq!(errno(b.call(&end)), again);
    assert_eq!(
        refusal(&a, &queues.0, to.mr.rkey),
        access(),
        "none while it ends"
    );
    page.exit(reached.index);
    b.call(&end).unwrap();
    // One client never ends its copy, and the other one is killed during its copy.
    let (never, killed) = (Memory::new(&b, 0, 64), Memory::new(&b, 0, 64));
    begin(&never);
    let third = open(&host, 0);
    let others = pair(&third, &b);
    let (reached, _) = reach(&third, &others.0, killed.mr.rkey).unwrap();
    assert!(
        third
            .grants
            .as_ref()
            .unwrap()
            .enter(reached.index, reached.generation)
    );
    assert_eq!(errno(b.call(&DeregMr { mr: killed.mr.mr })), again);
    drop(third);
    let deregister = |mr| {
        let mut tries = 0u64;
        while let Err(error) = b.call(&DeregMr { mr }) {
            assert_eq!(error.raw_os_error(), again);
            tries += 1;
            std::thread::yield_now();
        }
        tries
    };
    deregister(killed.mr.mr);
    assert!(deregister(never.mr.mr) > 0);
}
