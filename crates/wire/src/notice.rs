//! Notices: the daemon of an adapter tells the adapters that are connected to it that it stands still, or goes on.
//!
//! ```text
//!   | Ethernet (VLAN) | IPv4 or IPv6 | UDP 4797 | magic | version | kind | - | GID | epoch | nonce |
//!                                                 4       1         1      2   16    8       8
//! ```
//! A notice is a datagram of our own beside RoCEv2, from and to the addresses of the adapters: it goes where their
//! packets go, and hosts that do not know it ignore it. It has a correct UDP checksum, since no ICRC covers it.

use crate::address::Gid;
use crate::ethernet::EthernetView;
use crate::field::{be32, be64, get, put};
use crate::format::{Format, Malformed, fixed_format, view};
use crate::ip::{PROTOCOL_UDP, internet_checksum};
use crate::network::IpView;
use crate::path::Path;
use crate::refusal::Refusal;
use crate::udp::{Udp, UdpView};

/// UDP port of notices, which nothing else is known to use. It is near RoCEv2's 4791, where firewalls of such networks
/// look, and below ephemeral ports (Linux 32768 to 60999, RFC 6335 49152 up): switches drop what guests send to it,
/// which must not be an answer to a request.
pub const NOTICE_PORT: u16 = 4797;

const MAGIC: u32 = u32::from_be_bytes(*b"vRDN");

/// Version of the format. Another number is another format, which must not be interpreted as this one.
const VERSION: u8 = 1;

view! {
    /// View of a notice.
    NoticeView[40] {
        /// Marks a notice.
        magic(b) -> u32 { be32(b, 0) }
        /// Version of the format.
        version(b) -> u8 { b[4] }
        /// Kind of notice, see [`NoticeKind`].
        kind(b) -> u8 { b[5] }
        /// Address of the adapter that it is about.
        gid(b) -> Gid { Gid(get(b, 8)) }
        /// How new it is.
        epoch(b) -> u64 { be64(b, 24) }
        /// Number drawn for each question; its answer has the same.
        nonce(b) -> u64 { be64(b, 32) }
    }
}

/// Kind of notice. `Pause`, `Resume`, `Alive` and `Moved` come from the adapter that they are about, or from its former
/// host; the others come from its peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum NoticeKind {
    /// The adapter stands still: send it nothing until it goes on.
    Pause = 1,
    /// The peer has received `Pause`.
    PauseAck = 2,
    /// The adapter goes on, at the sender of this notice.
    Resume = 3,
    /// The peer has received `Resume`.
    ResumeAck = 4,
    /// The peer asks what has become of the adapter.
    Probe = 5,
    /// Answer to a probe: the adapter works, at the sender of this notice.
    Alive = 6,
    /// Answer to a probe: the adapter has gone from the sender to another host.
    Moved = 7,
}

impl NoticeKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 7] = [
        Self::Pause,
        Self::PauseAck,
        Self::Resume,
        Self::ResumeAck,
        Self::Probe,
        Self::Alive,
        Self::Moved,
    ];

    /// Whether it comes from the adapter that it is about, or from its former host.
    pub const fn is_of_itself(self) -> bool {
        matches!(self, Self::Pause | Self::Resume | Self::Alive | Self::Moved)
    }
}

/// Value of a notice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Kind of notice.
    pub kind: NoticeKind,
    /// Address of the adapter that it is about.
    pub gid: Gid,
    /// Number that grows whenever the adapter stands still or goes on.
    pub epoch: u64,
    /// Number drawn for each question; its answer has the same.
    pub nonce: u64,
}

impl Format for Notice {
    fixed_format!(NoticeView, "notice");

    fn from_view(view: NoticeView<'_>) -> Result<Self, Malformed> {
        if view.magic() != MAGIC || view.version() != VERSION {
            return Err(Malformed::Version);
        }
        let known = NoticeKind::ALL
            .into_iter()
            .find(|kind| *kind as u8 == view.kind());
        Ok(Self {
            kind: known.ok_or(Malformed::Code)?,
            gid: view.gid(),
            epoch: view.epoch(),
            nonce: view.nonce(),
        })
    }

    fn write(&self, buffer: &mut [u8]) {
        put(buffer, 0, MAGIC.to_be_bytes());
        put(buffer, 4, [VERSION, self.kind as u8]);
        put(buffer, 8, self.gid.0);
        put(buffer, 24, self.epoch.to_be_bytes());
        put(buffer, 32, self.nonce.to_be_bytes());
    }
}

/// A notice as a whole frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoticePacket {
    /// The path of the frame.
    pub path: Path,
    /// The notice.
    pub notice: Notice,
}

/// Bytes of both addresses, the length and the protocol (RFC 8200 8.1; IPv4 addresses are shorter, RFC 768).
const PSEUDO_LEN: usize = 40;

const DATAGRAM_LEN: usize = Udp::LEN + NoticeView::LEN;

impl NoticePacket {
    /// Longest frame of a notice.
    pub const FRAME_MAX: usize = EthernetView::MAX_LEN + crate::Ipv6::LEN + DATAGRAM_LEN;

    /// Takes a frame apart.
    ///
    /// # Errors
    /// The first reason found, outermost header first; [`Refusal::OtherTraffic`] if the frame is for another port.
    pub fn parse(frame: &[u8]) -> Result<Self, Refusal> {
        let ethernet = EthernetView::new(frame).map_err(|_| Refusal::Truncated)?;
        let ip = IpView::of_udp(ethernet)?;
        if ip.udp_port() != Some(NOTICE_PORT) {
            return Err(Refusal::OtherTraffic);
        }
        ip.check()?;
        let datagram: &[u8; DATAGRAM_LEN] =
            ip.payload().try_into().map_err(|_| Refusal::UdpLength)?;
        let udp = UdpView::new(datagram).map_err(|_| Refusal::UdpLength)?;
        if udp.total_len() != DATAGRAM_LEN {
            return Err(Refusal::UdpLength);
        }
        if udp.checksum() == 0 || checksum(ip.sgid(), ip.dgid(), datagram) != 0 {
            return Err(Refusal::UdpChecksum);
        }
        let notice = Notice::parse(udp.payload()).map_err(|_| Refusal::Notice)?;
        Ok(Self {
            path: Path::of(ethernet, ip, udp.source()),
            notice,
        })
    }

    /// Writes the frame to the front of `buffer`. Returns its length.
    ///
    /// # Panics
    /// If the buffer is shorter than [`NoticePacket::FRAME_MAX`].
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let at = self.path.header_len();
        let end = at + NoticeView::LEN;
        self.path
            .emit(NOTICE_PORT, NoticeView::LEN as u16, &mut buffer[..end]);
        self.notice.emit(&mut buffer[at..end]);
        let mut datagram = [0; DATAGRAM_LEN];
        datagram.copy_from_slice(&buffer[at - Udp::LEN..end]);
        // Zero would mean that there is no checksum: all ones stand for it (RFC 768).
        let sum = match checksum(self.sgid(), self.dgid(), &datagram) {
            0 => u16::MAX,
            sum => sum,
        };
        put(buffer, at - 2, sum.to_be_bytes());
        end
    }

    /// Returns the source address.
    pub fn sgid(&self) -> Gid {
        self.path.addresses.source()
    }

    /// Returns the destination address.
    pub fn dgid(&self) -> Gid {
        self.path.addresses.destination()
    }
}

/// Returns the checksum of pseudo header and datagram; 0 if the datagram's own checksum is right.
fn checksum(sgid: Gid, dgid: Gid, datagram: &[u8; DATAGRAM_LEN]) -> u16 {
    let mut bytes = [0; PSEUDO_LEN + DATAGRAM_LEN];
    match (sgid.to_ipv4(), dgid.to_ipv4()) {
        (Some(source), Some(destination)) => {
            put(&mut bytes, 0, source.octets());
            put(&mut bytes, 4, destination.octets());
        }
        _ => {
            put(&mut bytes, 0, sgid.0);
            put(&mut bytes, 16, dgid.0);
        }
    }
    put(&mut bytes, 34, (DATAGRAM_LEN as u16).to_be_bytes());
    bytes[39] = PROTOCOL_UDP;
    put(&mut bytes, PSEUDO_LEN, *datagram);
    internet_checksum(&bytes)
}

#[cfg(test)]
mod tests;
