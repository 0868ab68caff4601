//! Why a request has no answer: one sentence for a person.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

/// A request that did not get the answer that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process cannot wait for sockets.
    #[error("cannot wait for sockets: {0}")]
    NoRuntime(#[source] io::Error),
    /// There is no daemon, or this user may not reach it.
    #[error("{}", Unreachable { socket, error })]
    Unreachable {
        /// Path of the socket.
        socket: PathBuf,
        /// Error of the kernel.
        error: io::Error,
    },
    /// The answer takes too long.
    #[error("no answer from {} within {patience:?}; see vrdmad's log", socket.display())]
    Silent {
        /// Path of the socket.
        socket: PathBuf,
        /// How long the client waited.
        patience: Duration,
    },
    /// The answer is that of another program, or of another release.
    #[error(
        "strange answer from {} ({what}); is it the control socket of a vrdmad of this version?",
        socket.display()
    )]
    NotUnderstood {
        /// Path of the socket.
        socket: PathBuf,
        /// What is wrong with the answer.
        what: String,
    },
    /// The daemon refused, with its own sentence.
    #[error("{sentence}")]
    Refused {
        /// The HTTP status: 400 for a wrong request, 404 for a missing object, 409 for what is not possible now.
        status: u16,
        /// What is wrong and how to correct it.
        sentence: String,
    },
}

struct Unreachable<'a> {
    socket: &'a PathBuf,
    error: &'a io::Error,
}

impl fmt::Display for Unreachable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (socket, error) = (self.socket.display(), self.error);
        match error.kind() {
            ErrorKind::NotFound => write!(f, "no daemon: {socket} does not exist; start vrdmad"),
            ErrorKind::ConnectionRefused => {
                write!(f, "no daemon: nobody listens at {socket}; start vrdmad")
            }
            ErrorKind::PermissionDenied => write!(
                f,
                "{socket} is not yours; become the user that vrdmad runs as"
            ),
            _ => write!(f, "cannot connect to {socket}: {error}"),
        }
    }
}
