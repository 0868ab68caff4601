//! The number of the thread that owns an adapter.

/// Number of a shard: its place in the list of all shards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The first shard. It takes arrivals from uplinks, accepts clients, and serves connection management.
    pub const FIRST: Self = Self(0);

    /// Returns all shards except this one.
    pub fn others(self, shards: u16) -> impl Iterator<Item = Self> {
        (0..shards).map(Self).filter(move |other| *other != self)
    }
}
