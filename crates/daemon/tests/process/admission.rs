//! Users find and open the adapters that they may use, and no others.

use std::fs::Permissions;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread::spawn;

use rustix::io::Errno;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use vrdma_inventory::ShardOptions;
use vrdma_process::Admitted;
use vrdma_provider::VERSION;
use vrdma_provider::client::Connection;
use vrdma_provider::cm::Greet;
use vrdma_provider::message::{FindAdapter, Hello, ListAdapter, Name};
use vrdma_switch::PortId;

use crate::adapters::block_on;
use crate::client::{Client, Host, assert_works, errno, hello, pair};
use crate::memory::own_memory;
use crate::quotas::NOBODY;

/// Connects as another user. Only root can do that.
pub(crate) fn connect_as(path: &Path, uid: u32) -> Connection {
    let open = Permissions::from_mode(0o755);
    std::fs::set_permissions(path.parent().unwrap(), open).unwrap();
    // Each thread has a user of its own, and the kernel looks at that of the thread that connects.
    let path = path.to_owned();
    let connect = move || {
        let (uid, root) = (Uid::from_raw(uid), Uid::ROOT);
        set_thread_res_uid(uid, uid, root).unwrap();
        Connection::open(&path).unwrap()
    };
    spawn(connect).join().unwrap()
}

/// A user may use an adapter from now on.
pub(crate) fn admit(host: &Host, adapter: u32, uid: u32) {
    let admitted = Admitted {
        users: [uid].into(),
        ..Admitted::default()
    };
    host.handle.admit(PortId(adapter), admitted);
}

/// Returns the path of an adapter's own socket.
fn own_path(host: &Host, number: u8) -> PathBuf {
    host.path()
        .with_file_name(format!("c{number}.process.sock"))
}

/// Whether this process can act as another user: only root can.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("not tested: only root can be another user");
    }
    is_root
}

fn listed(connection: &Connection) -> Vec<String> {
    let list = |index| connection.call(&ListAdapter { index }, &[]);
    let all = (0..).map_while(|index| list(index).ok());
    all.map(|answer| answer.body.name.as_str().to_owned())
        .collect()
}

fn open(connection: &Connection, hello: Hello) -> Result<String, i32> {
    let answer = connection.call(&hello, &[own_memory().as_fd()]);
    let opened = answer.map_err(|error| error.raw_os_error())?;
    Ok(opened.body.adapter.name.as_str().to_owned())
}

#[test]
fn programs_that_come_before_the_adapters_find_all_of_them() {
    let mut host = Host::starting(&ShardOptions::unpinned(1));
    let path = host.path();
    let (connecting, connected) = channel();
    let early = spawn(move || {
        let connection = Connection::open(&path).unwrap();
        connecting.send(()).unwrap();
        listed(&connection)
    });
    connected.recv().unwrap();
    // A shard that already accepted clients would have accepted this one before it answers.
    block_on(host.handle.snapshot());
    host.furnish(3);
    assert_eq!(early.join().unwrap(), ["c0", "c1", "c2"]);
}

#[test]
fn rule_p09_a_user_sees_and_opens_own_adapters_only() {
    if !is_root() {
        return;
    }
    let host = Host::with_adapters(4);
    let refused = Err(Errno::ACCESS.raw_os_error());
    let nobody = connect_as(&host.path(), NOBODY);
    assert_eq!(listed(&nobody), [""; 0]);
    assert_eq!(open(&nobody, hello(1)), refused);
    admit(&host, 1, NOBODY);
    assert_eq!(listed(&nobody), ["c1"]);
    assert_eq!(open(&nobody, hello(0)), refused);
    let name = |number| hello(number).adapter;
    let find = |number| nobody.call(&FindAdapter { name: name(number) }, &[]);
    assert_eq!(errno(find(0)), Errno::ACCESS.raw_os_error());
    assert_eq!(find(1).unwrap().body.name.as_str(), "c1");
    let nameless = Hello {
        adapter: Name::default(),
        ..hello(0)
    };
    assert_eq!(open(&nobody, nameless), Ok("c1".to_owned()), "the only one");
    let own = Connection::open(&host.path()).unwrap();
    assert_eq!(listed(&own), ["c0", "c1", "c2", "c3"]);
}

#[test]
fn what_is_open_when_a_right_goes_stays_open() {
    if !is_root() {
        return;
    }
    let host = Host::with_adapters(2);
    (0..2).for_each(|adapter| admit(&host, adapter, NOBODY));
    let (a, b) = (
        Client::open_as(&host, 0, NOBODY),
        Client::open_as(&host, 1, NOBODY),
    );
    let mut queues = pair(&a, &b);
    (0..2).for_each(|adapter| admit(&host, adapter, NOBODY + 1));
    let next = connect_as(&host.path(), NOBODY);
    assert_eq!(open(&next, hello(0)), Err(Errno::ACCESS.raw_os_error()));
    assert_works(&a, &b, &mut queues);
    assert_works(&a, &b, &mut pair(&a, &b));
}

#[test]
fn connection_management_greets_users_of_adapters() {
    if !is_root() {
        return;
    }
    let host = Host::with_adapters(3);
    let greet = |adapter: &str| {
        let connection = connect_as(&host.path(), NOBODY);
        let greet = Greet {
            version: VERSION,
            reserved: 0,
            adapter: Name::new(adapter).unwrap(),
        };
        let answer = connection.call(&greet, &[]);
        answer.map(|answer| answer.body.adapters)
    };
    assert_eq!(errno(greet("c1")), Errno::ACCESS.raw_os_error());
    assert_eq!(errno(greet("")), Errno::NODEV.raw_os_error());
    admit(&host, 1, NOBODY);
    assert_eq!(greet("").unwrap(), 1);
    assert_eq!(greet("c1").unwrap(), 1);
    assert_eq!(errno(greet("c2")), Errno::ACCESS.raw_os_error());
}

#[test]
fn rule_p09_who_comes_by_the_socket_of_an_adapter_reaches_no_other() {
    let host = Host::with_adapters(3);
    let nodev = Errno::NODEV.raw_os_error();
    let connection = Connection::open(&own_path(&host, 1)).unwrap();
    assert_eq!(listed(&connection), ["c1"]);
    let name = |number| hello(number).adapter;
    let find = |number| connection.call(&FindAdapter { name: name(number) }, &[]);
    assert_eq!(errno(find(0)), nodev);
    assert_eq!(find(1).unwrap().body.name.as_str(), "c1");
    assert_eq!(open(&connection, hello(2)), Err(nodev));
    let nameless = Hello {
        adapter: Name::default(),
        ..hello(0)
    };
    assert_eq!(open(&connection, nameless), Ok("c1".to_owned()));
    let greet = |adapter: &str| {
        let connection = Connection::open(&own_path(&host, 1)).unwrap();
        let greet = Greet {
            version: VERSION,
            reserved: 0,
            adapter: Name::new(adapter).unwrap(),
        };
        let answer = connection.call(&greet, &[]);
        answer.map(|answer| answer.body.adapters)
    };
    assert_eq!(greet("").unwrap(), 1);
    assert_eq!(greet("c1").unwrap(), 1);
    assert_eq!(errno(greet("c0")), nodev);
    let (a, b) = (
        Client::open_at(&own_path(&host, 0), 0),
        Client::open_at(&own_path(&host, 1), 1),
    );
    assert_works(&a, &b, &mut pair(&a, &b));
}

#[test]
fn the_socket_of_an_adapter_goes_with_it_and_admits_who_is_named() {
    let host = Host::with_adapters(2);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&own_path(&host, 1)), 0o600);
    block_on(host.handle.remove_adapter(PortId(1))).unwrap();
    assert!(!own_path(&host, 1).exists() && own_path(&host, 0).exists());
    if !is_root() {
        return;
    }
    // A user who can open the socket despite its mode is still checked.
    let open = Permissions::from_mode(0o666);
    std::fs::set_permissions(own_path(&host, 0), open).unwrap();
    let stranger = connect_as(&own_path(&host, 0), NOBODY);
    assert!(stranger.call(&ListAdapter { index: 0 }, &[]).is_err());
    admit(&host, 0, NOBODY);
    let named = connect_as(&own_path(&host, 0), NOBODY);
    assert_eq!(listed(&named), ["c0"]);
}
