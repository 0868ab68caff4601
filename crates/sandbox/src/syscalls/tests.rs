//! Filters, each in a thread of its own, which keeps it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::thread;

use super::*;

/// Runs a function under the filter, in a thread of its own, which keeps the filter.
fn in_data_path<T: Send + 'static>(does: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        confine_data_path().unwrap();
        does()
    });
    thread.join().unwrap()
}

fn is_refused<T>(done: io::Result<T>) -> bool {
    done.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn threads_of_the_data_path_start_no_programs_and_write_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "here").unwrap();
    in_data_path(move || {
        assert!(is_refused(Command::new("true").status()));
        assert!(is_refused(File::create(&file)));
        assert!(is_refused(File::options().append(true).open(&file)));
        assert!(is_refused(fs::rename(&file, file.with_extension("new"))));
        assert_eq!(fs::read_to_string(&file).unwrap(), "here");
    });
}

#[test]
fn threads_of_the_data_path_have_datagrams_and_no_other_networks() {
    in_data_path(|| {
        assert!(is_refused(TcpListener::bind("127.0.0.1:0")));
        UdpSocket::bind("127.0.0.1:0").unwrap();
        UnixDatagram::unbound().unwrap();
        let netlink = rustix::net::AddressFamily::NETLINK;
        let opened = rustix::net::socket(netlink, rustix::net::SocketType::RAW, None);
        assert_eq!(opened.unwrap_err(), rustix::io::Errno::PERM);
    });
}

#[test]
fn threads_of_the_data_path_start_threads_under_the_same_rules() {
    in_data_path(|| {
        let inner = thread::spawn(|| is_refused(TcpListener::bind("127.0.0.1:0")));
        assert!(inner.join().unwrap());
    });
}

#[test]
fn what_the_process_gives_up_it_gives_up_whoever_it_is() {
    let thread = thread::spawn(|| {
        confine_process().unwrap();
        assert!(is_refused(Command::new("true").status()));
        let entered = rustix::thread::set_no_new_privs(true);
        entered.unwrap();
        let listens = TcpListener::bind("127.0.0.1:0");
        assert!(listens.is_ok(), "the control plane may");
    });
    thread.join().unwrap();
}
