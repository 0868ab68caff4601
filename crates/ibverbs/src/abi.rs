//! Structures of `<infiniband/verbs.h>`, written by hand; `tests/layout.rs` compares each offset
//! with the installed header by the C compiler.
//!
//! Field names are those of the header. Pointers to functions are `Option`, so that an empty one is
//! `NULL`, which the header's inline functions read as "not supported".

mod address;
mod context;
mod cq;
mod device;
mod memory;
mod qp;
mod qp_ex;
mod srq;
mod work;

pub use address::{AhAttr, Gid, GidEntry, GlobalRoute, Grh};
pub use context::{Context, ContextOps, NotOffered, ValuesEx, VerbsContext};
pub use cq::{AsyncEvent, CompChannel, Cq, CqEx, CqInitAttrEx, ModifyCqAttr, PollCqAttr, Wc};
pub use device::{
    CqModerationCaps, Device, DeviceAttr, DeviceAttrEx, OdpCaps, PacketPacingCaps, PciAtomicCaps,
    PortAttr, RssCaps, TmCaps, TsoCaps,
};
pub use memory::{Ah, Mr, Mw, MwBind, MwBindInfo, ParentDomainInitAttr, Pd, Td, TdInitAttr};
pub use qp::{Ece, Qp, QpAttr, QpCap, QpInitAttr, QpInitAttrEx, RxHashConf};
pub use qp_ex::{DataBuf, QpEx};
pub use srq::{Srq, SrqAttr, SrqInitAttr, SrqInitAttrEx, TmCap};
pub use work::{Atomic, BindMw, Kind, Rdma, RecvWr, SendWr, Sge, Tail, Tso, Ud};
