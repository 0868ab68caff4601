//! Rules about packets and the hello.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use vrdma_provider::VERSION;
use vrdma_provider::client::Connection;
use vrdma_provider::cm::Greet;
use vrdma_provider::message::{
    AllocPd, Call, Code, CreateChannel, FindAdapter, Hello, ListAdapter, Name, PACKET_MAX, split,
};
use vrdma_provider::socket;

use crate::client::{Client, Host, assert_works, errno, hello, pair};
use crate::memory::own_memory;
use crate::two;

/// Codes that are tried: more than exist.
const CODES: u32 = 256;

fn connect(host: &Host) -> Connection {
    Connection::open(&host.path()).unwrap()
}

/// Sends a packet with any code and body. Returns the status of its answer, or `None` if the connection has ended.
fn answer_to(connection: &Connection, code: u32, body: &[u8]) -> Option<u32> {
    let header = [code.to_ne_bytes(), [0; 4]].concat();
    let packet = [&header[..], body].concat();
    socket::send(connection.as_fd(), &packet, &[], SendFlags::NOSIGNAL).ok()?;
    let answer = socket::receive(connection.as_fd(), RecvFlags::empty()).ok()??;
    Some(split(answer.bytes()).unwrap().0.errno)
}

fn is_open(connection: &Connection) -> bool {
    connection.call(&ListAdapter { index: 0 }, &[]).is_ok()
}

#[test]
fn rule_p01_before_the_hello_there_are_questions_about_adapters_only() {
    let host = Host::with_adapters(1);
    let connection = connect(&host);
    let asks = [ListAdapter::CODE, FindAdapter::CODE, Hello::CODE];
    for code in (0..CODES).filter(|code| Code::from_number(*code).is_some()) {
        if !asks.contains(&code) {
            let refused = Some(Errno::OPNOTSUPP.raw_os_error() as u32);
            assert_eq!(answer_to(&connection, code, &[0; 64]), refused, "{code}");
        }
    }
    assert!(is_open(&connection));
}

#[test]
fn rule_p02_who_speaks_another_version_is_refused() {
    let host = Host::with_adapters(1);
    let refused = Errno::PROTONOSUPPORT.raw_os_error();
    for version in [0, VERSION - 1, VERSION + 1, u32::MAX] {
        let said = Hello {
            version,
            ..hello(0)
        };
        let answer = connect(&host).call(&said, &[own_memory().as_fd()]);
        assert_eq!(errno(answer), refused, "{version}");
        let said = Greet {
            version,
            reserved: 0,
            adapter: Name::default(),
        };
        assert_eq!(errno(connect(&host).call(&said, &[])), refused, "{version}");
    }
}

#[test]
fn rule_p04_a_packet_that_is_too_long_ends_its_connection() {
    let (host, a, b) = two();
    let mut queues = pair(&a, &b);
    for connection in [connect(&host), Client::open(&host, 0).connection] {
        let long = [0; PACKET_MAX];
        assert_eq!(answer_to(&connection, ListAdapter::CODE, &long), None);
        assert!(!is_open(&connection));
    }
    assert_works(&a, &b, &mut queues);
}

#[test]
fn rule_p05_a_body_of_another_length_is_refused() {
    let host = Host::with_adapters(1);
    let client = Client::open(&host, 0);
    let before = host.objects(0);
    for code in (0..CODES).filter(|code| Code::from_number(*code).is_some()) {
        for length in [1, 3, 257] {
            let answer = answer_to(&client.connection, code, &vec![0xff; length]);
            assert!(answer.is_some_and(|errno| errno != 0), "{code}, {length}");
        }
    }
    assert_eq!(host.objects(0), before);
    client.call(&AllocPd {}).unwrap();
}

#[test]
fn rule_p06_a_code_that_nobody_knows_is_refused() {
    let host = Host::with_adapters(1);
    let client = Client::open(&host, 0);
    let unknown = (0..CODES).chain([0x7fff_ffff, u32::MAX]);
    for code in unknown.filter(|code| Code::from_number(*code).is_none() && *code != Greet::CODE) {
        let answer = answer_to(&client.connection, code, &[0; 8]);
        assert!(answer.is_some_and(|errno| errno != 0), "{code}");
    }
    client.call(&CreateChannel {}).unwrap();
}

#[test]
fn rule_p07_a_connection_opens_one_adapter_once() {
    let host = Host::with_adapters(2);
    let client = Client::open(&host, 0);
    for number in 0..2 {
        let again = client
            .connection
            .call(&hello(number), &[own_memory().as_fd()]);
        assert_eq!(errno(again), Errno::ISCONN.raw_os_error());
    }
    client.call(&AllocPd {}).unwrap();
}

#[test]
fn rule_p08_only_the_client_s_own_memory_is_taken_for_it() {
    let host = Host::with_adapters(1);
    let connection = connect(&host);
    let say = |hello: Hello, files: &[&OwnedFd]| {
        let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
        errno(connection.call(&hello, &files))
    };
    let inval = Errno::INVAL.raw_os_error();
    let own = own_memory();
    for path in [
        "/dev/zero",
        "/proc/self/maps",
        "/proc/self/exe",
        "/proc/1/mem",
    ] {
        if let Ok(other) = File::open(path) {
            assert_eq!(say(hello(0), &[&other.into()]), inval, "{path}");
        }
    }
    let elsewhere = |nonce_address| Hello {
        nonce_address,
        ..hello(0)
    };
    for address in [0, hello(0).nonce_address ^ 8, u64::MAX, 1 << 63] {
        assert_eq!(say(elsewhere(address), &[&own]), inval, "{address:#x}");
    }
    assert_eq!(say(hello(0), &[]), inval);
    assert_eq!(say(hello(0), &[&own, &own_memory()]), inval);
    connection.call(&hello(0), &[own.as_fd()]).unwrap();
}
