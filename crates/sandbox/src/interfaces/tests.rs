//! Daemon and helper in one process, which needs no rights for requests that are refused.

use std::os::fd::AsFd;
use std::thread;

use super::*;

/// Starts a helper in a thread, which ends with the returned value.
fn interfaces() -> (Interfaces, thread::JoinHandle<()>) {
    let (ours, theirs) = helper::pair().unwrap();
    let served = thread::spawn(move || helper::serve(theirs.as_fd()).unwrap());
    (Helper::over(ours).unwrap().into(), served)
}

#[test]
fn names_that_are_none_are_refused_by_the_helper_in_one_sentence() {
    let (interfaces, served) = interfaces();
    let raw = |name: &str| interfaces.raw(name).unwrap_err();
    assert!(raw("a/b").contains("`a/b` is no interface name"));
    assert!(raw(&"x".repeat(16)).contains("is no interface name"));
    assert!(raw("nothere0").contains("there is no network interface `nothere0`"));
    let tap = interfaces.tap("a b", Mac([2; 6]), None).unwrap_err();
    assert!(tap.contains("`a b` is no interface name"), "{tap}");
    drop(interfaces);
    served.join().unwrap();
}

#[test]
fn buffers_of_a_socket_that_comes_along_grow() {
    let (interfaces, served) = interfaces();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let bytes = || rustix::net::sockopt::socket_recv_buffer_size(&socket).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
    let before = bytes();
    interfaces.enlarge_buffers(&socket);
    assert!(bytes() > before);
    drop(interfaces);
    served.join().unwrap();
}

#[test]
fn a_helper_that_is_gone_is_one_sentence_each_time() {
    let (ours, theirs) = helper::pair().unwrap();
    drop(theirs);
    let interfaces = Interfaces::from(Helper::over(ours).unwrap());
    for _ in 0..2 {
        let sentence = interfaces.raw("eth0").unwrap_err();
        assert!(
            sentence.ends_with("does not answer; restart vrdmad"),
            "{sentence}"
        );
    }
}
