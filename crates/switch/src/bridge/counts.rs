//! Reasons for which frames are dropped, and counters of ports.

use super::MAX_FRAME;

/// Why a frame was not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DropReason {
    /// The sender is not attached, or away; counted nowhere.
    #[error("the sending port is not attached")]
    Detached,
    /// Shorter than [`MIN_FRAME`](super::MIN_FRAME).
    #[error("the frame is shorter than an Ethernet header")]
    Runt,
    /// Longer than [`MAX_FRAME`].
    #[error("the frame is longer than {MAX_FRAME} bytes")]
    Oversize,
    /// The source is zero or a group address.
    #[error("the source address is not that of one station")]
    BadSource,
    /// The source is another port's configured MAC.
    #[error("the source address belongs to another port")]
    Spoofed,
    /// The destination is for the bridge itself.
    #[error("the destination address is reserved for bridges")]
    Reserved,
    /// The destination is behind the sender's own port.
    #[error("the destination is behind the sending port")]
    Returning,
    /// From an uplink: the destination is on another host.
    #[error("the destination is not on this host")]
    Elsewhere,
    /// Sent in the name of another station or address by a port that may use only its own.
    #[error("the port may send in its own name only")]
    OtherAddress,
    /// RoCEv2 from a port that must not send any.
    #[error("the port must not send RoCEv2 as Ethernet frames")]
    Roce,
    /// A notice, which only daemons send.
    #[error("only daemons tell peers where adapters are")]
    Notice,
    /// The receiver did not take it; see [`Bridge::not_taken`](super::Bridge::not_taken).
    #[error("the receiving port's queue is full")]
    Congested,
}

impl DropReason {
    /// Every reason, in the order of the counters.
    pub const ALL: [Self; 12] = [
        Self::Detached,
        Self::Runt,
        Self::Oversize,
        Self::BadSource,
        Self::Spoofed,
        Self::Reserved,
        Self::Returning,
        Self::Elsewhere,
        Self::OtherAddress,
        Self::Roce,
        Self::Notice,
        Self::Congested,
    ];
}

/// Frames and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FrameCounts {
    /// Number of frames.
    pub frames: u64,
    /// Number of bytes, without preamble and checksum.
    pub bytes: u64,
}

impl FrameCounts {
    pub(super) fn add(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }

    pub(super) fn take_back(&mut self, bytes: usize) {
        self.frames = self.frames.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

/// Counters of one port.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PortCounts {
    /// Frames from the port, including dropped ones.
    pub received: FrameCounts,
    /// Frames to the port.
    pub sent: FrameCounts,
    drops: [u64; DropReason::ALL.len()],
}

impl PortCounts {
    /// Returns the number of frames dropped for this reason: frames from the port and, if
    /// [`Congested`](DropReason::Congested), frames to it.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    pub(super) fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }
}
