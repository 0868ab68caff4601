//! Adapters that live as long as a connection of whoever added them.
//!
//! ```text
//!   POST .../hold ──► 200 and a body without an end ──► the client hangs up, however it came ──► removed
//!                                                   └──► the daemon stops: the body ends
//! ```
//!
//! The answer says that the adapter is held; the server drops its body when the connection is closed. Children that
//! inherited the connection keep it open.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Bytes, HttpBody};
use http_body::Frame;
use vrdma_api::Name;

use super::Control;
use super::answer::Problem;

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
            // Whoever was orderly has removed it.
            if control.remove_adapter(&name).await.is_ok() {
                tracing::info!("adapter {name} removed: whoever held it is gone");
            }
        });
    }
}

/// The body of the answer: no bytes, and no end before the daemon's.
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
    /// The adapter goes when the body that is returned is dropped.
    pub(super) async fn hold(self: Arc<Self>, name: Name) -> Result<Held, Problem> {
        self.inventory().adapter(&name)?;
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
}
