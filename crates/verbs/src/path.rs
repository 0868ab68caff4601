//! Whether a connection's peer is on this host or behind a wire.

use crate::unit::Route;

/// How units travel to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// From memory to memory on this host: long units, none is lost.
    Local,
    /// As packets: one a unit, or few ([`Paths::train_bytes`]), in a window that adapts to what the
    /// path takes.
    Wire,
}

/// Where destinations are, which the caller of [`Hca::poll_transmit`](crate::Hca::poll_transmit)
/// knows. A [`Pace`] answers for all of them.
pub trait Paths {
    /// A number that changes whenever an answer of [`Paths::pace`] may have changed: each connection
    /// keeps its answer as long.
    fn epoch(&self) -> u64;

    /// How a connection's units travel.
    fn pace(&mut self, route: &Route) -> Pace;

    /// Whether wires take no more for now. Queue pairs that have units for one wait until
    /// [`Hca::wire_has_room`](crate::Hca::wire_has_room); all others go on.
    fn is_full(&self) -> bool {
        false
    }

    /// Payload of the longest unit for a wire, if the caller makes [`Frames`](crate::packet::Frames) of
    /// it; a unit is one packet otherwise.
    fn train_bytes(&self) -> u32 {
        0
    }
}

impl Paths for Pace {
    fn epoch(&self) -> u64 {
        *self as u64
    }

    fn pace(&mut self, _route: &Route) -> Pace {
        *self
    }
}

/// The answer that a connection keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    epoch: u64,
    pub(crate) pace: Pace,
}

impl Known {
    /// The answer for `route`, asked for if there is none of this epoch; `None` without a route.
    #[inline]
    pub(crate) fn of(
        kept: &mut Option<Self>,
        route: impl FnOnce() -> Option<Route>,
        paths: &mut impl Paths,
    ) -> Option<Pace> {
        let epoch = paths.epoch();
        match kept {
            Some(known) if known.epoch == epoch => Some(known.pace),
            _ => {
                let pace = paths.pace(&route()?);
                *kept = Some(Self { epoch, pace });
                Some(pace)
            }
        }
    }
}
