//! The destination's side: a listener, and a task for each connection.
//!
//! ```text
//!   accepted ──hello──► answered ──first sealed frame──► proven ──request, context──► kept
//!      └──────────┬────────┘                               │
//!     at most 64, the oldest goes for a new one            ├─ at most 64, a new one goes
//!                                                          └─ at most 4 bring a context at a time, others wait 5 s
//! ```

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use vrdma_api::CONTEXT_BYTES_MAX;
use vrdma_handover::{Answer, Incoming, Request, refusal, take_call};
use vrdma_uplink::Keys;

use super::frames::{self, FRAME_LIMIT, Sealed};
use crate::control::Control;

/// Limit on connections whose other end has not yet shown that it has the key: anybody can open such connections.
const UNPROVEN_MAX: usize = 64;

/// Limit on connections whose other end has the key: a host of ours may have been taken over.
const PROVEN_MAX: usize = 64;

/// Limit on contexts received at the same time, each of [`CONTEXT_BYTES_MAX`] at most.
const COMING_MAX: usize = 4;

/// How long a context may wait for others, which is as long as its sender waits.
const PLACE_LIMIT: Duration = FRAME_LIMIT;

/// How long a context may take to arrive.
const COMING_LIMIT: Duration = Duration::from_secs(120);

/// Connections that wait to be accepted.
const BACKLOG: u32 = 64;

/// Pause after the system ran out of descriptors: some may be free again then.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// Binds the address. The error is a sentence.
pub fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let bound = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        // Connections of the previous daemon may still be there.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|error| {
        format!("cannot listen at {address} for adapters that migrate: {error}; set `listen` of [migration] to a free address of this host")
    })
}

/// A connection whose other end has proven nothing yet.
struct Unproven {
    task: AbortHandle,
    is_proven: Arc<AtomicBool>,
}

impl Unproven {
    fn is_over(&self) -> bool {
        self.task.is_finished() || self.is_proven.load(Ordering::Relaxed)
    }
}

/// Takes contexts forever.
pub async fn listen(listener: TcpListener, keys: Keys, control: Arc<Control>) {
    let places = Arc::new(Places {
        proven: Semaphore::new(PROVEN_MAX),
        coming: Semaphore::new(COMING_MAX),
    });
    let mut unproven = VecDeque::new();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            // The caller hung up at once, as anybody can.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                tracing::warn!("cannot accept a connection of another daemon: {error}");
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        unproven.retain(|it: &Unproven| !it.is_over());
        if unproven.len() >= UNPROVEN_MAX
            && let Some(oldest) = unproven.pop_front()
        {
            oldest.task.abort();
        }
        let is_proven = Arc::new(AtomicBool::new(false));
        let taker = Taker {
            from,
            keys: keys.clone(),
            control: Arc::clone(&control),
            places: Arc::clone(&places),
            is_proven: Arc::clone(&is_proven),
        };
        let task = tokio::spawn(taker.run(stream)).abort_handle();
        unproven.push_back(Unproven { task, is_proven });
    }
}

/// Limits that all connections share.
struct Places {
    proven: Semaphore,
    coming: Semaphore,
}

/// The task that serves one connection.
struct Taker {
    from: SocketAddr,
    keys: Keys,
    control: Arc<Control>,
    places: Arc<Places>,
    is_proven: Arc<AtomicBool>,
}

impl Taker {
    async fn run(self, stream: TcpStream) {
        if let Err(error) = self.serve(stream).await {
            // Anybody can cause such lines, so they are not for every log.
            tracing::debug!("{}: a handover ended: {error}", self.from);
        }
    }

    async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let hello = frames::read_hello(&mut stream).await?;
        let (session, answer) = match take_call(&self.keys, &hello) {
            Ok(taken) => taken,
            Err(why) => {
                if let Some(frame) = refusal(why) {
                    frames::write(&mut stream, &frame).await?;
                }
                return Err(io::Error::other(why));
            }
        };
        frames::write(&mut stream, &answer).await?;
        let mut sealed = Sealed { stream, session };
        let said = sealed.hear().await?;
        let _proven = self.places.proven.try_acquire().map_err(io::Error::other)?;
        self.is_proven.store(true, Ordering::Relaxed);
        let request = Request::decode(&said).map_err(io::Error::other)?;
        let answer = match self.take(&mut sealed, &request).await? {
            Ok(answer) => answer,
            Err(sentence) => Answer::refused(&sentence),
        };
        sealed.say(&answer.encode()).await
    }

    /// Takes a context, and returns the final answer; a refusal is a sentence.
    async fn take(
        &self,
        sealed: &mut Sealed,
        request: &Request,
    ) -> io::Result<Result<Answer, String>> {
        let Request {
            adapter, ticket, ..
        } = request;
        if let Err(sentence) = self.control.check_expected(adapter, *ticket) {
            return Ok(Err(sentence));
        }
        if request.bytes == 0 {
            return Ok(Ok(Answer::Expected));
        }
        let mut incoming = match Incoming::new(request.bytes) {
            Ok(incoming) => incoming,
            Err(sentence) => return Ok(Err(sentence)),
        };
        let place = timeout(PLACE_LIMIT, self.places.coming.acquire()).await?;
        let _place = place.map_err(io::Error::other)?;
        sealed.say(&Answer::Expected.encode()).await?;
        timeout(COMING_LIMIT, receive(sealed, &mut incoming)).await??;
        let kept = self
            .control
            .keep_expected(adapter, *ticket, incoming.finish());
        Ok(kept.await.map(Answer::Arrived))
    }
}

async fn receive(sealed: &mut Sealed, incoming: &mut Incoming) -> io::Result<()> {
    while !incoming.is_whole() {
        let piece = sealed.hear().await?;
        incoming.take(&piece).map_err(io::Error::other)?;
    }
    Ok(())
}

// The most that contexts under way can take of the host's memory, besides those that are kept.
const _: () = assert!(COMING_MAX * CONTEXT_BYTES_MAX <= 1 << 30);
