//! The parts of an adapter that its queue pairs share: tables, GIDs, the output queue and the counters.
//!
//! They are kept apart from the QPs themselves, so that a step of one QP can borrow both.

use alloc::vec::Vec;

use vrdma_wire::Gid;

use crate::attr::Address;
use crate::counters::Counters;
use crate::cq::Cq;
use crate::enclosed::Enclosures;
use crate::error::Error;
use crate::intent::Log;
use crate::list::{Link, List, Member};
use crate::mr::{MR_SLOTS_MAX, Mr, OfDomain};
use crate::multicast::Groups;
use crate::object::{CqId, Identity, Limits, Owner, PdId, SrqId};
use crate::outputs::Outputs;
use crate::owner::{OfOwner, Owners};
use crate::requester::Peer;
use crate::srq::Srq;
use crate::table::Table;
use crate::unit::Route;
use crate::work::{Event, Output};

/// Most entries that an 8-bit index reaches.
const GIDS_MAX: u32 = 256;

/// A protection domain.
pub(crate) struct Pd {
    pub(crate) owner: Owner,
    /// Number of objects that name it.
    pub(crate) users: u32,
    pub(crate) regions: List<OfDomain>,
    pub(crate) windows: List<OfDomain>,
    of_owner: Link,
}

impl Pd {
    pub(crate) fn new(owner: Owner) -> Self {
        Self {
            owner,
            users: 0,
            regions: List::default(),
            windows: List::default(),
            of_owner: Link::default(),
        }
    }
}

impl Member<OfOwner> for Pd {
    fn link(&self) -> Option<&Link> {
        Some(&self.of_owner)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.of_owner)
    }
}

/// The stream from which keys are drawn.
const KEY_NAMES: u64 = 2;

pub(crate) struct Shared<R> {
    pub(crate) limits: Limits,
    pub(crate) owners: Owners,
    pub(crate) pds: Table<Pd>,
    /// Memory regions and windows.
    pub(crate) mrs: Table<Mr<R>>,
    /// How many entries of `mrs` are windows.
    pub(crate) windows: u32,
    /// Windows that were bound or unbound, and fast-register regions that were filled or emptied, since the last query.
    pub(crate) changed_keys: Vec<u32>,
    pub(crate) cqs: Table<Cq>,
    pub(crate) srqs: Table<Srq>,
    pub(crate) gids: Vec<Option<Gid>>,
    pub(crate) groups: Groups,
    pub(crate) outputs: Outputs,
    pub(crate) enclosures: Enclosures,
    pub(crate) counters: Counters,
    /// The peer behind a wire that answers slowly, or the last one that did.
    pub(crate) peer: Option<Peer>,
    /// Log in which atomics are noted before they are done.
    pub(crate) intents: Log,
}

impl<R> Shared<R> {
    pub(crate) fn new(identity: Identity, limits: Limits) -> Self {
        Self {
            limits,
            owners: Owners::default(),
            pds: Table::new(0, limits.pds),
            mrs: Table::named(0, limits.mrs.min(MR_SLOTS_MAX), identity.names(KEY_NAMES)),
            windows: 0,
            changed_keys: Vec::new(),
            cqs: Table::new(0, limits.cqs),
            srqs: Table::new(0, limits.srqs),
            gids: alloc::vec![None; limits.gids.min(GIDS_MAX) as usize],
            groups: Groups::default(),
            outputs: Outputs::default(),
            enclosures: Enclosures::default(),
            counters: Counters::default(),
            peer: None,
            intents: None,
        }
    }

    pub(crate) fn pd(&self, id: PdId) -> Result<&Pd, Error> {
        self.pds.get(id.0).ok_or(Error::InvalidHandle)
    }

    /// Registers a domain, which is in its place in the table, with its owner.
    pub(crate) fn enlist_pd(&mut self, id: PdId) {
        let Some(&Pd { owner, .. }) = self.pds.get(id.0) else {
            return;
        };
        let Self { owners, pds, .. } = self;
        owners.add(owner, |all| &mut all.pds, pds, id.0);
    }

    /// Counts an object that names a domain from now on, or no longer.
    pub(crate) fn count_user(&mut self, pd: PdId, count: impl FnOnce(&mut u32)) {
        let pd = self.pds.get_mut(pd.0);
        debug_assert!(pd.is_some(), "a domain is there as long as its users");
        if let Some(pd) = pd {
            count(&mut pd.users);
        }
    }

    pub(crate) fn cq(&self, id: CqId) -> Result<&Cq, Error> {
        self.cqs.get(id.0).ok_or(Error::InvalidHandle)
    }

    pub(crate) fn cq_mut(&mut self, id: CqId) -> Result<&mut Cq, Error> {
        self.cqs.get_mut(id.0).ok_or(Error::InvalidHandle)
    }

    pub(crate) fn srq(&self, id: SrqId) -> Result<&Srq, Error> {
        self.srqs.get(id.0).ok_or(Error::InvalidHandle)
    }

    pub(crate) fn srq_mut(&mut self, id: SrqId) -> Result<&mut Srq, Error> {
        self.srqs.get_mut(id.0).ok_or(Error::InvalidHandle)
    }

    #[inline]
    pub(crate) fn gid(&self, index: u8) -> Option<Gid> {
        self.gids.get(usize::from(index)).copied().flatten()
    }

    /// Whether an entry of the GID table is bound.
    #[inline]
    pub(crate) fn has_gid(&self, index: u8) -> bool {
        matches!(self.gids.get(usize::from(index)), Some(Some(_)))
    }

    /// Returns the route to `address`, while its source GID is bound.
    #[inline]
    pub(crate) fn route(&self, address: &Address) -> Option<Route> {
        Some(Route {
            sgid: self.gid(address.sgid_index)?,
            dgid: address.dgid,
            traffic_class: address.traffic_class,
            flow_label: address.flow_label,
            hop_limit: address.hop_limit,
            dmac: address.dmac(),
        })
    }

    #[inline]
    pub(crate) fn emit(&mut self, output: Output) {
        self.outputs.push(output);
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.emit(Output::Event(event));
    }
}
