//! Packet I/O between hosts: raw Ethernet on an interface, VXLAN tunnels over UDP, captures, faults.
//!
//! ```text
//!   shard thread ──── Port(Roce) ──┐  faults? ─► Raw ── AF_PACKET socket ── eth1, veth, TAP
//!                                  ├─ one uplink               or
//!   Ethernet thread ─ Port(Rest) ──┘  faults? ─► Tunnel ── UDP socket ── VXLAN to peers
//! ```
//!
//! An uplink is a *pair* of [`Port`]s, one for each thread that uses it: the kernel sorts incoming frames with a
//! filter, RoCEv2 and notices (UDP to ports 4791 and 4797) to one and everything else to the other, so the threads
//! share nothing.
//!
//! ```no_run
//! # fn main() -> Result<(), vrdma_uplink::OpenError> {
//! use vrdma_uplink::{Hop, Ports, Segment, TunnelConfig};
//! let local = "192.0.2.1:4789".parse().unwrap();
//! let Ports { mut roce, rest } = Ports::tunnel(&TunnelConfig { local })?;   // or Ports::raw("eth1")?
//! let peer: std::net::SocketAddr = "192.0.2.2:4789".parse().unwrap();
//! roce.add_peer(peer)?;
//! // register roce.as_fd() for input; when it is readable, or at every turn of a loop that polls:
//! let taken = roce.receive(&mut |received| received.segment == Segment::Vni(7));
//! # let (segment, frame) = (Segment::Vni(7), [0u8; 60]);
//! roce.send(Hop::to(segment), &frame);          // copied into a batch
//! roce.flush();                                 // once a turn; false: the kernel is full, flush again later
//! roce.refresh();                               // about once a second: MTU, interface gone or back
//! # Ok(()) }
//! ```
//! Frames carry no outer tag: the [`Segment`] is the 802.1Q tag on a raw uplink, and the VNI on a tunnel. The crate
//! does not know adapters, port groups, or who may send what. No threads, nothing blocks. A [`Tap`] is a port of the
//! host's own IP stack, for one thread.

mod announcer;
mod batch;
mod counters;
mod faults;
mod filter;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod offload;
mod open_error;
mod pcap;
mod peers;
mod port;
mod raw;
mod seal;
mod segment;
mod strays;
mod sys;
mod tap;
mod tunnel;
mod vxlan;

pub use counters::{Counters, Loss};
pub use faults::{FaultSpec, Faults, Probability, SpecError};
pub use filter::{Select, is_for_adapters};
pub use open_error::OpenError;
pub use pcap::Pcap;
pub use peers::{Complaint, Conflict, PeerError, PeerSpec};
pub use port::{Port, Ports};
pub use raw::Raw;
pub use seal::{Keys, NotKeys};
pub use segment::{Hop, Received, Segment};
pub use sys::enlarge_buffers;
pub use tap::{Tap, TapError};
pub use tunnel::{Tunnel, TunnelConfig};
pub use vxlan::Vni;
