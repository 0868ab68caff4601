//! Opening and closing a context.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use vrdma_adapter::{Publishing, Sending};
use vrdma_verbs::Time;
use vrdma_verbs::object::{Owner, QpId};

use crate::context::{Context, Joining};
use crate::{FIRST_OWNER, Process, Turn, limits};

impl Process {
    /// A context for a client, and the descriptors of the hello's reply.
    pub(crate) fn open(&mut self, joining: Joining) -> Result<(Owner, Vec<OwnedFd>), Errno> {
        let number = self.contexts.vacant(FIRST_OWNER);
        if !limits::fits(number - FIRST_OWNER, limits::CLIENTS) {
            return Err(Errno::BUSY);
        }
        let (context, others) = Context::new(joining)?;
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|_| Errno::MFILE);
        let mut fds = vec![
            copy(context.doorbells.page())?,
            copy(context.doorbells.wake())?,
        ];
        fds.extend(others);
        self.contexts.put(number, context);
        Ok((Owner(number), fds))
    }

    /// What wakes the daemon for this client.
    pub fn doorbell_event(&self, owner: Owner) -> Option<BorrowedFd<'_>> {
        Some(self.contexts.get(owner.0)?.doorbells.wake())
    }

    /// The client is gone: everything of it goes too. Peers find out by their own timers.
    pub fn close(&mut self, owner: Owner, now: Time) {
        self.publish_now(now);
        self.core.hca.destroy_owner(owner);
        self.groups_changed = true;
        self.end_grants(owner);
        self.qps.retain(|qp| qp.owner != owner);
        self.forget_gone_turns();
        self.srqs.retain(|srq| srq.owner != owner);
        self.cqs.retain(|cq| cq.owner != owner);
        self.mrs.retain(|mr| mr.owner != owner);
        drop(self.contexts.take(owner.0));
        self.publish_now(now);
    }

    /// Nobody reaches the client's memory by itself any more, nor does it others'.
    fn end_grants(&mut self, owner: Owner) {
        let qps = self.qps.iter().filter(|(_, qp)| qp.owner == owner);
        for (id, _) in qps {
            self.grants.forget_qp(QpId(id));
        }
    }

    /// Shows the clients what the engine has to say: a request may have made it say something.
    pub fn publish_now(&mut self, now: Time) {
        let space = self.memory();
        let memory = &space.view();
        self.publish(Turn { memory, now });
    }
}
