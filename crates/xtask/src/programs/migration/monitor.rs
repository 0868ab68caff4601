//! QEMU's machine protocol (QMP): a JSON object a line, answers and events mixed.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// How long QEMU may take from its start to its socket.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// Between two looks for the socket.
const POLL: Duration = Duration::from_millis(10);

/// A connection to one QEMU.
pub(super) struct Monitor {
    stream: BufReader<UnixStream>,
    events: VecDeque<Value>,
}

impl Monitor {
    /// Connects as soon as QEMU listens, and asks for events of migrations.
    pub(super) fn connect(socket: &Path, mut lives: impl FnMut() -> Result<bool>) -> Result<Self> {
        let stream = connect(socket, &mut lives)?;
        stream.set_read_timeout(Some(COMMAND_LIMIT))?;
        let mut monitor = Self {
            stream: BufReader::new(stream),
            events: VecDeque::new(),
        };
        let greeting = monitor.line()?;
        ensure!(greeting["QMP"].is_object(), "no QEMU greets: {greeting}");
        monitor.execute("qmp_capabilities", json!({}))?;
        let events = json!({ "capabilities": [{ "capability": "events", "state": true }] });
        monitor.execute("migrate-set-capabilities", events)?;
        Ok(monitor)
    }

    /// Runs a command to its answer.
    pub(super) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        let request = json!({ "execute": command, "arguments": arguments });
        writeln!(self.stream.get_mut(), "{request}")?;
        loop {
            let mut line = self.line()?;
            if line["event"].is_string() {
                self.events.push_back(line);
                continue;
            }
            let error = &line["error"]["desc"];
            ensure!(error.is_null(), "QEMU's {command}: {error}");
            return Ok(line["return"].take());
        }
    }

    /// Waits until a migration that was begun is complete on this side; `passed` hears of each pass over
    /// the memory that begins meanwhile.
    pub(super) fn wait_for_migration(
        &mut self,
        limit: Duration,
        mut passed: impl FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            let event = match self.events.pop_front() {
                Some(event) => event,
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    ensure!(!left.is_zero(), "the migration takes too long");
                    self.stream.get_ref().set_read_timeout(Some(left))?;
                    let event = self.line();
                    self.stream
                        .get_ref()
                        .set_read_timeout(Some(COMMAND_LIMIT))?;
                    event.context("waiting for the end of the migration")?
                }
            };
            if let Some(pass) = event["data"]["pass"].as_u64() {
                passed(pass)?;
            }
            match event["data"]["status"].as_str() {
                Some("completed") if event["event"] == "MIGRATION" => return Ok(()),
                Some("failed") => {
                    let said = self.execute("query-migrate", json!({}))?;
                    bail!("the migration failed: {}", said["error-desc"]);
                }
                _ => {}
            }
        }
    }

    fn line(&mut self) -> Result<Value> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line);
        ensure!(read.context("QEMU is silent")? > 0, "QEMU has ended");
        serde_json::from_str(&line).with_context(|| format!("QEMU says {line}"))
    }
}

/// Connects to a socket that QEMU makes when it starts.
pub(super) fn connect(
    socket: &Path,
    lives: &mut impl FnMut() -> Result<bool>,
) -> Result<UnixStream> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                ensure!(lives()?, "QEMU did not start");
                ensure!(Instant::now() < deadline, "QEMU does not listen: {error}");
            }
        }
        thread::sleep(POLL);
    }
}
