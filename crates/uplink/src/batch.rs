//! Frames that wait to be sent together in one system call.
//!
//! ```text
//!   data      | head, frame | head, frame | head, frame |      one buffer
//!   messages   '----- to A, cut at n ----'  '-- to B --'
//! ```
//! Frames of one length to one peer are adjacent, as UDP_SEGMENT requires. On packet sockets RoCEv2 packets of one flow
//! become a message in the same way ([`crate::offload`]).

use std::io;
use std::net::SocketAddr;
use std::ops::Range;

use smallvec::SmallVec;

use crate::counters::{Counters, Loss};
use crate::offload;
use crate::seal::{self, Sealer};
use crate::sys::{MESSAGES_MAX, Outgoing, Socket, send_some};

/// Most bytes that may wait. Beyond that, frames are sent at once, or lost while the kernel takes none.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Most messages that may wait: enough for a few system calls.
const WAITING_MAX: usize = 8 * MESSAGES_MAX;

/// Most segments and bytes of one message to the kernel (the smallest UDP_MAX_SEGMENTS of any kernel, and what the
/// length fields of IPv4 leave for a payload). Trains are bounded by [`offload::follows`].
const SEGMENTS_MAX: usize = 64;
const JOINED_BYTES_MAX: usize = 65_507;

/// Most frames that are written in place without a heap allocation for them.
const USUAL: usize = 16;

/// Waiting frames.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The first `used` bytes are frames; the bytes after them were used before.
    data: Vec<u8>,
    used: usize,
    messages: Vec<Outgoing>,
    /// Number of messages that are already sent.
    gone: usize,
    /// Bytes before each frame that do not count as the frame's.
    head_bytes: usize,
    /// Whether frames to one peer are joined.
    joins: bool,
    /// Packet sockets: longest frame that the interface takes. The kernel does not check the length of packets that it
    /// is to cut.
    frame_bytes_max: usize,
}

impl Batch {
    pub(crate) fn new(head_bytes: usize, joins: bool) -> Self {
        Self {
            head_bytes,
            joins,
            ..Self::default()
        }
    }

    /// Sets the longest frame of a packet socket. Longer ones are refused one by one.
    pub(crate) fn set_frame_bytes(&mut self, most: usize) {
        self.frame_bytes_max = most;
    }

    /// Whether a frame of this length fits for this number of receivers.
    pub(crate) fn has_room(&self, bytes: usize, receivers: usize) -> bool {
        self.used + self.head_bytes + bytes + receivers * seal::OVERHEAD <= WAITING_BYTES_MAX
            && self.messages.len() + receivers <= WAITING_MAX
    }

    /// Number of bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.used
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Appends the parts of one datagram, to one receiver or to several.
    pub(crate) fn push(
        &mut self,
        parts: &[&[u8]],
        to: impl IntoIterator<Item = Option<SocketAddr>>,
    ) {
        let start = self.used;
        let mut at = start;
        self.reserve(parts.iter().map(|part| part.len()).sum());
        for part in parts {
            self.data[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.used = at;
        for to in to {
            self.add(start..at, to, self.head_bytes);
        }
    }

    /// Appends one sealed datagram. Returns `false` if it could not be sealed.
    pub(crate) fn push_sealed(&mut self, plain: &[u8], sealer: &Sealer, to: SocketAddr) -> bool {
        let (start, length) = (self.used, plain.len() + seal::OVERHEAD);
        self.reserve(length);
        let room = &mut self.data[start..start + length];
        let sealed = sealer.seal(plain, room);
        if sealed {
            self.used += length;
            let head_bytes = self.head_bytes + seal::OVERHEAD;
            self.add(start..self.used, Some(to), head_bytes);
        }
        sealed
    }

    /// Appends datagrams to one receiver, which `fill` writes in place after a head that is the same for all. If it
    /// returns `false`, nothing is appended.
    pub(crate) fn push_in_place(
        &mut self,
        head: &[u8],
        lengths: &[usize],
        to: Option<SocketAddr>,
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let whole = lengths.iter().map(|length| head.len() + length).sum();
        self.reserve(whole);
        if !fill_behind_heads(&mut self.data[self.used..], head, lengths, fill) {
            return false;
        }
        for length in lengths {
            let start = self.used;
            self.used += head.len() + length;
            self.add(start..self.used, to, self.head_bytes);
        }
        true
    }

    /// Makes room for `bytes` more bytes.
    fn reserve(&mut self, bytes: usize) {
        let need = self.used + bytes;
        if self.data.len() < need {
            self.data.resize(need, 0);
        }
    }

    fn add(&mut self, range: Range<usize>, to: Option<SocketAddr>, head_bytes: usize) {
        let one = Outgoing {
            range,
            to,
            segment: 0,
            head_bytes: head_bytes as u16,
        };
        if !self.join(&one) {
            self.messages.push(one);
        }
    }

    /// Adds a datagram to the last message, if that goes to the same peer, ends where the datagram begins and only has
    /// datagrams of one length, no shorter than this one.
    fn join(&mut self, one: &Outgoing) -> bool {
        let (len, start, to) = (one.range.len(), one.range.start, one.to);
        let waiting = self.gone < self.messages.len();
        let Some(last) = self.messages.last_mut().filter(|_| self.joins && waiting) else {
            return false;
        };
        let before = last.range.len();
        let segment = match last.segment {
            0 => before,
            segment => usize::from(segment),
        };
        let bytes_fit = to.is_none() || before + len <= JOINED_BYTES_MAX;
        let fits = bytes_fit && before < segment * SEGMENTS_MAX;
        if last.range.end != start
            || last.to != to
            || last.head_bytes != one.head_bytes
            || before % segment != 0
            || len > segment
            || !fits
            || to.is_none()
                && (segment - self.head_bytes > self.frame_bytes_max
                    || !is_train(
                        &self.data[last.range.start..start + len],
                        segment,
                        before / segment,
                    ))
        {
            return false;
        }
        last.range.end += len;
        last.segment = segment as u16;
        true
    }

    /// Sends the waiting messages. If the kernel has no room, the rest waits on.
    pub(crate) fn send(&mut self, socket: &Socket, counters: &mut Counters) -> Flushed {
        let mut flushed = Flushed::default();
        while self.gone < self.messages.len() {
            match send_some(socket, &self.data, &self.messages[self.gone..]) {
                Ok(sent) => self.count(sent, counters),
                Err(error) => match Refusal::of(&error) {
                    Refusal::Interrupted => {}
                    Refusal::Later => {
                        return Flushed {
                            waits: true,
                            ..flushed
                        };
                    }
                    Refusal::Cut if self.messages[self.gone].segment != 0 => self.split(),
                    refusal => self.lose_first(refusal, counters, &mut flushed),
                },
            }
        }
        self.clear();
        flushed
    }

    fn count(&mut self, sent: usize, counters: &mut Counters) {
        for message in &self.messages[self.gone..self.gone + sent] {
            let frames = self.frames(message);
            let bytes = message.range.len() - frames * usize::from(message.head_bytes);
            counters.sent(frames as u64, bytes as u64);
        }
        self.gone += sent;
    }

    fn lose_first(&mut self, refusal: Refusal, counters: &mut Counters, flushed: &mut Flushed) {
        let message = &self.messages[self.gone];
        let loss = match refusal {
            Refusal::TooBig => {
                flushed.too_big = true;
                Loss::TooBig
            }
            Refusal::Down => {
                flushed.down = true;
                Loss::Down
            }
            Refusal::NoRoom => Loss::NoRoom,
            _ => Loss::Refused,
        };
        counters.lose_many(loss, self.frames(message) as u64);
        self.gone += 1;
    }

    /// Has datagrams go one by one from now on, since the kernel or the device cannot cut.
    fn split(&mut self) {
        self.joins = false;
        let rest = self.messages.split_off(self.gone);
        for message in rest {
            let Outgoing {
                range, to, segment, ..
            } = message;
            let step = if segment == 0 {
                range.len()
            } else {
                usize::from(segment)
            };
            let end = range.end;
            let pieces = range.step_by(step.max(1)).map(|start| Outgoing {
                range: start..end.min(start + step),
                to,
                segment: 0,
                head_bytes: message.head_bytes,
            });
            self.messages.extend(pieces);
        }
    }

    fn frames(&self, message: &Outgoing) -> usize {
        match usize::from(message.segment) {
            0 => 1,
            segment => message.range.len().div_ceil(segment),
        }
    }

    fn clear(&mut self) {
        self.used = 0;
        self.messages.clear();
        self.gone = 0;
    }
}

/// Has `fill` write frames one after the other, each behind the same head.
pub(crate) fn fill_behind_heads(
    mut rest: &mut [u8],
    head: &[u8],
    lengths: &[usize],
    fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
) -> bool {
    let mut rooms: SmallVec<[&mut [u8]; USUAL]> = SmallVec::new();
    for length in lengths {
        let (front, behind) = rest.split_at_mut(head.len() + length);
        let (place, room) = front.split_at_mut(head.len());
        place.copy_from_slice(head);
        rooms.push(room);
        rest = behind;
    }
    fill(&mut rooms)
}

/// Whether the frame after `number` others in a packet socket's message may be joined with them.
fn is_train(message: &[u8], stride: usize, number: usize) -> bool {
    let frame = |bytes: &[u8]| offload::HEADER_BYTES..bytes.len();
    let (first, next) = (&message[..stride], &message[number * stride..]);
    offload::follows(&first[frame(first)], number, &next[frame(next)])
}

/// How sending a batch ended.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Flushed {
    /// Frames wait for later.
    pub(crate) waits: bool,
    /// A frame was longer than the MTU.
    pub(crate) too_big: bool,
    /// The interface is down or gone.
    pub(crate) down: bool,
}

/// What an error of the kernel means for the message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Interrupted,
    Later,
    Cut,
    TooBig,
    Down,
    NoRoom,
    Other,
}

impl Refusal {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EINTR) => Self::Interrupted,
            Some(libc::EAGAIN) => Self::Later,
            Some(libc::EINVAL | libc::EIO) => Self::Cut,
            Some(libc::EMSGSIZE) => Self::TooBig,
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => Self::Down,
            Some(libc::ENOBUFS) => Self::NoRoom,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = &[9; 8];

    /// Frames that are written in place wait like frames that are copied.
    #[test]
    fn both_ways_into_a_batch_are_one() {
        let to: SocketAddr = "192.0.2.1:4789".parse().unwrap();
        let frames: Vec<Vec<u8>> = [60, 100, 100, 40, 70]
            .iter()
            .zip(1..)
            .map(|(&length, byte)| vec![byte; length])
            .collect();
        let (mut copied, mut placed) = (Batch::new(8, true), Batch::new(8, true));
        for batch in [&mut copied, &mut placed] {
            batch.push(&[HEAD, &[7; 30]], [Some(to)]);
            batch.clear();
        }
        for frame in &frames {
            copied.push(&[HEAD, frame], [Some(to)]);
        }
        let lengths: Vec<_> = frames.iter().map(Vec::len).collect();
        assert!(!placed.push_in_place(HEAD, &lengths, Some(to), &mut |_| false));
        assert!(placed.is_empty() && placed.waiting() == 0);
        let filled = placed.push_in_place(HEAD, &lengths, Some(to), &mut |rooms| {
            for (room, frame) in rooms.iter_mut().zip(&frames) {
                room.copy_from_slice(frame);
            }
            true
        });
        assert!(filled);
        assert_eq!(placed.messages, copied.messages);
        assert_eq!(placed.messages.len(), 3);
        assert_eq!(placed.data[..placed.used], copied.data[..copied.used]);
    }
}
