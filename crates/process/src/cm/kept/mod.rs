//! Records of what a later service needs to go on for this one.
//!
//! ```text
//!   request, datagram, time ──► what changed ──► records ── commit ──► tokens, answers, datagrams
//!                                                   └── resume ──► another service
//! ```
//! Nothing is told before its records are committed. A request stays in its socket until it is answered; an answer that
//! was given is given again. A datagram has a record until it has left the daemon, or has arrived at another adapter of
//! the daemon; a datagram that is sent twice is recognised by the names in it. Lost datagrams are repeated as on a
//! wire.
//!
//! An event is one record until its program has fetched it, so it is told once. There may be one announcement byte too
//! many, if a thread had read a byte and not yet asked when the earlier service ended: the thread then finds no event.
//!
//! Records refer to adapters by name, since ports are numbered anew. Records that are read back are not trusted: an
//! impossible one is left out, and its owner is told as if its peer or adapter was gone.

mod clients;
#[cfg(test)]
mod corpus;
mod identifiers;
mod past;
mod record;
mod recorder;
mod resuming;
mod writing;

pub use past::Past;
pub(super) use recorder::Recorder;

use super::identifier::Stage;

/// All stages, in the order of their numbers in records.
const STAGES: [Stage; 12] = [
    Stage::Idle,
    Stage::Bound,
    Stage::Resolving,
    Stage::AddressResolved,
    Stage::RouteResolved,
    Stage::Listening,
    Stage::Calling,
    Stage::Replied,
    Stage::Called,
    Stage::Accepted,
    Stage::Connected,
    Stage::Over,
];
