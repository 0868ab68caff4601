//! What another service needs to go on for this one.
//!
//! ```text
//!   request, datagram, time ──► what changed ──► records ── commit ──► tokens, answers, datagrams
//!                                                   └── resume ──► another service
//! ```
//! Nothing is told before the records of it are committed. A request stays in its socket until it is answered, and an
//! answer that was given is given again. A datagram has a record until it has left the daemon, or has arrived at
//! another adapter of it; what is sent twice is known by its names. What got lost is repeated as on a wire.
//!
//! An event is one record until its program has fetched it, so it is told once. Of the bytes that announce events one
//! may be too many, if a thread had read one and not asked yet when the service before ended: it finds no event then.
//!
//! Adapters are named by their names, since ports are given anew. What is read back is not trusted: what nobody could
//! have written is left out, and whoever it belonged to is told as if its peer or adapter was gone.

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

/// The numbers are in records.
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
