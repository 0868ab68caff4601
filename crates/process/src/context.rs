//! One client: what `ibv_open_device` made.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::Pid;
use vrdma_memory::ClientMemory;
use vrdma_provider::doorbell::Listener;
use vrdma_provider::fast::Page;
use vrdma_provider::message::AsyncEvent;
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;

use super::channel::{Channel, Events};
use super::fast::ClientGrants;
use super::holdings::{Holdings, UserCounts};
use super::namespaces::Namespaces;
use vrdma_adapter::Slots;

/// See the module.
pub(super) struct Context {
    pub(super) memory: Arc<ClientMemory>,
    pub(super) doorbells: Listener,
    /// They are looked at in each turn; the page says otherwise that the daemon sleeps.
    pub(super) polled: bool,
    /// When there was one, while they are polled.
    pub(super) rang: Time,
    pub(super) channels: Slots<Channel>,
    /// Which queue pair each bit of the doorbell page means.
    pub(super) doorbell_qps: Vec<Option<QpId>>,
    /// Bits of those that have none.
    free_doorbells: BTreeSet<u32>,
    pub(super) holdings: Holdings,
    pub(super) uid: u32,
    /// Its grants to reach others by itself, if it wants any.
    pub(super) grants: Option<ClientGrants>,
    /// Who it is, if it can be seen from here.
    pub(super) pid: Option<Pid>,
    events: Events,
}

/// What is known of a client when it opens the adapter.
pub(super) struct Joining {
    pub(super) memory: Arc<ClientMemory>,
    pub(super) counts: Arc<UserCounts>,
    pub(super) uid: u32,
    pub(super) pid: Option<Pid>,
    /// Where it lives, if it wants grants and may have some.
    pub(super) fast: Option<Namespaces>,
}

impl Context {
    /// A context without objects, and what the client gets: the read end of its events, and its page of
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
        let context = Self {
            memory: joining.memory,
            doorbells,
            polled: false,
            rang: Time(0),
            channels: Slots::new(),
            doorbell_qps: Vec::new(),
            free_doorbells: BTreeSet::new(),
            holdings: Holdings::new(joining.counts),
            uid: joining.uid,
            grants,
            pid: joining.pid,
            events,
        };
        Ok((context, [read].into_iter().chain(page).collect()))
    }

    /// A free bit of the doorbell page for a queue pair; the quota of queue pairs bounds it.
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

    /// The queue pair of a bit is gone.
    pub(super) fn release_doorbell(&mut self, bit: u32) {
        if let Some(doorbell) = self.doorbell_qps.get_mut(bit as usize) {
            *doorbell = None;
            self.free_doorbells.insert(bit);
        }
    }

    /// Tells of an event.
    pub(super) fn announce(&mut self, event: AsyncEvent) {
        self.events.tell(event);
    }
}
