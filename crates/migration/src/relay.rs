//! The relay at the source: a program that is started for one migration, and controlled by lines of JSON.
//!
//! ```text
//!   vrdma migrate ──stdin──► relay ════ RDMA ════► the destination's relay, which somebody has started
//!                 ◄─stdout──   ▲
//!          QEMU ── unix, file ─┘
//! ```
//! It ends with its input, so it does not outlive the program that started it. How it transfers memory does not matter
//! here.

mod file;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use vrdma_api::{RelayRequest, RelayTold};

use crate::Hosts;
use crate::blocks;
use crate::error::Cause;
use crate::machine::MemoryBackend;
pub use file::Offered;

/// How long both relays may take to map and register a little memory, and the rate at which they must manage more; some
/// need half a second for a GiB.
const READY_LIMIT: Duration = Duration::from_secs(120);
const READY_BYTES_A_SECOND: u64 = 512 << 20;

/// How long a relay that has ended may take to report why.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How to start the relay at the source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelayProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Additional environment variables: its daemon and its adapter.
    pub variables: Vec<(OsString, OsString)>,
}

/// A relay that is ready; it is killed when this is dropped.
pub struct Relay {
    child: Child,
    told: Receiver<RelayTold>,
    uris: [String; 2],
    /// File into which the source's QEMU may write its stream.
    file: Option<PathBuf>,
}

impl Relay {
    /// Starts the relay, and has both relays check whether they can use the memory.
    ///
    /// # Errors
    /// When one of them cannot.
    pub fn start(program: &RelayProgram, request: &RelayRequest) -> Result<Self, Cause> {
        let mut child = spawn(program)?;
        let told = listen(&mut child);
        let mut relay = Self {
            child,
            told,
            uris: Default::default(),
            file: None,
        };
        let mut line =
            serde_json::to_vec(request).map_err(|error| Cause::new(error.to_string()))?;
        line.push(b'\n');
        if let Some(input) = &mut relay.child.stdin {
            // A relay that has ended reports why.
            let _ = input.write_all(&line);
        }
        match relay.told.recv_timeout(ready_limit(request)) {
            Ok(RelayTold::Ready {
                source,
                destination,
                file,
            }) => {
                relay.uris = [source, destination];
                relay.file = file.map(Into::into);
            }
            Ok(RelayTold::Failed { why }) => return Err(Cause::new(why)),
            Ok(RelayTold::Done { .. }) | Err(_) => {
                return Err(Cause::new(format!(
                    "the relay {} does not say that it is ready; look at what it prints",
                    program.program.display()
                )));
            }
        }
        Ok(relay)
    }

    /// Returns the migration URIs for the source's QEMU and the destination's.
    #[must_use]
    pub fn uris(&self) -> &[String; 2] {
        &self.uris
    }

    /// Returns why the relay has ended, if it has: QEMU then only reports that its socket was closed.
    pub(crate) fn failure(&self) -> Option<Cause> {
        self.failure_within(LAST_WORDS)
    }

    /// The same, if it is known already.
    pub(crate) fn known_failure(&self) -> Option<Cause> {
        self.failure_within(Duration::ZERO)
    }

    /// Waits a moment for the relay's end and returns its report. It ends soon after the VM is there: the destination's
    /// relay would take an abrupt end for a failure.
    pub fn finish(&self) -> Option<RelayTold> {
        self.told.recv_timeout(LAST_WORDS).ok()
    }

    fn failure_within(&self, limit: Duration) -> Option<Cause> {
        match self.told.recv_timeout(limit) {
            Ok(RelayTold::Failed { why }) => Some(Cause::new(why)),
            Ok(RelayTold::Ready { .. } | RelayTold::Done { .. }) | Err(_) => None,
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // The relay may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ready_limit(request: &RelayRequest) -> Duration {
    let lengths = request.blocks.iter().map(|block| block.bytes);
    let bytes = lengths.fold(0, u64::saturating_add);
    READY_LIMIT + Duration::from_secs(bytes / READY_BYTES_A_SECOND)
}

fn address(to: &str) -> Result<SocketAddr, Cause> {
    let found = to.to_socket_addrs().ok().and_then(|mut all| all.next());
    found.ok_or_else(|| {
        Cause::new(format!(
            "direct:{to} names no address and port, such as direct:198.51.100.2:4444"
        ))
    })
}

/// Makes the relay's request for the VM of these hosts.
pub(crate) fn request(to: &str, hosts: &mut Hosts) -> Result<RelayRequest, Cause> {
    let to = address(to)?;
    let (source, destination) = (&mut hosts.source.machine, &mut hosts.destination.machine);
    let process = source.process().ok_or_else(|| {
        Cause::new(
            "the source's QEMU is no process of this host, so its memory cannot be read here; run vrdma migrate on its host",
        )
    })?;
    let backends = source.memory_backends()?;
    let shared: Vec<&str> = backends.iter().filter_map(shared_name).collect();
    let blocks = blocks::placed(&shared, &source.ram_blocks()?, &destination.ram_blocks()?)?;
    Ok(RelayRequest {
        to,
        process,
        blocks,
    })
}

fn shared_name(backend: &MemoryBackend) -> Option<&str> {
    backend.id.as_deref().filter(|_| backend.share)
}

fn spawn(program: &RelayProgram) -> Result<Child, Cause> {
    let mut command = Command::new(&program.program);
    command
        .args(&program.arguments)
        .envs(program.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().map_err(|error| {
        let path = program.program.display();
        Cause::new(format!("cannot start the relay {path}: {error}"))
    })
}

fn listen(child: &mut Child) -> Receiver<RelayTold> {
    let (tell, told) = channel();
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            for line in lines {
                let Ok(said) = serde_json::from_str(&line) else {
                    continue;
                };
                if tell.send(said).is_err() {
                    break;
                }
            }
        });
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_may_take_longer_to_register() {
        let limit = |bytes| {
            let block = vrdma_api::RelayBlock {
                name: "ram".into(),
                bytes,
                page_bytes: 4096,
                source: 0,
                destination: 0,
            };
            let request = RelayRequest {
                to: "192.0.2.2:4444".parse().unwrap(),
                process: 1,
                blocks: vec![block; 2],
            };
            ready_limit(&request)
        };
        assert_eq!(limit(0), READY_LIMIT);
        assert_eq!(limit(1 << 39), READY_LIMIT + Duration::from_secs(2048));
        assert!(limit(u64::MAX) > READY_LIMIT);
    }
}
