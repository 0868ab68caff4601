//! What one port sent and received over the fabric.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use crate::NoRoute;

/// Messages and their payload.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MessageCounts {
    /// Message units.
    pub messages: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// Why a management datagram for queue pair 1 of a port was not taken, where no engine counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Untaken {
    /// It is no datagram.
    UnknownQp,
    /// Its Q_Key is not that of management datagrams.
    WrongQkey,
    /// It belongs to another partition.
    WrongPkey,
    /// It is longer or shorter than management datagrams are, or its sender's memory was gone.
    Malformed,
    /// Too many datagrams wait already.
    NoRoom,
}

impl Untaken {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::UnknownQp,
        Self::WrongQkey,
        Self::WrongPkey,
        Self::Malformed,
        Self::NoRoom,
    ];
}

/// The counters of a port at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TrafficCounts {
    /// From the port.
    pub sent: MessageCounts,
    /// To the port.
    pub received: MessageCounts,
    drops: [u64; NoRoute::ALL.len()],
    untaken: [u64; Untaken::ALL.len()],
}

impl TrafficCounts {
    /// Returns the number of management datagrams for the port that were not taken for this reason.
    pub fn untaken(&self, reason: Untaken) -> u64 {
        self.untaken[reason as usize]
    }

    /// Returns the number of messages from the port that had no route for this reason.
    pub fn dropped(&self, reason: NoRoute) -> u64 {
        self.drops[reason as usize]
    }
}

/// Counters of a port. A carrier of messages keeps a handle beside the cached route and counts without asking the
/// fabric again. Each counter is exact; several read together may be a message apart.
#[derive(Default, Debug)]
pub struct Traffic {
    sent: Count,
    received: Count,
    drops: [AtomicU64; NoRoute::ALL.len()],
    untaken: [AtomicU64; Untaken::ALL.len()],
}

#[derive(Default, Debug)]
struct Count {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Count {
    fn add(&self, bytes: u64) {
        self.messages.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn read(&self) -> MessageCounts {
        MessageCounts {
            messages: self.messages.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

impl Traffic {
    /// Counts a message from the port that was carried.
    pub fn count_sent(&self, bytes: u64) {
        self.sent.add(bytes);
    }

    /// Counts a message that was delivered to the port.
    pub fn count_received(&self, bytes: u64) {
        self.received.add(bytes);
    }

    pub(crate) fn count_drop(&self, reason: NoRoute) {
        self.drops[reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts a management datagram for the port that was not taken.
    pub fn count_untaken(&self, reason: Untaken) {
        self.untaken[reason as usize].fetch_add(1, Relaxed);
    }

    /// Returns the counters now.
    pub fn counts(&self) -> TrafficCounts {
        TrafficCounts {
            sent: self.sent.read(),
            received: self.received.read(),
            drops: core::array::from_fn(|reason| self.drops[reason].load(Relaxed)),
            untaken: core::array::from_fn(|reason| self.untaken[reason].load(Relaxed)),
        }
    }
}
