//! System calls: a listening Unix socket, and the connection of one client.
//!
//! Both belong to the thread that polls them and never block. Poll for readability with level
//! triggering; poll a connection for writability only while
//! [`Connection::wants_write`](connection::Connection::wants_write).

mod calls;
mod connection;
mod kept;
mod listener;
mod peeking;
mod pipes;

#[cfg(test)]
mod tests;

pub use connection::{Closed, Connection, Progress};
pub use kept::KEPT_DESCRIPTORS;
pub use listener::{Listener, ListenerError};
