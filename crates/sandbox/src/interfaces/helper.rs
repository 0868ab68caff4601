//! The helper process with the network rights, and the daemon's connection to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use vrdma_provider::socket;

use super::carry_out;
use super::message::{Answer, Request};

/// The daemon's own program, even after it was replaced on disk.
const PROGRAM: &str = "/proc/self/exe";

/// The argument that makes the program the helper.
const ARGUMENT: &str = "--open-interfaces";

/// Limit on an answer: opening an interface takes milliseconds, and clients of the control API do not wait longer for
/// it.
const ANSWER_MAX: Duration = Duration::from_millis(800);

/// The daemon's connection to the helper, which ends with it.
#[derive(Debug)]
pub(crate) struct Helper {
    /// Used for one request at a time; `None` after a request without an answer.
    socket: Mutex<Option<OwnedFd>>,
}

impl Helper {
    /// Starts the helper, with the rights that this process still has.
    ///
    /// # Errors
    /// There is no `/proc`, or the system is out of processes.
    pub(crate) fn start() -> io::Result<Self> {
        let (ours, theirs) = pair()?;
        // Signals to the daemon's group, such as an interrupt from its terminal, must not reach the helper.
        Command::new(PROGRAM)
            .arg0("vrdmad")
            .arg(ARGUMENT)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(theirs)
            .stdout(Stdio::null())
            .spawn()?;
        Self::over(ours)
    }

    pub(super) fn over(socket: OwnedFd) -> io::Result<Self> {
        for direction in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, direction, Some(ANSWER_MAX))?;
        }
        Ok(Self {
            socket: Mutex::new(Some(socket)),
        })
    }

    /// Sends a request and waits for its answer. The error is a sentence.
    pub(super) fn ask(
        &self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Vec<OwnedFd>), String> {
        // Sound after a panic: there is a socket or none.
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let answered = socket
            .as_ref()
            .and_then(|socket| exchange(socket.as_fd(), request, fds));
        let Some((answer, fds)) = answered else {
            // A late answer would be taken for that of the next request.
            *socket = None;
            return Err(lost());
        };
        match answer.error {
            Some(sentence) => Err(sentence),
            None => Ok((answer, fds)),
        }
    }
}

pub(super) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

pub(super) fn lost() -> String {
    "vrdmad's helper that opens interfaces does not answer; restart vrdmad".to_owned()
}

fn exchange(
    socket: BorrowedFd<'_>,
    request: &Request,
    fds: &[BorrowedFd<'_>],
) -> Option<(Answer, Vec<OwnedFd>)> {
    let request = serde_json::to_vec(request).ok()?;
    socket::send(socket, &request, fds, SendFlags::empty()).ok()?;
    let packet = socket::receive(socket, RecvFlags::empty()).ok()??;
    let answer = serde_json::from_slice(packet.bytes()).ok()?;
    Some((answer, packet.fds))
}

/// Runs the helper until the daemon hangs up.
///
/// # Errors
/// The standard input is not such a socket: the program was not started by the daemon.
pub fn serve_standard_input() -> io::Result<()> {
    crate::enter_helper()?;
    serve(io::stdin().as_fd())
}

pub(super) fn serve(socket: BorrowedFd<'_>) -> io::Result<()> {
    while let Some(packet) = socket::receive(socket, RecvFlags::empty())? {
        let request = serde_json::from_slice(packet.bytes());
        let answer = match request {
            Ok(request) => carry_out(request, packet.fds),
            Err(error) => Answer::of(Err(format!("no such request: {error}"))),
        };
        let bytes = serde_json::to_vec(&answer)?;
        let fds: Vec<_> = answer.fds.iter().map(AsFd::as_fd).collect();
        socket::send(socket, &bytes, &fds, SendFlags::empty())?;
    }
    Ok(())
}
