//! Adapters that live as long as a connection of whoever added them.
//!
//! The client asks and never gets an answer; its end, however it came, closes the connection, and the
//! server then drops the handler. Children that inherited the connection keep it open.

use std::sync::Arc;

use vrdma_api::Name;

use super::Control;

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

impl Control {
    /// Returns when the daemon stops.
    pub(super) async fn hold(self: Arc<Self>, name: Name) {
        let mut stopping = self.stopping.subscribe();
        let _hold = Hold {
            control: self,
            name,
        };
        // The sender lives as long as the hold.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}
