//! Where a connection's peer is: on this host or behind a wire.

use crate::unit::Route;

/// How units travel to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// From memory to memory on this host: long units, and no losses.
    Local,
    /// As packets, one or few to a unit ([`Paths::train_bytes`]), within a window that adapts to the path.
    Wire,
}

/// The place of a destination. The numbers are the caller's: each connection keeps them as long as the answer is valid,
/// and hands them back with each of its units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// On this host; number of the adapter.
    Local(u32),
    /// Behind a wire; number of the wire.
    Wire(u32),
}

impl Path {
    /// Returns how units travel on it.
    #[inline]
    pub fn pace(self) -> Pace {
        match self {
            Self::Local(_) => Pace::Local,
            Self::Wire(_) => Pace::Wire,
        }
    }
}

/// Kind of traffic that a queue pair has for a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Payload for the peer, or a word to change there.
    Give,
    /// A READ: payload comes from the peer.
    Take,
    /// Answers owed to the peer.
    Answer,
}

/// The places of destinations, which the caller of [`Hca::poll_transmit`](crate::Hca::poll_transmit) knows. A [`Pace`]
/// is the same answer for all destinations.
pub trait Paths {
    /// Returns a number that changes whenever an answer of [`Paths::path`] may have changed. Each connection keeps its
    /// answer until then.
    fn epoch(&self) -> u64;

    /// Returns the place of a destination.
    fn path(&mut self, route: &Route) -> Path;

    /// Whether any path is full for now; [`Paths::is_full`] is asked only then.
    fn is_any_full(&self) -> bool {
        false
    }

    /// Whether this path takes no more of a flow for now. Queue pairs with units of that flow wait until
    /// [`Hca::path_has_room`](crate::Hca::path_has_room); all others go on.
    fn is_full(&mut self, _path: Path, _flow: Flow) -> bool {
        false
    }

    /// Returns the most payload of a unit for a wire, if the caller makes [`Frames`](crate::packet::Frames) of units;
    /// otherwise a unit is one packet.
    fn train_bytes(&self) -> u32 {
        0
    }
}

impl Paths for Pace {
    fn epoch(&self) -> u64 {
        *self as u64
    }

    fn path(&mut self, _route: &Route) -> Path {
        match self {
            Self::Local => Path::Local(0),
            Self::Wire => Path::Wire(0),
        }
    }
}

/// The answer that a connection keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    epoch: u64,
    path: Path,
}

impl Known {
    /// Returns the path of `route`, and asks for it if none of this epoch is kept; `None` without a route.
    #[inline]
    pub(crate) fn of(
        kept: &mut Option<Self>,
        route: impl FnOnce() -> Option<Route>,
        paths: &mut impl Paths,
    ) -> Option<Path> {
        let epoch = paths.epoch();
        match kept {
            Some(known) if known.epoch == epoch => Some(known.path),
            _ => {
                let path = paths.path(&route()?);
                *kept = Some(Self { epoch, path });
                Some(path)
            }
        }
    }

    /// Returns the kept answer, if it is of this epoch.
    #[inline]
    pub(crate) fn in_epoch(kept: Option<Self>, epoch: u64) -> Option<Path> {
        kept.filter(|known| known.epoch == epoch)
            .map(|known| known.path)
    }
}
