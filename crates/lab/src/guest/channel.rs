//! The host's end of an agent's channel.
//!
//! One thread reads events and files them under their command. All other threads wait for a change of what was filed; a
//! lost channel or a rebooted guest ends all commands.

use std::collections::HashMap;
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::agent::protocol::{Event, Request, Stream, receive, send};
use crate::process::POLL;

/// Most output kept of one command; more than any tool of the lab prints.
const MAX_OUTPUT: usize = 64 << 20;

/// How long QEMU may take to create its sockets.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// A connection to one agent; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Channel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    writer: Mutex<UnixStream>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the agent has said hello since the last [`Channel::expect_boot`].
    booted: bool,
    closed: bool,
    last_id: u64,
    commands: HashMap<u64, Command>,
}

/// The record of one command.
#[derive(Debug, Default, Clone)]
pub(super) struct Command {
    pub(super) pid: Option<u32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) status: Option<i32>,
    /// Whether the guest went away before the command's end was reported.
    pub(super) lost: bool,
}

impl Channel {
    /// Connects as soon as the socket is there; gives up when `alive` says that it will not come.
    pub(super) fn connect(path: &Path, mut alive: impl FnMut() -> Result<bool>) -> Result<Self> {
        let deadline = Instant::now() + CONNECT_LIMIT;
        loop {
            match UnixStream::connect(path) {
                Ok(socket) => return Self::over(socket),
                Err(_) if alive()? && Instant::now() < deadline => thread::sleep(POLL),
                Err(error) => {
                    return Err(error).context(format!("cannot connect to {}", path.display()));
                }
            }
        }
    }

    fn over(socket: UnixStream) -> Result<Self> {
        let reader = BufReader::new(socket.try_clone()?);
        let inner = Arc::new(Inner {
            writer: Mutex::new(socket),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let reading = Arc::clone(&inner);
        thread::spawn(move || reading.read_events(reader));
        Ok(Self(inner))
    }

    /// Asks a guest that is already up to say so.
    pub(super) fn greet(&self) -> Result<()> {
        self.tell(&Request::Hello)
    }

    /// Forgets the last boot, so that the next one can be waited for.
    pub(super) fn expect_boot(&self) {
        self.0.state().booted = false;
    }

    pub(super) fn wait_for_boot(&self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let mut state = self.0.state();
        while !state.booted {
            ensure!(!state.closed, "QEMU ended before the guest was up");
            ensure!(
                Instant::now() < deadline,
                "the guest is not up after {} s",
                limit.as_secs()
            );
            state = self.0.wait(state, deadline);
        }
        Ok(())
    }

    /// Starts a command and returns its number.
    pub(super) fn start(&self, command: &str, input: bool) -> Result<u64> {
        let id = {
            let mut state = self.0.state();
            ensure!(!state.closed, "QEMU has ended");
            state.last_id += 1;
            let id = state.last_id;
            state.commands.insert(id, Command::default());
            id
        };
        self.tell(&Request::Run {
            id,
            command: command.to_owned(),
            input,
        })?;
        Ok(id)
    }

    pub(super) fn tell(&self, request: &Request) -> Result<()> {
        let mut writer = self.0.writer.lock().unwrap_or_else(PoisonError::into_inner);
        send(request, &mut *writer).context("cannot reach the guest's agent")
    }

    /// Waits until `look` finds what it wants in a command, or the time is up.
    /// A lost command is an error at once.
    pub(super) fn wait_for<T>(
        &self,
        id: u64,
        deadline: Instant,
        mut look: impl FnMut(&Command) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut state = self.0.state();
        loop {
            let Some(command) = state.commands.get(&id) else {
                bail!("the command was given up")
            };
            if let Some(found) = look(command) {
                return Ok(Some(found));
            }
            ensure!(!command.lost, "the guest went away under the command");
            if Instant::now() >= deadline {
                return Ok(None);
            }
            state = self.0.wait(state, deadline);
        }
    }

    /// Takes a command's record; later events about it are dropped.
    pub(super) fn forget(&self, id: u64) -> Option<Command> {
        self.0.state().commands.remove(&id)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, deadline: Instant) -> MutexGuard<'a, State> {
        let left = deadline.saturating_duration_since(Instant::now());
        self.changed
            .wait_timeout(state, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn read_events(&self, mut reader: BufReader<UnixStream>) {
        while let Ok(Some(event)) = receive(&mut reader) {
            self.state().apply(event);
            self.changed.notify_all();
        }
        let mut state = self.state();
        state.closed = true;
        state.lose_all();
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    fn apply(&mut self, event: Event) {
        match event {
            Event::Hello => {
                self.booted = true;
                self.lose_all();
            }
            Event::Started { id, pid } => self.update(id, |command| command.pid = Some(pid)),
            Event::Output { id, stream, bytes } => {
                self.update(id, |command| command.keep(stream, &bytes.0));
            }
            Event::Ended { id, status } => self.update(id, |command| command.status = Some(status)),
        }
    }

    fn update(&mut self, id: u64, change: impl FnOnce(&mut Command)) {
        if let Some(command) = self.commands.get_mut(&id) {
            change(command);
        }
    }

    fn lose_all(&mut self) {
        for command in self.commands.values_mut() {
            command.lost = command.status.is_none();
        }
    }
}

impl Command {
    fn keep(&mut self, stream: Stream, bytes: &[u8]) {
        let output = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let room = MAX_OUTPUT.saturating_sub(output.len());
        output.extend(&bytes[..bytes.len().min(room)]);
    }
}

#[cfg(test)]
mod tests;
