//! The carrier: takes units from adapter to adapter, and over uplinks to other hosts.
//!
//! ```text
//!            poll, next_request              deliver, respond
//!   Member ────────────────────► Host::carry ────────────────► Member     one copy, memory to memory
//!   (an adapter)                  │    │ │
//!                      Fabric ◄───┘    │ └──► datagrams of QP 1, which the owner of the host takes
//!                (whose is this GID?)  ▼
//!                                    egress ──► frames ──► Port (an uplink)
//!   Member ◄── receive ◄── ingress ◄────────── frames ◄───┘
//! ```
//!
//! One [`Host`] belongs to one thread, a *shard*, and is sans-IO: time comes in as an argument, frames go through a
//! [`Port`], and what the owner has to do with a descriptor comes out as an [`Event`]. The hosts of several shards
//! share the knowledge of which adapter has which address ([`Shared`]), and what goes from one to another is a value
//! that their owner moves ([`Transfer`]). A host knows nothing of threads, sockets, clocks, guests, processes, nor of
//! how memory is mapped: an adapter is anything that implements [`Member`], which also names its memory.
#![forbid(unsafe_code)]

mod accounts;
mod budget;
mod carry;
mod datagrams;
mod event;
mod guarantees;
mod host;
mod learner;
mod limits;
mod location;
mod member;
mod members;
mod multicast;
mod path_mtu;
mod paths;
mod port;
mod queue;
mod run_queue;
mod serve;
mod shared;
mod transfer;
mod turn;
mod uplink;
mod watch;

pub use datagrams::Datagram;
pub use event::Event;
pub use host::{Among, Attachment, Host};
pub use learner::Learner;
pub use member::{Doorbells, Member};
pub use port::{Batch, Marks, Port, Received, Segment, Train};
pub use shared::Shared;
pub use transfer::{Lane, Transfer};
pub use uplink::{Counts, Segments, Uplink};
pub use vrdma_adapter::ShardId;
