use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::*;

#[test]
fn a_name_with_parentheses_is_skipped() {
    let stat = "42 (a) S (b) S 1 40 40 0 -1 4194560 1 0 0 0 7 5 0 0 20 0 1 0";
    let process = Process {
        pid: 42,
        group: 40,
        asleep: true,
        ticks: 12,
    };
    assert_eq!(Process::parse(stat), Some(process));
    assert_eq!(Process::parse("42 (sh"), None);
}

#[test]
fn only_listening_sockets_count() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:0016 0100007F:8AE2 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 20 4 30 10 -1
";
    assert_eq!(listening_inodes(table), ["111"]);
}

#[test]
fn this_process_listens_once_it_has_a_socket() {
    let _socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let myself = fs::read_to_string("/proc/self/stat").unwrap();
    assert!(listens_by_tcp(&[Process::parse(&myself).unwrap()]));
}

#[test]
fn a_sleeper_is_quiet_and_then_gone() {
    let mut sleeper = Command::new("sleep")
        .arg("1000")
        .process_group(0)
        .spawn()
        .unwrap();
    assert_eq!(watch(sleeper.id()), Settled::Quiet);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(watch(sleeper.id()), Settled::Gone);
}

#[test]
fn work_between_two_looks_starts_the_count_again() {
    let at = |ticks| {
        [Process {
            pid: 1,
            group: 1,
            asleep: true,
            ticks,
        }]
    };
    let mut quiet = QuietCount::default();
    assert_eq!([1, 1, 1].map(|ticks| quiet.look(&at(ticks))), [0, 1, 2]);
    assert_eq!([2, 2].map(|ticks| quiet.look(&at(ticks))), [0, 1]);
}
