//! Numbers and formats of RDMA on the wire.
//!
//! Pure: no I/O, no clock, no allocation. The number types keep 24-bit circles, keys and addresses from being mixed up;
//! all rooms above this one use them.
//!
//! Each format is one file with a view (`…View`: bytes behind one checked constructor, every field readable, unknown
//! codes included) and a value (small, parses and emits by [`Format`]). [`Packet`] takes a whole RoCEv2 frame apart and
//! [`PacketBuilder`] makes one; [`OPCODES`] says which headers an opcode carries.
//!
//! ```text
//!   frame ── Packet::parse ──► Path       Ethernet, IPv4 or IPv6, UDP
//!                 │            Transport  BTH and extension headers
//!                 │            payload ── UD to QP 1 ──► cm::CmMad
//!                 └─► Refusal, one reason each
//! ```
//! The room does not know queue pairs, partitions, expected PSNs, or who owns an address.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod address;
mod aeth;
mod atomic_ack_eth;
mod atomic_eth;
mod bits;
mod bth;
mod builder;
pub mod cm;
mod cnp;
mod deth;
mod ethernet;
mod extension;
mod field;
mod format;
mod icrc;
mod ieth;
mod immdt;
mod ip;
mod ipv4;
mod ipv6;
mod mad;
mod network;
mod notice;
mod number;
mod opcode;
mod packet;
mod path;
mod pcap;
pub mod qemu_stream;
mod refusal;
#[cfg(any(test, feature = "registry"))]
pub mod registry;
mod reth;
mod roce;
mod transport;
mod udp;

pub use address::{Gid, Mac};
pub use aeth::{Aeth, AethView, Credits, Msn, NakCode, RnrTimer, Syndrome};
pub use atomic_ack_eth::{AtomicAckEth, AtomicAckEthView};
pub use atomic_eth::{AtomicEth, AtomicEthView};
pub use bits::Bits;
pub use bth::{Bth, BthView};
pub use builder::{BuildError, MAX_FRAME, PacketBuilder, frame_len};
pub use cnp::{Cnp, CnpView};
pub use deth::{Deth, DethView};
pub use ethernet::{EtherType, Ethernet, EthernetView, Vlan};
pub use extension::Extension;
pub use format::{Format, Malformed};
pub use icrc::Icrc;
pub use ieth::{Ieth, IethView};
pub use immdt::{ImmDt, ImmDtView};
pub use ip::{Ecn, PROTOCOL_UDP, TrafficClass, internet_checksum};
pub use ipv4::{Ipv4, Ipv4View};
pub use ipv6::{FlowLabel, Ipv6, Ipv6View};
pub use mad::{MAD_LEN, Mad, MadClass, MadView};
pub use network::IpView;
pub use notice::{NOTICE_PORT, Notice, NoticeKind, NoticePacket, NoticeView};
pub use number::{Lkey, Mtu, Pkey, Psn, Qkey, Qpn, Rkey};
pub use opcode::{Carries, OPCODES, Opcode, OpcodeInfo, Operation, Position, Service};
pub use packet::{MAX_PAYLOAD, Packet};
pub use path::{Addresses, Path};
pub use pcap::{pcap_header, pcap_record};
pub use refusal::Refusal;
pub use reth::{Reth, RethView};
pub use roce::{carries_notice, carries_roce, is_for_adapters, is_roce, offset};
pub use transport::Transport;
pub use udp::{ROCE_PORT, Udp, UdpView};

#[cfg(test)]
mod tests;
