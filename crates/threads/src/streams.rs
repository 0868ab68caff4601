//! Connections of QEMUs that another worker goes on with.

use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use vrdma_api::Name;

/// The records of each port's connection. A record counts at once.
pub trait StreamRecords: Debug + Send + Sync {
    /// A QEMU is connected at a port.
    fn connected(&self, port: &Name, stream: BorrowedFd<'_>);

    /// The connection is about to be closed.
    fn disconnected(&self, port: &Name);

    /// Notes whether part of a frame, without its end, may have been written to the connection: then no other worker
    /// can go on with it.
    fn cut(&self, port: &Name, is_cut: bool);
}

/// Connection that a port begins with, and records of later ones.
#[derive(Debug, Default)]
pub struct PortPast {
    /// Where its connections are recorded, if another worker goes on for this one.
    pub records: Option<Arc<dyn StreamRecords>>,
    /// The connection that the previous worker has left.
    pub left: Option<OwnedFd>,
}
