//! Connections to the sockets of the two QEMUs, which appear when QEMU has started.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::json;
use vrdma_migration::qmp::{EventKind, Monitor};

/// How long QEMU may take from its start to its socket.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long QEMU may take from there to its greeting: before that it allocates all of its memory.
const GREETING_LIMIT: Duration = Duration::from_secs(60);

/// Interval between two looks for the socket.
const POLL: Duration = Duration::from_millis(10);

/// Connects as soon as QEMU listens, and asks for events of migrations.
pub(super) fn greet(socket: &Path, mut lives: impl FnMut() -> Result<bool>) -> Result<Monitor> {
    let stream = connect(socket, &mut lives)?;
    let mut monitor = Monitor::greet(stream, socket, GREETING_LIMIT)?;
    let events = json!({ "capabilities": [{ "capability": "events", "state": true }] });
    monitor.execute("migrate-set-capabilities", events)?;
    Ok(monitor)
}

/// Waits until a migration that was begun is complete on this side; `passed` is called with each pass over the memory
/// that begins meanwhile.
pub(super) fn wait_for_migration(
    monitor: &mut Monitor,
    limit: Duration,
    mut passed: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(event) = monitor.next_event(left)? else {
            bail!("the migration takes too long");
        };
        match event.kind {
            EventKind::Pass(pass) => passed(pass)?,
            EventKind::Migration(status) if status == "completed" => return Ok(()),
            EventKind::Migration(status) if status == "failed" => {
                let said = monitor.execute("query-migrate", json!({}))?;
                bail!("the migration failed: {}", said["error-desc"]);
            }
            _ => {}
        }
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
