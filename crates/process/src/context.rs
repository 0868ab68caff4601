//! One client: the daemon's side of an `ibv_open_device`.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::Pid;
use vrdma_memory::ClientMemory;
use vrdma_provider::QUEUES_MAX;
use vrdma_provider::doorbell::Listener;
use vrdma_provider::fast::Page;
use vrdma_provider::message::AsyncEvent;
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;

use super::channel::{Channel, Events};
use super::fast::ClientGrants;
use super::holdings::{Holdings, UserCounts};
use super::namespaces::Namespaces;
use super::slabs::Slabs;
use vrdma_adapter::Slots;

/// One client.
pub(super) struct Context {
    pub(super) memory: Arc<ClientMemory>,
    pub(super) doorbells: Listener,
    /// Whether the doorbells are looked at in each turn; otherwise the page says that the daemon sleeps.
    pub(super) polled: bool,
    /// Time of the last doorbell, while they are polled.
    pub(super) rang: Time,
    pub(super) channels: Slots<Channel>,
    /// The memory of its queues.
    pub(super) slabs: Slabs,
    /// The queue pair of each bit of the doorbell page.
    pub(super) doorbell_qps: Vec<Option<QpId>>,
    /// Bits without a queue pair.
    free_doorbells: BTreeSet<u32>,
    pub(super) holdings: Holdings,
    pub(super) uid: u32,
    /// The client's grants to reach others directly, if it wants any.
    pub(super) grants: Option<ClientGrants>,
    /// The page of the grants, for a process that goes on after this one.
    pub(super) grants_page: Option<OwnedFd>,
    /// The client's process, if it is visible from here.
    pub(super) pid: Option<Pid>,
    pub(super) events: Events,
    /// Whether the library puts messages in place that completions enclose.
    pub(super) encloses: bool,
}

/// The facts about a client when it opens the adapter.
pub(super) struct Joining {
    pub(super) memory: Arc<ClientMemory>,
    pub(super) counts: Arc<UserCounts>,
    pub(super) uid: u32,
    pub(super) pid: Option<Pid>,
    /// The client's namespaces, if it wants grants and may have some.
    pub(super) fast: Option<Namespaces>,
    /// Whether the library puts messages in place that completions enclose.
    pub(super) encloses: bool,
}

/// The remains of a client in a process that ended.
pub(super) struct Resuming {
    pub(super) joining: Joining,
    pub(super) doorbells: Listener,
    pub(super) events: OwnedFd,
    pub(super) grants: Option<OwnedFd>,
    /// Seed that makes grants of before stale.
    pub(super) seed: u32,
}

impl Context {
    /// Makes a context without objects, and the descriptors for the client: the read end of its events, and its page of
    /// grants if it wants one.
    pub(super) fn new(joining: Joining) -> Result<(Self, Vec<OwnedFd>), Errno> {
        let (events, read) = Events::new()?;
        let doorbells = Listener::new().map_err(|_| Errno::NOMEM)?;
        doorbells.sleep();
        let page = joining
            .fast
            .map(|home| Page::create().map(|made| (home, made)));
        let made = page.transpose().map_err(|_| Errno::NOMEM)?;
        let (grants, page) = made
            .map(|(home, (page, fd))| (ClientGrants::new(page, home), fd))
            .unzip();
        let kept = page.as_ref().map(OwnedFd::try_clone).transpose();
        let context = Self {
            memory: joining.memory,
            doorbells,
            polled: false,
            rang: Time(0),
            channels: Slots::new(),
            slabs: Slabs::default(),
            doorbell_qps: Vec::new(),
            free_doorbells: BTreeSet::new(),
            holdings: Holdings::new(joining.counts),
            uid: joining.uid,
            grants,
            grants_page: kept.map_err(|_| Errno::MFILE)?,
            pid: joining.pid,
            events,
            encloses: joining.encloses,
        };
        Ok((context, [read].into_iter().chain(page).collect()))
    }

    /// Restores a context without objects.
    pub(super) fn resume(resuming: Resuming) -> Result<Self, Errno> {
        let Resuming {
            joining,
            doorbells,
            events,
            grants,
            seed,
        } = resuming;
        let page = grants.as_ref().and_then(|fd| Page::map(fd.as_fd()).ok());
        Ok(Self {
            memory: joining.memory,
            doorbells,
            polled: false,
            rang: Time(0),
            channels: Slots::new(),
            slabs: Slabs::default(),
            doorbell_qps: Vec::new(),
            free_doorbells: BTreeSet::new(),
            holdings: Holdings::new(joining.counts),
            uid: joining.uid,
            grants: page
                .zip(joining.fast)
                .map(|(page, home)| ClientGrants::resume(page, home, seed)),
            grants_page: grants,
            pid: joining.pid,
            events: Events::resume(events)?,
            encloses: joining.encloses,
        })
    }

    /// Takes the bit of the doorbell page that a queue pair had before; false if another queue pair has it.
    pub(super) fn resume_doorbell(&mut self, bit: u32, qp: QpId) -> bool {
        if bit >= QUEUES_MAX {
            return false;
        }
        for free in self.doorbell_qps.len() as u32..=bit {
            self.doorbell_qps.push(None);
            self.free_doorbells.insert(free);
        }
        let is_free = self.free_doorbells.remove(&bit);
        if is_free {
            self.doorbell_qps[bit as usize] = Some(qp);
        }
        is_free
    }

    /// Assigns a free bit of the doorbell page to a queue pair; the quota of queue pairs bounds the number.
    pub(super) fn assign_doorbell(&mut self, qp: QpId) -> u32 {
        let bit = match self.free_doorbells.pop_first() {
            Some(bit) => bit,
            None => {
                self.doorbell_qps.push(None);
                self.doorbell_qps.len() as u32 - 1
            }
        };
        self.doorbell_qps[bit as usize] = Some(qp);
        bit
    }

    /// Frees the bit of a queue pair that is gone.
    pub(super) fn release_doorbell(&mut self, bit: u32) {
        if let Some(doorbell) = self.doorbell_qps.get_mut(bit as usize) {
            *doorbell = None;
            self.free_doorbells.insert(bit);
        }
    }

    /// Writes an event for the client.
    pub(super) fn announce(&mut self, event: AsyncEvent) {
        self.events.tell(event);
    }
}
