//! Adapters that live as long as a connection of the client that added them.
//!
//! ```text
//!   POST .../hold ──► 200 and a body without an end ──► the client hangs up, for any reason ──► removed
//!                                                   └──► the daemon stops: the body ends
//! ```
//!
//! The answer says that the adapter is held; the server drops its body when the connection is closed. Child processes
//! that inherited the connection keep it open. After a crash, the next worker has the connection's descriptor and waits
//! for its end.

use std::convert::Infallible;
use std::future::Future;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Bytes, HttpBody};
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use http_body::Frame;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};
use vrdma_api::Name;

use super::Control;
use super::answer::Problem;

/// The number of a client's descriptor, which stays open when the worker ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection(RawFd);

impl Connected<IncomingStream<'_, UnixListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        Self(stream.io().as_raw_fd())
    }
}

/// Removes the adapter when it is dropped.
struct Hold {
    control: Arc<Control>,
    name: Name,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if *self.control.stopping.borrow() {
            return;
        }
        let (control, name) = (Arc::clone(&self.control), self.name.clone());
        tokio::spawn(async move {
            // A client that ends properly has removed the adapter already.
            if control.remove_adapter(&name).await.is_ok() {
                tracing::info!("adapter {name} removed: whoever held it is gone");
            }
        });
    }
}

/// The body of the answer: no bytes, and no end before the daemon ends.
pub(super) struct Held {
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.stopped.as_mut().poll(context));
        Poll::Ready(None)
    }
}

impl Control {
    /// Holds an adapter: it is removed when the returned body is dropped.
    pub(super) async fn hold(
        self: Arc<Self>,
        name: Name,
        connection: Connection,
    ) -> Result<Held, Problem> {
        {
            let inventory = self.inventory();
            inventory.adapter(&name)?;
            let mut memory = self.memory();
            memory.changes.hold(&name, connection.0, &inventory);
        }
        let mut stopping = self.stopping.subscribe();
        let hold = Hold {
            control: self,
            name,
        };
        let stopped = async move {
            // The sender lives as long as the hold.
            let _ = stopping.wait_for(|stopping| *stopping).await;
            drop(hold);
        };
        Ok(Held {
            stopped: Box::pin(stopped),
        })
    }

    /// Watches the connections of adapters that were held when the previous worker ended.
    pub fn hold_on(self: &Arc<Self>, holds: Vec<(Name, OwnedFd)>) {
        for (name, connection) in holds {
            let control = Arc::clone(self);
            let hold = Hold { control, name };
            tokio::spawn(async move {
                if let Ok(connection) = asynchronous(connection) {
                    wait_for_end(connection).await;
                }
                drop(hold);
            });
        }
    }
}

fn asynchronous(connection: OwnedFd) -> std::io::Result<UnixStream> {
    let connection = StdStream::from(connection);
    connection.set_nonblocking(true)?;
    UnixStream::from_std(connection)
}

/// Waits until the other end is closed. Bytes that it sends meanwhile are not answered.
async fn wait_for_end(mut connection: UnixStream) {
    let mut said = [0; 256];
    while connection
        .read(&mut said)
        .await
        .is_ok_and(|bytes| bytes > 0)
    {}
}
