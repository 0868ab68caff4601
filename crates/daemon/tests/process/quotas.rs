//! Clients that take all that they can get.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use vrdma_provider::client::Connection;
use vrdma_provider::message::{
    AllocPd, Call, CreateCq, CreateQp, FileRange, NO_CHANNEL, QpCapacity, RegMr, qp_type,
};

use crate::child::{self, Child};
use crate::client::{Client, Host, assert_works, errno, hello, pair};
use crate::memory::own_memory;

/// Quotas of one client: protection domains, regions, queue pairs, CQs.
const CLIENT: [u64; 4] = [1024, 1 << 17, 4096, 4096];

/// Clients whose protection domains exhaust the quota of one user.
const CLIENTS_WORTH: u64 = 4;

/// Sends of its neighbours while the greedy client asks for more.
const LOOKS: u64 = 1000;

/// Repeats a request until it is refused. Returns how many succeeded, and the error.
fn take_all<T: Call>(client: &Client, request: &T) -> [u64; 2] {
    let mut got = 0;
    loop {
        match client.connection.call(request, &[]) {
            Ok(_) => got += 1,
            Err(error) => return [got, error.raw_os_error() as u64],
        }
    }
}

fn region(client: &Client) -> RegMr {
    RegMr {
        pd: client.pd,
        address: 4096,
        length: 4096,
        ..RegMr::default()
    }
}

const CQ: CreateCq = CreateCq {
    cookie: 1,
    entries: 1,
    channel: NO_CHANNEL,
};

fn queue_pair(client: &Client, cq: u32) -> CreateQp {
    let capacity = QpCapacity {
        max_send_wr: 1,
        max_recv_wr: 1,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline: 0,
    };
    CreateQp {
        cookie: 1,
        pd: client.pd,
        qp_type: qp_type::RC,
        send_cq: cq,
        recv_cq: cq,
        capacity,
        ..CreateQp::default()
    }
}

/// The child's role: takes all of the protection domains; then, if told to, all of the other objects, and keeps asking
/// for more.
pub(crate) fn takes_all(socket: &Path) {
    let client = Client::open_at(socket, 0);
    let cq = client.connection.call(&CQ, &[]).unwrap().body.cq;
    let (region, queue_pair) = (region(&client), queue_pair(&client, cq));
    child::say(&take_all(&client, &AllocPd {}));
    if child::listen().is_none() {
        return;
    }
    child::say(&take_all(&client, &region));
    child::say(&take_all(&client, &queue_pair));
    child::say(&take_all(&client, &CQ));
    loop {
        let nomem = Errno::NOMEM.raw_os_error();
        assert_eq!(errno(client.connection.call(&region, &[])), nomem);
        assert_eq!(errno(client.connection.call(&CQ, &[])), nomem);
        assert_eq!(errno(client.connection.call(&queue_pair, &[])), nomem);
    }
}

#[test]
fn a_process_gets_its_quotas_and_its_neighbours_work_on() {
    let host = Host::with_adapters(2);
    let mut greedy = Child::start("greedy", &host.path());
    let nomem = Errno::NOMEM.raw_os_error() as u64;
    // The client had one protection domain and one CQ before.
    assert_eq!(greedy.numbers(), [CLIENT[0] - 1, nomem]);
    greedy.tell(1);
    assert_eq!(greedy.numbers(), [CLIENT[1], nomem]);
    assert_eq!(greedy.numbers(), [CLIENT[2], nomem]);
    assert_eq!(greedy.numbers(), [CLIENT[3] - 1, nomem]);
    let (a, b) = (Client::open(&host, 0), Client::open(&host, 1));
    let mut queues = pair(&a, &b);
    for _ in 0..LOOKS {
        assert_works(&a, &b, &mut queues);
    }
    drop(greedy);
    assert_works(&a, &b, &mut pair(&a, &b));
}

/// The limits that the device reports hold: the memory for rings does not run out before.
#[test]
fn all_completion_queues_of_a_client_may_have_a_thousand_entries() {
    let host = Host::with_adapters(1);
    let client = Client::open(&host, 0);
    let cq = CreateCq {
        entries: 1000,
        ..CQ
    };
    let nomem = Errno::NOMEM.raw_os_error() as u64;
    assert_eq!(take_all(&client, &cq), [CLIENT[3], nomem]);
}

#[test]
fn rule_p18_a_user_gets_some_clients_worth_and_another_user_gets_its_own() {
    let host = Host::with_adapters(2);
    let mut greedy: Vec<Child> = Vec::new();
    for _ in 0..CLIENTS_WORTH {
        let mut child = Child::start("greedy", &host.path());
        assert_eq!(child.numbers()[0], CLIENT[0] - 1);
        greedy.push(child);
    }
    let last = Connection::open(&host.path()).unwrap();
    last.call(&hello(0), &[own_memory().as_fd()]).unwrap();
    let nomem = Errno::NOMEM.raw_os_error();
    assert_eq!(errno(last.call(&AllocPd {}, &[])), nomem);
    if rustix::process::geteuid().is_root() {
        crate::admission::admit(&host, 0, NOBODY);
        crate::admission::admit(&host, 1, NOBODY);
        let (a, b) = (
            Client::open_as(&host, 0, NOBODY),
            Client::open_as(&host, 1, NOBODY),
        );
        assert_works(&a, &b, &mut pair(&a, &b));
    } else {
        println!("not tested: only root can be another user");
    }
    drop(greedy.pop());
    while last.call(&AllocPd {}, &[]).is_err() {
        std::thread::yield_now();
    }
}

/// Returns the size in bytes of the address space that the test and the daemon share.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    pages * 4096
}

/// Sparse files cost no memory while nobody writes to them, but take room in the daemon's address space.
#[test]
fn rule_p19_sparse_files_leave_room_in_the_address_space() {
    const MOST: u64 = 1 << 41;
    let host = Host::with_adapters(2);
    let (greedy, other) = (Client::open(&host, 0), Client::open(&host, 1));
    let file = memfd_create("sparse", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, 1 << 47).unwrap();
    let before = address_space();
    for shift in (16..47).rev() {
        for _ in 0..20 {
            let file_range = FileRange {
                offset: 0,
                length: 1 << shift,
                address: region(&greedy).address & !4095,
            };
            let region = RegMr {
                file: file_range,
                ..region(&greedy)
            };
            // Beyond the quota, the region is reached by its address.
            greedy.connection.call(&region, &[file.as_fd()]).unwrap();
        }
    }
    let taken = address_space() - before;
    // Other tests of this process map memory, too.
    let most = MOST + MOST / 16;
    assert!((MOST / 2..=most).contains(&taken), "{taken:#x}");
    other.connection.call(&CQ, &[]).unwrap();
}

/// An unprivileged user.
pub(crate) const NOBODY: u32 = 65534;
