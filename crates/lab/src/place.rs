//! Places where programs run: in a guest, on this host, or in a container on it.
//!
//! ```text
//!   run(server's place, client's place)
//!     server starts --settles--> client runs to its end --> server ends, or is killed
//!   run_together: the same without settling
//! ```

mod container;
mod local;
mod preload;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::guest::{Control, Output, Running};
use crate::patience::patient;
pub use container::Container;
pub use local::Local;
pub use preload::{Enter, Preload, SOCKETS};

/// How long a server may take to end before it is killed, once it looks as if it will not end.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Most attempts of a client that came before its server listened.
const EARLY_LIMIT: u32 = 5;

/// The results of a server and its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The server's results. A server that would not have ended was killed.
    pub server: Output,
    /// The client's results.
    pub client: Output,
}

impl Outcome {
    /// Whether the client failed because it came too early. A server without any sign is only guessed to be ready. With
    /// `-R`, perftest shakes hands first; only then does its server listen for the connection that it measures, while
    /// its client resolves and connects: which of them is first is chance (perftest would try again, but crashes
    /// there). Such a client is told that the service is not offered: rejected for reason 8. A program of UCX may
    /// listen for UCX itself before it listens for its client, which TCP refuses. A client of qperf right after another
    /// one is rejected once in a hundred times where the machine is busy, between Linux's rxe as between our adapters,
    /// for an unknown reason.
    fn may_come_again(&self) -> bool {
        let words = self.client.stdout_text() + &self.client.stderr_text();
        let reason = words.contains("error 8") || words.contains("error: 8");
        let rejected = reason && words.contains("RDMA_CM_EVENT_REJECTED");
        let others = ["Connection refused", "RDMA CM: Event rejected"];
        let refused = others.iter().any(|said| words.contains(said));
        self.client.status != 0 && (rejected || refused)
    }
}

/// A place where shell commands run.
pub trait Place {
    /// Starts a command without input. Dropping the job kills it.
    ///
    /// # Errors
    /// When the place is gone.
    fn start(&self, command: &str) -> Result<Box<dyn Job + '_>>;
}

/// A command at work.
pub trait Job {
    /// Waits until a server is ready for its client, as far as that shows.
    ///
    /// # Errors
    /// When the place is gone.
    fn wait_ready(&self) -> Result<()>;

    /// Its exit status, if it has ended.
    fn status(&self) -> Option<i32>;

    /// Waits until a server whose client has ended is gone (true), or waits as if for the next client (false).
    ///
    /// # Errors
    /// When the place is gone.
    fn finished(&self) -> Result<bool>;

    /// Kills it.
    ///
    /// # Errors
    /// When the place is gone.
    fn kill(&self) -> Result<()>;

    /// Waits for its end and takes its output; at the limit it is killed.
    ///
    /// # Errors
    /// When the place goes away or the limit passes.
    fn end(self: Box<Self>, limit: Duration) -> Result<Output>;
}

/// Runs a server in the first place and, once it is ready, its client in the second. Both are run once, whatever their
/// outcome, or a few times more if the client came too early.
///
/// # Errors
/// When a place goes away, the client's limit passes, or the server fails
/// before the client.
pub fn run(
    [server_place, client_place]: [&dyn Place; 2],
    server: &str,
    client: &str,
    limit: Duration,
) -> Result<Outcome> {
    for _ in 0..EARLY_LIMIT {
        let outcome = attempt(settled(server_place, server)?, client_place, client, limit)?;
        if !outcome.may_come_again() {
            return Ok(outcome);
        }
        eprintln!("refused, once more: {client}");
    }
    attempt(settled(server_place, server)?, client_place, client, limit)
}

/// The same for a client that gives its server time by itself, run once, and for a server that would never look ready
/// because it polls.
///
/// # Errors
/// As [`run`].
pub fn run_together(
    [server_place, client_place]: [&dyn Place; 2],
    server: &str,
    client: &str,
    limit: Duration,
) -> Result<Outcome> {
    attempt(server_place.start(server)?, client_place, client, limit)
}

fn settled<'a>(place: &'a dyn Place, server: &str) -> Result<Box<dyn Job + 'a>> {
    let server = place.start(server)?;
    server.wait_ready()?;
    Ok(server)
}

fn attempt(
    server: Box<dyn Job + '_>,
    client_place: &dyn Place,
    client: &str,
    limit: Duration,
) -> Result<Outcome> {
    if server.status().is_some_and(|status| status != 0) {
        let Output {
            status,
            stdout,
            stderr,
        } = server.end(END_LIMIT)?;
        let words = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        bail!("the server ended with status {status} before its client:\n{words}");
    }
    let client = client_place.start(client)?.end(limit)?;
    if !server.finished()? {
        server.kill()?;
    }
    Ok(Outcome {
        server: server.end(END_LIMIT)?,
        client,
    })
}

impl Place for Control {
    fn start(&self, command: &str) -> Result<Box<dyn Job + '_>> {
        let running = self.spawn(command)?;
        Ok(Box::new(GuestJob {
            guest: self,
            running,
        }))
    }
}

struct GuestJob<'a> {
    guest: &'a Control,
    running: Running,
}

impl Job for GuestJob<'_> {
    fn wait_ready(&self) -> Result<()> {
        self.guest.wait_settled(&self.running).map(|_| ())
    }

    fn status(&self) -> Option<i32> {
        self.running.status()
    }

    fn finished(&self) -> Result<bool> {
        self.guest.wait_finished(&self.running)
    }

    fn kill(&self) -> Result<()> {
        self.running.kill()
    }

    fn end(self: Box<Self>, limit: Duration) -> Result<Output> {
        self.running.wait(patient(limit)?)
    }
}

#[cfg(test)]
mod tests;
