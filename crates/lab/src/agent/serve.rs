//! The agent's loop: one thread reads requests; each command has a thread that
//! waits for it and one for each of its streams.

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::protocol::{Bytes, CHUNK, Event, Request, Stream, receive, send};

/// Status that a shell reports for a command that it could not start.
const NOT_STARTED: i32 = 127;

/// Answers requests until the stream ends. Commands continue after that.
///
/// # Errors
/// When a stream fails, or `InvalidData` for a line that is no request.
pub fn serve(mut requests: impl BufRead, events: impl Write + Send + 'static) -> io::Result<()> {
    let agent = Agent {
        events: Arc::new(Mutex::new(Box::new(events))),
        jobs: Jobs::default(),
    };
    agent.tell(&Event::Hello);
    while let Some(request) = receive(&mut requests)? {
        agent.handle(request);
    }
    Ok(())
}

type Jobs = Arc<Mutex<HashMap<u64, Job>>>;

struct Job {
    pid: u32,
    input: Option<Sender<Vec<u8>>>,
}

#[derive(Clone)]
struct Agent {
    /// Locked for a whole line at a time, so that events do not mix.
    events: Arc<Mutex<Box<dyn Write + Send>>>,
    jobs: Jobs,
}

impl Agent {
    /// Sends an event. A host that has gone away is no reason to stop: the next one says hello.
    fn tell(&self, event: &Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = send(event, &mut *events);
    }

    fn handle(&self, request: Request) {
        match request {
            Request::Hello => self.tell(&Event::Hello),
            Request::Run { id, command, input } => self.run(id, &command, input),
            Request::Input { id, bytes } => self.input(id, bytes.0),
            Request::Kill { id, signal } => self.kill(id, signal),
        }
    }

    fn run(&self, id: u64, command: &str, input: bool) {
        match spawn(command, input) {
            Ok(child) => self.follow(id, child),
            Err(error) => {
                let bytes = Bytes(format!("lab agent: {error}\n").into_bytes());
                self.tell(&Event::Output {
                    id,
                    stream: Stream::Stderr,
                    bytes,
                });
                self.tell(&Event::Ended {
                    id,
                    status: NOT_STARTED,
                });
            }
        }
    }

    fn follow(&self, id: u64, mut child: Child) {
        let input = child.stdin.take().map(feed);
        self.jobs().insert(
            id,
            Job {
                pid: child.id(),
                input,
            },
        );
        self.tell(&Event::Started {
            id,
            pid: child.id(),
        });
        let stdout = child
            .stdout
            .take()
            .map(|pipe| self.copy(id, Stream::Stdout, pipe));
        let stderr = child
            .stderr
            .take()
            .map(|pipe| self.copy(id, Stream::Stderr, pipe));
        let agent = self.clone();
        thread::spawn(move || {
            let status = child.wait().map_or(NOT_STARTED, shell_status);
            for copier in [stdout, stderr].into_iter().flatten() {
                let _ = copier.join();
            }
            agent.jobs().remove(&id);
            agent.tell(&Event::Ended { id, status });
        });
    }

    fn copy(
        &self,
        id: u64,
        stream: Stream,
        mut pipe: impl Read + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let agent = self.clone();
        thread::spawn(move || {
            let mut buffer = [0; CHUNK];
            while let Ok(length @ 1..) = pipe.read(&mut buffer) {
                let bytes = Bytes(buffer[..length].to_vec());
                agent.tell(&Event::Output { id, stream, bytes });
            }
        })
    }

    fn input(&self, id: u64, bytes: Vec<u8>) {
        let mut jobs = self.jobs();
        let Some(job) = jobs.get_mut(&id) else { return };
        if bytes.is_empty() {
            job.input = None;
        } else if let Some(input) = &job.input {
            let _ = input.send(bytes);
        }
    }

    fn kill(&self, id: u64, signal: i32) {
        let pid = self.jobs().get(&id).map(|job| job.pid);
        if let Some(pid) = pid {
            let command = format!("kill -{signal} -{pid}");
            let _ = Command::new("sh").args(["-c", &command]).status();
        }
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(command: &str, input: bool) -> io::Result<Child> {
    Command::new("sh")
        .args(["-c", command])
        .process_group(0)
        .stdin(if input { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

/// Writes to a command that may not be reading, without delaying the others.
fn feed(mut stdin: ChildStdin) -> Sender<Vec<u8>> {
    let (sender, receiver): (_, Receiver<Vec<u8>>) = channel();
    thread::spawn(move || {
        for bytes in receiver {
            if stdin.write_all(&bytes).is_err() {
                return;
            }
        }
    });
    sender
}

fn shell_status(status: ExitStatus) -> i32 {
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[cfg(test)]
mod tests;
