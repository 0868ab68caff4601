//! Connections of QEMUs that another worker goes on with.

use std::fmt::Debug;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use vrdma_api::Name;

/// Where it is written down which connection each port has. What is written down counts at once.
pub trait StreamRecords: Debug + Send + Sync {
    /// A QEMU is connected at a port.
    fn connected(&self, port: &Name, stream: BorrowedFd<'_>);

    /// It is no more. Before its connection is closed.
    fn disconnected(&self, port: &Name);

    /// Whether the connection may have been given the beginning of a frame without its end: then nobody else can go on
    /// with it.
    fn cut(&self, port: &Name, is_cut: bool);
}

/// What a port begins with.
#[derive(Debug, Default)]
pub struct PortPast {
    /// Where its connections are written down, if another worker goes on for this one.
    pub records: Option<Arc<dyn StreamRecords>>,
    /// The connection that the worker before has left.
    pub left: Option<OwnedFd>,
}
