//! One request to the daemon and its answer.

use std::io::{self, ErrorKind, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::io::FdFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use vrdma_api::{ApiError, Name, paths};

use crate::failure::Failure;

/// Answers take milliseconds; a daemon that needs this long is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest real answer, a status with 1024 adapters, has some 2 MiB.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The daemon behind a socket.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Where the daemon is expected.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks for a value.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.parse(&self.ask(Method::GET, path, Bytes::new())?)
    }

    /// Creates something.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body =
            serde_json::to_vec(body).expect("API types have string keys and no failing serializer");
        self.parse(&self.ask(Method::POST, path, body.into())?)
    }

    /// Asks for bytes that are no JSON.
    pub(crate) fn fetch(&self, path: &str) -> Result<Bytes, Failure> {
        self.ask(Method::POST, path, Bytes::new())
    }

    /// Removes something.
    pub(crate) fn delete(&self, path: &str) -> Result<(), Failure> {
        self.ask(Method::DELETE, path, Bytes::new()).map(drop)
    }

    /// Ties an adapter to a connection: the daemon removes it when the last copy of that is closed.
    /// There is no answer to wait for.
    pub(crate) fn hold(&self, name: &Name) -> Result<StdStream, Failure> {
        let mut stream =
            StdStream::connect(&self.socket).map_err(|error| self.unreachable(&error))?;
        let path = paths::hold(name);
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: vrdmad\r\nContent-Length: 0\r\n\r\n"
        )
        .map_err(|error| self.unreachable(&error))?;
        // Programs that are started from here on hold it too.
        rustix::io::fcntl_setfd(&stream, FdFlags::empty())
            .map_err(|error| self.unreachable(&error.into()))?;
        Ok(stream)
    }

    fn parse<T: DeserializeOwned>(&self, body: &Bytes) -> Result<T, Failure> {
        serde_json::from_slice(body).map_err(|error| self.strange(&error.to_string()))
    }

    fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime =
            runtime.map_err(|error| Failure::new(format!("cannot wait for sockets: {error}")))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "vrdmad")
            .body(Full::new(body))
            .expect("paths are made of constants and checked names");
        runtime.block_on(async {
            let answer = tokio::time::timeout(PATIENCE, self.exchange(request)).await;
            answer.unwrap_or_else(|_| Err(self.silent()))
        })
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Bytes, Failure> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|error| self.unreachable(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.strange(&error.to_string()))?;
        // Owns the sender: when that goes the connection ends, which does the reading and writing.
        let conversation = async move {
            let answer = sender.send_request(request).await;
            self.read(answer.map_err(|error| self.strange(&error.to_string()))?)
                .await
        };
        let (answer, _) = tokio::join!(conversation, connection);
        answer
    }

    async fn read(&self, answer: Response<Incoming>) -> Result<Bytes, Failure> {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await;
        let body = body
            .map_err(|error| self.strange(&error.to_string()))?
            .to_bytes();
        if status.is_success() {
            Ok(body)
        } else {
            Err(self.refused(status, &body))
        }
    }

    fn refused(&self, status: StatusCode, body: &Bytes) -> Failure {
        match serde_json::from_slice::<ApiError>(body) {
            Ok(answer) => Failure::new(answer.error),
            Err(_) => self.strange(&status.to_string()),
        }
    }

    fn unreachable(&self, error: &io::Error) -> Failure {
        let socket = self.socket.display();
        Failure::new(match error.kind() {
            ErrorKind::NotFound => format!(
                "no daemon: {socket} does not exist; start vrdmad, or name its socket with --socket"
            ),
            ErrorKind::ConnectionRefused => {
                format!("no daemon: nobody listens at {socket}; start vrdmad")
            }
            ErrorKind::PermissionDenied => {
                format!("{socket} is not yours; become the user that vrdmad runs as")
            }
            _ => format!(
                "cannot connect to {socket}: {error}; name vrdmad's control socket with --socket"
            ),
        })
    }

    fn silent(&self) -> Failure {
        let seconds = PATIENCE.as_secs();
        Failure::new(format!(
            "no answer from {} within {seconds} s; see vrdmad's log",
            self.socket.display()
        ))
    }

    fn strange(&self, what: &str) -> Failure {
        let socket = self.socket.display();
        Failure::new(format!(
            "strange answer from {socket} ({what}); is it the control socket of a vrdmad of this version?"
        ))
    }
}
