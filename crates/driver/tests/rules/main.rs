//! The 70 validation rules of the reference, section 14: one test each, against a hostile guest.
//!
//! | rules | where |
//! |---|---|
//! | 1 to 12 | `registers`: BARs, shared region, slots |
//! | 13 to 23 | `commands`: queries, contexts, counts, registrations |
//! | 24 to 42 | `objects`: queues, queue pairs, states, addresses |
//! | 43 to 47 | `doorbells`: pages, handles, indices |
//! | 48 to 63 | `work`: requests and receives |
//! | 64 to 70 | `limits`: full rings, vanished memory, stopping, shares, noise |
//!
//! The device fulfils three rules only in part. The copy of a command before it is decoded (10) cannot be raced from
//! one thread: the test shows that a response on top of its request does not change it. The loss of a client's socket
//! (66) concerns the daemon, which then resets the device. Shares between tenants (67) concern the shard; the device's
//! part is that no call does unbounded work.

mod commands;
mod doorbells;
mod limits;
mod objects;
mod queue_pairs;
mod registers;
mod single;
mod work;
mod work_keys;
