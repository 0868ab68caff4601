//! The virtual switch: which port gets a frame or message, by which policy.
//!
//! ```text
//!   port group "blue"              port group "green"
//!   ┌──────────────────────┐      ┌──────────────────────┐
//!   │ port 1  port 2       │      │ port 3  port 4       │
//!   │   │ frames  │        │  ╳   │   │         │        │
//!   │   ├─ Bridge ┤  MAC   │      │   ├─ Bridge ┤        │
//!   │   └─ Fabric ┘  GID   │      │   └─ Fabric ┘        │
//!   └──────────────────────┘      └──────────────────────┘
//! ```
//!
//! An adapter is a port of the [`Bridge`], which passes its Ethernet frames, and of the [`Fabric`],
//! which finds the receiver of its RDMA messages. Groups never reach each other, so tenants may use
//! the same MACs and GIDs.
//!
//! Pure: time is an argument and verdicts are values. The switch does not know names, sockets,
//! guests or engines, and moves no bytes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bridge;
mod fabric;
mod host;
mod membership;
mod neighbours;
mod oversize;
mod policy;
mod reports;
mod shaping;
mod stations;
mod traffic;

pub use bridge::{
    Bridge, Claim, DropReason, FrameCounts, MAX_FRAME, MIN_FRAME, PortCounts, Recipients, Sources,
    Verdict,
};
pub use fabric::{
    BindError, Fabric, JoinError, Kept, MAX_GIDS_PER_PORT, MAX_MULTICAST_PER_PORT, NoRoute, Way,
};
pub use host::{Host, question};
pub use membership::{AttachError, GroupId, MAX_PORTS, PortId, UplinkId};
pub use neighbours::{NEIGHBOUR_AGE_NS, NEIGHBOURS_MAX, Neighbour, Neighbours, sender};
pub use oversize::Oversize;
pub use policy::{Effects, Limit, Policy};
pub use reports::{Listener, Reports};
pub use shaping::{BURST_NS, Meter};
pub use stations::{MAX_MACS_PER_PORT, MAX_MACS_PER_UPLINK, STATION_AGE_NS};
pub use traffic::{MessageCounts, Traffic, TrafficCounts, Untaken};
