//! The client of `vrdmad`'s control API: one request, one answer, one connection.
//!
//! ```text
//!   get post delete fetch ──► Request ──Unix socket──► vrdmad
//!     value, bytes or Error ◄── status and body ◄──────┘
//! ```
//!
//! Calls wait for the answer, at most [`PATIENCE`]. Each call has a connection of its own, so a daemon that was
//! restarted in between makes no difference. The client knows requests only as paths and bodies; their meaning belongs
//! to `vrdma_api`.

#![forbid(unsafe_code)]

mod error;

use std::future::{Future, poll_fn};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
pub use hyper::Method;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::header::HOST;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use vrdma_api::{ApiError, Name, paths};

pub use error::Error;

/// Answers take milliseconds; a daemon that needs this long is stuck.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Limit on an answer. The longest is an adapter's context; a status with 16384 adapters has some 24 MiB.
const ANSWER_BYTES_MAX: usize = vrdma_api::CONTEXT_BYTES_MAX;

/// The answer to a request that was carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The HTTP status, 2xx.
    pub status: u16,
    /// The body as received.
    pub body: Bytes,
}

/// The daemon behind a socket.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    runtime: Runtime,
    patience: Duration,
}

impl Client {
    /// Makes a client of the daemon behind that socket, without checking whether the daemon is there.
    ///
    /// # Errors
    /// When the process has no descriptors left to wait with.
    pub fn new(socket: impl Into<PathBuf>) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Ok(Self {
            socket: socket.into(),
            runtime: runtime.map_err(Error::NoRuntime)?,
            patience: PATIENCE,
        })
    }

    /// The same, with this limit on the wait for an answer.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Returns the path of the daemon's socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks for a value.
    ///
    /// # Errors
    /// When the daemon refuses or does not answer with such a value.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.parse(&self.ask(Method::GET, path, Bytes::new())?)
    }

    /// Creates or changes an object.
    ///
    /// # Errors
    /// The same as for [`Client::get`].
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        let body =
            serde_json::to_vec(body).expect("API types have string keys and no failing serializer");
        self.parse(&self.ask(Method::POST, path, body)?)
    }

    /// Changes an existing object.
    ///
    /// # Errors
    /// The same as for [`Client::get`].
    pub fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let body =
            serde_json::to_vec(body).expect("API types have string keys and no failing serializer");
        self.parse(&self.ask(Method::PATCH, path, body)?)
    }

    /// Asks for bytes that are not JSON.
    ///
    /// # Errors
    /// The same as for [`Client::get`].
    pub fn fetch(&self, path: &str) -> Result<Bytes, Error> {
        Ok(self.ask(Method::POST, path, Bytes::new())?.body)
    }

    /// Removes an object.
    ///
    /// # Errors
    /// The same as for [`Client::get`].
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        self.ask(Method::DELETE, path, Bytes::new()).map(drop)
    }

    /// Sends any request, with the body as it is.
    ///
    /// # Errors
    /// The same as for [`Client::get`].
    ///
    /// # Panics
    /// When `path` is not a path.
    pub fn ask(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Result<Answer, Error> {
        let request = request(method, path, body.into());
        self.within_patience(async {
            let (mut sender, connection) = self.connect().await?;
            // Owns the sender: when it is dropped, the connection ends, which does the reading and writing.
            let conversation = async move {
                let answer = sender.send_request(request).await;
                self.read(answer.map_err(|error| self.not_understood(error))?)
                    .await
            };
            tokio::join!(conversation, connection).0
        })
    }

    /// Ties an adapter to the returned connection: the daemon removes the adapter when the last copy of the connection
    /// is closed. The adapter is tied once this returns.
    ///
    /// # Errors
    /// The same as for [`Client::get`].
    pub fn hold(&self, name: &Name) -> Result<StdStream, Error> {
        let request = request(Method::POST, &paths::hold(name), Bytes::new());
        self.within_patience(async {
            let (mut sender, mut connection) = self.connect().await?;
            let answer = async {
                let answer = sender.send_request(request).await;
                let answer = answer.map_err(|error| self.not_understood(error))?;
                if answer.status().is_success() {
                    return Ok(());
                }
                self.read(answer).await.map(drop)
            };
            tokio::select! {
                biased;
                held = answer => held?,
                ended = poll_fn(|context| connection.poll_without_shutdown(context)) => {
                    return Err(self.not_understood(format!("it hung up: {ended:?}")));
                }
            }
            // The stream itself: any other way to close it would close it for processes that inherited it, too.
            let stream = connection.into_parts().io.into_inner();
            stream.into_std().map_err(|error| self.unreachable(error))
        })
    }

    fn within_patience<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.runtime.block_on(async {
            let outcome = tokio::time::timeout(self.patience, work).await;
            outcome.unwrap_or_else(|_| {
                Err(Error::Silent {
                    socket: self.socket.clone(),
                    patience: self.patience,
                })
            })
        })
    }

    async fn connect(&self) -> Result<Connected, Error> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| self.unreachable(error))?;
        http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.not_understood(error))
    }

    /// Reads the whole answer, if it is a success.
    async fn read(&self, answer: Response<Incoming>) -> Result<Answer, Error> {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await;
        let body = body.map_err(|error| self.not_understood(error))?.to_bytes();
        if status.is_success() {
            let status = status.as_u16();
            return Ok(Answer { status, body });
        }
        Err(match serde_json::from_slice::<ApiError>(&body) {
            Ok(answer) => Error::Refused {
                status: status.as_u16(),
                sentence: answer.error,
            },
            Err(_) => self.not_understood(status),
        })
    }

    fn parse<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, Error> {
        serde_json::from_slice(&answer.body).map_err(|error| self.not_understood(error))
    }

    fn unreachable(&self, error: std::io::Error) -> Error {
        Error::Unreachable {
            socket: self.socket.clone(),
            error,
        }
    }

    fn not_understood(&self, what: impl ToString) -> Error {
        Error::NotUnderstood {
            socket: self.socket.clone(),
            what: what.to_string(),
        }
    }
}

type Connected = (
    SendRequest<Full<Bytes>>,
    Connection<TokioIo<UnixStream>, Full<Bytes>>,
);

fn request(method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "vrdmad")
        .body(Full::new(body))
        .expect("paths are made of constants and checked names")
}

#[cfg(test)]
mod tests;
