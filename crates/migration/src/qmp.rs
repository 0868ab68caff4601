//! QEMU's machine protocol (QMP): one JSON object per line, with answers and events mixed.
//!
//! ```text
//!   connect ──► greeting ──► qmp_capabilities ──► execute ──► answer of the same number
//!                                                    `── events on the way are kept for next_event
//! ```
//!
//! This is a client of our own: `qapi` decodes each line into types made from the schema of one older QEMU, so an event
//! or a state that was added later is an error, and it cannot give up waiting in the middle of a line. Only a dozen
//! commands are used here. This file does not know their purpose.

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::Deserialize;
use serde_json::{Value, json};

/// How long a command may take. Those used here answer at once, but QEMU's main loop may be busy loading.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// How long QEMU may take to greet. It serves one client at a time and says nothing to the next.
const GREETING_LIMIT: Duration = Duration::from_secs(5);

/// Limit on a line: a list of all PCI devices has some 100 KiB.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Limit on events that were not fetched. A migration has a few dozen, and one more for each pass over the memory.
const EVENTS_MAX: usize = 4096;

/// The shortest timeout that a socket accepts.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Why QEMU did not carry out a command.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    /// Nothing listens at the socket.
    #[error(
        "no QEMU listens at {} ({error}); start it with -qmp unix:{},server=on,wait=off", socket.display(), socket.display()
    )]
    Unreachable {
        /// Path of the socket.
        socket: PathBuf,
        /// Error of the kernel.
        error: std::io::Error,
    },
    /// A process accepts the connection, but does not greet.
    #[error(
        "QEMU at {} does not greet: it still allocates the VM's memory, or another program uses this QMP socket; wait, end \
         that program, or give QEMU a second -qmp", socket.display()
    )]
    NoGreeting {
        /// Path of the socket.
        socket: PathBuf,
    },
    /// A process greeted, but does not answer.
    #[error(
        "QEMU at {} does not answer ({what}); end other programs that use this QMP socket, or give QEMU a second -qmp", socket.display()
    )]
    Silent {
        /// Path of the socket.
        socket: PathBuf,
        /// The answer that is waited for.
        what: String,
    },
    /// The connection is gone.
    #[error("QEMU at {} has ended or hung up; look into its log", socket.display())]
    Ended {
        /// Path of the socket.
        socket: PathBuf,
    },
    /// The received bytes are not QMP.
    #[error("{} is no QMP socket of a QEMU: {what}", socket.display())]
    NotQemu {
        /// Path of the socket.
        socket: PathBuf,
        /// The received bytes.
        what: String,
    },
    /// A file for QEMU cannot be opened.
    #[error("cannot open {} for QEMU: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the kernel.
        error: std::io::Error,
    },
    /// QEMU refused a command, with its own sentence.
    #[error("QEMU refuses {command}: {sentence}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's reason.
        sentence: String,
    },
}

/// A release of QEMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub struct Version {
    major: u32,
    minor: u32,
    micro: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

/// An event from QEMU, and when it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Time by this machine's clock: QEMU's own may be that of another host.
    pub at: Instant,
    /// Time by QEMU's clock, for comparing two events of one QEMU.
    pub timestamp: Duration,
    /// What happened.
    pub kind: EventKind,
}

/// The events that are kept; others are dropped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// A migration has another status, as QEMU calls it.
    Migration(String),
    /// A pass over the memory begins, by number.
    Pass(u64),
    /// The VM stands still.
    Stop,
    /// The VM runs again.
    Resume,
}

impl EventKind {
    fn of(line: &Value) -> Option<Self> {
        let data = &line["data"];
        match line["event"].as_str()? {
            "MIGRATION" => Some(Self::Migration(data["status"].as_str()?.to_owned())),
            "MIGRATION_PASS" => data["pass"].as_u64().map(Self::Pass),
            "STOP" => Some(Self::Stop),
            "RESUME" => Some(Self::Resume),
            _ => None,
        }
    }
}

/// A connection to one QEMU.
#[derive(Debug)]
pub struct Monitor {
    socket: PathBuf,
    stream: BufReader<UnixStream>,
    /// A line whose rest has not come.
    partial: Vec<u8>,
    events: VecDeque<Event>,
    /// Number of the last command: a late answer is not taken for that of the next command.
    asked: u64,
    version: Version,
}

impl Monitor {
    /// Connects to a QMP socket.
    ///
    /// # Errors
    /// When nothing listens there, or it is no QEMU that has time for us.
    pub fn connect(socket: &Path) -> Result<Self, QmpError> {
        let stream = UnixStream::connect(socket).map_err(|error| QmpError::Unreachable {
            socket: socket.to_owned(),
            error,
        })?;
        Self::greet(stream, socket, GREETING_LIMIT)
    }

    /// The same over an existing connection, with a limit on the greeting: a QEMU that has just been started allocates
    /// all of its memory first. `socket` is for error messages.
    ///
    /// # Errors
    /// The same as for [`Monitor::connect`].
    pub fn greet(stream: UnixStream, socket: &Path, limit: Duration) -> Result<Self, QmpError> {
        let mut monitor = Self {
            socket: socket.to_owned(),
            stream: BufReader::new(stream),
            partial: Vec::new(),
            events: VecDeque::new(),
            asked: 0,
            version: Version {
                major: 0,
                minor: 0,
                micro: 0,
            },
        };
        let greeting = monitor.line(Instant::now() + limit)?;
        let mut greeting = greeting.ok_or_else(|| QmpError::NoGreeting {
            socket: socket.to_owned(),
        })?;
        let version = greeting["QMP"]["version"]["qemu"].take();
        monitor.version = Version::deserialize(version)
            .map_err(|_| monitor.not_qemu(format!("it says {greeting}")))?;
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Returns the release of this QEMU.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the process that listens at the socket, if it is on this host.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        let peer = socket_peercred(self.stream.get_ref()).ok()?;
        u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
    }

    /// Runs a command and waits for its answer.
    ///
    /// # Errors
    /// When QEMU refuses it, has ended, or says nothing for half a minute.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.send(command, &[arguments])?;
        self.answer(self.asked, command, Instant::now() + COMMAND_LIMIT)
    }

    /// Runs a command that takes a file.
    ///
    /// # Errors
    /// The same as for [`Monitor::execute`].
    pub fn execute_with(
        &mut self,
        command: &str,
        arguments: Value,
        file: BorrowedFd<'_>,
    ) -> Result<Value, QmpError> {
        let line = self.lines(command, &[arguments]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        let stream = self.stream.get_mut();
        let bytes = [IoSlice::new(line.as_bytes())];
        let sent = sendmsg(&*stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL);
        // The rest of a partly sent line is sent without the file.
        let sent = sent.map_err(Into::into);
        let sent = sent.and_then(|count| stream.write_all(&line.as_bytes()[count..]));
        sent.map_err(|_| self.ended())?;
        self.answer(self.asked, command, Instant::now() + COMMAND_LIMIT)
    }

    /// Runs a command once for each of the arguments, in their order. All are sent before the first is answered, so
    /// that QEMU does not wait for us in between. If QEMU refuses one, it still runs the later ones.
    ///
    /// # Errors
    /// As for [`Monitor::execute`]: that of the first command that fails, after all of them.
    pub fn execute_each(
        &mut self,
        command: &str,
        arguments: &[Value],
    ) -> Result<Vec<Value>, QmpError> {
        let before = self.asked;
        self.send(command, arguments)?;
        let deadline = Instant::now() + COMMAND_LIMIT;
        let mut answers = Vec::with_capacity(arguments.len());
        for number in before + 1..=self.asked {
            answers.push(self.answer(number, command, deadline));
        }
        answers.into_iter().collect()
    }

    fn send(&mut self, command: &str, arguments: &[Value]) -> Result<(), QmpError> {
        let lines = self.lines(command, arguments);
        let written = self.stream.get_mut().write_all(lines.as_bytes());
        written.map_err(|_| self.ended())
    }

    /// Returns one line per command, with the next numbers.
    fn lines(&mut self, command: &str, arguments: &[Value]) -> String {
        let mut lines = String::new();
        for arguments in arguments {
            self.asked += 1;
            let request = json!({ "execute": command, "arguments": arguments, "id": self.asked });
            lines += &format!("{request}\n");
        }
        lines
    }

    fn answer(&mut self, number: u64, command: &str, deadline: Instant) -> Result<Value, QmpError> {
        loop {
            let line = self.line(deadline)?;
            let mut line = line.ok_or_else(|| self.silent(command))?;
            if line["event"].is_string() {
                self.keep(&line);
            } else if line["id"] == number {
                return match line["error"]["desc"].as_str() {
                    Some(sentence) => Err(QmpError::Refused {
                        command: command.to_owned(),
                        sentence: sentence.to_owned(),
                    }),
                    None => Ok(line["return"].take()),
                };
            }
        }
    }

    /// Returns the next event that has come or comes within that time.
    ///
    /// # Errors
    /// When QEMU has ended.
    pub fn next_event(&mut self, patience: Duration) -> Result<Option<Event>, QmpError> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            match self.line(deadline)? {
                Some(line) => self.keep(&line),
                None => return Ok(None),
            }
        }
    }

    fn keep(&mut self, line: &Value) {
        let Some(kind) = EventKind::of(line) else {
            return;
        };
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let part = |name: &str| line["timestamp"][name].as_u64().unwrap_or_default();
        self.events.push_back(Event {
            at: Instant::now(),
            timestamp: Duration::from_secs(part("seconds"))
                + Duration::from_micros(part("microseconds")),
            kind,
        });
    }

    /// Reads a whole line, or nothing if it does not come in time.
    fn line(&mut self, deadline: Instant) -> Result<Option<Value>, QmpError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waiting = Some(left.max(SHORTEST_WAIT));
        let set = self.stream.get_ref().set_read_timeout(waiting);
        set.map_err(|_| self.ended())?;
        let room = LINE_BYTES_MAX - self.partial.len();
        let mut limited = self.stream.by_ref().take(room as u64);
        match limited.read_until(b'\n', &mut self.partial) {
            Ok(_) if self.partial.ends_with(b"\n") => {}
            Ok(_) if self.partial.len() == LINE_BYTES_MAX => {
                return Err(self.not_qemu("a line does not end".to_owned()));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Ok(_) | Err(_) => return Err(self.ended()),
        }
        let line = std::mem::take(&mut self.partial);
        let parsed = serde_json::from_slice(&line);
        parsed
            .map(Some)
            .map_err(|error| self.not_qemu(error.to_string()))
    }

    fn silent(&self, what: &str) -> QmpError {
        QmpError::Silent {
            socket: self.socket.clone(),
            what: what.to_owned(),
        }
    }

    fn ended(&self) -> QmpError {
        QmpError::Ended {
            socket: self.socket.clone(),
        }
    }

    fn not_qemu(&self, what: String) -> QmpError {
        QmpError::NotQemu {
            socket: self.socket.clone(),
            what,
        }
    }
}
