//! Our half of the engine's objects: where their rings are and who rings for them.

pub(crate) mod context;
pub(crate) mod cq;
pub(crate) mod qp;
pub(crate) mod srq;

use crate::quota::Charge;

/// A registration: what it costs.
#[derive(Debug)]
pub(crate) struct Mr {
    /// Pages it may name.
    pub(crate) charge: Option<Charge>,
}
