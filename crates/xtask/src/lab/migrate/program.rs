//! A program between both guests, whose server's guest may move.
//!
//! The server runs in guest a and writes into a file, since the lab's channel to it ends with its first QEMU.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vrdma_lab::guest::{Guest, Running};
use vrdma_lab::pair::{Pair, Side};

use crate::guests::with_device;

/// Beyond what a program was asked to run.
const PATIENCE: Duration = Duration::from_secs(120);

/// Server and client, under way.
pub(super) struct Program {
    client: Running,
}

impl Program {
    /// Starts both.
    pub(super) fn start(pair: &Pair, command: &str) -> Result<Self> {
        let server = with_device(command);
        let started = format!(
            "rm -f /tmp/status; setsid sh -c '({server}) > /tmp/server.out 2>&1; echo $? > /tmp/status' \
             < /dev/null > /dev/null 2>&1 &"
        );
        pair.guest(Side::A).check(&started)?;
        await_server(pair.guest(Side::A))?;
        let client = with_device(&format!("{command} $A"));
        let client = pair.guest(Side::B).spawn(&client)?;
        Ok(Self { client })
    }

    /// Waits for their ends, and tells what they printed if one is not 0.
    pub(super) fn statuses(&self, pair: &Pair) -> Result<[Option<i32>; 2]> {
        let statuses = [server_status(pair.guest(Side::A))?, self.client_status()];
        if statuses != [Some(0); 2] {
            self.tell(pair);
        }
        Ok(statuses)
    }

    fn client_status(&self) -> Option<i32> {
        let status = self.client.wait_status(PATIENCE).ok();
        if status.is_none() {
            // It may have ended meanwhile.
            let _ = self.client.kill();
        }
        status
    }

    /// Prints what both printed, and the logs.
    pub(super) fn tell(&self, pair: &Pair) {
        let server = pair
            .guest(Side::A)
            .check("cat /tmp/server.out; dmesg | tail -20");
        eprintln!(
            "server: {}",
            server.unwrap_or_else(|error| error.to_string())
        );
        let (stdout, stderr) = self.client.printed();
        eprintln!(
            "client: {}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        );
        eprintln!("{}", pair.logs());
    }
}

fn server_status(guest: &Guest) -> Result<Option<i32>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = guest.check("cat /tmp/status 2> /dev/null || true")?;
        if let Ok(status) = status.trim().parse() {
            return Ok(Some(status));
        }
        if Instant::now() > deadline {
            guest.check("pkill -9 ib || true")?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Perftest and the examples of libibverbs listen at 18515.
fn await_server(guest: &Guest) -> Result<()> {
    let listens = "for i in $(seq 200); do grep -qs ':4853 [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6 && exit 0; \
                   sleep 0.1; done; cat /tmp/server.out; exit 1";
    guest
        .check(listens)
        .map(drop)
        .context("the server does not listen")
}
