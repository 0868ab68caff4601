//! Many datagrams by one `sendmmsg`.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::ops::Range;

use libc::{c_int, mmsghdr};

use super::address::RawAddress;
use super::socket::{Socket, answer};

/// Messages of one call.
pub(crate) const MESSAGES_MAX: usize = 64;

const UDP_SEGMENT: c_int = 103;
const CONTROL_BYTES: usize = 32;

/// Bytes of a buffer to send as one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outgoing {
    /// Where in the buffer.
    pub(crate) range: Range<usize>,
    /// To whom; none for a bound packet socket.
    pub(crate) to: Option<SocketAddr>,
    /// For the kernel to cut into datagrams of this length; 0 if it is one.
    pub(crate) segment: u16,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Sends the first messages, at most [`MESSAGES_MAX`]; gives how many the kernel took.
///
/// # Errors
/// Why it did not take the first.
pub(crate) fn send_some(socket: &Socket, data: &[u8], messages: &[Outgoing]) -> io::Result<usize> {
    let count = messages.len().min(MESSAGES_MAX);
    // SAFETY: plain numbers and pointers, for which zero is a value.
    let mut vectors: [libc::iovec; MESSAGES_MAX] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut headers: [mmsghdr; MESSAGES_MAX] = unsafe { zeroed() };
    let mut controls = [Control([0; CONTROL_BYTES]); MESSAGES_MAX];
    let mut addresses = [RawAddress::none(); MESSAGES_MAX];
    for (at, message) in messages[..count].iter().enumerate() {
        let bytes = &data[message.range.clone()];
        vectors[at].iov_base = bytes.as_ptr().cast_mut().cast();
        vectors[at].iov_len = bytes.len();
        let header = &mut headers[at].msg_hdr;
        header.msg_iov = &raw mut vectors[at];
        header.msg_iovlen = 1;
        if let Some(to) = message.to {
            addresses[at] = RawAddress::new(to);
            header.msg_name = addresses[at].as_ptr().cast_mut().cast();
            header.msg_namelen = addresses[at].len();
        }
        if message.segment != 0 {
            ask_segments(header, &mut controls[at], message.segment);
        }
    }
    // SAFETY: every message points at readable bytes of `data`, its own address and control message,
    // all alive in this frame; the kernel only reads them.
    let sent = unsafe { libc::sendmmsg(socket.fd(), headers.as_mut_ptr(), count as u32, 0) };
    answer(sent).map(|sent| sent as usize)
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
