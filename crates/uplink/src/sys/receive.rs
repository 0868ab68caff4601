//! Receives many datagrams with one `recvmmsg`.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::SocketAddr;
use std::ptr::null_mut;

use libc::{cmsghdr, mmsghdr, sockaddr_storage, socklen_t, tpacket_auxdata};

use super::address::{internet, is_outgoing};
use super::socket::{Socket, answer};

/// Most datagrams of one call.
const SLOTS: usize = 32;

/// Room for `tpacket_auxdata` and UDP_GRO with their headers.
const CONTROL_BYTES: usize = 96;

const UDP_GRO: i32 = 104;

/// An 802.1Q or 802.1ad tag that the kernel took out of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VlanTag {
    /// EtherType of the tag.
    pub(crate) protocol: u16,
    /// Priority and VLAN.
    pub(crate) control: u16,
}

/// What the kernel tells about a received datagram.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Arrival {
    /// Bytes in the slot.
    pub(crate) len: usize,
    /// Whether the datagram was longer than the slot.
    pub(crate) truncated: bool,
    /// Packet sockets: whether this host sent it.
    pub(crate) outgoing: bool,
    /// Sender; UDP only.
    pub(crate) from: Option<SocketAddr>,
    /// The tag that was taken out; packet sockets only.
    pub(crate) tag: Option<VlanTag>,
    /// Length of each of several datagrams that the kernel joined; the last one may be shorter.
    pub(crate) joined: Option<usize>,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Buffers of a receiving socket.
pub(crate) struct Slots {
    slot_bytes: usize,
    data: Vec<u8>,
    names: Vec<sockaddr_storage>,
    controls: Vec<Control>,
    arrivals: [Arrival; SLOTS],
    /// Whether the last call filled all slots.
    full: bool,
}

impl Slots {
    /// Makes slots for datagrams up to a length.
    pub(crate) fn new(slot_bytes: usize) -> Self {
        Self {
            slot_bytes,
            data: vec![0; slot_bytes * SLOTS],
            // SAFETY: sockaddr_storage is plain numbers, for which zero is a value.
            names: vec![unsafe { zeroed() }; SLOTS],
            controls: vec![Control([0; CONTROL_BYTES]); SLOTS],
            arrivals: [Arrival::default(); SLOTS],
            full: false,
        }
    }

    /// Receives what is there, up to a batch. Returns the number of datagrams, 0 if there are none.
    ///
    /// # Errors
    /// Errors of the kernel, except `EAGAIN` and `EINTR`.
    pub(crate) fn receive(&mut self, socket: &Socket) -> io::Result<usize> {
        self.full = false;
        // SAFETY: plain numbers and pointers, for which zero is a value.
        let mut vectors: [libc::iovec; SLOTS] = unsafe { zeroed() };
        // SAFETY: as above.
        let mut messages: [mmsghdr; SLOTS] = unsafe { zeroed() };
        let slots = self.data.chunks_exact_mut(self.slot_bytes);
        for (vector, slot) in vectors.iter_mut().zip(slots) {
            vector.iov_base = slot.as_mut_ptr().cast();
            vector.iov_len = slot.len();
        }
        for (at, message) in messages.iter_mut().enumerate() {
            let header = &mut message.msg_hdr;
            header.msg_name = (&raw mut self.names[at]).cast();
            header.msg_namelen = size_of::<sockaddr_storage>() as socklen_t;
            header.msg_iov = &raw mut vectors[at];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.controls[at]).cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        let first = messages.as_mut_ptr();
        // SAFETY: every message points at its own slot, name and control buffer, all writable for the
        // stated lengths and alive in this frame or in `self`.
        let taken = unsafe { libc::recvmmsg(socket.fd(), first, SLOTS as u32, 0, null_mut()) };
        let taken = match answer(taken) {
            Ok(taken) => taken as usize,
            Err(error) if is_nothing(&error) => 0,
            Err(error) => return Err(error),
        };
        self.full = taken == SLOTS;
        for (at, message) in messages[..taken].iter().enumerate() {
            self.arrivals[at] = arrival(message, &self.names[at]);
        }
        Ok(taken)
    }

    /// Whether the last call may have left something: the kernel stops when nothing waits.
    pub(crate) fn has_more(&self) -> bool {
        self.full
    }

    /// Returns a datagram of the last call, and what is known of it.
    pub(crate) fn take(&mut self, at: usize) -> (Arrival, &mut [u8]) {
        let arrival = self.arrivals[at];
        let start = at * self.slot_bytes;
        (arrival, &mut self.data[start..start + arrival.len])
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

fn arrival(message: &mmsghdr, name: &sockaddr_storage) -> Arrival {
    let header = &message.msg_hdr;
    let mut arrival = Arrival {
        len: message.msg_len as usize,
        truncated: header.msg_flags & libc::MSG_TRUNC != 0,
        ..Arrival::default()
    };
    if header.msg_namelen > 0 {
        arrival.from = internet(name);
        arrival.outgoing = is_outgoing(name);
    }
    // SAFETY: the kernel filled the control buffer and set its length; the macros stay inside of it.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !at.is_null() {
        // SAFETY: the macros gave a whole header inside of the buffer.
        note(unsafe { &*at }, &mut arrival);
        // SAFETY: as above.
        at = unsafe { libc::CMSG_NXTHDR(header, at) };
    }
    arrival
}

/// Reads one control message that the kernel wrote.
fn note(control: &cmsghdr, arrival: &mut Arrival) {
    let len = control.cmsg_len;
    // SAFETY: only makes a pointer behind the header.
    let data = unsafe { libc::CMSG_DATA(control) };
    // SAFETY: only computes a length.
    let holds = |bytes: usize| len >= unsafe { libc::CMSG_LEN(bytes as u32) } as usize;
    match (control.cmsg_level, control.cmsg_type) {
        (libc::SOL_PACKET, libc::PACKET_AUXDATA) if holds(size_of::<tpacket_auxdata>()) => {
            // SAFETY: the message holds that many bytes; any bytes are a value.
            let details = unsafe { data.cast::<tpacket_auxdata>().read_unaligned() };
            arrival.tag = tag(&details);
        }
        (libc::SOL_UDP, UDP_GRO) if holds(size_of::<i32>()) => {
            // SAFETY: as above.
            let bytes = unsafe { data.cast::<i32>().read_unaligned() };
            arrival.joined = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0);
        }
        _ => {}
    }
}

fn tag(details: &tpacket_auxdata) -> Option<VlanTag> {
    let says = |bit: u32| details.tp_status & bit != 0;
    let protocol = if says(libc::TP_STATUS_VLAN_TPID_VALID) {
        details.tp_vlan_tpid
    } else {
        vrdma_wire::EtherType::VLAN.0
    };
    says(libc::TP_STATUS_VLAN_VALID).then_some(VlanTag {
        protocol,
        control: details.tp_vlan_tci,
    })
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{SLOTS} slots of {} bytes", self.slot_bytes)
    }
}
