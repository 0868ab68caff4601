//! A program whose server's guest may migrate.
//!
//! The server runs in guest a and writes into files, since the lab's channel to it ends with its first QEMU. The client
//! runs in guest b, in the third guest, or as a process of host b on the adapter of its QEMUs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vrdma_lab::guest::{Guest, Running};
use vrdma_lab::pair::{Pair, Side};
use vrdma_lab::process::{Lifetime, Supervised};

use super::{Peer, rows};
use crate::guests::{objects, with_device};

/// How long a program may send nothing without ending.
const PATIENCE: Duration = Duration::from_secs(60);

/// Interval between two looks at it.
const POLL: Duration = Duration::from_millis(200);

/// The only device of our library.
const DEVICE: &str = "vrdma0";

/// A running server and client.
pub(super) struct Program {
    client: Client,
    files: Files,
}

/// Files that the server writes in guest a.
struct Files {
    status: String,
    said: String,
}

impl Files {
    /// The files of the program with this peer; programs that run at the same time have different ones.
    fn of(peer: Peer) -> Self {
        let name = match peer {
            Peer::Process => "process",
            Peer::Vm => "vm",
            Peer::Rxe => "rxe",
        };
        Self {
            status: format!("/tmp/{name}.status"),
            said: format!("/tmp/{name}.out"),
        }
    }
}

enum Client {
    InGuest(Running),
    Process { process: Supervised, log: PathBuf },
}

impl Program {
    /// Starts server and client.
    pub(super) fn start(pair: &Pair, command: &rows::Command, peer: Peer) -> Result<Self> {
        let server = with_device(&command.server);
        let files = Files::of(peer);
        let Files { status, said } = &files;
        let started = format!(
            "rm -f {status}; setsid sh -c '({server}) > {said} 2>&1; echo $? > {status}' \
             < /dev/null > /dev/null 2>&1 &"
        );
        pair.guest(Side::A).check(&started)?;
        await_server(pair.guest(Side::A), command, said)?;
        let in_guest = |guest: &Guest| {
            let client = guest.spawn(&with_device(&command.client));
            anyhow::Ok(Client::InGuest(client?))
        };
        let client = match peer {
            Peer::Vm => in_guest(pair.guest(Side::B))?,
            Peer::Rxe => in_guest(pair.beside().unwrap_or_else(|| pair.guest(Side::B)))?,
            Peer::Process => Client::as_process(pair, &command.client)?,
        };
        Ok(Self { client, files })
    }

    /// Waits for both to end and returns their exit statuses; prints their output if one is not 0.
    pub(super) fn statuses(&mut self, pair: &Pair, vrdma: &Path) -> Result<[Option<i32>; 2]> {
        self.wait_while_messages_flow(pair, vrdma)?;
        let server = self.files.server_status(pair.guest(Side::A))?;
        let statuses = [server, self.client_status()];
        if statuses != [Some(0); 2] {
            self.tell(pair);
        }
        Ok(statuses)
    }

    fn wait_while_messages_flow(&mut self, pair: &Pair, vrdma: &Path) -> Result<()> {
        let mut sent = None;
        let mut since = Instant::now();
        while !self.has_ended() && since.elapsed() < PATIENCE {
            let now = Some(objects::messages(pair, vrdma)?);
            if now != sent {
                (sent, since) = (now, Instant::now());
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Whether its client has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        match &mut self.client {
            Client::InGuest(client) => client.status().is_some(),
            Client::Process { process, .. } => process.ended().is_ok_and(|ended| ended.is_some()),
        }
    }

    fn client_status(&mut self) -> Option<i32> {
        match &mut self.client {
            Client::InGuest(client) => {
                let status = client.wait_status(PATIENCE).ok();
                if status.is_none() {
                    // It may have ended meanwhile.
                    let _ = client.kill();
                }
                status
            }
            Client::Process { process, .. } => process.wait_for_exit(PATIENCE).ok()??.code(),
        }
    }

    /// Whether its client has ended because the service was not offered yet, which rdma_cm rejects for reason 8.
    pub(super) fn came_too_early(&mut self) -> bool {
        let said = self.client_said();
        self.has_ended() && said.contains("RDMA_CM_EVENT_REJECTED; error: 8")
    }

    /// Ends the server, so that another program can take its place.
    pub(super) fn abandon(self, pair: &Pair) -> Result<()> {
        let server = pair.guest(Side::A);
        server.check("pkill -9 '^(ib|rping)' || true").map(drop)
    }

    /// What the client has printed so far.
    pub(super) fn client_said(&self) -> String {
        match &self.client {
            Client::InGuest(client) => {
                let (stdout, stderr) = client.printed();
                let both = [stdout, stderr].concat();
                String::from_utf8_lossy(&both).into_owned()
            }
            Client::Process { log, .. } => fs::read_to_string(log).unwrap_or_default(),
        }
    }

    /// Prints the output of both, and the logs.
    pub(super) fn tell(&self, pair: &Pair) {
        let said = &self.files.said;
        let server = pair
            .guest(Side::A)
            .check(&format!("cat {said}; dmesg | tail -20"));
        eprintln!(
            "server: {}",
            server.unwrap_or_else(|error| error.to_string())
        );
        eprintln!("client: {}", self.client_said());
        eprintln!("{}", pair.logs());
    }
}

impl Client {
    /// Starts the client on host b. It knows the guest's address as a client in guest b does.
    fn as_process(pair: &Pair, words: &str) -> Result<Self> {
        let verbs = pair
            .process(Side::B)
            .context("this pair's hosts have no verbs of their own")?;
        let address = Side::A.address();
        let run = pair.run_dir().display();
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            &format!("DEV={DEVICE}; A={address}; RUN={run}; exec {words}"),
        ]);
        let log = pair.run_dir().join("client.out");
        // Otherwise the log of the previous program would be continued.
        fs::write(&log, "")?;
        let process = Supervised::spawn(&verbs.command(&shell), Some(&log), Lifetime::Owned)?;
        Ok(Self::Process { process, log })
    }
}

impl Files {
    fn server_status(&self, guest: &Guest) -> Result<Option<i32>> {
        let deadline = Instant::now() + PATIENCE;
        let look = format!("cat {} 2> /dev/null || true", self.status);
        loop {
            let status = guest.check(&look)?;
            if let Ok(status) = status.trim().parse() {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                guest.check("pkill -9 ib || true")?;
                return Ok(None);
            }
            thread::sleep(POLL);
        }
    }
}

/// Waits until the server listens: perftest and the examples of libibverbs at a TCP port; with rdma_cm the kernel lists
/// the listener.
fn await_server(guest: &Guest, command: &rows::Command, said: &str) -> Result<()> {
    let listens = match command.by_rdma_cm() {
        true => "rdma resource show cm_id | grep -q 'state LISTEN'".to_owned(),
        false => format!(
            "grep -qs ':{:04X} [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6",
            command.port()
        ),
    };
    let wait =
        format!("for i in $(seq 200); do {listens} && exit 0; sleep 0.1; done; cat {said}; exit 1");
    guest
        .check(&wait)
        .map(drop)
        .context("the server does not listen")
}

/// Names the servers and clients, given in turn, that failed.
pub(super) fn complaint(statuses: &[Option<i32>]) -> Option<String> {
    let of_whom = statuses
        .iter()
        .zip(["server", "client"].into_iter().cycle());
    let wrong = of_whom.filter_map(|(status, who)| match status {
        Some(0) => None,
        Some(status) => Some(format!("{who} ended with {status}")),
        None => Some(format!("{who} did not end")),
    });
    let wrong: Vec<_> = wrong.collect();
    (!wrong.is_empty()).then(|| wrong.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_who_did_not_end_well() {
        assert_eq!(complaint(&[Some(0); 4]), None);
        assert_eq!(
            complaint(&[Some(0), None, Some(1), Some(0)]).as_deref(),
            Some("client did not end, server ended with 1")
        );
    }
}
