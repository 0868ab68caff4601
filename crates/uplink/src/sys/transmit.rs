//! Sends many datagrams with one `sendmmsg`.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::ops::Range;

use libc::{c_int, mmsghdr};

use super::address::RawAddress;
use super::socket::{Socket, answer};
use crate::offload;

/// Most messages of one call.
pub(crate) const MESSAGES_MAX: usize = 64;

const UDP_SEGMENT: c_int = 103;
const CONTROL_BYTES: usize = 32;
const HEAD_BYTES: usize = offload::HEADER_BYTES + offload::HEADERS_MAX;

/// Bytes of a buffer to send as one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outgoing {
    /// Place in the buffer.
    pub(crate) range: Range<usize>,
    /// Receiver; none for a bound packet socket.
    pub(crate) to: Option<SocketAddr>,
    /// For the kernel to cut: length of each datagram, or, on packet sockets, distance between waiting frames; 0 if
    /// there is only one.
    pub(crate) segment: u16,
    /// Bytes of each datagram that do not count as the frame's.
    pub(crate) head_bytes: u16,
}

impl Outgoing {
    /// Whether it is a train. Packet sockets have no option for cutting: the offload header asks for it.
    fn is_train(&self) -> bool {
        self.segment != 0 && self.to.is_none()
    }
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Sends the first messages, at most [`MESSAGES_MAX`]. Returns how many the kernel took.
///
/// # Errors
/// Why the kernel did not take the first message.
pub(crate) fn send_some(socket: &Socket, data: &[u8], messages: &[Outgoing]) -> io::Result<usize> {
    let count = messages.len().min(MESSAGES_MAX);
    let pieces = messages[..count].iter().map(pieces).sum();
    let mut vectors: Vec<libc::iovec> = Vec::with_capacity(pieces);
    let mut heads = [[0; HEAD_BYTES]; MESSAGES_MAX];
    // SAFETY: plain numbers and pointers, for which zero is a value.
    let mut headers: [mmsghdr; MESSAGES_MAX] = unsafe { zeroed() };
    let mut controls = [Control([0; CONTROL_BYTES]); MESSAGES_MAX];
    let mut addresses = [RawAddress::none(); MESSAGES_MAX];
    for (at, message) in messages[..count].iter().enumerate() {
        let bytes = &data[message.range.clone()];
        let begin = vectors.len();
        if message.is_train() {
            add_train(&mut vectors, &mut heads[at], bytes, message.segment.into());
        } else {
            vectors.push(vector(bytes));
        }
        let header = &mut headers[at].msg_hdr;
        // The vectors never move: there is room for all of them from the start.
        header.msg_iov = &raw mut vectors[begin];
        header.msg_iovlen = (vectors.len() - begin) as _;
        if let Some(to) = message.to {
            addresses[at] = RawAddress::new(to);
            header.msg_name = addresses[at].as_ptr().cast_mut().cast();
            header.msg_namelen = addresses[at].len();
        }
        if message.segment != 0 && message.to.is_some() {
            ask_segments(header, &mut controls[at], message.segment);
        }
    }
    // SAFETY: every message points at vectors of its own, which point at readable bytes of `data` and
    // `heads`, and at its own address and control message. All of them are alive in this frame and
    // did not move, `vectors` because it had room for all; the kernel only reads them.
    let sent = unsafe { libc::sendmmsg(socket.fd(), headers.as_mut_ptr(), count as u32, 0) };
    answer(sent).map(|sent| sent as usize)
}

/// Returns the most vectors that a message takes.
fn pieces(message: &Outgoing) -> usize {
    match usize::from(message.segment) {
        stride if message.is_train() => 1 + message.range.len().div_ceil(stride),
        _ => 1,
    }
}

/// Adds one header for all packets of a train, then their payloads.
fn add_train(
    vectors: &mut Vec<libc::iovec>,
    place: &mut [u8; HEAD_BYTES],
    train: &[u8],
    stride: usize,
) {
    let first = &train[..stride.min(train.len())];
    let Some((head, replaced)) = offload::head(first, train, stride) else {
        return vectors.push(vector(train));
    };
    *place = head;
    vectors.push(vector(&place[..replaced]));
    vectors.extend(train.chunks(stride).map(|piece| vector(&piece[replaced..])));
}

fn vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// Adds a UDP_SEGMENT control message (udp(7)).
fn ask_segments(header: &mut libc::msghdr, control: &mut Control, segment: u16) {
    header.msg_control = (&raw mut *control).cast();
    // SAFETY: only computes lengths.
    let (space, len) = unsafe {
        let bytes = size_of::<u16>() as u32;
        (libc::CMSG_SPACE(bytes), libc::CMSG_LEN(bytes))
    };
    header.msg_controllen = space as _;
    // SAFETY: the buffer is aligned and larger than one message with its header, so the first header
    // and its data lie inside of it.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(header);
        (*first).cmsg_level = libc::SOL_UDP;
        (*first).cmsg_type = UDP_SEGMENT;
        (*first).cmsg_len = len as _;
        libc::CMSG_DATA(first)
            .cast::<u16>()
            .write_unaligned(segment);
    }
}
