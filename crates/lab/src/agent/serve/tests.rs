//! The agent, run on the host, with its host on the other end of a socket pair.

use std::io::BufReader;
use std::os::unix::net::UnixStream;

use super::*;

struct Host {
    socket: UnixStream,
    events: BufReader<UnixStream>,
}

fn start() -> Host {
    let (host, agent) = UnixStream::pair().unwrap();
    let requests = BufReader::new(agent.try_clone().unwrap());
    thread::spawn(move || serve(requests, agent));
    let mut host = Host {
        events: BufReader::new(host.try_clone().unwrap()),
        socket: host,
    };
    assert_eq!(host.next(), Event::Hello);
    host
}

impl Host {
    fn next(&mut self) -> Event {
        receive(&mut self.events)
            .unwrap()
            .expect("the agent is alive")
    }

    fn ask(&mut self, request: &Request) {
        send(request, &mut self.socket).unwrap();
    }

    fn run(&mut self, id: u64, command: &str, input: bool) {
        self.ask(&Request::Run {
            id,
            command: command.to_owned(),
            input,
        });
        while !matches!(self.next(), Event::Started { id: started, .. } if started == id) {}
    }

    /// Collects the command's output on both streams, and its status.
    fn finish(&mut self, id: u64) -> (String, String, i32) {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.next() {
                Event::Output {
                    id: from,
                    stream,
                    bytes,
                } if from == id => match stream {
                    Stream::Stdout => stdout.extend(bytes.0),
                    Stream::Stderr => stderr.extend(bytes.0),
                },
                Event::Ended { id: ended, status } if ended == id => {
                    let text = |bytes| String::from_utf8(bytes).unwrap();
                    return (text(stdout), text(stderr), status);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn streams_and_status_come_back_apart() {
    let mut host = start();
    host.run(1, "echo out; echo err >&2; exit 3", false);
    assert_eq!(host.finish(1), ("out\n".into(), "err\n".into(), 3));
}

#[test]
fn input_is_passed_on_and_closed() {
    let mut host = start();
    host.run(1, "cat", true);
    host.ask(&Request::Input {
        id: 1,
        bytes: Bytes(b"one\n".to_vec()),
    });
    host.ask(&Request::Input {
        id: 1,
        bytes: Bytes::default(),
    });
    assert_eq!(host.finish(1), ("one\n".into(), String::new(), 0));
}

#[test]
fn a_command_without_input_reads_nothing() {
    let mut host = start();
    host.run(1, "cat", false);
    assert_eq!(host.finish(1).2, 0);
}

#[test]
fn commands_run_side_by_side_and_die_with_their_children() {
    let mut host = start();
    host.run(1, "sleep 1000 & sleep 1000", false);
    host.run(2, "echo second", false);
    assert_eq!(host.finish(2).0, "second\n");
    host.ask(&Request::Kill { id: 1, signal: 9 });
    assert_eq!(host.finish(1).2, 128 + 9);
}

#[test]
fn a_late_kill_and_late_input_are_ignored() {
    let mut host = start();
    host.run(1, "true", false);
    host.finish(1);
    host.ask(&Request::Kill { id: 1, signal: 9 });
    host.ask(&Request::Input {
        id: 1,
        bytes: Bytes(b"x".to_vec()),
    });
    host.ask(&Request::Hello);
    assert_eq!(host.next(), Event::Hello);
}
