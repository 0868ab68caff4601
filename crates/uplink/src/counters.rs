//! Counters of an uplink's port.

/// Why a frame was lost at the uplink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Received: longer than a receive slot.
    Truncated,
    /// Received: no VXLAN header of RFC 7348, or no Ethernet header after it.
    Malformed,
    /// Received: from an address that is no peer's.
    UnknownPeer,
    /// Received: from a station that is stated to be behind another peer, or from behind a peer for which other
    /// stations are stated.
    ForeignStation,
    /// Received: of a network that the peer does not take part in.
    ForeignNetwork,
    /// Received: a call for a session, made with a key that is not ours.
    WrongKey,
    /// Received: sealed by somebody other than the peer, or changed on the way.
    Forged,
    /// Received: sealed, and received before or too old to tell.
    Replayed,
    /// Received: in the clear from a peer with a key, or sealed by one without.
    Unsealed,
    /// Received: sealed in a session that is not known here any more. To send: there is no session yet.
    NoSession,
    /// Received: with an offload that the kernel announced and that cannot be undone.
    Offload,
    /// Received: the kernel's buffer was full.
    Overrun,
    /// Received: for the other port, which has too many unread frames.
    Stray,
    /// To send: shorter than an Ethernet header.
    Runt,
    /// To send: in a segment that this uplink cannot express, or tagged inside an untagged segment.
    Segment,
    /// To send: to a peer that does not exist, or there are no peers.
    NoPeer,
    /// To send: larger than the MTU of the interface, or of the path to the peer.
    TooBig,
    /// To send: the interface is down or gone.
    Down,
    /// To send: the kernel took no more and the batch is full.
    NoRoom,
    /// To send: refused by the kernel for another reason, such as no route or a firewall.
    Refused,
}

impl Loss {
    /// Every reason with its name, in the order of the counters.
    pub const ALL: [(Self, &'static str); 20] = [
        (Self::Truncated, "truncated"),
        (Self::Malformed, "malformed"),
        (Self::UnknownPeer, "unknown_peer"),
        (Self::ForeignStation, "foreign_station"),
        (Self::ForeignNetwork, "foreign_network"),
        (Self::WrongKey, "wrong_key"),
        (Self::Forged, "forged"),
        (Self::Replayed, "replayed"),
        (Self::Unsealed, "unsealed"),
        (Self::NoSession, "no_session"),
        (Self::Offload, "offload"),
        (Self::Overrun, "overrun"),
        (Self::Stray, "stray"),
        (Self::Runt, "runt"),
        (Self::Segment, "segment"),
        (Self::NoPeer, "no_peer"),
        (Self::TooBig, "too_big"),
        (Self::Down, "down"),
        (Self::NoRoom, "no_room"),
        (Self::Refused, "refused"),
    ];
}

/// Counters of one port since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames passed to the owner.
    pub received_frames: u64,
    /// Bytes of these frames.
    pub received_bytes: u64,
    /// Frames that the kernel took; a flooded one counts once for each peer.
    pub sent_frames: u64,
    /// Bytes of these frames, without tunnel headers.
    pub sent_bytes: u64,
    /// Tunnel: frames of stations that had just been heard from behind another peer.
    pub contested: u64,
    /// Tunnel: how often a silent station was heard again from behind another peer.
    pub moved: u64,
    losses: [u64; Loss::ALL.len()],
}

impl Counters {
    /// Number of frames lost for this reason.
    pub fn lost(&self, reason: Loss) -> u64 {
        self.losses[reason as usize]
    }

    /// Returns every reason's name and count.
    pub fn losses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Loss::ALL
            .map(|(reason, name)| (name, self.lost(reason)))
            .into_iter()
    }

    pub(crate) fn lose(&mut self, reason: Loss) {
        self.lose_many(reason, 1);
    }

    pub(crate) fn lose_many(&mut self, reason: Loss, frames: u64) {
        self.losses[reason as usize] += frames;
    }

    /// Sets the number of overruns to the kernel's count, which is a total.
    pub(crate) fn set_overrun(&mut self, total: u64) {
        self.losses[Loss::Overrun as usize] = total;
    }

    pub(crate) fn took(&mut self, bytes: usize) {
        self.received_frames += 1;
        self.received_bytes += bytes as u64;
    }

    pub(crate) fn sent(&mut self, frames: u64, bytes: u64) {
        self.sent_frames += frames;
        self.sent_bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_in_the_order_of_their_counters() {
        for (at, (reason, _)) in Loss::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
        }
    }

    #[test]
    fn each_reason_has_a_row_in_the_guide() {
        let page = include_str!("../../../docs/troubleshooting.md");
        let (_, table) = page
            .split_once("Uplinks, `vrdma uplink show NAME`")
            .unwrap();
        let table = table.split("\n\n").nth(1).unwrap();
        for (word, _) in Counters::default().losses() {
            let word = word.replace('_', "-");
            assert!(table.contains(&format!("`{word}`")), "{word}");
        }
    }
}
