//! The begin and end of the next unit of a message.

use vrdma_wire::{Mtu, Psn};

use crate::path::{Pace, Path};
use crate::qp::Qp;
use crate::requester::awaited::Hole;
use crate::shared::Shared;
use crate::time::Time;

/// Most PSNs without an answer: a quarter of the circle, so that old and new ones stay apart for both ends (IBTA 9.7.1)
/// even when the last unit is large.
pub(super) const PSN_WINDOW: u32 = 1 << 22;

/// Position of a unit in its message.
#[derive(Clone, Copy, Default)]
pub(super) struct Cut {
    /// Index of the request.
    pub(super) index: usize,
    pub(super) psn: Psn,
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) packets: u32,
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) ack: bool,
    /// Path of the unit, for connections.
    pub(super) path: Option<Path>,
}

impl<R> Qp<R> {
    /// Returns the next unit of a connection, if the window has room for it.
    #[inline]
    pub(super) fn cut(
        &mut self,
        path: Path,
        shared: &Shared<R>,
        unit_bytes: u32,
        train_bytes: u32,
        now: Time,
    ) -> Option<Cut> {
        let requester = &self.requester;
        let pending = &requester.queue[requester.cursor];
        let answered = pending.wr.op.is_read_or_atomic();
        if answered && requester.awaiting.len() >= usize::from(self.attr.max_rd_atomic) {
            return None;
        }
        let mtu = self.attr.path_mtu;
        let at = requester.next.since(pending.first);
        debug_assert!(at < pending.packets, "the cursor is at another request");
        let offset = at * mtu.bytes();
        let left = pending.length - offset;
        let longest = match path.pace() {
            Pace::Local => whole_packets(mtu, unit_bytes),
            Pace::Wire if answered => mtu.bytes() * self.read_slice(at),
            Pace::Wire => {
                let most = train_bytes / mtu.bytes();
                mtu.bytes() * self.train(most, shared, now)
            }
        };
        let length = left.min(longest);
        let mut cut = Cut {
            index: requester.cursor,
            psn: requester.next,
            offset,
            length,
            packets: mtu.packets(length),
            first: offset == 0,
            last: length == left,
            ack: true,
            path: Some(path),
        };
        if requester.next.since(requester.settled) + cut.packets > PSN_WINDOW {
            return None;
        }
        if path.pace() == Pace::Wire {
            let ack = self.fit_window(cut.packets, cut.last, shared, now)?;
            cut.ack = ack || answered;
        }
        Some(cut)
    }

    /// Returns the unit that asks again for lost data of a READ or atomic.
    pub(super) fn cut_hole(&self, hole: Hole, path: Option<Path>) -> Option<Cut> {
        let index = self.requester.holding(hole.begin)?;
        let pending = &self.requester.queue[index];
        let mtu = self.attr.path_mtu.bytes();
        let at = hole.begin.since(pending.first);
        let packets = hole.end.since(hole.begin);
        debug_assert!(
            packets > 0 && at + packets <= pending.packets,
            "a hole is in one request"
        );
        let offset = at * mtu;
        Some(Cut {
            index,
            psn: hole.begin,
            offset,
            length: (pending.length - offset).min(packets * mtu),
            packets,
            first: at == 0,
            last: at + packets >= pending.packets,
            ack: true,
            path,
        })
    }
}

impl Cut {
    pub(super) fn whole(length: u32, index: usize, psn: Psn) -> Self {
        Self {
            index,
            psn,
            offset: 0,
            length,
            packets: 1,
            first: true,
            last: true,
            ack: false,
            path: None,
        }
    }
}

/// Rounds to whole packets: units must end on packet borders, or their PSNs would not be those of a wire.
fn whole_packets(mtu: Mtu, unit_bytes: u32) -> u32 {
    let packet = mtu.bytes();
    (unit_bytes - unit_bytes % packet).max(packet)
}
