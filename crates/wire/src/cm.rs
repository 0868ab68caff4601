//! Communication management (IBTA chapter 12): the datagrams with which two sides agree on queue pairs.
//!
//! ```text
//!   active                    passive          either side                  active         passive
//!     | -- REQ ----------------> |               | -- DREQ --> |              | -- SIDR_REQ --> |
//!     | <--- REP, or MRA, REJ -- |               | <- DREP --- |              | <-- SIDR_REP -- |
//!     | -- RTU, or MRA, REJ ---> |               connection ends              datagram service
//! ```
//! Each message fills the 232 bytes after a MAD header. LAP and APR (alternate paths) are left out: RoCE ports do not
//! migrate paths.

mod drep;
mod dreq;
mod ip_cm;
mod mad;
mod mra;
mod private;
mod rej;
mod rep;
mod req;
mod req_path;
mod rtu;
mod sidr_rep;
mod sidr_req;

pub use drep::{Drep, DrepView};
pub use dreq::{Dreq, DreqView};
pub use ip_cm::{IpCm, IpCmView, IpPair, PortSpace};
pub use mad::{CmMad, CmMadView, Message};
pub use mra::{Mra, MraView};
pub use private::PrivateData;
pub use rej::{Rej, RejView, RejectReason};
pub use rep::{Rep, RepView};
pub use req::{ConnectionType, Req, ReqView};
pub use req_path::{ReqPath, ReqPathView};
pub use rtu::{Rtu, RtuView};
pub use sidr_rep::{SidrRep, SidrRepView, SidrStatus};
pub use sidr_req::{SidrReq, SidrReqView};

/// Name that one side gives to a connection that is being made (IBTA 12.7.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommId(pub u32);

/// Service that the active side wants (IBTA 12.7.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ServiceId(pub u64);

/// Message of the other side that a message refers to (IBTA 12.7.13, 12.7.35).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum About {
    /// The REQ.
    Req,
    /// The REP.
    Rep,
    /// Something else: a LAP in an MRA, no message in a REJ.
    Other,
}

impl About {
    pub(crate) const fn from_bits(bits: crate::Bits<2>) -> Option<Self> {
        match bits.get() {
            0 => Some(Self::Req),
            1 => Some(Self::Rep),
            2 => Some(Self::Other),
            _ => None,
        }
    }
}

/// Returns the wait that a CM timeout code stands for: 4.096 us times two to its power (IBTA 12.7.4).
pub const fn timeout(code: crate::Bits<5>) -> core::time::Duration {
    core::time::Duration::from_nanos(4096 << code.get())
}

/// Bytes of a message, after the MAD header.
pub const MESSAGE_LEN: usize = crate::mad::MAD_LEN - crate::mad::Mad::LEN;
