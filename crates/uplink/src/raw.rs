//! Frames of a network interface: a NIC, a veth, a bridge or a TAP, through packet sockets.
//!
//! Adapters use their own MACs, so the interface is promiscuous while the socket lives. Frames that this host itself
//! sends on the interface are not seen, and frames sent here do not reach the host's own stack behind the same
//! interface (as with macvlan).
//!
//! ```text
//!   up ── ENETDOWN or `refresh` ──► down ── `refresh` ──► up      frames to send are lost meanwhile
//!    '─── removed ──► gone ── `refresh` finds the name again: bound anew, same descriptor ──► up
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vrdma_wire::offset::{TAG_BYTES, TYPE_AT};
use vrdma_wire::{EtherType, Mac};

use crate::announcer::Announcer;
use crate::batch::Batch;
use crate::counters::{Counters, Loss};
use crate::filter::{Select, frame_filter};
use crate::offload;
use crate::open_error::OpenError;
use crate::segment::{Hop, Received, Segment};
use crate::sys::{Interface, Slots, Socket, VlanTag};

/// The largest segment that a sender leaves to be cut, with its headers.
const SLOT_BYTES: usize = 68 * 1024;

/// Bytes of destination, source and type.
const HEADER_BYTES: usize = 14;

/// 802.1ad service tags.
const SERVICE_TAG: EtherType = EtherType(0x88a8);

/// One port of a raw uplink.
#[derive(Debug)]
pub struct Raw {
    name: String,
    interface: Interface,
    select: Select,
    socket: Socket,
    /// For a port that receives nothing: announces room in the socket.
    room: Option<Announcer>,
    index: i32,
    mtu: u32,
    up: bool,
    slots: Slots,
    /// Room for the packets of a larger segment.
    scratch: Vec<u8>,
    batch: Batch,
    counters: Counters,
}

impl Raw {
    /// Opens half of an interface's traffic.
    ///
    /// # Errors
    /// There is no such interface, it is not an Ethernet one, the right (CAP_NET_RAW) is missing, or the kernel
    /// refuses.
    pub fn open(name: &str, select: Select) -> Result<Self, OpenError> {
        Self::over(Self::socket(name)?, name, select)
    }

    /// The part of [`Raw::open`] that needs the right.
    ///
    /// # Errors
    /// The same as for [`Raw::open`].
    pub fn socket(name: &str) -> Result<OwnedFd, OpenError> {
        let (interface, _) = find(name)?;
        let socket = Socket::packet().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => OpenError::NotPermitted(name.to_owned()),
            _ => OpenError::system("opening a packet socket")(error),
        })?;
        let is_ethernet = interface.is_ethernet(&socket);
        if !is_ethernet.map_err(asking(name))? {
            return Err(OpenError::NotEthernet(name.to_owned()));
        }
        socket.enlarge_buffers();
        Ok(socket.into())
    }

    /// The part of [`Raw::open`] that needs no right.
    ///
    /// # Errors
    /// The interface does not exist any more, or the kernel refuses.
    pub fn over(socket: OwnedFd, name: &str, select: Select) -> Result<Self, OpenError> {
        let socket = Socket::from(socket);
        let (interface, index) = find(name)?;
        let asking = || asking(name);
        let mtu = interface.mtu(&socket).map_err(asking())?;
        let up = interface.is_up(&socket).map_err(asking())?;
        prepare(&socket, select, index)
            .map_err(OpenError::system(format!("listening on `{name}`")))?;
        let mut batch = Batch::new(offload::HEADER_BYTES, true);
        batch.set_frame_bytes(mtu as usize + HEADER_BYTES);
        Ok(Self {
            name: name.to_owned(),
            interface,
            select,
            socket,
            room: None,
            index,
            mtu,
            up,
            slots: Slots::new(SLOT_BYTES),
            scratch: Vec::new(),
            batch,
            counters: Counters::default(),
        })
    }

    /// Makes a port for another thread that sends on the same socket and receives nothing.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn sender(&self) -> io::Result<Self> {
        let mut batch = Batch::new(offload::HEADER_BYTES, true);
        batch.set_frame_bytes(self.mtu as usize + HEADER_BYTES);
        let socket = self.socket.again()?;
        Ok(Self {
            name: self.name.clone(),
            interface: self.interface.clone(),
            select: Select::Nothing,
            room: Some(Announcer::of_room(socket.as_fd())?),
            socket,
            index: self.index,
            mtu: self.mtu,
            up: self.up,
            slots: Slots::new(0),
            scratch: Vec::new(),
            batch,
            counters: Counters::default(),
        })
    }

    /// Name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the interface exists, is up, and has a carrier, as last seen.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Bytes that fit after the Ethernet header, as last seen.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Passes every waiting frame of one batch to the sink. Returns the number of arrivals.
    ///
    /// # Errors
    /// Errors of the kernel, except that the interface is down or gone, which is no error.
    pub fn receive(&mut self, sink: &mut impl FnMut(Received<'_>)) -> io::Result<usize> {
        if self.select == Select::Nothing {
            return Ok(0);
        }
        let taken = match self.slots.receive(&self.socket) {
            Ok(taken) => taken,
            Err(error) => return self.excuse(error),
        };
        for at in 0..taken {
            let (arrival, bytes) = self.slots.take(at);
            if arrival.outgoing {
                continue;
            }
            if arrival.truncated {
                self.counters.lose(Loss::Truncated);
                continue;
            }
            let counters = &mut self.counters;
            let finished = offload::finish(bytes, &mut self.scratch, &mut |frame| {
                deliver(frame, arrival.tag, counters, sink);
            });
            if finished.is_none() {
                self.counters.lose(Loss::Offload);
            }
        }
        Ok(taken)
    }

    /// Whether more may wait than the last batch received.
    pub fn has_more(&self) -> bool {
        self.slots.has_more()
    }

    /// Ignores harmless errors: a socket reports once that its interface went down, and refuses a single frame whose
    /// offloads cannot be described.
    fn excuse(&mut self, error: io::Error) -> io::Result<usize> {
        match error.raw_os_error() {
            Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => {
                self.up = false;
                Ok(0)
            }
            Some(libc::EINVAL) => {
                self.counters.lose(Loss::Offload);
                Ok(0)
            }
            _ => Err(error),
        }
    }

    /// Queues a frame; the batch leaves when it is full or flushed.
    pub fn send(&mut self, hop: Hop, frame: &[u8]) {
        if let Err(loss) = self.queue(hop.segment, frame) {
            self.counters.lose(loss);
        }
    }

    /// Queues frames without a tag that `fill` writes in place. Returns `false` if they must come one by one, or if
    /// `fill` returned it.
    pub fn send_in_place(
        &mut self,
        hop: Hop,
        lengths: &[usize],
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let bytes = lengths.iter().map(|length| length + HEADER_BYTES).sum();
        let frame_bytes = self.mtu as usize + HEADER_BYTES;
        if hop.segment != Segment::Untagged
            || lengths.iter().any(|&length| length > frame_bytes)
            || !self.batch.has_room(bytes, lengths.len())
        {
            return false;
        }
        self.batch
            .push_in_place(&offload::NOTHING, lengths, None, fill)
    }

    fn queue(&mut self, segment: Segment, frame: &[u8]) -> Result<(), Loss> {
        if frame.len() < HEADER_BYTES {
            return Err(Loss::Runt);
        }
        let (addresses, rest) = frame.split_at(TYPE_AT);
        let tag = match segment {
            // A tag in an untagged segment would carry the frame into another owner's VLAN.
            Segment::Untagged if is_tag(rest) => return Err(Loss::Segment),
            Segment::Untagged => None,
            Segment::Vlan(vlan @ 1..=4094) => Some(tag_bytes(vlan)),
            Segment::Vlan(_) | Segment::Vni(_) => return Err(Loss::Segment),
        };
        let tag = tag.as_ref().map_or(&[][..], |tag| &tag[..]);
        if !self.batch.has_room(frame.len() + TAG_BYTES, 1) {
            self.flush();
            if !self.batch.has_room(frame.len() + TAG_BYTES, 1) {
                return Err(Loss::NoRoom);
            }
        }
        self.batch
            .push(&[&offload::NOTHING, addresses, tag, rest], [None]);
        Ok(())
    }

    /// Sends waiting frames. Returns `false` if the kernel has no room now; then flush again later.
    pub fn flush(&mut self) -> bool {
        let flushed = self.batch.send(&self.socket, &mut self.counters);
        if flushed.down {
            self.up = false;
        }
        if let Some(room) = &mut self.room {
            room.watch_room(self.socket.as_fd(), flushed.waits);
        }
        !flushed.waits
    }

    /// Number of bytes that wait for a flush.
    pub fn waiting(&self) -> usize {
        self.batch.waiting()
    }

    /// Whether frames wait for a flush.
    pub fn is_waiting(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Updates the state of the interface: its MTU, whether it is up, and whether it was made anew. Call it about once
    /// a second.
    pub fn refresh(&mut self) {
        if self.select != Select::Nothing {
            self.counters.set_overrun(self.socket.overruns());
        }
        let up = self.rebind().and_then(|()| {
            self.mtu = self.interface.mtu(&self.socket)?;
            let frame_bytes = self.mtu as usize + HEADER_BYTES;
            self.batch.set_frame_bytes(frame_bytes);
            self.interface.is_up(&self.socket)
        });
        self.up = up.unwrap_or(false);
    }

    /// Binds to the interface anew if it was: a removed interface leaves the socket bound to nothing, and the same name
    /// may come back with another number.
    fn rebind(&mut self) -> io::Result<()> {
        let index = self.interface.index()?;
        if index != self.index {
            self.socket.bind_interface(index)?;
            self.socket.promiscuous(index)?;
            self.index = index;
        }
        Ok(())
    }

    /// Counters since the port was opened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl AsFd for Raw {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.room {
            Some(room) => room.as_fd(),
            None => self.socket.as_fd(),
        }
    }
}

/// Checks a name. Returns it with the number that its interface has now.
fn find(name: &str) -> Result<(Interface, i32), OpenError> {
    let interface =
        Interface::named(name).ok_or_else(|| OpenError::InterfaceName(name.to_owned()))?;
    let index = interface.index();
    let index = index.map_err(|_| OpenError::NoInterface(name.to_owned()))?;
    Ok((interface, index))
}

fn asking(name: &str) -> impl FnOnce(io::Error) -> OpenError {
    OpenError::system(format!("asking for interface `{name}`"))
}

/// Prepares a socket. The filter is attached before the first frame can come.
fn prepare(socket: &Socket, select: Select, index: i32) -> io::Result<()> {
    socket.ask_packet_details()?;
    socket.ignore_outgoing();
    socket.attach_filter(&frame_filter(select))?;
    socket.bind_interface(index)?;
    socket.promiscuous(index)
}

/// Passes a frame to the sink. The kernel has already taken out the outer tag, if there was one.
fn deliver(
    frame: &[u8],
    tag: Option<VlanTag>,
    counters: &mut Counters,
    sink: &mut impl FnMut(Received<'_>),
) {
    if frame.len() < HEADER_BYTES {
        return counters.lose(Loss::Malformed);
    }
    let segment = match tag {
        None => Segment::Untagged,
        Some(tag) if tag.protocol != EtherType::VLAN.0 => return counters.lose(Loss::Segment),
        Some(tag) => match tag.control & 0xfff {
            0 => Segment::Untagged,
            vlan => Segment::Vlan(vlan),
        },
    };
    counters.took(frame.len());
    sink(Received {
        frame,
        segment,
        from: None,
    });
}

fn tag_bytes(vlan: u16) -> [u8; TAG_BYTES] {
    let [a, b] = EtherType::VLAN.0.to_be_bytes();
    let [c, d] = vlan.to_be_bytes();
    [a, b, c, d]
}

/// Whether a customer's or a provider's tag follows the addresses.
fn is_tag(rest: &[u8]) -> bool {
    let kind = rest
        .first_chunk()
        .map(|&kind| EtherType(u16::from_be_bytes(kind)));
    matches!(kind, Some(EtherType::VLAN | SERVICE_TAG))
}

/// Returns the destination of a frame that is known to have one.
pub(crate) fn destination(frame: &[u8]) -> Option<Mac> {
    frame.first_chunk().map(|&mac| Mac(mac))
}
