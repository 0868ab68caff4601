//! The device's part of the engine's objects: where their rings are and which contexts ring for them.

pub(crate) mod context;
pub(crate) mod cq;
pub(crate) mod qp;
pub(crate) mod srq;

use crate::quota::Charge;

/// A registered region's cost.
#[derive(Debug)]
pub(crate) struct Mr {
    /// Pages that the region may name.
    pub(crate) charge: Option<Charge>,
}
