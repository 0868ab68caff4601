//! Why there is no answer: one sentence for a person.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

/// A request without the answer that was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing can be waited for.
    #[error("cannot wait for sockets: {0}")]
    NoRuntime(#[source] io::Error),
    /// There is no daemon, or not for this user.
    #[error("{}", Unreachable { socket, error })]
    Unreachable {
        /// Where it was expected.
        socket: PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// It takes too long.
    #[error("no answer from {} within {patience:?}; see vrdmad's log", socket.display())]
    Silent {
        /// Where it was asked.
        socket: PathBuf,
        /// How long was waited.
        patience: Duration,
    },
    /// It is another program, or another release.
    #[error(
        "strange answer from {} ({what}); is it the control socket of a vrdmad of this version?",
        socket.display()
    )]
    NotUnderstood {
        /// Where it was asked.
        socket: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The daemon's own sentence.
    #[error("{sentence}")]
    Refused {
        /// The HTTP status: 400 for what is wrong, 404 for what is missing, 409 for what cannot be now.
        status: u16,
        /// What is wrong and how to mend it.
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
